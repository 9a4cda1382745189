//go:build gc && !noasm

#include "textflag.h"
#include "neon_arm64.h"

// The exponential and the hyperbolic tangent in NEON do the operations of the kernels for
// AVX2 in their order, so that they give the same bits; the formulas are said there. Eight
// elements a turn hide the latency of the polynomials.
//
// V0-V3 hold the argument and then r, V4-V7 2ᵏ, V8-V15 the polynomial, V16-V19 are free and
// V20-V28 hold constants. A turn of exp has 156 instructions, 100 of them for the vector units:
// 50 cycles with 2 units and 4 instructions a cycle (Neoverse N1), 25 with twice of both (Apple
// M1), 6 and 3 an element. That is counted and not measured.

#define TWICE(at, v)                          \
	DATA terms<>+at(SB)/8, $v;            \
	DATA terms<>+(at+8)(SB)/8, $v

// Coefficients of the exponential series, each for both elements of a register.
TWICE(0, 0x3de6124613a86d09)   // 1/13!
TWICE(16, 0x3e21eed8eff8d898)  // 1/12!
TWICE(32, 0x3e5ae64567f544e4)  // 1/11!
TWICE(48, 0x3e927e4fb7789f5c)  // 1/10!
TWICE(64, 0x3ec71de3a556c734)  // 1/9!
TWICE(80, 0x3efa01a01a01a01a)  // 1/8!
TWICE(96, 0x3f2a01a01a01a01a)  // 1/7!
TWICE(112, 0x3f56c16c16c16c17) // 1/6!
TWICE(128, 0x3f81111111111111) // 1/5!
TWICE(144, 0x3fa5555555555555) // 1/4!
TWICE(160, 0x3fc5555555555555) // 1/3!
TWICE(176, 0x3fe0000000000000) // 1/2!
TWICE(192, 0x3ff0000000000000) // 1
TWICE(208, 0x3ff0000000000000) // 1
GLOBL terms<>(SB), RODATA|NOPTR, $224

DATA numbers<>+0(SB)/8, $0x3ff71547652b82fe  // log2(e)
DATA numbers<>+8(SB)/8, $0x4338000000000000  // 1.5·2⁵², whose addition rounds to a whole number
DATA numbers<>+16(SB)/8, $0x3fe62e42fefa39ef // ln 2, its first 53 bits
DATA numbers<>+24(SB)/8, $0x3ff0000000000000 // 1
DATA numbers<>+32(SB)/8, $0x3c7abc9e3b39803f // ln 2, the bits after
DATA numbers<>+40(SB)/8, $0xc086200000000000 // the least argument of exp, −708
DATA numbers<>+48(SB)/8, $0x4086280000000000 // the most, 709
DATA numbers<>+56(SB)/8, $0x4034000000000000 // limit of tanh
DATA numbers<>+64(SB)/8, $0xc000000000000000 // minus two
DATA numbers<>+72(SB)/8, $0x4000000000000000 // 2
DATA numbers<>+80(SB)/8, $0x7fffffffffffffff // all bits but the sign
GLOBL numbers<>(SB), RODATA|NOPTR, $88

// log2(e) to V20, 1.5·2⁵² to V21, ln 2 to V22 and 1 to V23.
#define CONSTANTS                \
	MOVD    $terms<>(SB), R8;    \
	MOVD    $numbers<>(SB), R9;  \
	VLD1R.P 8(R9), [V20.D2];     \
	VLD1R.P 8(R9), [V21.D2];     \
	VLD1R.P 8(R9), [V22.D2];     \
	VLD1R.P 8(R9), [V23.D2]

// r = x − k·ln 2 in place of x, with the first bits of ln 2, and 2ᵏ; k stays in t. x, two and t
// are registers, and u and v the numbers of two and t.
#define REDUCE(x, two, t, u, v)     \
	VORR  V21.B16, V21.B16, two.B16; \
	VFMLA V20.D2, x.D2, two.D2;      \
	FSUB(v, u, 21);                  \
	VSHL  $52, two.D2, two.D2;       \
	VADD  V23.D2, two.D2, two.D2;    \
	VFMLS V22.D2, t.D2, x.D2

#define REDUCE4                 \
	REDUCE(V0, V4, V16, 4, 16); \
	REDUCE(V1, V5, V17, 5, 17); \
	REDUCE(V2, V6, V18, 6, 18); \
	REDUCE(V3, V7, V19, 7, 19)

// The same with the bits of ln 2 after, in V24.
#define REDUCE4TWICE                 \
	REDUCE4;                         \
	VFMLS V24.D2, V16.D2, V0.D2;     \
	VFMLS V24.D2, V17.D2, V1.D2;     \
	VFMLS V24.D2, V18.D2, V2.D2;     \
	VFMLS V24.D2, V19.D2, V3.D2

