//go:build gc && !noasm

#include "textflag.h"

// The kernels copy a row in vectors of 8 or 4, the last of them with a mask, so that
// nothing is read or written beyond the row. With a step of 2 they read two vectors and
// keep every other element.
//
// Register use: DI dst, SI src, R8 and R9 bytes from row to row of them, CX remaining
// rows, DX columns, and within a row R10, R11 and BX for DI, SI and the remaining
// columns.

#define ARGUMENTS          \
	MOVQ dst+0(FP), DI; \
	MOVQ ldd+8(FP), R8; \
	SHLQ $3, R8;        \
	MOVQ src+16(FP), SI; \
	MOVQ lds+24(FP), R9; \
	SHLQ $3, R9;        \
	MOVQ rows+32(FP), CX; \
	MOVQ cols+40(FP), DX

#define ROW      \
	MOVQ DI, R10; \
	MOVQ SI, R11; \
	MOVQ DX, BX

#define NEXTROW  \
	ADDQ R8, DI; \
	ADDQ R9, SI; \
	DECQ CX

// func copyRowsAVX512(dst *float64, ldd int, src *float64, lds, rows, cols int)
//
// K1 is the mask of the last vector of a row.
TEXT ·copyRowsAVX512(SB), NOSPLIT, $0-48
	ARGUMENTS
	MOVQ  DX, AX
	DECQ  AX
	ANDQ  $7, AX
	INCQ  AX         // elements of the last vector
	MOVQ  CX, R12
	MOVQ  AX, CX
	MOVQ  $1, AX
	SHLQ  CX, AX
	DECQ  AX
	KMOVW AX, K1
	MOVQ  R12, CX

row1:
	ROW

vector1:
	CMPQ    BX, $8
	JLE     last1
	VMOVUPD (R11), Z0
	VMOVUPD Z0, (R10)
	ADDQ    $64, R11
	ADDQ    $64, R10
	SUBQ    $8, BX
	JMP     vector1

last1:
	VMOVUPD.Z (R11), K1, Z0
	VMOVUPD   Z0, K1, (R10)
	NEXTROW
	JNZ       row1
	VZEROUPPER
	RET

DATA evens<>+0(SB)/8, $0
DATA evens<>+8(SB)/8, $2
DATA evens<>+16(SB)/8, $4
DATA evens<>+24(SB)/8, $6
DATA evens<>+32(SB)/8, $8
DATA evens<>+40(SB)/8, $10
DATA evens<>+48(SB)/8, $12
DATA evens<>+56(SB)/8, $14
GLOBL evens<>(SB), RODATA|NOPTR, $64

// func copyRows2AVX512(dst *float64, ldd int, src *float64, lds, rows, cols int)
//
// Of the last n elements of a row, K1 masks the store, and K2 and K3 the two loads of
// 2n−1 elements. K4 masks the second load of the vectors before.
TEXT ·copyRows2AVX512(SB), NOSPLIT, $0-48
	ARGUMENTS
	VMOVDQU64 evens<>(SB), Z2
	MOVQ      DX, AX
	DECQ      AX
	ANDQ      $7, AX
	INCQ      AX
	MOVQ      CX, R12
	MOVQ      AX, CX
	MOVQ      $1, AX
	SHLQ      CX, AX
	DECQ      AX
	KMOVW     AX, K1
	LEAQ      -1(CX)(CX*1), CX
	MOVQ      $1, AX
	SHLQ      CX, AX
	DECQ      AX
	MOVQ      AX, R13
	ANDQ      $255, R13
	KMOVW     R13, K2
	SHRQ      $8, AX
	KMOVW     AX, K3
	MOVQ      $127, AX
	KMOVW     AX, K4
	MOVQ      R12, CX

row2:
	ROW

vector2:
	CMPQ      BX, $8
	JLE       last2
	VMOVUPD   (R11), Z0
	VMOVUPD.Z 64(R11), K4, Z1
	VPERMT2PD Z1, Z2, Z0
	VMOVUPD   Z0, (R10)
	ADDQ      $128, R11
	ADDQ      $64, R10
	SUBQ      $8, BX
	JMP       vector2

