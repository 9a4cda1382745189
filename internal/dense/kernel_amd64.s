//go:build gc && !noasm

#include "textflag.h"

// Micro-kernels in AVX-512 and AVX2+FMA. Every kernel forms the tile
//
//	acc[r][s] = Σ_p a[r][p]·b[p][s],  p ascending, one fused multiply-add each,
//
// in registers and then writes C = fma(α, acc, β·C), or C = α·acc without
// reading C when β = 0. The order of operations on one element is the same in
// every kernel, so all of them give the same bits.
//
// Operands, in elements of 8 bytes:
//
//	a    element (r, p) at a[r·ars + p·acs]
//	b    element (p, s) at b[p·brs + s], all columns of the tile readable
//	c    element (r, s) at c[r·ldc + s]
//
// Register use: AX a, BX b, CX remaining p, DX bytes from p to p+1 of a,
// SI bytes from p to p+1 of b, DI c, R13 bytes from row to row of c,
// R8, R9, R10, R11 bytes from row 0 to rows 1, 3, 5, 7 of a.

// Rows 0 to 7 of a at the current p.
#define A0 (AX)
#define A1 (AX)(R8*1)
#define A2 (AX)(R8*2)
#define A3 (AX)(R9*1)
#define A4 (AX)(R8*4)
#define A5 (AX)(R10*1)
#define A6 (AX)(R9*2)
#define A7 (AX)(R11*1)

// func gemm8x24(k int, a *float64, ars, acs int, b *float64, brs int, c *float64, ldc int, alpha, beta float64)
//
// Z0-Z23 hold the tile, row r in Z(3r), Z(3r+1), Z(3r+2); Z24-Z26 a row of b;
// Z27-Z30 entries of a, each copied to all lanes.

#define ROW24(a, t, c0, c1, c2) \
	VBROADCASTSD a, t;          \
	VFMADD231PD  Z24, t, c0;    \
	VFMADD231PD  Z25, t, c1;    \
	VFMADD231PD  Z26, t, c2

#define UPDATE24(c0, c1, c2) \
	VMULPD      (DI), Z31, Z24;    \
	VMULPD      64(DI), Z31, Z25;  \
	VMULPD      128(DI), Z31, Z26; \
	VFMADD231PD c0, Z30, Z24;      \
	VFMADD231PD c1, Z30, Z25;      \
	VFMADD231PD c2, Z30, Z26;      \
	VMOVUPD     Z24, (DI);         \
	VMOVUPD     Z25, 64(DI);       \
	VMOVUPD     Z26, 128(DI);      \
	ADDQ        R13, DI

#define ASSIGN24(c0, c1, c2) \
	VMULPD  c0, Z30, c0;   \
	VMULPD  c1, Z30, c1;   \
	VMULPD  c2, Z30, c2;   \
	VMOVUPD c0, (DI);      \
	VMOVUPD c1, 64(DI);    \
	VMOVUPD c2, 128(DI);   \
	ADDQ    R13, DI

#define TOUCH24(r) \
	PREFETCHT0 (r);    \
	PREFETCHT0 64(r);  \
	PREFETCHT0 128(r); \
	ADDQ       R13, r

#define ZERO3(c0, c1, c2) \
	VPXORQ c0, c0, c0; \
	VPXORQ c1, c1, c1; \
	VPXORQ c2, c2, c2

