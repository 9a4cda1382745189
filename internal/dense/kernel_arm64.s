//go:build gc && !noasm

#include "textflag.h"
#include "neon_arm64.h"

// The micro-kernels in NEON do the operations of those for AVX2 in their order, with two
// registers of two elements for each of theirs, so that they give the same bits. Arguments
// are those of kernel_amd64.s.
//
// In loop12 below 24 of the 35 instructions are multiply-adds of 4 flops, and 10 elements or
// pairs are loaded. On a core with 2 vector units that starts 4 instructions a cycle
// (Neoverse N1) a turn takes 24/2 = 12 cycles for the units, 35/4 = 9 to start and 10/2 = 5 to
// load: 8 flops a cycle, all that the units can do. With 4 units and 8 instructions a cycle
// (Neoverse V1, Apple M1) it is 6, 5 and 4: 16 flops a cycle. That is counted and not measured.

// func gemm4x12(k int, a *float64, ars, acs int, b *float64, brs int, c *float64, ldc int, alpha, beta float64)
//
// V0-V23 hold the tile, row r in V(6r) to V(6r+5), V24-V29 a row of b, V30 and V31 entries of
// a. R0 remaining p, R1 a, R2, R8, R9 bytes from row 0 to rows 1, 2, 3 of a, R3 bytes from p to
// p+1 of it, R4 and R5 the same of b, R6 c, R7 bytes from row to row of it.

// α·row, and with β ≠ 0 fma(α, row, β·C). V30 = α, V31 = β.
#define UPDATE12(c)          \
	FLDPQ (R6), (F24, F25);   \
	FLDPQ 32(R6), (F26, F27); \
	FLDPQ 64(R6), (F28, F29); \
	FMULE(24, 24, 31, 0);     \
	FMULE(25, 25, 31, 0);     \
	FMULE(26, 26, 31, 0);     \
	FMULE(27, 27, 31, 0);     \
	FMULE(28, 28, 31, 0);     \
	FMULE(29, 29, 31, 0);     \
	FMLAE(24, c, 30, 0);      \
	FMLAE(25, (c+1), 30, 0);  \
	FMLAE(26, (c+2), 30, 0);  \
	FMLAE(27, (c+3), 30, 0);  \
	FMLAE(28, (c+4), 30, 0);  \
	FMLAE(29, (c+5), 30, 0);  \
	STORE12

#define ASSIGN12(c)          \
	FMULE(24, c, 30, 0);     \
	FMULE(25, (c+1), 30, 0); \
	FMULE(26, (c+2), 30, 0); \
	FMULE(27, (c+3), 30, 0); \
	FMULE(28, (c+4), 30, 0); \
	FMULE(29, (c+5), 30, 0); \
	STORE12

#define STORE12               \
	FSTPQ (F24, F25), (R6);   \
	FSTPQ (F26, F27), 32(R6); \
	FSTPQ (F28, F29), 64(R6); \
	ADD   R7, R6

#define TOUCH12               \
	PRFM (R10), PSTL1KEEP;    \
	PRFM 64(R10), PSTL1KEEP;  \
	ADD  R7, R10

TEXT ·gemm4x12(SB), NOSPLIT, $0-80
	MOVD k+0(FP), R0
	MOVD a+8(FP), R1
	MOVD ars+16(FP), R2
	MOVD acs+24(FP), R3
	MOVD b+32(FP), R4
	MOVD brs+40(FP), R5
	MOVD c+48(FP), R6
	MOVD ldc+56(FP), R7
	LSL  $3, R2
	LSL  $3, R3
	LSL  $3, R5
	LSL  $3, R7
	ADD  R2, R2, R8
	ADD  R2, R8, R9

	MOVD R6, R10
	TOUCH12
	TOUCH12
	TOUCH12
	TOUCH12
	ZERO24
	CBZ R0, done12

loop12:
	FLDPQ (R4), (F24, F25)
	FLDPQ 32(R4), (F26, F27)
	FLDPQ 64(R4), (F28, F29)
	FMOVD (R1), F30
	FMOVD (R1)(R2), F31
	ROW12(0, 30, 0)
	ROW12(6, 31, 0)
	FMOVD (R1)(R8), F30
	FMOVD (R1)(R9), F31
	ROW12(12, 30, 0)
	ROW12(18, 31, 0)
	ADD   R3, R1
	ADD   R5, R4
	SUBS  $1, R0
	BNE   loop12