last2:
	VMOVUPD.Z (R11), K2, Z0
	VMOVUPD.Z 64(R11), K3, Z1
	VPERMT2PD Z1, Z2, Z0
	VMOVUPD   Z0, K1, (R10)
	NEXTROW
	JNZ       row2
	VZEROUPPER
	RET

// Four numbers from ones<>+8·(4−n) on have n of them set.
DATA ones<>+0(SB)/8, $-1
DATA ones<>+8(SB)/8, $-1
DATA ones<>+16(SB)/8, $-1
DATA ones<>+24(SB)/8, $-1
DATA ones<>+32(SB)/8, $0
DATA ones<>+40(SB)/8, $0
DATA ones<>+48(SB)/8, $0
DATA ones<>+56(SB)/8, $0
GLOBL ones<>(SB), RODATA|NOPTR, $64

// func copyRowsAVX2(dst *float64, ldd int, src *float64, lds, rows, cols int)
//
// Y1 is the mask of the last vector of a row.
TEXT ·copyRowsAVX2(SB), NOSPLIT, $0-48
	ARGUMENTS
	MOVQ    DX, AX
	DECQ    AX
	ANDQ    $3, AX
	NEGQ    AX
	LEAQ    ones<>+24(SB), R13
	VMOVDQU (R13)(AX*8), Y1

row3:
	ROW

vector3:
	CMPQ    BX, $4
	JLE     last3
	VMOVUPD (R11), Y0
	VMOVUPD Y0, (R10)
	ADDQ    $32, R11
	ADDQ    $32, R10
	SUBQ    $4, BX
	JMP     vector3

last3:
	VMASKMOVPD (R11), Y1, Y0
	VMASKMOVPD Y0, Y1, (R10)
	NEXTROW
	JNZ        row3
	VZEROUPPER
	RET

// func copyRows2AVX2(dst *float64, ldd int, src *float64, lds, rows, cols int)
//
// Of the last n elements of a row, Y3 masks the store, and Y4 and Y5 the two loads of
// 2n−1 elements. Y6 masks the second load of the vectors before.
TEXT ·copyRows2AVX2(SB), NOSPLIT, $0-48
	ARGUMENTS
	MOVQ    DX, AX
	DECQ    AX
	ANDQ    $3, AX         // n − 1
	LEAQ    ones<>+24(SB), R13
	VMOVDQU -16(R13), Y6
	MOVQ    AX, R12
	NEGQ    R12
	VMOVDQU (R13)(R12*8), Y3
	ADDQ    AX, AX
	INCQ    AX             // 2n − 1
	MOVQ    $4, R12
	CMPQ    AX, R12
	CMOVQLT AX, R12        // of the first load
	SUBQ    R12, AX        // of the second load
	NEGQ    R12
	VMOVDQU 8(R13)(R12*8), Y4
	NEGQ    AX
	VMOVDQU 8(R13)(AX*8), Y5

row4:
	ROW

vector4:
	CMPQ       BX, $4
	JLE        last4
	VMOVUPD    (R11), Y0
	VMASKMOVPD 32(R11), Y6, Y1
	VUNPCKLPD  Y1, Y0, Y0
	VPERMPD    $0xd8, Y0, Y0
	VMOVUPD    Y0, (R10)
	ADDQ       $64, R11
	ADDQ       $32, R10
	SUBQ       $4, BX
	JMP        vector4

last4:
	VMASKMOVPD (R11), Y4, Y0
	VMASKMOVPD 32(R11), Y5, Y1
	VUNPCKLPD  Y1, Y0, Y0
	VPERMPD    $0xd8, Y0, Y0
	VMASKMOVPD Y0, Y3, (R10)
	NEXTROW
	JNZ        row4
	VZEROUPPER
	RET
