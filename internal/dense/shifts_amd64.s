//go:build gc && !noasm

#include "textflag.h"

// Kernels of Shifts, in AVX-512 and AVX2+FMA. Displacements are in bytes.

// func shiftMulAVX512(k int, a, src *float64, offset *int, from *[3]int, c *float64, ldc int, to *[3]int, bias *[4]float64, rows int)
//
// Adds up a tile of 4 rows and 3 vectors,
//
//	acc[r][v] = Σ_p a[4p + r]·src[offset[p] + from[v]],
//
// p ascending, and writes acc + bias[r] to the first rows rows, r·ldc elements and to[v]
// bytes after c. Registers 3r, 3r+1 and 3r+2 hold row r, 12 to 14 the vectors of src and
// 15 an entry of a; R8, R9, R10 point to the vectors at offset 0.

#define SHIFTROW512(a, c0, c1, c2) \
	VBROADCASTSD a, Z15;         \
	VFMADD231PD  Z12, Z15, c0;   \
	VFMADD231PD  Z13, Z15, c1;   \
	VFMADD231PD  Z14, Z15, c2

#define SHIFTSTORE512(b, c0, c1, c2) \
	VBROADCASTSD b, Z15;       \
	VADDPD       Z15, c0, c0;  \
	VADDPD       Z15, c1, c1;  \
	VADDPD       Z15, c2, c2;  \
	VMOVUPD      c0, (DI)(R8*1); \
	VMOVUPD      c1, (DI)(R9*1); \
	VMOVUPD      c2, (DI)(R10*1); \
	ADDQ         R13, DI;      \
	DECQ         DX

TEXT ·shiftMulAVX512(SB), NOSPLIT, $0-80
	MOVQ k+0(FP), CX
	MOVQ a+8(FP), AX
	MOVQ src+16(FP), R11
	MOVQ offset+24(FP), SI
	MOVQ from+32(FP), BX
	MOVQ 0(BX), R8
	MOVQ 8(BX), R9
	MOVQ 16(BX), R10
	ADDQ R11, R8
	ADDQ R11, R9
	ADDQ R11, R10
	VPXORQ Z0, Z0, Z0
	VPXORQ Z1, Z1, Z1
	VPXORQ Z2, Z2, Z2
	VPXORQ Z3, Z3, Z3
	VPXORQ Z4, Z4, Z4
	VPXORQ Z5, Z5, Z5
	VPXORQ Z6, Z6, Z6
	VPXORQ Z7, Z7, Z7
	VPXORQ Z8, Z8, Z8
	VPXORQ Z9, Z9, Z9
	VPXORQ Z10, Z10, Z10
	VPXORQ Z11, Z11, Z11

shift512:
	MOVQ    (SI), BX
	VMOVUPD (R8)(BX*1), Z12
	VMOVUPD (R9)(BX*1), Z13
	VMOVUPD (R10)(BX*1), Z14
	SHIFTROW512((AX), Z0, Z1, Z2)
	SHIFTROW512(8(AX), Z3, Z4, Z5)
	SHIFTROW512(16(AX), Z6, Z7, Z8)
	SHIFTROW512(24(AX), Z9, Z10, Z11)
	ADDQ    $32, AX
	ADDQ    $8, SI
	DECQ    CX
	JNZ     shift512

	MOVQ c+40(FP), DI
	MOVQ ldc+48(FP), R13
	SHLQ $3, R13
	MOVQ to+56(FP), BX
	MOVQ 0(BX), R8
	MOVQ 8(BX), R9
	MOVQ 16(BX), R10
	MOVQ bias+64(FP), AX
	MOVQ rows+72(FP), DX
	SHIFTSTORE512((AX), Z0, Z1, Z2)
	JZ   shifted512
	SHIFTSTORE512(8(AX), Z3, Z4, Z5)
	JZ   shifted512
	SHIFTSTORE512(16(AX), Z6, Z7, Z8)
	JZ   shifted512
	SHIFTSTORE512(24(AX), Z9, Z10, Z11)

shifted512:
	VZEROUPPER
	RET

// func shiftMulAVX2(k int, a, src *float64, offset *int, from *[3]int, c *float64, ldc int, to *[3]int, bias *[4]float64, rows int)

#define SHIFTROW256(a, c0, c1, c2) \
	VBROADCASTSD a, Y15;         \
	VFMADD231PD  Y12, Y15, c0;   \
	VFMADD231PD  Y13, Y15, c1;   \
	VFMADD231PD  Y14, Y15, c2

