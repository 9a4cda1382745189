//go:build gc && !noasm

#include "textflag.h"

// Both kernels compute exp(x) = 2ᵏ(1 + p) with k = round(x/ln 2), r = x − k·ln 2 and
// p = expm1(r) = r + r²(1/2! + r/3! + … + r¹¹/13!), |r| ≤ ln(2)/2, where the first term
// left out is below 2e-17 of p. The order of operations on one element is the same in
// both, so that they give the same bits. A NaN stays one, for minimum and maximum
// return their second operand then, and is not less than the least argument.

DATA exponential<>+0(SB)/8, $0xc086200000000000 // the least argument, −708
DATA exponential<>+8(SB)/8, $0x4086280000000000 // the most, 709
DATA exponential<>+16(SB)/8, $0x3ff71547652b82fe // log2(e)
DATA exponential<>+24(SB)/8, $0x4338000000000000 // 1.5·2⁵², whose addition rounds to a whole number
DATA exponential<>+32(SB)/8, $0x3fe62e42fefa39ef // ln 2, its first 53 bits
DATA exponential<>+40(SB)/8, $0x3c7abc9e3b39803f // ln 2, the bits after
DATA exponential<>+48(SB)/8, $0x3ff0000000000000 // 1
DATA exponential<>+56(SB)/8, $0x3de6124613a86d09 // 1/13!
DATA exponential<>+64(SB)/8, $0x3e21eed8eff8d898 // 1/12!
DATA exponential<>+72(SB)/8, $0x3e5ae64567f544e4 // 1/11!
DATA exponential<>+80(SB)/8, $0x3e927e4fb7789f5c // 1/10!
DATA exponential<>+88(SB)/8, $0x3ec71de3a556c734 // 1/9!
DATA exponential<>+96(SB)/8, $0x3efa01a01a01a01a // 1/8!
DATA exponential<>+104(SB)/8, $0x3f2a01a01a01a01a // 1/7!
DATA exponential<>+112(SB)/8, $0x3f56c16c16c16c17 // 1/6!
DATA exponential<>+120(SB)/8, $0x3f81111111111111 // 1/5!
DATA exponential<>+128(SB)/8, $0x3fa5555555555555 // 1/4!
DATA exponential<>+136(SB)/8, $0x3fc5555555555555 // 1/3!
DATA exponential<>+144(SB)/8, $0x3fe0000000000000 // 1/2!
GLOBL exponential<>(SB), RODATA|NOPTR, $152

