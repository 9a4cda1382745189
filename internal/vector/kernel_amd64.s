//go:build gc && !noasm

#include "textflag.h"

// Both kernels compute, with e = expm1(−2 min(|x|, 20)),
//
//	tanh x = sign(x)·(−e)/(2 + e).
//
// expm1(z) is 2ᵏ(1 + p) − 1 with k = round(z/ln 2), r = z − k·ln 2 and
// p = expm1(r) = r + r²(1/2! + r/3! + … + r¹¹/13!), |r| ≤ ln(2)/2, where the first
// term left out is below 2e-17 of p. No subtraction cancels: e is p where k = 0, and
// below −1/4 otherwise. The order of operations on one element is the same in both
// kernels, so that they give the same bits. A NaN stays one, for the minimum returns
// its second operand |x| then.

DATA constants<>+0(SB)/8, $0x7fffffffffffffff // abs
DATA constants<>+8(SB)/8, $0x4034000000000000 // limit
DATA constants<>+16(SB)/8, $0xc000000000000000 // minus two
DATA constants<>+24(SB)/8, $0x3ff71547652b82fe // log2(e)
DATA constants<>+32(SB)/8, $0x4338000000000000 // 1.5·2⁵², whose addition rounds to a whole number
DATA constants<>+40(SB)/8, $0x3fe62e42fefa39ef // ln 2, its first 53 bits
DATA constants<>+48(SB)/8, $0x3c7abc9e3b39803f // ln 2, the bits after
DATA constants<>+56(SB)/8, $0x3ff0000000000000 // 1
DATA constants<>+64(SB)/8, $0x4000000000000000 // 2
DATA constants<>+72(SB)/8, $0x3de6124613a86d09 // 1/13!
DATA constants<>+80(SB)/8, $0x3e21eed8eff8d898 // 1/12!
DATA constants<>+88(SB)/8, $0x3e5ae64567f544e4 // 1/11!
DATA constants<>+96(SB)/8, $0x3e927e4fb7789f5c // 1/10!
DATA constants<>+104(SB)/8, $0x3ec71de3a556c734 // 1/9!
DATA constants<>+112(SB)/8, $0x3efa01a01a01a01a // 1/8!
DATA constants<>+120(SB)/8, $0x3f2a01a01a01a01a // 1/7!
DATA constants<>+128(SB)/8, $0x3f56c16c16c16c17 // 1/6!
DATA constants<>+136(SB)/8, $0x3f81111111111111 // 1/5!
DATA constants<>+144(SB)/8, $0x3fa5555555555555 // 1/4!
DATA constants<>+152(SB)/8, $0x3fc5555555555555 // 1/3!
DATA constants<>+160(SB)/8, $0x3fe0000000000000 // 1/2!
GLOBL constants<>(SB), RODATA|NOPTR, $168

