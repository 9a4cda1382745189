//go:build gc && !noasm

#include "textflag.h"

// Both kernels take, for each of n points, the products π of 32 elements from c places of
// the table cdf, and add π times the elements of two other tables from each place to 8
// sums each. The sums have the same order in both, so that they give the same bits.
//
// DI sums, SI squares, R8 cdf, R9 first, R10 second, R11 places, R12 c, R13 points left.

// func addLargestAVX512(sums, squares, cdf, first, second *float64, at *int, c, n int)
TEXT ·addLargestAVX512(SB), NOSPLIT, $0-64
	MOVQ sums+0(FP), DI
	MOVQ squares+8(FP), SI
	MOVQ cdf+16(FP), R8
	MOVQ first+24(FP), R9
	MOVQ second+32(FP), R10
	MOVQ at+40(FP), R11
	MOVQ c+48(FP), R12
	MOVQ n+56(FP), R13

point512:
	MOVQ    (R11), AX
	VMOVUPD (R8)(AX*8), Z0
	VMOVUPD 64(R8)(AX*8), Z1
	VMOVUPD 128(R8)(AX*8), Z2
	VMOVUPD 192(R8)(AX*8), Z3
	MOVQ    $1, CX
	JMP     more512

product512:
	MOVQ   (R11)(CX*8), AX
	VMULPD (R8)(AX*8), Z0, Z0
	VMULPD 64(R8)(AX*8), Z1, Z1
	VMULPD 128(R8)(AX*8), Z2, Z2
	VMULPD 192(R8)(AX*8), Z3, Z3
	INCQ   CX

more512:
	CMPQ CX, R12
	JLT  product512
	XORQ CX, CX
	MOVQ DI, DX
	MOVQ SI, BX

sum512:
	MOVQ        (R11)(CX*8), AX
	VMOVUPD     (DX), Z4
	VMOVUPD     (BX), Z5
	VFMADD231PD (R9)(AX*8), Z0, Z4
	VFMADD231PD (R10)(AX*8), Z0, Z5
	VFMADD231PD 64(R9)(AX*8), Z1, Z4
	VFMADD231PD 64(R10)(AX*8), Z1, Z5
	VFMADD231PD 128(R9)(AX*8), Z2, Z4
	VFMADD231PD 128(R10)(AX*8), Z2, Z5
	VFMADD231PD 192(R9)(AX*8), Z3, Z4
	VFMADD231PD 192(R10)(AX*8), Z3, Z5
	VMOVUPD     Z4, (DX)
	VMOVUPD     Z5, (BX)
	ADDQ        $64, DX
	ADDQ        $64, BX
	INCQ        CX
	CMPQ        CX, R12
	JLT         sum512
	LEAQ        (R11)(R12*8), R11
	DECQ        R13
	JNZ         point512
	VZEROUPPER
	RET

// func addLargestAVX2(sums, squares, cdf, first, second *float64, at *int, c, n int)
TEXT ·addLargestAVX2(SB), NOSPLIT, $0-64
	MOVQ sums+0(FP), DI
	MOVQ squares+8(FP), SI
	MOVQ cdf+16(FP), R8
	MOVQ first+24(FP), R9
	MOVQ second+32(FP), R10
	MOVQ at+40(FP), R11
	MOVQ c+48(FP), R12
	MOVQ n+56(FP), R13

point256:
	MOVQ    (R11), AX
	VMOVUPD (R8)(AX*8), Y0
	VMOVUPD 32(R8)(AX*8), Y1
	VMOVUPD 64(R8)(AX*8), Y2
	VMOVUPD 96(R8)(AX*8), Y3
	VMOVUPD 128(R8)(AX*8), Y4
	VMOVUPD 160(R8)(AX*8), Y5
	VMOVUPD 192(R8)(AX*8), Y6
	VMOVUPD 224(R8)(AX*8), Y7
	MOVQ    $1, CX
	JMP     more256

product256:
	MOVQ   (R11)(CX*8), AX
	VMULPD (R8)(AX*8), Y0, Y0
	VMULPD 32(R8)(AX*8), Y1, Y1
	VMULPD 64(R8)(AX*8), Y2, Y2
	VMULPD 96(R8)(AX*8), Y3, Y3
	VMULPD 128(R8)(AX*8), Y4, Y4
	VMULPD 160(R8)(AX*8), Y5, Y5
	VMULPD 192(R8)(AX*8), Y6, Y6
	VMULPD 224(R8)(AX*8), Y7, Y7
	INCQ   CX

more256:
	CMPQ CX, R12
	JLT  product256
	XORQ CX, CX
	MOVQ DI, DX
	MOVQ SI, BX

sum256:
	MOVQ        (R11)(CX*8), AX
	VMOVUPD     (DX), Y8
	VMOVUPD     32(DX), Y9
	VMOVUPD     (BX), Y10
	VMOVUPD     32(BX), Y11
	VFMADD231PD (R9)(AX*8), Y0, Y8
	VFMADD231PD 32(R9)(AX*8), Y1, Y9
	VFMADD231PD (R10)(AX*8), Y0, Y10
	VFMADD231PD 32(R10)(AX*8), Y1, Y11
	VFMADD231PD 64(R9)(AX*8), Y2, Y8
	VFMADD231PD 96(R9)(AX*8), Y3, Y9
	VFMADD231PD 64(R10)(AX*8), Y2, Y10
	VFMADD231PD 96(R10)(AX*8), Y3, Y11
	VFMADD231PD 128(R9)(AX*8), Y4, Y8
	VFMADD231PD 160(R9)(AX*8), Y5, Y9
	VFMADD231PD 128(R10)(AX*8), Y4, Y10
	VFMADD231PD 160(R10)(AX*8), Y5, Y11
	VFMADD231PD 192(R9)(AX*8), Y6, Y8
	VFMADD231PD 224(R9)(AX*8), Y7, Y9
	VFMADD231PD 192(R10)(AX*8), Y6, Y10
	VFMADD231PD 224(R10)(AX*8), Y7, Y11
	VMOVUPD     Y8, (DX)
	VMOVUPD     Y9, 32(DX)
	VMOVUPD     Y10, (BX)
	VMOVUPD     Y11, 32(BX)
	ADDQ        $64, DX
	ADDQ        $64, BX
	INCQ        CX
	CMPQ        CX, R12
	JLT         sum256
	LEAQ        (R11)(R12*8), R11
	DECQ        R13
	JNZ         point256
	VZEROUPPER
	RET
