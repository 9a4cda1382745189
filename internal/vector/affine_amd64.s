//go:build gc && !noasm

#include "textflag.h"

// Both kernels compute l = a₀ + Σ_q a_q z_q from first to last, and exp(l) = 2ᵏ eʳ with
// k = round(l/ln 2), r = l − k·ln 2 and eʳ = 1 + r + r²/2! + … + r¹¹/11!, |r| ≤ ln(2)/2, where
// the first term left out is below 7e-15 and k·ln 2 is off by at most 3e-14 for |l| ≤ 700. The
// order of operations on one element is the same in both, so that they give the same bits.

DATA odds<>+0(SB)/8, $0x3ff71547652b82fe // log2(e)
DATA odds<>+8(SB)/8, $0x4338000000000000 // 1.5·2⁵², whose addition rounds to a whole number
DATA odds<>+16(SB)/8, $0x3fe62e42fefa39ef // ln 2
DATA odds<>+24(SB)/8, $0x3ff0000000000000 // 1
DATA odds<>+32(SB)/8, $0x3e5ae64567f544e4 // 1/11!
DATA odds<>+40(SB)/8, $0x3e927e4fb7789f5c // 1/10!
DATA odds<>+48(SB)/8, $0x3ec71de3a556c734 // 1/9!
DATA odds<>+56(SB)/8, $0x3efa01a01a01a01a // 1/8!
DATA odds<>+64(SB)/8, $0x3f2a01a01a01a01a // 1/7!
DATA odds<>+72(SB)/8, $0x3f56c16c16c16c17 // 1/6!
DATA odds<>+80(SB)/8, $0x3f81111111111111 // 1/5!
DATA odds<>+88(SB)/8, $0x3fa5555555555555 // 1/4!
DATA odds<>+96(SB)/8, $0x3fc5555555555555 // 1/3!
DATA odds<>+104(SB)/8, $0x3fe0000000000000 // 1/2!
GLOBL odds<>(SB), RODATA|NOPTR, $112

// func expAffineAVX512(l, e, inverse, a, z *float64, rows, extra, rank, ld, ldz, n int)
//
// Z18-Z31 hold the constants, the first in Z31; Z16 and Z17 the sums over the classes of 16
// nodes. R13 goes through a, AX through z, R9 is the offset of the row.
TEXT ·expAffineAVX512(SB), NOSPLIT, $0-88
	MOVQ l+0(FP), DI
	MOVQ e+8(FP), SI
	MOVQ inverse+16(FP), DX
	MOVQ z+32(FP), R10
	MOVQ ld+64(FP), R11
	MOVQ ldz+72(FP), R12
	MOVQ n+80(FP), CX
	SHLQ $3, R11
	SHLQ $3, R12
	LEAQ odds<>(SB), AX
	VBROADCASTSD 0(AX), Z31
	VBROADCASTSD 8(AX), Z30
	VBROADCASTSD 16(AX), Z29
	VBROADCASTSD 24(AX), Z28
	VBROADCASTSD 32(AX), Z27
	VBROADCASTSD 40(AX), Z26
	VBROADCASTSD 48(AX), Z25
	VBROADCASTSD 56(AX), Z24
	VBROADCASTSD 64(AX), Z23
	VBROADCASTSD 72(AX), Z22
	VBROADCASTSD 80(AX), Z21
	VBROADCASTSD 88(AX), Z20
	VBROADCASTSD 96(AX), Z19
	VBROADCASTSD 104(AX), Z18

nodes512:
	VPXORQ Z16, Z16, Z16
	VPXORQ Z17, Z17, Z17
	MOVQ   a+24(FP), R13
	MOVQ   rows+40(FP), BX
	XORQ   R9, R9

row512:
	VBROADCASTSD (R13), Z0
	VMOVAPD      Z0, Z1
	ADDQ         $8, R13
	MOVQ         R10, AX
	MOVQ         rank+56(FP), R8

