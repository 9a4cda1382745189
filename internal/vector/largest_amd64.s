//go:build gc && !noasm

#include "textflag.h"

// Both kernels take, for each of n points, the products π of 32 elements from c places of
// the table cdf, and add π times the elements of two other tables from each place to 8
// sums each. The sums have the same order in both, so that they give the same bits.
//
// DI sums, SI squares, R8 cdf, R9 first, R10 second, R11 places of a point, R12 c, R13
// points left, R15 distance of the places of a point. R14 goes through these, CX counts.

// func addLargestAVX512(sums, squares, cdf, first, second *float64, at *int, c, ld, n int)
TEXT ·addLargestAVX512(SB), NOSPLIT, $0-72
	MOVQ sums+0(FP), DI
	MOVQ squares+8(FP), SI
	MOVQ cdf+16(FP), R8
	MOVQ first+24(FP), R9
	MOVQ second+32(FP), R10
	MOVQ at+40(FP), R11
	MOVQ c+48(FP), R12
	MOVQ ld+56(FP), R15
	MOVQ n+64(FP), R13
	SHLQ $3, R15

point512:
	MOVQ    (R11), AX
	VMOVUPD (R8)(AX*8), Z0
	VMOVUPD 64(R8)(AX*8), Z1
	VMOVUPD 128(R8)(AX*8), Z2
	VMOVUPD 192(R8)(AX*8), Z3
	MOVQ    R11, R14
	MOVQ    R12, CX
	JMP     more512

product512:
	ADDQ   R15, R14
	MOVQ   (R14), AX
	VMULPD (R8)(AX*8), Z0, Z0
	VMULPD 64(R8)(AX*8), Z1, Z1
	VMULPD 128(R8)(AX*8), Z2, Z2
	VMULPD 192(R8)(AX*8), Z3, Z3

more512:
	DECQ CX
	JNZ  product512
	MOVQ R11, R14
	MOVQ R12, CX
	MOVQ DI, DX
	MOVQ SI, BX

sum512:
	MOVQ        (R14), AX
	ADDQ        R15, R14
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
	DECQ        CX
	JNZ         sum512
	ADDQ        $8, R11
	DECQ        R13
	JNZ         point512
	VZEROUPPER
	RET

// func addLargestAVX2(sums, squares, cdf, first, second *float64, at *int, c, ld, n int)
TEXT ·addLargestAVX2(SB), NOSPLIT, $0-72
	MOVQ sums+0(FP), DI
	MOVQ squares+8(FP), SI
	MOVQ cdf+16(FP), R8
	MOVQ first+24(FP), R9
	MOVQ second+32(FP), R10
	MOVQ at+40(FP), R11
	MOVQ c+48(FP), R12
	MOVQ ld+56(FP), R15
	MOVQ n+64(FP), R13
	SHLQ $3, R15

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
	MOVQ    R11, R14
	MOVQ    R12, CX
	JMP     more256

product256:
	ADDQ   R15, R14
	MOVQ   (R14), AX
	VMULPD (R8)(AX*8), Y0, Y0
	VMULPD 32(R8)(AX*8), Y1, Y1
	VMULPD 64(R8)(AX*8), Y2, Y2
	VMULPD 96(R8)(AX*8), Y3, Y3
	VMULPD 128(R8)(AX*8), Y4, Y4
	VMULPD 160(R8)(AX*8), Y5, Y5
	VMULPD 192(R8)(AX*8), Y6, Y6
	VMULPD 224(R8)(AX*8), Y7, Y7

more256:
	DECQ CX
	JNZ  product256
	MOVQ R11, R14
	MOVQ R12, CX
	MOVQ DI, DX
	MOVQ SI, BX

sum256:
	MOVQ        (R14), AX
	ADDQ        R15, R14
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
	DECQ        CX
	JNZ         sum256
	ADDQ        $8, R11
	DECQ        R13
	JNZ         point256
	VZEROUPPER
	RET