TEXT ·gemm8x24(SB), NOSPLIT, $0-80
	MOVQ k+0(FP), CX
	MOVQ a+8(FP), AX
	MOVQ ars+16(FP), R8
	MOVQ acs+24(FP), DX
	MOVQ b+32(FP), BX
	MOVQ brs+40(FP), SI
	MOVQ c+48(FP), DI
	MOVQ ldc+56(FP), R13
	SHLQ $3, R8
	SHLQ $3, DX
	SHLQ $3, SI
	SHLQ $3, R13
	LEAQ (R8)(R8*2), R9
	LEAQ (R8)(R8*4), R10
	LEAQ (R9)(R8*4), R11

	MOVQ DI, R12
	TOUCH24(R12)
	TOUCH24(R12)
	TOUCH24(R12)
	TOUCH24(R12)
	TOUCH24(R12)
	TOUCH24(R12)
	TOUCH24(R12)
	TOUCH24(R12)

	ZERO3(Z0, Z1, Z2)
	ZERO3(Z3, Z4, Z5)
	ZERO3(Z6, Z7, Z8)
	ZERO3(Z9, Z10, Z11)
	ZERO3(Z12, Z13, Z14)
	ZERO3(Z15, Z16, Z17)
	ZERO3(Z18, Z19, Z20)
	ZERO3(Z21, Z22, Z23)

	TESTQ CX, CX
	JZ    done24

loop24:
	VMOVUPD (BX), Z24
	VMOVUPD 64(BX), Z25
	VMOVUPD 128(BX), Z26
	ROW24(A0, Z27, Z0, Z1, Z2)
	ROW24(A1, Z28, Z3, Z4, Z5)
	ROW24(A2, Z29, Z6, Z7, Z8)
	ROW24(A3, Z30, Z9, Z10, Z11)
	ROW24(A4, Z27, Z12, Z13, Z14)
	ROW24(A5, Z28, Z15, Z16, Z17)
	ROW24(A6, Z29, Z18, Z19, Z20)
	ROW24(A7, Z30, Z21, Z22, Z23)
	PREFETCHT0 1536(BX)
	PREFETCHT0 1600(BX)
	PREFETCHT0 1664(BX)
	PREFETCHT0 512(AX)
	ADDQ DX, AX
	ADDQ SI, BX
	DECQ CX
	JNZ  loop24

done24:
	VBROADCASTSD alpha+64(FP), Z30
	VBROADCASTSD beta+72(FP), Z31
	VPXORQ       Z24, Z24, Z24
	VUCOMISD     X24, X31
	JNE          update24
	JPS          update24
	ASSIGN24(Z0, Z1, Z2)
	ASSIGN24(Z3, Z4, Z5)
	ASSIGN24(Z6, Z7, Z8)
	ASSIGN24(Z9, Z10, Z11)
	ASSIGN24(Z12, Z13, Z14)
	ASSIGN24(Z15, Z16, Z17)
	ASSIGN24(Z18, Z19, Z20)
	ASSIGN24(Z21, Z22, Z23)
	VZEROUPPER
	RET

update24:
	UPDATE24(Z0, Z1, Z2)
	UPDATE24(Z3, Z4, Z5)
	UPDATE24(Z6, Z7, Z8)
	UPDATE24(Z9, Z10, Z11)
	UPDATE24(Z12, Z13, Z14)
	UPDATE24(Z15, Z16, Z17)
	UPDATE24(Z18, Z19, Z20)
	UPDATE24(Z21, Z22, Z23)
	VZEROUPPER
	RET

// func gemm8x8(k int, a *float64, ars, acs int, b *float64, brs int, c *float64, ldc int, alpha, beta float64, rows, mask int)
//
// The first rows rows and the columns whose bit is set in mask of a tile of
// 8 by 8. Z0-Z7 hold the tile, one row each, Z8 a row of b.

#define UPDATE8(c) \
	VMOVUPD.Z   (DI), K1, Z8; \
	VMULPD      Z8, Z31, Z8;  \
	VFMADD231PD c, Z30, Z8;   \
	VMOVUPD     Z8, K1, (DI); \
	ADDQ        R13, DI;      \
	DECQ        CX;           \
	JZ          exit8

#define ASSIGN8(c) \
	VMULPD  c, Z30, c;    \
	VMOVUPD c, K1, (DI);  \
	ADDQ    R13, DI;      \
	DECQ    CX;           \
	JZ      exit8