#define SHIFTSTORE256(b, c0, c1, c2) \
	VBROADCASTSD b, Y15;       \
	VADDPD       Y15, c0, c0;  \
	VADDPD       Y15, c1, c1;  \
	VADDPD       Y15, c2, c2;  \
	VMOVUPD      c0, (DI)(R8*1); \
	VMOVUPD      c1, (DI)(R9*1); \
	VMOVUPD      c2, (DI)(R10*1); \
	ADDQ         R13, DI;      \
	DECQ         DX

TEXT ·shiftMulAVX2(SB), NOSPLIT, $0-80
	MOVQ k+0(FP), CX
	MOVQ a+8(FP), AX
	MOVQ src+16(FP), R11
	MOVQ offset+24(FP), SI
	MOVQ from+32(FP), BX
	MOVQ 0(BX), R8
	MOVQ 8(BX), R9
	MOVQ 16(BX), R10
	ADDQ R11, R8
	ADDQ R11, R9
	ADDQ R11, R10
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3
	VXORPD Y4, Y4, Y4
	VXORPD Y5, Y5, Y5
	VXORPD Y6, Y6, Y6
	VXORPD Y7, Y7, Y7
	VXORPD Y8, Y8, Y8
	VXORPD Y9, Y9, Y9
	VXORPD Y10, Y10, Y10
	VXORPD Y11, Y11, Y11

shift256:
	MOVQ    (SI), BX
	VMOVUPD (R8)(BX*1), Y12
	VMOVUPD (R9)(BX*1), Y13
	VMOVUPD (R10)(BX*1), Y14
	SHIFTROW256((AX), Y0, Y1, Y2)
	SHIFTROW256(8(AX), Y3, Y4, Y5)
	SHIFTROW256(16(AX), Y6, Y7, Y8)
	SHIFTROW256(24(AX), Y9, Y10, Y11)
	ADDQ    $32, AX
	ADDQ    $8, SI
	DECQ    CX
	JNZ     shift256

	MOVQ c+40(FP), DI
	MOVQ ldc+48(FP), R13
	SHLQ $3, R13
	MOVQ to+56(FP), BX
	MOVQ 0(BX), R8
	MOVQ 8(BX), R9
	MOVQ 16(BX), R10
	MOVQ bias+64(FP), AX
	MOVQ rows+72(FP), DX
	SHIFTSTORE256((AX), Y0, Y1, Y2)
	JZ   shifted256
	SHIFTSTORE256(8(AX), Y3, Y4, Y5)
	JZ   shifted256
	SHIFTSTORE256(16(AX), Y6, Y7, Y8)
	JZ   shifted256
	SHIFTSTORE256(24(AX), Y9, Y10, Y11)

shifted256:
	VZEROUPPER
	RET

// func shiftDotsAVX512(n int, left *float64, rows *[3]int, src *float64, from *int, taps *[4]int, tile *[12]float64)
//
// Adds up, over n vectors, the products of 3 rows of left and 4 rows of the matrix, lane by
// lane, and writes the sums of the lanes to tile[4r + j]. Registers 3j, 3j+1 and 3j+2
// hold tap j, 12 to 14 the vectors of left and 15 that of src.

#define DOTS512(x, c0, c1, c2) \
	VMOVUPD     x, Z15;        \
	VFMADD231PD Z12, Z15, c0;  \
	VFMADD231PD Z13, Z15, c1;  \
	VFMADD231PD Z14, Z15, c2

#define FOLD(z, y, u) \
	VEXTRACTF64X4 $1, z, u; \
	VADDPD        u, y, y

// The sums of the lanes of a, b, c and d, in a.
#define LANES(a, b, c, d) \
	VHADDPD    b, a, a;             \
	VHADDPD    d, c, c;             \
	VPERM2F128 $0x20, c, a, b;      \
	VPERM2F128 $0x31, c, a, d;      \
	VADDPD     d, b, a

TEXT ·shiftDotsAVX512(SB), NOSPLIT, $0-56
	MOVQ n+0(FP), CX
	MOVQ left+8(FP), DI
	MOVQ rows+16(FP), BX
	MOVQ 8(BX), R12
	MOVQ 16(BX), R13
	ADDQ DI, R12
	ADDQ DI, R13
	MOVQ (BX), DX
	ADDQ DX, DI
	MOVQ src+24(FP), AX
	MOVQ from+32(FP), SI
	MOVQ taps+40(FP), BX
	MOVQ 0(BX), R8
	MOVQ 8(BX), R9
	MOVQ 16(BX), R10
	MOVQ 24(BX), R11
	ADDQ AX, R8
	ADDQ AX, R9
	ADDQ AX, R10
	ADDQ AX, R11
	VPXORQ Z0, Z0, Z0
	VPXORQ Z1, Z1, Z1
	VPXORQ Z2, Z2, Z2
	VPXORQ Z3, Z3, Z3
	VPXORQ Z4, Z4, Z4
	VPXORQ Z5, Z5, Z5
	VPXORQ Z6, Z6, Z6
	VPXORQ Z7, Z7, Z7
	VPXORQ Z8, Z8, Z8
	VPXORQ Z9, Z9, Z9
	VPXORQ Z10, Z10, Z10
	VPXORQ Z11, Z11, Z11
	XORQ   DX, DX