DATA half<>+0(SB)/8, $0x3fe0000000000000 // ½
GLOBL half<>(SB), RODATA|NOPTR, $8

// func largestPlacesAVX512(at *int, l *float64, scale, last float64, columns, c, ld, n int)
//
// DI places, SI values, R8 distance of the rows, R9 c, R13 points left. R14 goes through the
// rows, CX counts them.
TEXT ·largestPlacesAVX512(SB), NOSPLIT, $0-64
	MOVQ         at+0(FP), DI
	MOVQ         l+8(FP), SI
	VBROADCASTSD scale+16(FP), Z16
	VBROADCASTSD last+24(FP), Z17
	VBROADCASTSD half<>(SB), Z18
	VPBROADCASTD columns+32(FP), Y10
	VPCMPEQD     Y11, Y11, Y11
	VPSRLD       $26, Y11, Y11     // 63
	MOVQ         c+40(FP), R9
	MOVQ         ld+48(FP), R8
	MOVQ         n+56(FP), R13
	SHLQ         $3, R8

places512:
	VMOVUPD (SI), Z0
	MOVQ    SI, R14
	MOVQ    R9, CX

top512:
	VMAXPD (R14), Z0, Z0
	ADDQ   R8, R14
	DECQ   CX
	JNZ    top512
	XORQ   R14, R14
	MOVQ   R9, CX

place512:
	VSUBPD      (SI)(R14*1), Z0, Z1
	VFMADD213PD Z18, Z16, Z1
	VMINPD      Z17, Z1, Z1
	VCVTTPD2DQ  Z1, Y1
	VPAND       Y11, Y1, Y2
	VPSRLD      $6, Y1, Y1
	VPMULLD     Y10, Y2, Y2
	VPADDD      Y2, Y1, Y1
	VPMOVZXDQ   Y1, Z1
	VMOVDQU64   Z1, (DI)(R14*1)
	ADDQ        R8, R14
	DECQ        CX
	JNZ         place512
	ADDQ        $64, SI
	ADDQ        $64, DI
	SUBQ        $8, R13
	JNZ         places512
	VZEROUPPER
	RET

// func largestPlacesAVX2(at *int, l *float64, scale, last float64, columns, c, ld, n int)
TEXT ·largestPlacesAVX2(SB), NOSPLIT, $0-64
	MOVQ         at+0(FP), DI
	MOVQ         l+8(FP), SI
	VBROADCASTSD scale+16(FP), Y6
	VBROADCASTSD last+24(FP), Y7
	VBROADCASTSD half<>(SB), Y8
	VPBROADCASTD columns+32(FP), X10
	VPCMPEQD     X11, X11, X11
	VPSRLD       $26, X11, X11
	MOVQ         c+40(FP), R9
	MOVQ         ld+48(FP), R8
	MOVQ         n+56(FP), R13
	SHLQ         $3, R8

places256:
	VMOVUPD (SI), Y0
	MOVQ    SI, R14
	MOVQ    R9, CX

top256:
	VMAXPD (R14), Y0, Y0
	ADDQ   R8, R14
	DECQ   CX
	JNZ    top256
	XORQ   R14, R14
	MOVQ   R9, CX

place256:
	VSUBPD      (SI)(R14*1), Y0, Y1
	VFMADD213PD Y8, Y6, Y1
	VMINPD      Y7, Y1, Y1
	VCVTTPD2DQY Y1, X1
	VPAND       X11, X1, X2
	VPSRLD      $6, X1, X1
	VPMULLD     X10, X2, X2
	VPADDD      X2, X1, X1
	VPMOVZXDQ   X1, Y1
	VMOVDQU     Y1, (DI)(R14*1)
	ADDQ        R8, R14
	DECQ        CX
	JNZ         place256
	ADDQ        $32, SI
	ADDQ        $32, DI
	SUBQ        $4, R13
	JNZ         places256
	VZEROUPPER
	RET