TEXT ·gemm8x8(SB), NOSPLIT, $0-96
	MOVQ  k+0(FP), CX
	MOVQ  a+8(FP), AX
	MOVQ  ars+16(FP), R8
	MOVQ  acs+24(FP), DX
	MOVQ  b+32(FP), BX
	MOVQ  brs+40(FP), SI
	MOVQ  c+48(FP), DI
	MOVQ  ldc+56(FP), R13
	MOVQ  mask+88(FP), R12
	KMOVW R12, K1
	SHLQ  $3, R8
	SHLQ  $3, DX
	SHLQ  $3, SI
	SHLQ  $3, R13
	LEAQ  (R8)(R8*2), R9
	LEAQ  (R8)(R8*4), R10
	LEAQ  (R9)(R8*4), R11

	ZERO3(Z0, Z1, Z2)
	ZERO3(Z3, Z4, Z5)
	ZERO3(Z6, Z7, Z8)

	TESTQ CX, CX
	JZ    done8

loop8:
	VMOVUPD          (BX), Z8
	VFMADD231PD.BCST A0, Z8, Z0
	VFMADD231PD.BCST A1, Z8, Z1
	VFMADD231PD.BCST A2, Z8, Z2
	VFMADD231PD.BCST A3, Z8, Z3
	VFMADD231PD.BCST A4, Z8, Z4
	VFMADD231PD.BCST A5, Z8, Z5
	VFMADD231PD.BCST A6, Z8, Z6
	VFMADD231PD.BCST A7, Z8, Z7
	ADDQ             DX, AX
	ADDQ             SI, BX
	DECQ             CX
	JNZ              loop8

done8:
	MOVQ         rows+80(FP), CX
	VBROADCASTSD alpha+64(FP), Z30
	VBROADCASTSD beta+72(FP), Z31
	VPXORQ       Z9, Z9, Z9
	VUCOMISD     X9, X31
	JNE          update8
	JPS          update8
	ASSIGN8(Z0)
	ASSIGN8(Z1)
	ASSIGN8(Z2)
	ASSIGN8(Z3)
	ASSIGN8(Z4)
	ASSIGN8(Z5)
	ASSIGN8(Z6)
	ASSIGN8(Z7)

update8:
	UPDATE8(Z0)
	UPDATE8(Z1)
	UPDATE8(Z2)
	UPDATE8(Z3)
	UPDATE8(Z4)
	UPDATE8(Z5)
	UPDATE8(Z6)
	UPDATE8(Z7)

exit8:
	VZEROUPPER
	RET

// func trsm8x24(t, x *float64, ldx int)
//
// Solves T X = X for the tile of 8 rows and 24 columns at x. T is lower
// triangular, column by column, element (r, j) at t[8j + r], with the
// reciprocals of its diagonal in place of the diagonal. Registers as in
// gemm8x24: row r of X in Z(3r), Z(3r+1), Z(3r+2).

#define SOLVE24(j, x0, x1, x2) \
	VBROADCASTSD (72*j)(AX), Z24; \
	VMULPD       Z24, x0, x0;     \
	VMULPD       Z24, x1, x1;     \
	VMULPD       Z24, x2, x2;     \
	VMOVUPD      x0, (BX);        \
	VMOVUPD      x1, 64(BX);      \
	VMOVUPD      x2, 128(BX);     \
	ADDQ         R13, BX

// Row r less T(r, j) times row j.
#define ELIM24(r, j, x0, x1, x2, y0, y1, y2) \
	VBROADCASTSD (64*j+8*r)(AX), Z25; \
	VFNMADD231PD x0, Z25, y0;         \
	VFNMADD231PD x1, Z25, y1;         \
	VFNMADD231PD x2, Z25, y2

#define LOAD24(x0, x1, x2) \
	VMOVUPD (DI), x0;     \
	VMOVUPD 64(DI), x1;   \
	VMOVUPD 128(DI), x2;  \
	ADDQ    R13, DI