// func tanhAVX512(dst, x *float64, n int)
//
// Z11-Z31 hold the constants, the first in Z31.
TEXT ·tanhAVX512(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	LEAQ constants<>(SB), R8
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
	VBROADCASTSD 152(R8), Z12
	VBROADCASTSD 160(R8), Z11

loop512:
	VMOVUPD     (SI), Z0
	VPANDQ      Z31, Z0, Z1  // |x|
	VPANDNQ     Z0, Z31, Z0  // the sign of x
	VMINPD      Z1, Z30, Z1
	VMULPD      Z29, Z1, Z1  // z
	VMOVAPD     Z1, Z2
	VFMADD213PD Z27, Z28, Z2 // k, in the last bits
	VSUBPD      Z27, Z2, Z3  // k
	VPSLLQ      $52, Z2, Z2
	VPADDQ      Z24, Z2, Z2  // 2ᵏ
	VFNMADD231PD Z26, Z3, Z1
	VFNMADD231PD Z25, Z3, Z1 // r
	VMOVAPD     Z22, Z4
	VFMADD213PD Z21, Z1, Z4
	VFMADD213PD Z20, Z1, Z4
	VFMADD213PD Z19, Z1, Z4
	VFMADD213PD Z18, Z1, Z4
	VFMADD213PD Z17, Z1, Z4
	VFMADD213PD Z16, Z1, Z4
	VFMADD213PD Z15, Z1, Z4
	VFMADD213PD Z14, Z1, Z4
	VFMADD213PD Z13, Z1, Z4
	VFMADD213PD Z12, Z1, Z4
	VFMADD213PD Z11, Z1, Z4
	VMULPD      Z1, Z1, Z5
	VFMADD231PD Z5, Z4, Z1   // p
	VSUBPD      Z24, Z2, Z6  // 2ᵏ − 1
	VFMADD231PD Z2, Z1, Z6   // e
	VADDPD      Z23, Z6, Z7  // 2 + e
	VDIVPD      Z7, Z6, Z6
	VPANDQ      Z31, Z6, Z6
	VPORQ       Z0, Z6, Z6
	VMOVUPD     Z6, (DI)
	ADDQ        $64, SI
	ADDQ        $64, DI
	SUBQ        $8, CX
	JNZ         loop512
	VZEROUPPER
	RET

// func tanhAVX2(dst, x *float64, n int)
//
// Y7-Y15 hold the first nine constants, the first in Y15; Y6 the coefficient at hand.
TEXT ·tanhAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	LEAQ constants<>(SB), R8
	VBROADCASTSD 0(R8), Y15
	VBROADCASTSD 8(R8), Y14
	VBROADCASTSD 16(R8), Y13
	VBROADCASTSD 24(R8), Y12
	VBROADCASTSD 32(R8), Y11
	VBROADCASTSD 40(R8), Y10
	VBROADCASTSD 48(R8), Y9
	VBROADCASTSD 56(R8), Y8
	VBROADCASTSD 64(R8), Y7

loop256:
	VMOVUPD     (SI), Y0
	VPAND       Y15, Y0, Y1
	VPANDN      Y0, Y15, Y0
	VMINPD      Y1, Y14, Y1
	VMULPD      Y13, Y1, Y1
	VMOVAPD     Y1, Y2
	VFMADD213PD Y11, Y12, Y2
	VSUBPD      Y11, Y2, Y3
	VPSLLQ      $52, Y2, Y2
	VPADDQ      Y8, Y2, Y2
	VFNMADD231PD Y10, Y3, Y1
	VFNMADD231PD Y9, Y3, Y1
	VBROADCASTSD 72(R8), Y4
	VBROADCASTSD 80(R8), Y6
	VFMADD213PD Y6, Y1, Y4
	VBROADCASTSD 88(R8), Y6
	VFMADD213PD Y6, Y1, Y4
	VBROADCASTSD 96(R8), Y6
	VFMADD213PD Y6, Y1, Y4
	VBROADCASTSD 104(R8), Y6
	VFMADD213PD Y6, Y1, Y4
	VBROADCASTSD 112(R8), Y6
	VFMADD213PD Y6, Y1, Y4
	VBROADCASTSD 120(R8), Y6
	VFMADD213PD Y6, Y1, Y4
	VBROADCASTSD 128(R8), Y6
	VFMADD213PD Y6, Y1, Y4
	VBROADCASTSD 136(R8), Y6
	VFMADD213PD Y6, Y1, Y4
	VBROADCASTSD 144(R8), Y6
	VFMADD213PD Y6, Y1, Y4
	VBROADCASTSD 152(R8), Y6
	VFMADD213PD Y6, Y1, Y4
	VBROADCASTSD 160(R8), Y6
	VFMADD213PD Y6, Y1, Y4
	VMULPD      Y1, Y1, Y5
	VFMADD231PD Y5, Y4, Y1
	VSUBPD      Y8, Y2, Y6
	VFMADD231PD Y2, Y1, Y6
	VADDPD      Y7, Y6, Y5
	VDIVPD      Y5, Y6, Y6
	VPAND       Y15, Y6, Y6
	VPOR        Y0, Y6, Y6
	VMOVUPD     Y6, (DI)
	ADDQ        $32, SI
	ADDQ        $32, DI
	SUBQ        $4, CX
	JNZ         loop256
	VZEROUPPER
	RET