#define FIRST(at)        \
	FMOVQ at(R8), F8;    \
	FMOVQ at(R8), F9;    \
	FMOVQ at(R8), F10;   \
	FMOVQ at(R8), F11

// V12-V15 = coefficient + r·V8-V11. The coefficient comes from memory, since a core loads beside
// what its vector units do and does not always copy a register for nothing.
#define UP(at)                      \
	FMOVQ at(R8), F12;              \
	FMOVQ at(R8), F13;              \
	FMOVQ at(R8), F14;              \
	FMOVQ at(R8), F15;              \
	VFMLA V0.D2, V8.D2, V12.D2;     \
	VFMLA V1.D2, V9.D2, V13.D2;     \
	VFMLA V2.D2, V10.D2, V14.D2;    \
	VFMLA V3.D2, V11.D2, V15.D2

// V8-V11 = coefficient + r·V12-V15.
#define DOWN(at)                    \
	FIRST(at);                      \
	VFMLA V0.D2, V12.D2, V8.D2;     \
	VFMLA V1.D2, V13.D2, V9.D2;     \
	VFMLA V2.D2, V14.D2, V10.D2;    \
	VFMLA V3.D2, V15.D2, V11.D2

// expm1(r) = r + r²(1/2! + r/3! + … + r¹¹/13!) in place of r.
#define EXPM1                       \
	FIRST(0);                       \
	UP(16);                         \
	DOWN(32);                       \
	UP(48);                         \
	DOWN(64);                       \
	UP(80);                         \
	DOWN(96);                       \
	UP(112);                        \
	DOWN(128);                      \
	UP(144);                        \
	DOWN(160);                      \
	UP(176);                        \
	FMUL(16, 0, 0);                 \
	FMUL(17, 1, 1);                 \
	FMUL(18, 2, 2);                 \
	FMUL(19, 3, 3);                 \
	VFMLA V16.D2, V12.D2, V0.D2;    \
	VFMLA V17.D2, V13.D2, V1.D2;    \
	VFMLA V18.D2, V14.D2, V2.D2;    \
	VFMLA V19.D2, V15.D2, V3.D2

