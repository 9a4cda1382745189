//go:build gc && !noasm

#include "textflag.h"

// func relu(dst, x *float64, n int)
//
// x is kept where it is not at most 0, which holds for a NaN, and is +0 elsewhere.
TEXT ·relu(SB), NOSPLIT, $0-24
	MOVQ   dst+0(FP), DI
	MOVQ   x+8(FP), SI
	MOVQ   n+16(FP), CX
	VXORPD Y0, Y0, Y0

relu4:
	VMOVUPD (SI), Y1
	VCMPPD  $0x16, Y0, Y1, Y2 // not x ≤ 0
	VANDPD  Y1, Y2, Y1
	VMOVUPD Y1, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $4, CX
	JNZ     relu4
	VZEROUPPER
	RET

// func wherePositive(dst, grad, y *float64, n int)
TEXT ·wherePositive(SB), NOSPLIT, $0-32
	MOVQ   dst+0(FP), DI
	MOVQ   grad+8(FP), SI
	MOVQ   y+16(FP), DX
	MOVQ   n+24(FP), CX
	VXORPD Y0, Y0, Y0

where4:
	VMOVUPD (DX), Y1
	VCMPPD  $0x16, Y0, Y1, Y2
	VANDPD  (SI), Y2, Y1
	VMOVUPD Y1, (DI)
	ADDQ    $32, DX
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $4, CX
	JNZ     where4
	VZEROUPPER
	RET

// The maximum of x and y, or NaN, in x.
#define MAXNAN(y, x, t) \
	VCMPPD $3, y, x, t; \
	VMAXPD y, x, x;     \
	VORPD  t, x, x