// Row j subtracted from rows 1 to 7, or from the later ones among them.
#define BELOW7(j, x0, x1, x2) ELIM24(7, j, x0, x1, x2, Z21, Z22, Z23)
#define BELOW6(j, x0, x1, x2) ELIM24(6, j, x0, x1, x2, Z18, Z19, Z20); BELOW7(j, x0, x1, x2)
#define BELOW5(j, x0, x1, x2) ELIM24(5, j, x0, x1, x2, Z15, Z16, Z17); BELOW6(j, x0, x1, x2)
#define BELOW4(j, x0, x1, x2) ELIM24(4, j, x0, x1, x2, Z12, Z13, Z14); BELOW5(j, x0, x1, x2)
#define BELOW3(j, x0, x1, x2) ELIM24(3, j, x0, x1, x2, Z9, Z10, Z11); BELOW4(j, x0, x1, x2)
#define BELOW2(j, x0, x1, x2) ELIM24(2, j, x0, x1, x2, Z6, Z7, Z8); BELOW3(j, x0, x1, x2)
#define BELOW1(j, x0, x1, x2) ELIM24(1, j, x0, x1, x2, Z3, Z4, Z5); BELOW2(j, x0, x1, x2)

TEXT ·trsm8x24(SB), NOSPLIT, $0-24
	MOVQ t+0(FP), AX
	MOVQ x+8(FP), BX
	MOVQ ldx+16(FP), R13
	SHLQ $3, R13
	MOVQ BX, DI
	LOAD24(Z0, Z1, Z2)
	LOAD24(Z3, Z4, Z5)
	LOAD24(Z6, Z7, Z8)
	LOAD24(Z9, Z10, Z11)
	LOAD24(Z12, Z13, Z14)
	LOAD24(Z15, Z16, Z17)
	LOAD24(Z18, Z19, Z20)
	LOAD24(Z21, Z22, Z23)
	SOLVE24(0, Z0, Z1, Z2)
	BELOW1(0, Z0, Z1, Z2)
	SOLVE24(1, Z3, Z4, Z5)
	BELOW2(1, Z3, Z4, Z5)
	SOLVE24(2, Z6, Z7, Z8)
	BELOW3(2, Z6, Z7, Z8)
	SOLVE24(3, Z9, Z10, Z11)
	BELOW4(3, Z9, Z10, Z11)
	SOLVE24(4, Z12, Z13, Z14)
	BELOW5(4, Z12, Z13, Z14)
	SOLVE24(5, Z15, Z16, Z17)
	BELOW6(5, Z15, Z16, Z17)
	SOLVE24(6, Z18, Z19, Z20)
	BELOW7(6, Z18, Z19, Z20)
	SOLVE24(7, Z21, Z22, Z23)
	VZEROUPPER
	RET

// func gemm4x12(k int, a *float64, ars, acs int, b *float64, brs int, c *float64, ldc int, alpha, beta float64)
//
// The AVX2 kernel. Y0-Y11 hold the tile, row r in Y(3r), Y(3r+1), Y(3r+2);
// Y12-Y14 a row of b; Y15 an entry of a.

#define ROW12(a, c0, c1, c2) \
	VBROADCASTSD a, Y15;        \
	VFMADD231PD  Y12, Y15, c0;  \
	VFMADD231PD  Y13, Y15, c1;  \
	VFMADD231PD  Y14, Y15, c2

// α·row, and with β ≠ 0 fma(α, row, β·C). Y14 = α, Y15 = β.
#define UPDATE12(c0, c1, c2) \
	VMULPD      (DI), Y15, Y12;   \
	VFMADD231PD c0, Y14, Y12;     \
	VMOVUPD     Y12, (DI);        \
	VMULPD      32(DI), Y15, Y13; \
	VFMADD231PD c1, Y14, Y13;     \
	VMOVUPD     Y13, 32(DI);      \
	VMULPD      64(DI), Y15, Y12; \
	VFMADD231PD c2, Y14, Y12;     \
	VMOVUPD     Y12, 64(DI);      \
	ADDQ        R13, DI