// func exp(dst, x *float64, n int)
TEXT ·exp(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD x+8(FP), R1
	MOVD n+16(FP), R2
	CONSTANTS
	VLD1R.P 8(R9), [V24.D2]
	VLD1R.P 8(R9), [V25.D2] // the least
	VLD1R.P 8(R9), [V26.D2] // the most

exp8:
	FLDPQ (R1), (F0, F1)
	FLDPQ 32(R1), (F2, F3)
	FMIN(0, 0, 26)
	FMIN(1, 1, 26)
	FMIN(2, 2, 26)
	FMIN(3, 3, 26)
	FMAX(0, 0, 25)
	FMAX(1, 1, 25)
	FMAX(2, 2, 25)
	FMAX(3, 3, 25)
	REDUCE4TWICE
	EXPM1
	VFMLA V4.D2, V0.D2, V4.D2 // 2ᵏ + 2ᵏp
	VFMLA V5.D2, V1.D2, V5.D2
	VFMLA V6.D2, V2.D2, V6.D2
	VFMLA V7.D2, V3.D2, V7.D2
	FLDPQ.P 32(R1), (F0, F1)
	FLDPQ.P 32(R1), (F2, F3)
	FCMGT(0, 25, 0) // below the least
	FCMGT(1, 25, 1)
	FCMGT(2, 25, 2)
	FCMGT(3, 25, 3)
	BIC(4, 4, 0)
	BIC(5, 5, 1)
	BIC(6, 6, 2)
	BIC(7, 7, 3)
	FSTPQ.P (F4, F5), 32(R0)
	FSTPQ.P (F6, F7), 32(R0)
	SUBS    $8, R2
	BNE     exp8
	RET

// func tanh(dst, x *float64, n int)
TEXT ·tanh(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD x+8(FP), R1
	MOVD n+16(FP), R2
	CONSTANTS
	VLD1R.P 8(R9), [V24.D2]
	ADD     $16, R9
	VLD1R.P 8(R9), [V25.D2] // limit
	VLD1R.P 8(R9), [V26.D2] // minus two
	VLD1R.P 8(R9), [V27.D2] // 2
	VLD1R.P 8(R9), [V28.D2] // all bits but the sign

tanh8:
	FLDPQ (R1), (F0, F1)
	FLDPQ 32(R1), (F2, F3)
	FABS(0, 0)
	FABS(1, 1)
	FABS(2, 2)
	FABS(3, 3)
	FMIN(0, 0, 25)
	FMIN(1, 1, 25)
	FMIN(2, 2, 25)
	FMIN(3, 3, 25)
	FMUL(0, 0, 26) // z
	FMUL(1, 1, 26)
	FMUL(2, 2, 26)
	FMUL(3, 3, 26)
	REDUCE4TWICE
	EXPM1
	FSUB(8, 4, 23) // 2ᵏ − 1
	FSUB(9, 5, 23)
	FSUB(10, 6, 23)
	FSUB(11, 7, 23)
	VFMLA V4.D2, V0.D2, V8.D2 // e
	VFMLA V5.D2, V1.D2, V9.D2
	VFMLA V6.D2, V2.D2, V10.D2
	VFMLA V7.D2, V3.D2, V11.D2
	FADD(12, 8, 27) // 2 + e
	FADD(13, 9, 27)
	FADD(14, 10, 27)
	FADD(15, 11, 27)
	FDIV(12, 8, 12)
	FDIV(13, 9, 13)
	FDIV(14, 10, 14)
	FDIV(15, 11, 15)
	FLDPQ.P 32(R1), (F0, F1)
	FLDPQ.P 32(R1), (F2, F3)
	VBIT V28.B16, V12.B16, V0.B16 // with the sign of x
	VBIT V28.B16, V13.B16, V1.B16
	VBIT V28.B16, V14.B16, V2.B16
	VBIT V28.B16, V15.B16, V3.B16
	FSTPQ.P (F0, F1), 32(R0)
	FSTPQ.P (F2, F3), 32(R0)
	SUBS    $8, R2
	BNE     tanh8
	RET

// func expAffine(l, e, inverse, a, z *float64, rows, extra, rank, ld, ldz, n int)
//
// Eight nodes a turn, whose sums over the classes are in V28-V31. R0 l, R1 e, R2 inverse, R4 z,
// R5 and R6 bytes from row to row of l and z, R7 remaining nodes; R10 goes through a, R11
// through z, R12 is the offset of the row, R13 counts rows, R14 the rank, R15 is extra.
TEXT ·expAffine(SB), NOSPLIT, $0-88
	MOVD l+0(FP), R0
	MOVD e+8(FP), R1
	MOVD inverse+16(FP), R2
	MOVD z+32(FP), R4
	MOVD ld+64(FP), R5
	MOVD ldz+72(FP), R6
	MOVD n+80(FP), R7
	MOVD extra+48(FP), R15
	LSL  $3, R5
	LSL  $3, R6
	CONSTANTS

nodes:
	ZERO4(V28, V29, V30, V31)
	MOVD a+24(FP), R10
	MOVD rows+40(FP), R13
	MOVD ZR, R12

row:
	VLD1R.P 8(R10), [V0.D2]
	VORR    V0.B16, V0.B16, V1.B16
	VORR    V0.B16, V0.B16, V2.B16
	VORR    V0.B16, V0.B16, V3.B16
	MOVD    R4, R11
	MOVD    rank+56(FP), R14

product:
	VLD1R.P 8(R10), [V8.D2]
	FLDPQ   (R11), (F4, F5)
	FLDPQ   32(R11), (F6, F7)
	VFMLA   V8.D2, V4.D2, V0.D2
	VFMLA   V8.D2, V5.D2, V1.D2
	VFMLA   V8.D2, V6.D2, V2.D2
	VFMLA   V8.D2, V7.D2, V3.D2
	ADD     R6, R11
	SUBS    $1, R14
	BNE     product

	ADD   R12, R0, R9
	FSTPQ (F0, F1), (R9)
	FSTPQ (F2, F3), 32(R9)
	REDUCE4
	FIRST(32)
	UP(48)
	DOWN(64)
	UP(80)
	DOWN(96)
	UP(112)
	DOWN(128)
	UP(144)
	DOWN(160)
	UP(176)
	DOWN(192)
	UP(208)
	FMUL(12, 12, 4)
	FMUL(13, 13, 5)
	FMUL(14, 14, 6)
	FMUL(15, 15, 7)
	ADD   R12, R1, R9
	FSTPQ (F12, F13), (R9)
	FSTPQ (F14, F15), 32(R9)
	CMP   R15, R13
	BLE   next
	FADD(28, 28, 12)
	FADD(29, 29, 13)
	FADD(30, 30, 14)
	FADD(31, 31, 15)

next:
	ADD     R5, R12
	SUBS    $1, R13
	BNE     row
	FDIV(28, 23, 28)
	FDIV(29, 23, 29)
	FDIV(30, 23, 30)
	FDIV(31, 23, 31)
	FSTPQ.P (F28, F29), 32(R2)
	FSTPQ.P (F30, F31), 32(R2)
	ADD     $64, R0
	ADD     $64, R1
	ADD     $64, R4
	SUBS    $8, R7
	BNE     nodes
	RET