// func maxPairs(dst, a, b *float64, n int)
TEXT ·maxPairs(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX

max4:
	VMOVUPD (SI), Y0
	VMOVUPD 32(SI), Y1
	VMOVUPD (DX), Y2
	VMOVUPD 32(DX), Y3
	MAXNAN(Y2, Y0, Y4)
	MAXNAN(Y3, Y1, Y5)
	VUNPCKLPD Y1, Y0, Y2      // the even elements, in the order 0, 2, 1, 3
	VUNPCKHPD Y1, Y0, Y3
	MAXNAN(Y3, Y2, Y4)
	VPERMPD $0xd8, Y2, Y2
	VMOVUPD Y2, (DI)
	ADDQ    $64, SI
	ADDQ    $64, DX
	ADDQ    $32, DI
	SUBQ    $4, CX
	JNZ     max4
	VZEROUPPER
	RET

DATA odd<>+0(SB)/8, $0
DATA odd<>+8(SB)/8, $-1
DATA odd<>+16(SB)/8, $0
DATA odd<>+24(SB)/8, $-1
GLOBL odd<>(SB), RODATA|NOPTR, $32

// Two squares: a and b are four elements of the rows, and top and grad are two numbers,
// each twice. Y15 masks the odd elements.
#define SPREAD(at, top, grad) \
	VCMPPD    $0, at(SI), top, Y4; \
	VCMPPD    $0, at(DX), top, Y5; \
	VPERMILPD $5, Y4, Y6;          \
	VPERMILPD $5, Y5, Y7;          \
	VORPD     Y4, Y6, Y8;          \
	VANDPD    Y15, Y6, Y6;         \
	VANDPD    Y15, Y7, Y7;         \
	VORPD     Y7, Y8, Y7;          \
	VANDNPD   Y4, Y6, Y4;          \
	VANDNPD   Y5, Y7, Y5;          \
	VANDPD    grad, Y4, Y4;        \
	VANDPD    grad, Y5, Y5;        \
	VMOVUPD   Y4, at(R8);          \
	VMOVUPD   Y5, at(R9)

// func spreadPairs(da, db, grad, top, a, b *float64, n int)
TEXT ·spreadPairs(SB), NOSPLIT, $0-56
	MOVQ    da+0(FP), R8
	MOVQ    db+8(FP), R9
	MOVQ    grad+16(FP), R10
	MOVQ    top+24(FP), R11
	MOVQ    a+32(FP), SI
	MOVQ    b+40(FP), DX
	MOVQ    n+48(FP), CX
	VMOVUPD odd<>(SB), Y15

spread4:
	VMOVUPD (R11), Y0
	VMOVUPD (R10), Y1
	VPERMPD $0x50, Y0, Y2
	VPERMPD $0x50, Y1, Y3
	VPERMPD $0xfa, Y0, Y0
	VPERMPD $0xfa, Y1, Y1
	SPREAD(0, Y2, Y3)
	SPREAD(32, Y0, Y1)
	ADDQ    $64, SI
	ADDQ    $64, DX
	ADDQ    $64, R8
	ADDQ    $64, R9
	ADDQ    $32, R10
	ADDQ    $32, R11
	SUBQ    $4, CX
	JNZ     spread4
	VZEROUPPER
	RET

// func addRows(dst *float64, ldd int, src *float64, lds, rows, cols int)
TEXT ·addRows(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ ldd+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ lds+24(FP), R9
	MOVQ rows+32(FP), CX
	MOVQ cols+40(FP), DX
	SHLQ $3, R8
	SHLQ $3, R9

addrow:
	MOVQ DI, R10
	MOVQ SI, R11
	MOVQ DX, BX

add4:
	CMPQ    BX, $4
	JLT     add1
	VMOVUPD (R11), Y0
	VADDPD  (R10), Y0, Y0
	VMOVUPD Y0, (R10)
	ADDQ    $32, R11
	ADDQ    $32, R10
	SUBQ    $4, BX
	JMP     add4

add1:
	TESTQ  BX, BX
	JZ     added
	VMOVSD (R11), X0
	VADDSD (R10), X0, X0
	VMOVSD X0, (R10)
	ADDQ   $8, R11
	ADDQ   $8, R10
	DECQ   BX
	JMP    add1

added:
	ADDQ R8, DI
	ADDQ R9, SI
	DECQ CX
	JNZ  addrow
	VZEROUPPER
	RET

// func axpy(dst *float64, alpha float64, x *float64, n int)
TEXT ·axpy(SB), NOSPLIT, $0-32
	MOVQ         dst+0(FP), DI
	VBROADCASTSD alpha+8(FP), Y15
	MOVQ         x+16(FP), SI
	MOVQ         n+24(FP), CX
	SUBQ         $16, CX
	JLT          axpyrest

axpy16:
	VMULPD  (SI), Y15, Y0
	VMULPD  32(SI), Y15, Y1
	VMULPD  64(SI), Y15, Y2
	VMULPD  96(SI), Y15, Y3
	VADDPD  (DI), Y0, Y0
	VADDPD  32(DI), Y1, Y1
	VADDPD  64(DI), Y2, Y2
	VADDPD  96(DI), Y3, Y3
	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	VMOVUPD Y2, 64(DI)
	VMOVUPD Y3, 96(DI)
	ADDQ    $128, SI
	ADDQ    $128, DI
	SUBQ    $16, CX
	JGE     axpy16

axpyrest:
	ADDQ $16, CX
	JZ   axpydone

axpy1:
	VMULSD (SI), X15, X0
	VADDSD (DI), X0, X0
	VMOVSD X0, (DI)
	ADDQ   $8, SI
	ADDQ   $8, DI
	DECQ   CX
	JNZ    axpy1

axpydone:
	VZEROUPPER
	RET

// func dot(x, y *float64, n int) float64
//
// n is a multiple of 16. Sixteen sums, lane by lane in Y0-Y3, are added up pairwise.
TEXT ·dot(SB), NOSPLIT, $0-32
	MOVQ   x+0(FP), SI
	MOVQ   y+8(FP), DI
	MOVQ   n+16(FP), CX
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3

dot16:
	VMOVUPD     (SI), Y4
	VMOVUPD     32(SI), Y5
	VMOVUPD     64(SI), Y6
	VMOVUPD     96(SI), Y7
	VFMADD231PD (DI), Y4, Y0
	VFMADD231PD 32(DI), Y5, Y1
	VFMADD231PD 64(DI), Y6, Y2
	VFMADD231PD 96(DI), Y7, Y3
	ADDQ        $128, SI
	ADDQ        $128, DI
	SUBQ        $16, CX
	JNZ         dot16

	VADDPD       Y1, Y0, Y0
	VADDPD       Y3, Y2, Y2
	VADDPD       Y2, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPD       X1, X0, X0
	VHADDPD      X0, X0, X0
	VMOVSD       X0, ret+24(FP)
	VZEROUPPER
	RET
