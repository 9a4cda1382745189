//go:build gc && !noasm

#include "textflag.h"
#include "neon_arm64.h"

// func addLargest(sums, squares, cdf, first, second *float64, at *int, c, ld, n int)
//
// V0-V15 hold the products of a point, V16-V19 the sums of a class and V20-V23 its squares, in
// the order of the kernels for AVX2, so that they give the same bits. R0 sums, R1 squares, R2
// cdf, R3 first, R4 second, R5 places of a point, R6 c, R7 points left, R8 bytes from place to
// place. R9 goes through these, R10 counts, R11-R14 are addresses.

// Eight elements of a table at R11, in V24-V31 or V28-V31, and products with them.
#define LOAD8(a, b, c, d, e, f, g, h) \
	FLDPQ.P 32(R11), (a, b); \
	FLDPQ.P 32(R11), (c, d); \
	FLDPQ.P 32(R11), (e, f); \
	FLDPQ.P 32(R11), (g, h)

#define TIMES8(p)             \
	LOAD8(F24, F25, F26, F27, F28, F29, F30, F31); \
	FMUL(p, p, 24);           \
	FMUL((p+1), (p+1), 25);   \
	FMUL((p+2), (p+2), 26);   \
	FMUL((p+3), (p+3), 27);   \
	FMUL((p+4), (p+4), 28);   \
	FMUL((p+5), (p+5), 29);   \
	FMUL((p+6), (p+6), 30);   \
	FMUL((p+7), (p+7), 31)

// Adds products times elements at table to four registers.
#define SUM8(table, a, b, c, d, p, q, r, s) \
	FLDPQ.P 32(table), (F24, F25); \
	FLDPQ.P 32(table), (F26, F27); \
	VFMLA   p.D2, V24.D2, a.D2;    \
	VFMLA   q.D2, V25.D2, b.D2;    \
	VFMLA   r.D2, V26.D2, c.D2;    \
	VFMLA   s.D2, V27.D2, d.D2

#define SUMS8(p, q, r, s) \
	SUM8(R11, V16, V17, V18, V19, p, q, r, s); \
	SUM8(R12, V20, V21, V22, V23, p, q, r, s)

TEXT ·addLargest(SB), NOSPLIT, $0-72
	MOVD sums+0(FP), R0
	MOVD squares+8(FP), R1
	MOVD cdf+16(FP), R2
	MOVD first+24(FP), R3
	MOVD second+32(FP), R4
	MOVD at+40(FP), R5
	MOVD c+48(FP), R6
	MOVD ld+56(FP), R8
	MOVD n+64(FP), R7
	LSL  $3, R8

point:
	MOVD (R5), R11
	ADD  R11<<3, R2, R11
	LOAD8(F0, F1, F2, F3, F4, F5, F6, F7)
	LOAD8(F8, F9, F10, F11, F12, F13, F14, F15)
	MOVD R5, R9
	MOVD R6, R10
	B    more

product:
	ADD  R8, R9
	MOVD (R9), R11
	ADD  R11<<3, R2, R11
	TIMES8(0)
	TIMES8(8)

more:
	SUBS $1, R10
	BNE  product
	MOVD R5, R9
	MOVD R6, R10
	MOVD R0, R13
	MOVD R1, R14

sum:
	MOVD    (R9), R12
	ADD     R8, R9
	ADD     R12<<3, R3, R11
	ADD     R12<<3, R4, R12
	FLDPQ   (R13), (F16, F17)
	FLDPQ   32(R13), (F18, F19)
	FLDPQ   (R14), (F20, F21)
	FLDPQ   32(R14), (F22, F23)
	SUMS8(V0, V1, V2, V3)
	SUMS8(V4, V5, V6, V7)
	SUMS8(V8, V9, V10, V11)
	SUMS8(V12, V13, V14, V15)
	FSTPQ.P (F16, F17), 32(R13)
	FSTPQ.P (F18, F19), 32(R13)
	FSTPQ.P (F20, F21), 32(R14)
	FSTPQ.P (F22, F23), 32(R14)
	SUBS    $1, R10
	BNE     sum
	ADD     $8, R5
	SUBS    $1, R7
	BNE     point
	RET

// func largestPlaces(at *int, l *float64, scale, last float64, columns, c, ld, n int)
//
// Four points a turn. R0 places, R1 values, R2 bytes from row to row, R3 c, R4 points left. R5
// and R7 go through the rows, R6 counts them. V20 scale, V21 last, V22 ½, V23 columns and V24 63,
// the last two as integers of 32 bits.
TEXT ·largestPlaces(SB), NOSPLIT, $0-64
	MOVD  at+0(FP), R0
	MOVD  l+8(FP), R1
	FMOVD scale+16(FP), F20
	FMOVD last+24(FP), F21
	FMOVD $0.5, F22
	MOVD  columns+32(FP), R5
	MOVD  $63, R6
	VDUP  V20.D[0], V20.D2
	VDUP  V21.D[0], V21.D2
	VDUP  V22.D[0], V22.D2
	VDUP  R5, V23.S4
	VDUP  R6, V24.S4
	MOVD  c+40(FP), R3
	MOVD  ld+48(FP), R2
	MOVD  n+56(FP), R4
	LSL   $3, R2

places:
	FLDPQ (R1), (F0, F1)
	MOVD  R1, R5
	MOVD  R3, R6

top:
	FLDPQ (R5), (F2, F3)
	FMAX(0, 0, 2)
	FMAX(1, 1, 3)
	ADD   R2, R5
	SUBS  $1, R6
	BNE   top
	MOVD  R1, R5
	MOVD  R0, R7
	MOVD  R3, R6

place:
	FLDPQ  (R5), (F2, F3)
	FSUB(2, 0, 2)
	FSUB(3, 1, 3)
	VORR   V22.B16, V22.B16, V4.B16
	VORR   V22.B16, V22.B16, V5.B16
	VFMLA  V20.D2, V2.D2, V4.D2
	VFMLA  V20.D2, V3.D2, V5.D2
	FMIN(4, 4, 21)
	FMIN(5, 5, 21)
	FCVTZS(4, 4)
	FCVTZS(5, 5)
	VUZP1  V5.S4, V4.S4, V4.S4
	VAND   V24.B16, V4.B16, V5.B16
	VUSHR  $6, V4.S4, V4.S4
	MLAS(4, 5, 23)
	VUXTL  V4.S2, V6.D2
	VUXTL2 V4.S4, V7.D2
	FSTPQ  (F6, F7), (R7)
	ADD    R2, R5
	ADD    R2, R7
	SUBS   $1, R6
	BNE    place
	ADD    $32, R0
	ADD    $32, R1
	SUBS   $4, R4
	BNE    places
	RET