#define ASSIGN12(c0, c1, c2) \
	VMULPD  c0, Y14, c0;  \
	VMULPD  c1, Y14, c1;  \
	VMULPD  c2, Y14, c2;  \
	VMOVUPD c0, (DI);     \
	VMOVUPD c1, 32(DI);   \
	VMOVUPD c2, 64(DI);   \
	ADDQ    R13, DI

#define TERM12 \
	VMOVUPD (BX), Y12;        \
	VMOVUPD 32(BX), Y13;      \
	VMOVUPD 64(BX), Y14;      \
	ROW12(A0, Y0, Y1, Y2);    \
	ROW12(A1, Y3, Y4, Y5);    \
	ROW12(A2, Y6, Y7, Y8);    \
	ROW12(A3, Y9, Y10, Y11)

#define TOUCH12(r) \
	PREFETCHT0 (r);   \
	PREFETCHT0 64(r); \
	ADDQ       R13, r

#define ZERO12(c0, c1, c2) \
	VXORPD c0, c0, c0; \
	VXORPD c1, c1, c1; \
	VXORPD c2, c2, c2

TEXT ·gemm4x12(SB), NOSPLIT, $0-80
	MOVQ k+0(FP), CX
	MOVQ a+8(FP), AX
	MOVQ ars+16(FP), R8
	MOVQ acs+24(FP), DX
	MOVQ b+32(FP), BX
	MOVQ brs+40(FP), SI
	MOVQ c+48(FP), DI
	MOVQ ldc+56(FP), R13
	SHLQ $3, R8
	SHLQ $3, DX
	SHLQ $3, SI
	SHLQ $3, R13
	LEAQ (R8)(R8*2), R9

	MOVQ DI, R12
	TOUCH12(R12)
	TOUCH12(R12)
	TOUCH12(R12)
	TOUCH12(R12)

	ZERO12(Y0, Y1, Y2)
	ZERO12(Y3, Y4, Y5)
	ZERO12(Y6, Y7, Y8)
	ZERO12(Y9, Y10, Y11)

	TESTQ CX, CX
	JZ    done12

	SHRQ $1, CX
	JNC  even12
	TERM12
	ADDQ DX, AX
	ADDQ SI, BX

even12:
	TESTQ CX, CX
	JZ    done12

	// Two terms a turn, so that a processor that starts four instructions a cycle has
	// room for two multiply-adds among them.
loop12:
	TERM12
	PREFETCHT0 768(BX)
	PREFETCHT0 832(BX)
	PREFETCHT0 896(BX)
	ADDQ DX, AX
	ADDQ SI, BX
	TERM12
	ADDQ DX, AX
	ADDQ SI, BX
	DECQ CX
	JNZ  loop12

done12:
	VBROADCASTSD alpha+64(FP), Y14
	VBROADCASTSD beta+72(FP), Y15
	VXORPD       X12, X12, X12
	VUCOMISD     X12, X15
	JNE          update12
	JPS          update12
	ASSIGN12(Y0, Y1, Y2)
	ASSIGN12(Y3, Y4, Y5)
	ASSIGN12(Y6, Y7, Y8)
	ASSIGN12(Y9, Y10, Y11)
	VZEROUPPER
	RET

update12:
	UPDATE12(Y0, Y1, Y2)
	UPDATE12(Y3, Y4, Y5)
	UPDATE12(Y6, Y7, Y8)
	UPDATE12(Y9, Y10, Y11)
	VZEROUPPER
	RET

// func trsm4x12(t, x *float64, ldx int)
//
// As trsm8x24 for 4 rows and 12 columns, element (r, j) of T at t[4j + r].

