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
