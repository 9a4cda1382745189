//go:build gc && !noasm

#include "textflag.h"
#include "neon_arm64.h"

// Kernels of Shifts in NEON, which do the operations of those for AVX2 in their order: a
// vector is two registers of two elements. Displacements are in bytes. The loops have 24
// multiply-adds among 34 and 38 instructions, and reach what that of gemm4x12 does.

// func shiftMul(k int, a, src *float64, offset *int, from *[3]int, c *float64, ldc int, to *[3]int, bias *[4]float64, rows int)
//
// V(6r) to V(6r+5) hold row r of the tile, V24-V29 the vectors of src, V30 and V31 four entries
// of a; R4, R5, R6 point to the vectors at offset 0, and to those of c in the end.

#define STOREVECTORS(a, b, c, d, e, f) \
	FSTPQ (a, b), (R4); \
	FSTPQ (c, d), (R5); \
	FSTPQ (e, f), (R6); \
	ADD   R7, R4;       \
	ADD   R7, R5;       \
	ADD   R7, R6;       \
	SUBS  $1, R8

#define BIAS(c)               \
	VLD1R.P 8(R3), [V24.D2];  \
	FADD(c, c, 24);           \
	FADD((c+1), (c+1), 24);   \
	FADD((c+2), (c+2), 24);   \
	FADD((c+3), (c+3), 24);   \
	FADD((c+4), (c+4), 24);   \
	FADD((c+5), (c+5), 24)

TEXT ·shiftMul(SB), NOSPLIT, $0-80
	MOVD k+0(FP), R0
	MOVD a+8(FP), R1
	MOVD src+16(FP), R2
	MOVD offset+24(FP), R3
	MOVD from+32(FP), R7
	LDP  (R7), (R4, R5)
	MOVD 16(R7), R6
	ADD  R2, R4
	ADD  R2, R5
	ADD  R2, R6
	ZERO24

shift:
	MOVD.P  8(R3), R8
	ADD     R8, R4, R9
	ADD     R8, R5, R10
	ADD     R8, R6, R11
	FLDPQ   (R9), (F24, F25)
	FLDPQ   (R10), (F26, F27)
	FLDPQ   (R11), (F28, F29)
	FLDPQ.P 32(R1), (F30, F31)
	ROW12(0, 30, 0)
	ROW12(6, 30, 1)
	ROW12(12, 31, 0)
	ROW12(18, 31, 1)
	SUBS    $1, R0
	BNE     shift

	MOVD c+40(FP), R2
	MOVD ldc+48(FP), R7
	LSL  $3, R7
	MOVD to+56(FP), R3
	LDP  (R3), (R4, R5)
	MOVD 16(R3), R6
	ADD  R2, R4
	ADD  R2, R5
	ADD  R2, R6
	MOVD bias+64(FP), R3
	MOVD rows+72(FP), R8
	BIAS(0)
	STOREVECTORS(F0, F1, F2, F3, F4, F5)
	BEQ  shifted
	BIAS(6)
	STOREVECTORS(F6, F7, F8, F9, F10, F11)
	BEQ  shifted
	BIAS(12)
	STOREVECTORS(F12, F13, F14, F15, F16, F17)
	BEQ  shifted
	BIAS(18)
	STOREVECTORS(F18, F19, F20, F21, F22, F23)

shifted:
	RET

// func shiftDots(n int, left *float64, rows *[3]int, src *float64, from *int, taps *[4]int, tile *[12]float64)
//
// V(6j+2r) and V(6j+2r+1) hold the products of row r of left and tap j, V24-V29 the vectors of
// left and V30, V31 that of src. R1, R2, R3 point to rows of left, R8-R11 to taps.

// Tap j, registers a to f.
#define DOTS(x, a, b, c, d, e, f) \
	ADD   R5, x, R6;               \
	FLDPQ (R6), (F30, F31);        \
	VFMLA V30.D2, V24.D2, a.D2;    \
	VFMLA V31.D2, V25.D2, b.D2;    \
	VFMLA V30.D2, V26.D2, c.D2;    \
	VFMLA V31.D2, V27.D2, d.D2;    \
	VFMLA V30.D2, V28.D2, e.D2;    \
	VFMLA V31.D2, V29.D2, f.D2

// The sums of the lanes of a row for four taps, in V24 and V25. c is its first register.
#define LANES(c)                   \
	FADDP(24, c, (c+1));           \
	FADDP(25, (c+6), (c+7));       \
	FADDP(26, (c+12), (c+13));     \
	FADDP(27, (c+18), (c+19));     \
	FADDP(24, 24, 25);             \
	FADDP(25, 26, 27);             \
	FSTPQ.P (F24, F25), 32(R7)

TEXT ·shiftDots(SB), NOSPLIT, $0-56
	MOVD n+0(FP), R0
	MOVD left+8(FP), R4
	MOVD rows+16(FP), R5
	LDP  (R5), (R1, R2)
	MOVD 16(R5), R3
	ADD  R4, R1
	ADD  R4, R2
	ADD  R4, R3
	MOVD src+24(FP), R6
	MOVD from+32(FP), R4
	MOVD taps+40(FP), R5
	LDP  (R5), (R8, R9)
	LDP  16(R5), (R10, R11)
	ADD  R6, R8
	ADD  R6, R9
	ADD  R6, R10
	ADD  R6, R11
	MOVD tile+48(FP), R7
	ZERO24

dots:
	MOVD.P  8(R4), R5
	FLDPQ.P 32(R1), (F24, F25)
	FLDPQ.P 32(R2), (F26, F27)
	FLDPQ.P 32(R3), (F28, F29)
	DOTS(R8, V0, V1, V2, V3, V4, V5)
	DOTS(R9, V6, V7, V8, V9, V10, V11)
	DOTS(R10, V12, V13, V14, V15, V16, V17)
	DOTS(R11, V18, V19, V20, V21, V22, V23)
	SUBS    $1, R0
	BNE     dots
	LANES(0)
	LANES(2)
	LANES(4)
	RET