product512:
	VBROADCASTSD (R13), Z2
	VFMADD231PD  (AX), Z2, Z0
	VFMADD231PD  64(AX), Z2, Z1
	ADDQ         $8, R13
	ADDQ         R12, AX
	DECQ         R8
	JNZ          product512

	VMOVUPD      Z0, (DI)(R9*1)
	VMOVUPD      Z1, 64(DI)(R9*1)
	VMOVAPD      Z0, Z2
	VMOVAPD      Z1, Z3
	VFMADD213PD  Z30, Z31, Z2 // k, in the last bits
	VFMADD213PD  Z30, Z31, Z3
	VSUBPD       Z30, Z2, Z4  // k
	VSUBPD       Z30, Z3, Z5
	VPSLLQ       $52, Z2, Z2
	VPSLLQ       $52, Z3, Z3
	VPADDQ       Z28, Z2, Z2  // 2ᵏ
	VPADDQ       Z28, Z3, Z3
	VFNMADD231PD Z29, Z4, Z0  // r
	VFNMADD231PD Z29, Z5, Z1
	VMOVAPD      Z27, Z4
	VMOVAPD      Z27, Z5
	VFMADD213PD  Z26, Z0, Z4
	VFMADD213PD  Z26, Z1, Z5
	VFMADD213PD  Z25, Z0, Z4
	VFMADD213PD  Z25, Z1, Z5
	VFMADD213PD  Z24, Z0, Z4
	VFMADD213PD  Z24, Z1, Z5
	VFMADD213PD  Z23, Z0, Z4
	VFMADD213PD  Z23, Z1, Z5
	VFMADD213PD  Z22, Z0, Z4
	VFMADD213PD  Z22, Z1, Z5
	VFMADD213PD  Z21, Z0, Z4
	VFMADD213PD  Z21, Z1, Z5
	VFMADD213PD  Z20, Z0, Z4
	VFMADD213PD  Z20, Z1, Z5
	VFMADD213PD  Z19, Z0, Z4
	VFMADD213PD  Z19, Z1, Z5
	VFMADD213PD  Z18, Z0, Z4
	VFMADD213PD  Z18, Z1, Z5
	VFMADD213PD  Z28, Z0, Z4
	VFMADD213PD  Z28, Z1, Z5
	VFMADD213PD  Z28, Z0, Z4
	VFMADD213PD  Z28, Z1, Z5
	VMULPD       Z2, Z4, Z4
	VMULPD       Z3, Z5, Z5
	VMOVUPD      Z4, (SI)(R9*1)
	VMOVUPD      Z5, 64(SI)(R9*1)
	CMPQ         BX, extra+48(FP)
	JLE          next512
	VADDPD       Z4, Z16, Z16
	VADDPD       Z5, Z17, Z17

next512:
	ADDQ    R11, R9
	DECQ    BX
	JNZ     row512
	VDIVPD  Z16, Z28, Z16
	VDIVPD  Z17, Z28, Z17
	VMOVUPD Z16, (DX)
	VMOVUPD Z17, 64(DX)
	ADDQ    $128, DI
	ADDQ    $128, SI
	ADDQ    $128, DX
	ADDQ    $128, R10
	SUBQ    $16, CX
	JNZ     nodes512
	VZEROUPPER
	RET

// func expAffineAVX2(l, e, inverse, a, z *float64, rows, extra, rank, ld, ldz, n int)
//
// Y12-Y15 hold the first four constants, the first in Y15; Y10 and Y11 the sums over the
// classes of 8 nodes, Y6 the coefficient at hand.
TEXT ·expAffineAVX2(SB), NOSPLIT, $0-88
	MOVQ l+0(FP), DI
	MOVQ e+8(FP), SI
	MOVQ inverse+16(FP), DX
	MOVQ z+32(FP), R10
	MOVQ ld+64(FP), R11
	MOVQ ldz+72(FP), R12
	MOVQ n+80(FP), CX
	SHLQ $3, R11
	SHLQ $3, R12
	LEAQ odds<>(SB), AX
	VBROADCASTSD 0(AX), Y15
	VBROADCASTSD 8(AX), Y14
	VBROADCASTSD 16(AX), Y13
	VBROADCASTSD 24(AX), Y12

nodes256:
	VXORPD Y10, Y10, Y10
	VXORPD Y11, Y11, Y11
	MOVQ   a+24(FP), R13
	MOVQ   rows+40(FP), BX
	XORQ   R9, R9

row256:
	VBROADCASTSD (R13), Y0
	VMOVAPD      Y0, Y1
	ADDQ         $8, R13
	MOVQ         R10, AX
	MOVQ         rank+56(FP), R8