#define SOLVE12(j, x0, x1, x2) \
	VBROADCASTSD (40*j)(AX), Y12;    \
	VMULPD       Y12, x0, x0;        \
	VMULPD       Y12, x1, x1;        \
	VMULPD       Y12, x2, x2;     \
	VMOVUPD      x0, (BX);        \
	VMOVUPD      x1, 32(BX);      \
	VMOVUPD      x2, 64(BX);      \
	ADDQ         R13, BX

#define ELIM12(r, j, x0, x1, x2, y0, y1, y2) \
	VBROADCASTSD (32*j+8*r)(AX), Y13; \
	VFNMADD231PD x0, Y13, y0;         \
	VFNMADD231PD x1, Y13, y1;         \
	VFNMADD231PD x2, Y13, y2

#define LOAD12(x0, x1, x2) \
	VMOVUPD (DI), x0;    \
	VMOVUPD 32(DI), x1;  \
	VMOVUPD 64(DI), x2;  \
	ADDQ    R13, DI

TEXT ·trsm4x12(SB), NOSPLIT, $0-24
	MOVQ t+0(FP), AX
	MOVQ x+8(FP), BX
	MOVQ ldx+16(FP), R13
	SHLQ $3, R13
	MOVQ BX, DI
	LOAD12(Y0, Y1, Y2)
	LOAD12(Y3, Y4, Y5)
	LOAD12(Y6, Y7, Y8)
	LOAD12(Y9, Y10, Y11)
	SOLVE12(0, Y0, Y1, Y2)
	ELIM12(1, 0, Y0, Y1, Y2, Y3, Y4, Y5)
	ELIM12(2, 0, Y0, Y1, Y2, Y6, Y7, Y8)
	ELIM12(3, 0, Y0, Y1, Y2, Y9, Y10, Y11)
	SOLVE12(1, Y3, Y4, Y5)
	ELIM12(2, 1, Y3, Y4, Y5, Y6, Y7, Y8)
	ELIM12(3, 1, Y3, Y4, Y5, Y9, Y10, Y11)
	SOLVE12(2, Y6, Y7, Y8)
	ELIM12(3, 2, Y6, Y7, Y8, Y9, Y10, Y11)
	SOLVE12(3, Y9, Y10, Y11)
	VZEROUPPER
	RET

// func interleave4x4(dst *float64, step int, a, b, c, d *float64, n int)
//
// Writes (a[q], b[q], c[q], d[q]) to q·step elements after dst for the n numbers q from
// 0, n a multiple of 4, by transposing 4 by 4 elements at a time.
TEXT ·interleave4x4(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ step+8(FP), R13
	MOVQ a+16(FP), R8
	MOVQ b+24(FP), R9
	MOVQ c+32(FP), R10
	MOVQ d+40(FP), R11
	MOVQ n+48(FP), CX
	SHLQ $3, R13

turn4:
	VMOVUPD    (R8), Y0
	VMOVUPD    (R9), Y1
	VMOVUPD    (R10), Y2
	VMOVUPD    (R11), Y3
	VUNPCKLPD  Y1, Y0, Y4
	VUNPCKHPD  Y1, Y0, Y5
	VUNPCKLPD  Y3, Y2, Y6
	VUNPCKHPD  Y3, Y2, Y7
	VPERM2F128 $0x20, Y6, Y4, Y0
	VPERM2F128 $0x20, Y7, Y5, Y1
	VPERM2F128 $0x31, Y6, Y4, Y2
	VPERM2F128 $0x31, Y7, Y5, Y3
	VMOVUPD    Y0, (DI)
	ADDQ       R13, DI
	VMOVUPD    Y1, (DI)
	ADDQ       R13, DI
	VMOVUPD    Y2, (DI)
	ADDQ       R13, DI
	VMOVUPD    Y3, (DI)
	ADDQ       R13, DI
	ADDQ       $32, R8
	ADDQ       $32, R9
	ADDQ       $32, R10
	ADDQ       $32, R11
	SUBQ       $4, CX
	JNZ        turn4
	VZEROUPPER
	RET