done12:
	FMOVD alpha+64(FP), F30
	FMOVD beta+72(FP), F31
	FCMPD $(0.0), F31
	BNE   update12
	ASSIGN12(0)
	ASSIGN12(6)
	ASSIGN12(12)
	ASSIGN12(18)
	RET

update12:
	UPDATE12(0)
	UPDATE12(6)
	UPDATE12(12)
	UPDATE12(18)
	RET

// func trsm4x12(t, x *float64, ldx int)
//
// Registers as in gemm4x12: row r of X in V(6r) to V(6r+5). R0 t, R1 and R3 rows of x, R2 bytes
// from row to row. Element (r, j) of T is at t[4j + r].

#define LOADROW(a, b, c, d, e, f) \
	FLDPQ (R3), (a, b);   \
	FLDPQ 32(R3), (c, d); \
	FLDPQ 64(R3), (e, f); \
	ADD   R2, R3

// Row j, registers x to x+5, times the reciprocal of the diagonal.
#define SOLVE12(j, x)         \
	FMOVD (40*j)(R0), F24;    \
	FMULE(x, x, 24, 0);       \
	FMULE((x+1), (x+1), 24, 0); \
	FMULE((x+2), (x+2), 24, 0); \
	FMULE((x+3), (x+3), 24, 0); \
	FMULE((x+4), (x+4), 24, 0); \
	FMULE((x+5), (x+5), 24, 0)

#define STOREROW(a, b, c, d, e, f) \
	FSTPQ (a, b), (R1);   \
	FSTPQ (c, d), 32(R1); \
	FSTPQ (e, f), 64(R1); \
	ADD   R2, R1

// Row r, registers y to y+5, less T(r, j) times row j.
#define ELIM12(r, j, x, y)    \
	FMOVD (32*j+8*r)(R0), F25; \
	FMLSE(y, x, 25, 0);       \
	FMLSE((y+1), (x+1), 25, 0); \
	FMLSE((y+2), (x+2), 25, 0); \
	FMLSE((y+3), (x+3), 25, 0); \
	FMLSE((y+4), (x+4), 25, 0); \
	FMLSE((y+5), (x+5), 25, 0)

TEXT ·trsm4x12(SB), NOSPLIT, $0-24
	MOVD t+0(FP), R0
	MOVD x+8(FP), R1
	MOVD ldx+16(FP), R2
	LSL  $3, R2
	MOVD R1, R3
	LOADROW(F0, F1, F2, F3, F4, F5)
	LOADROW(F6, F7, F8, F9, F10, F11)
	LOADROW(F12, F13, F14, F15, F16, F17)
	LOADROW(F18, F19, F20, F21, F22, F23)
	SOLVE12(0, 0)
	STOREROW(F0, F1, F2, F3, F4, F5)
	ELIM12(1, 0, 0, 6)
	ELIM12(2, 0, 0, 12)
	ELIM12(3, 0, 0, 18)
	SOLVE12(1, 6)
	STOREROW(F6, F7, F8, F9, F10, F11)
	ELIM12(2, 1, 6, 12)
	ELIM12(3, 1, 6, 18)
	SOLVE12(2, 12)
	STOREROW(F12, F13, F14, F15, F16, F17)
	ELIM12(3, 2, 12, 18)
	SOLVE12(3, 18)
	STOREROW(F18, F19, F20, F21, F22, F23)
	RET

// func interleave4x4(dst *float64, step int, a, b, c, d *float64, n int)
//
// Writes (a[q], b[q], c[q], d[q]) to q·step elements after dst for the n numbers q from 0, n a
// multiple of 4, two q a turn.
TEXT ·interleave4x4(SB), NOSPLIT, $0-56
	MOVD dst+0(FP), R0
	MOVD step+8(FP), R1
	MOVD a+16(FP), R2
	MOVD b+24(FP), R3
	MOVD c+32(FP), R4
	MOVD d+40(FP), R5
	MOVD n+48(FP), R6
	LSL  $3, R1

turn2:
	FMOVQ.P 16(R2), F0
	FMOVQ.P 16(R3), F1
	FMOVQ.P 16(R4), F2
	FMOVQ.P 16(R5), F3
	VZIP1   V1.D2, V0.D2, V4.D2
	VZIP1   V3.D2, V2.D2, V5.D2
	VZIP2   V1.D2, V0.D2, V6.D2
	VZIP2   V3.D2, V2.D2, V7.D2
	FSTPQ   (F4, F5), (R0)
	ADD     R1, R0
	FSTPQ   (F6, F7), (R0)
	ADD     R1, R0
	SUBS    $2, R6
	BNE     turn2
	RET