dots512:
	MOVQ    (SI), BX
	VMOVUPD (DI)(DX*1), Z12
	VMOVUPD (R12)(DX*1), Z13
	VMOVUPD (R13)(DX*1), Z14
	DOTS512((R8)(BX*1), Z0, Z1, Z2)
	DOTS512((R9)(BX*1), Z3, Z4, Z5)
	DOTS512((R10)(BX*1), Z6, Z7, Z8)
	DOTS512((R11)(BX*1), Z9, Z10, Z11)
	ADDQ    $64, DX
	ADDQ    $8, SI
	DECQ    CX
	JNZ     dots512

	FOLD(Z0, Y0, Y15)
	FOLD(Z1, Y1, Y15)
	FOLD(Z2, Y2, Y15)
	FOLD(Z3, Y3, Y15)
	FOLD(Z4, Y4, Y15)
	FOLD(Z5, Y5, Y15)
	FOLD(Z6, Y6, Y15)
	FOLD(Z7, Y7, Y15)
	FOLD(Z8, Y8, Y15)
	FOLD(Z9, Y9, Y15)
	FOLD(Z10, Y10, Y15)
	FOLD(Z11, Y11, Y15)
	LANES(Y0, Y3, Y6, Y9)
	LANES(Y1, Y4, Y7, Y10)
	LANES(Y2, Y5, Y8, Y11)
	MOVQ    tile+48(FP), AX
	VMOVUPD Y0, (AX)
	VMOVUPD Y1, 32(AX)
	VMOVUPD Y2, 64(AX)
	VZEROUPPER
	RET

// func shiftDotsAVX2(n int, left *float64, rows *[3]int, src *float64, from *int, taps *[4]int, tile *[12]float64)

#define DOTS256(x, c0, c1, c2) \
	VMOVUPD     x, Y15;        \
	VFMADD231PD Y12, Y15, c0;  \
	VFMADD231PD Y13, Y15, c1;  \
	VFMADD231PD Y14, Y15, c2

TEXT ·shiftDotsAVX2(SB), NOSPLIT, $0-56
	MOVQ n+0(FP), CX
	MOVQ left+8(FP), DI
	MOVQ rows+16(FP), BX
	MOVQ 8(BX), R12
	MOVQ 16(BX), R13
	ADDQ DI, R12
	ADDQ DI, R13
	MOVQ (BX), DX
	ADDQ DX, DI
	MOVQ src+24(FP), AX
	MOVQ from+32(FP), SI
	MOVQ taps+40(FP), BX
	MOVQ 0(BX), R8
	MOVQ 8(BX), R9
	MOVQ 16(BX), R10
	MOVQ 24(BX), R11
	ADDQ AX, R8
	ADDQ AX, R9
	ADDQ AX, R10
	ADDQ AX, R11
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3
	VXORPD Y4, Y4, Y4
	VXORPD Y5, Y5, Y5
	VXORPD Y6, Y6, Y6
	VXORPD Y7, Y7, Y7
	VXORPD Y8, Y8, Y8
	VXORPD Y9, Y9, Y9
	VXORPD Y10, Y10, Y10
	VXORPD Y11, Y11, Y11
	XORQ   DX, DX

dots256:
	MOVQ    (SI), BX
	VMOVUPD (DI)(DX*1), Y12
	VMOVUPD (R12)(DX*1), Y13
	VMOVUPD (R13)(DX*1), Y14
	DOTS256((R8)(BX*1), Y0, Y1, Y2)
	DOTS256((R9)(BX*1), Y3, Y4, Y5)
	DOTS256((R10)(BX*1), Y6, Y7, Y8)
	DOTS256((R11)(BX*1), Y9, Y10, Y11)
	ADDQ    $32, DX
	ADDQ    $8, SI
	DECQ    CX
	JNZ     dots256

	LANES(Y0, Y3, Y6, Y9)
	LANES(Y1, Y4, Y7, Y10)
	LANES(Y2, Y5, Y8, Y11)
	MOVQ    tile+48(FP), AX
	VMOVUPD Y0, (AX)
	VMOVUPD Y1, 32(AX)
	VMOVUPD Y2, 64(AX)
	VZEROUPPER
	RET