// func expAVX512(dst, x *float64, n int)
//
// Z13-Z31 hold the constants, the first in Z31.
TEXT ·expAVX512(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	LEAQ exponential<>(SB), R8
	VBROADCASTSD 0(R8), Z31
	VBROADCASTSD 8(R8), Z30
	VBROADCASTSD 16(R8), Z29
	VBROADCASTSD 24(R8), Z28
	VBROADCASTSD 32(R8), Z27
	VBROADCASTSD 40(R8), Z26
	VBROADCASTSD 48(R8), Z25
	VBROADCASTSD 56(R8), Z24
	VBROADCASTSD 64(R8), Z23
	VBROADCASTSD 72(R8), Z22
	VBROADCASTSD 80(R8), Z21
	VBROADCASTSD 88(R8), Z20
	VBROADCASTSD 96(R8), Z19
	VBROADCASTSD 104(R8), Z18
	VBROADCASTSD 112(R8), Z17
	VBROADCASTSD 120(R8), Z16
	VBROADCASTSD 128(R8), Z15
	VBROADCASTSD 136(R8), Z14
	VBROADCASTSD 144(R8), Z13

loop512:
	VMOVUPD      (SI), Z0
	VCMPPD       $0x15, Z31, Z0, K1 // not below the least
	VMINPD       Z0, Z30, Z1
	VMAXPD       Z1, Z31, Z1
	VMOVAPD      Z1, Z2
	VFMADD213PD  Z28, Z29, Z2   // k, in the last bits
	VSUBPD       Z28, Z2, Z3        // k
	VPSLLQ       $52, Z2, Z2
	VPADDQ       Z25, Z2, Z2        // 2ᵏ
	VFNMADD231PD Z27, Z3, Z1
	VFNMADD231PD Z26, Z3, Z1        // r
	VMOVAPD      Z24, Z4
	VFMADD213PD  Z23, Z1, Z4
	VFMADD213PD  Z22, Z1, Z4
	VFMADD213PD  Z21, Z1, Z4
	VFMADD213PD  Z20, Z1, Z4
	VFMADD213PD  Z19, Z1, Z4
	VFMADD213PD  Z18, Z1, Z4
	VFMADD213PD  Z17, Z1, Z4
	VFMADD213PD  Z16, Z1, Z4
	VFMADD213PD  Z15, Z1, Z4
	VFMADD213PD  Z14, Z1, Z4
	VFMADD213PD  Z13, Z1, Z4
	VMULPD       Z1, Z1, Z5
	VFMADD231PD  Z5, Z4, Z1          // p
	VFMADD231PD  Z2, Z1, Z2          // 2ᵏ + 2ᵏp
	VMOVAPD.Z    Z2, K1, Z2
	VMOVUPD      Z2, (DI)
	ADDQ         $64, SI
	ADDQ         $64, DI
	SUBQ         $8, CX
	JNZ          loop512
	VZEROUPPER
	RET

// func expAVX2(dst, x *float64, n int)
//
// Y9-Y15 hold the first seven constants, the first in Y15; Y6 the coefficient at hand.
TEXT ·expAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	LEAQ exponential<>(SB), R8
	VBROADCASTSD 0(R8), Y15
	VBROADCASTSD 8(R8), Y14
	VBROADCASTSD 16(R8), Y13
	VBROADCASTSD 24(R8), Y12
	VBROADCASTSD 32(R8), Y11
	VBROADCASTSD 40(R8), Y10
	VBROADCASTSD 48(R8), Y9

loop256:
	VMOVUPD      (SI), Y0
	VCMPPD       $0x15, Y15, Y0, Y7
	VMINPD       Y0, Y14, Y1
	VMAXPD       Y1, Y15, Y1
	VMOVAPD      Y1, Y2
	VFMADD213PD  Y12, Y13, Y2
	VSUBPD       Y12, Y2, Y3
	VPSLLQ       $52, Y2, Y2
	VPADDQ       Y9, Y2, Y2
	VFNMADD231PD Y11, Y3, Y1
	VFNMADD231PD Y10, Y3, Y1
	VBROADCASTSD 56(R8), Y4
	VBROADCASTSD 64(R8), Y6
	VFMADD213PD  Y6, Y1, Y4
	VBROADCASTSD 72(R8), Y6
	VFMADD213PD  Y6, Y1, Y4
	VBROADCASTSD 80(R8), Y6
	VFMADD213PD  Y6, Y1, Y4
	VBROADCASTSD 88(R8), Y6
	VFMADD213PD  Y6, Y1, Y4
	VBROADCASTSD 96(R8), Y6
	VFMADD213PD  Y6, Y1, Y4
	VBROADCASTSD 104(R8), Y6
	VFMADD213PD  Y6, Y1, Y4
	VBROADCASTSD 112(R8), Y6
	VFMADD213PD  Y6, Y1, Y4
	VBROADCASTSD 120(R8), Y6
	VFMADD213PD  Y6, Y1, Y4
	VBROADCASTSD 128(R8), Y6
	VFMADD213PD  Y6, Y1, Y4
	VBROADCASTSD 136(R8), Y6
	VFMADD213PD  Y6, Y1, Y4
	VBROADCASTSD 144(R8), Y6
	VFMADD213PD  Y6, Y1, Y4
	VMULPD       Y1, Y1, Y5
	VFMADD231PD  Y5, Y4, Y1
	VFMADD231PD  Y2, Y1, Y2
	VANDPD       Y7, Y2, Y2
	VMOVUPD      Y2, (DI)
	ADDQ         $32, SI
	ADDQ         $32, DI
	SUBQ         $4, CX
	JNZ          loop256
	VZEROUPPER
	RET