product256:
	VBROADCASTSD (R13), Y2
	VFMADD231PD  (AX), Y2, Y0
	VFMADD231PD  32(AX), Y2, Y1
	ADDQ         $8, R13
	ADDQ         R12, AX
	DECQ         R8
	JNZ          product256

	LEAQ         odds<>(SB), AX
	VMOVUPD      Y0, (DI)(R9*1)
	VMOVUPD      Y1, 32(DI)(R9*1)
	VMOVAPD      Y0, Y2
	VMOVAPD      Y1, Y3
	VFMADD213PD  Y14, Y15, Y2
	VFMADD213PD  Y14, Y15, Y3
	VSUBPD       Y14, Y2, Y4
	VSUBPD       Y14, Y3, Y5
	VPSLLQ       $52, Y2, Y2
	VPSLLQ       $52, Y3, Y3
	VPADDQ       Y12, Y2, Y2
	VPADDQ       Y12, Y3, Y3
	VFNMADD231PD Y13, Y4, Y0
	VFNMADD231PD Y13, Y5, Y1
	VBROADCASTSD 32(AX), Y4
	VMOVAPD      Y4, Y5
	VBROADCASTSD 40(AX), Y6
	VFMADD213PD  Y6, Y0, Y4
	VFMADD213PD  Y6, Y1, Y5
	VBROADCASTSD 48(AX), Y6
	VFMADD213PD  Y6, Y0, Y4
	VFMADD213PD  Y6, Y1, Y5
	VBROADCASTSD 56(AX), Y6
	VFMADD213PD  Y6, Y0, Y4
	VFMADD213PD  Y6, Y1, Y5
	VBROADCASTSD 64(AX), Y6
	VFMADD213PD  Y6, Y0, Y4
	VFMADD213PD  Y6, Y1, Y5
	VBROADCASTSD 72(AX), Y6
	VFMADD213PD  Y6, Y0, Y4
	VFMADD213PD  Y6, Y1, Y5
	VBROADCASTSD 80(AX), Y6
	VFMADD213PD  Y6, Y0, Y4
	VFMADD213PD  Y6, Y1, Y5
	VBROADCASTSD 88(AX), Y6
	VFMADD213PD  Y6, Y0, Y4
	VFMADD213PD  Y6, Y1, Y5
	VBROADCASTSD 96(AX), Y6
	VFMADD213PD  Y6, Y0, Y4
	VFMADD213PD  Y6, Y1, Y5
	VBROADCASTSD 104(AX), Y6
	VFMADD213PD  Y6, Y0, Y4
	VFMADD213PD  Y6, Y1, Y5
	VFMADD213PD  Y12, Y0, Y4
	VFMADD213PD  Y12, Y1, Y5
	VFMADD213PD  Y12, Y0, Y4
	VFMADD213PD  Y12, Y1, Y5
	VMULPD       Y2, Y4, Y4
	VMULPD       Y3, Y5, Y5
	VMOVUPD      Y4, (SI)(R9*1)
	VMOVUPD      Y5, 32(SI)(R9*1)
	CMPQ         BX, extra+48(FP)
	JLE          next256
	VADDPD       Y4, Y10, Y10
	VADDPD       Y5, Y11, Y11

next256:
	ADDQ    R11, R9
	DECQ    BX
	JNZ     row256
	VDIVPD  Y10, Y12, Y10
	VDIVPD  Y11, Y12, Y11
	VMOVUPD Y10, (DX)
	VMOVUPD Y11, 32(DX)
	ADDQ    $64, DI
	ADDQ    $64, SI
	ADDQ    $64, DX
	ADDQ    $64, R10
	SUBQ    $8, CX
	JNZ     nodes256
	VZEROUPPER
	RET

// func deviations(x, y *float64, n int, base float64) (sum, square float64)
TEXT ·deviations(SB), NOSPLIT, $0-48
	MOVQ         x+0(FP), SI
	MOVQ         y+8(FP), DX
	MOVQ         n+16(FP), CX
	VBROADCASTSD base+24(FP), Y15
	VXORPD       Y0, Y0, Y0
	VXORPD       Y1, Y1, Y1
	VXORPD       Y2, Y2, Y2
	VXORPD       Y3, Y3, Y3
	VXORPD       Y4, Y4, Y4
	VXORPD       Y5, Y5, Y5
	VXORPD       Y6, Y6, Y6
	VXORPD       Y7, Y7, Y7

deviations16:
	VMOVUPD     (SI), Y8
	VMOVUPD     32(SI), Y9
	VMOVUPD     64(SI), Y10
	VMOVUPD     96(SI), Y11
	VFMSUB132PD (DX), Y15, Y8
	VFMSUB132PD 32(DX), Y15, Y9
	VFMSUB132PD 64(DX), Y15, Y10
	VFMSUB132PD 96(DX), Y15, Y11
	VMOVUPD     Y8, (SI)
	VMOVUPD     Y9, 32(SI)
	VMOVUPD     Y10, 64(SI)
	VMOVUPD     Y11, 96(SI)
	VADDPD      Y8, Y0, Y0
	VADDPD      Y9, Y1, Y1
	VADDPD      Y10, Y2, Y2
	VADDPD      Y11, Y3, Y3
	VFMADD231PD Y8, Y8, Y4
	VFMADD231PD Y9, Y9, Y5
	VFMADD231PD Y10, Y10, Y6
	VFMADD231PD Y11, Y11, Y7
	ADDQ        $128, SI
	ADDQ        $128, DX
	SUBQ        $16, CX
	JNZ         deviations16

	VADDPD       Y1, Y0, Y0
	VADDPD       Y3, Y2, Y2
	VADDPD       Y2, Y0, Y0
	VADDPD       Y5, Y4, Y4
	VADDPD       Y7, Y6, Y6
	VADDPD       Y6, Y4, Y4
	VEXTRACTF128 $1, Y0, X1
	VEXTRACTF128 $1, Y4, X5
	VADDPD       X1, X0, X0
	VADDPD       X5, X4, X4
	VHADDPD      X0, X0, X0
	VHADDPD      X4, X4, X4
	VMOVSD       X0, sum+32(FP)
	VMOVSD       X4, square+40(FP)
	VZEROUPPER
	RET
