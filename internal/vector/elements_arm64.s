//go:build gc && !noasm

#include "textflag.h"
#include "neon_arm64.h"

// Four elements a turn, and where they are added up sixteen, in the order of the kernels for
// AVX2, so that they give the same bits.

// func relu(dst, x *float64, n int)
TEXT ·relu(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD x+8(FP), R1
	MOVD n+16(FP), R2
	VEOR V31.B16, V31.B16, V31.B16

relu4:
	FLDPQ.P 32(R1), (F0, F1)
	FMAX(0, 0, 31)
	FMAX(1, 1, 31)
	FSTPQ.P (F0, F1), 32(R0)
	SUBS    $4, R2
	BNE     relu4
	RET

// func wherePositive(dst, grad, y *float64, n int)
TEXT ·wherePositive(SB), NOSPLIT, $0-32
	MOVD dst+0(FP), R0
	MOVD grad+8(FP), R1
	MOVD y+16(FP), R2
	MOVD n+24(FP), R3

where4:
	FLDPQ.P 32(R1), (F0, F1)
	FLDPQ.P 32(R2), (F2, F3)
	FCMLEZ(2, 2)
	FCMLEZ(3, 3)
	BIC(0, 0, 2)
	BIC(1, 1, 3)
	FSTPQ.P (F0, F1), 32(R0)
	SUBS    $4, R3
	BNE     where4
	RET

// func maxPairs(dst, a, b *float64, n int)
TEXT ·maxPairs(SB), NOSPLIT, $0-32
	MOVD dst+0(FP), R0
	MOVD a+8(FP), R1
	MOVD b+16(FP), R2
	MOVD n+24(FP), R3

max2:
	FLDPQ.P 32(R1), (F0, F1)
	FLDPQ.P 32(R2), (F2, F3)
	FMAX(0, 0, 2)
	FMAX(1, 1, 3)
	FMAXP(0, 0, 1)
	FMOVQ.P F0, 16(R0)
	SUBS    $2, R3
	BNE     max2
	RET

// func spreadPairs(da, db, grad, top, a, b *float64, n int)
//
// Two squares a turn: V0 and V1 are the even and the odd elements of a, V2 and V3 those of b,
// then where they are the top, and V7 where one before is.
TEXT ·spreadPairs(SB), NOSPLIT, $0-56
	MOVD da+0(FP), R0
	MOVD db+8(FP), R1
	MOVD grad+16(FP), R2
	MOVD top+24(FP), R3
	MOVD a+32(FP), R4
	MOVD b+40(FP), R5
	MOVD n+48(FP), R6

spread2:
	VLD2.P  32(R4), [V0.D2, V1.D2]
	VLD2.P  32(R5), [V2.D2, V3.D2]
	FMOVQ.P 16(R2), F4
	FMOVQ.P 16(R3), F5
	FCMEQ(0, 0, 5)
	FCMEQ(1, 1, 5)
	FCMEQ(2, 2, 5)
	FCMEQ(3, 3, 5)
	BIC(1, 1, 0)
	VORR    V0.B16, V1.B16, V7.B16
	BIC(2, 2, 7)
	VORR    V2.B16, V7.B16, V7.B16
	BIC(3, 3, 7)
	VAND    V4.B16, V0.B16, V0.B16
	VAND    V4.B16, V1.B16, V1.B16
	VAND    V4.B16, V2.B16, V2.B16
	VAND    V4.B16, V3.B16, V3.B16
	VST2.P  [V0.D2, V1.D2], 32(R0)
	VST2.P  [V2.D2, V3.D2], 32(R1)
	SUBS    $2, R6
	BNE     spread2
	RET

// Rows of R5 elements, R4 of them: R0 dst, R2 src, R1 and R3 bytes from row to row of them,
// and within a row R6, R7 and R8 for R0, R2 and the remaining elements.
#define NEXTROW         \
	ADD  R1, R0;    \
	ADD  R3, R2;    \
	SUBS $1, R4

#define ROW             \
	MOVD R0, R6;    \
	MOVD R2, R7;    \
	MOVD R5, R8

// func addRows(dst *float64, ldd int, src *float64, lds, rows, cols int)
TEXT ·addRows(SB), NOSPLIT, $0-48
	MOVD dst+0(FP), R0
	MOVD ldd+8(FP), R1
	MOVD src+16(FP), R2
	MOVD lds+24(FP), R3
	MOVD rows+32(FP), R4
	MOVD cols+40(FP), R5
	LSL  $3, R1
	LSL  $3, R3

addrow:
	ROW

add4:
	SUBS    $4, R8
	BLT     addrest
	FLDPQ.P 32(R7), (F0, F1)
	FLDPQ   (R6), (F2, F3)
	FADD(0, 0, 2)
	FADD(1, 1, 3)
	FSTPQ.P (F0, F1), 32(R6)
	B       add4

addrest:
	ADDS $4, R8
	BEQ  added

add1:
	FMOVD.P 8(R7), F0
	FMOVD   (R6), F1
	FADDD   F1, F0
	FMOVD.P F0, 8(R6)
	SUBS    $1, R8
	BNE     add1

added:
	NEXTROW
	BNE addrow
	RET

// func copyRows(dst *float64, ldd int, src *float64, lds, step, rows, cols int)
//
// step is 1 or 2.
TEXT ·copyRows(SB), NOSPLIT, $0-56
	MOVD dst+0(FP), R0
	MOVD ldd+8(FP), R1
	MOVD src+16(FP), R2
	MOVD lds+24(FP), R3
	MOVD step+32(FP), R9
	MOVD rows+40(FP), R4
	MOVD cols+48(FP), R5
	LSL  $3, R1
	LSL  $3, R3
	CMP  $2, R9
	BEQ  everyother

copyrow:
	ROW

copy4:
	SUBS    $4, R8
	BLT     copyrest
	FLDPQ.P 32(R7), (F0, F1)
	FSTPQ.P (F0, F1), 32(R6)
	B       copy4

copyrest:
	ADDS $4, R8
	BEQ  copied

copy1:
	FMOVD.P 8(R7), F0
	FMOVD.P F0, 8(R6)
	SUBS    $1, R8
	BNE     copy1

copied:
	NEXTROW
	BNE copyrow
	RET

everyother:
	ROW

	// The last element is left to other1, for nothing after it is read.
other2:
	SUBS    $3, R8
	BLT     otherrest
	ADD     $1, R8
	VLD2.P  32(R7), [V0.D2, V1.D2]
	FMOVQ.P F0, 16(R6)
	B       other2

otherrest:
	ADD $3, R8

other1:
	FMOVD.P 16(R7), F0
	FMOVD.P F0, 8(R6)
	SUBS    $1, R8
	BNE     other1
	NEXTROW
	BNE everyother
	RET

// func axpy(dst *float64, alpha float64, x *float64, n int)
TEXT ·axpy(SB), NOSPLIT, $0-32
	MOVD  dst+0(FP), R0
	FMOVD alpha+8(FP), F31
	MOVD  x+16(FP), R1
	MOVD  n+24(FP), R2
	VDUP  V31.D[0], V31.D2
	SUBS  $8, R2
	BLT   axpyrest

axpy8:
	FLDPQ.P 32(R1), (F0, F1)
	FLDPQ.P 32(R1), (F2, F3)
	FLDPQ   (R0), (F4, F5)
	FLDPQ   32(R0), (F6, F7)
	FMUL(0, 0, 31)
	FMUL(1, 1, 31)
	FMUL(2, 2, 31)
	FMUL(3, 3, 31)
	FADD(0, 0, 4)
	FADD(1, 1, 5)
	FADD(2, 2, 6)
	FADD(3, 3, 7)
	FSTPQ.P (F0, F1), 32(R0)
	FSTPQ.P (F2, F3), 32(R0)
	SUBS    $8, R2
	BGE     axpy8

axpyrest:
	ADDS $8, R2
	BEQ  axpydone

axpy1:
	FMOVD.P 8(R1), F0
	FMOVD   (R0), F1
	FMULD   F31, F0
	FADDD   F1, F0
	FMOVD.P F0, 8(R0)
	SUBS    $1, R2
	BNE     axpy1

axpydone:
	RET

// The sum of the sixteen elements of eight registers, in the first.
#define FOLD(a, b, c, d, e, f, g, h) \
	FADD(a, a, c); \
	FADD(b, b, d); \
	FADD(e, e, g); \
	FADD(f, f, h); \
	FADD(a, a, e); \
	FADD(b, b, f); \
	FADD(a, a, b); \
	FADDPS(a, a)

// func dot(x, y *float64, n int) float64
//
// n is a multiple of 16. Sixteen sums, element by element in V0-V7, are added up pairwise.
TEXT ·dot(SB), NOSPLIT, $0-32
	MOVD x+0(FP), R0
	MOVD y+8(FP), R1
	MOVD n+16(FP), R2
	ZERO4(V0, V1, V2, V3)
	ZERO4(V4, V5, V6, V7)

dot16:
	FLDPQ.P 32(R0), (F16, F17)
	FLDPQ.P 32(R0), (F18, F19)
	FLDPQ.P 32(R0), (F20, F21)
	FLDPQ.P 32(R0), (F22, F23)
	FLDPQ.P 32(R1), (F24, F25)
	FLDPQ.P 32(R1), (F26, F27)
	FLDPQ.P 32(R1), (F28, F29)
	FLDPQ.P 32(R1), (F30, F31)
	VFMLA   V16.D2, V24.D2, V0.D2
	VFMLA   V17.D2, V25.D2, V1.D2
	VFMLA   V18.D2, V26.D2, V2.D2
	VFMLA   V19.D2, V27.D2, V3.D2
	VFMLA   V20.D2, V28.D2, V4.D2
	VFMLA   V21.D2, V29.D2, V5.D2
	VFMLA   V22.D2, V30.D2, V6.D2
	VFMLA   V23.D2, V31.D2, V7.D2
	SUBS    $16, R2
	BNE     dot16
	FOLD(0, 1, 2, 3, 4, 5, 6, 7)
	FMOVD   F0, ret+24(FP)
	RET

// Four elements of deviations, registers a and b of the sums, c and d of the squares.
#define DEVIATE(a, b, c, d)          \
	FLDPQ   (R0), (F24, F25);        \
	FLDPQ.P 32(R1), (F26, F27);      \
	VORR    V31.B16, V31.B16, V28.B16; \
	VORR    V31.B16, V31.B16, V29.B16; \
	VFMLA   V24.D2, V26.D2, V28.D2;  \
	VFMLA   V25.D2, V27.D2, V29.D2;  \
	FSTPQ.P (F28, F29), 32(R0);      \
	FADD(a, a, 28);                  \
	FADD(b, b, 29);                  \
	VFMLA   V28.D2, V28.D2, c.D2;    \
	VFMLA   V29.D2, V29.D2, d.D2

// func deviations(x, y *float64, n int, base float64) (sum, square float64)
//
// V0-V7 hold the sums, V8-V15 those of the squares, V31 −base.
TEXT ·deviations(SB), NOSPLIT, $0-48
	MOVD  x+0(FP), R0
	MOVD  y+8(FP), R1
	MOVD  n+16(FP), R2
	FMOVD base+24(FP), F31
	FNEGD F31, F31
	VDUP  V31.D[0], V31.D2
	ZERO4(V0, V1, V2, V3)
	ZERO4(V4, V5, V6, V7)
	ZERO4(V8, V9, V10, V11)
	ZERO4(V12, V13, V14, V15)

deviations16:
	DEVIATE(0, 1, V8, V9)
	DEVIATE(2, 3, V10, V11)
	DEVIATE(4, 5, V12, V13)
	DEVIATE(6, 7, V14, V15)
	SUBS  $16, R2
	BNE   deviations16
	FOLD(0, 1, 2, 3, 4, 5, 6, 7)
	FOLD(8, 9, 10, 11, 12, 13, 14, 15)
	FMOVD F0, sum+32(FP)
	FMOVD F8, square+40(FP)
	RET
