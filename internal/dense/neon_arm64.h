// Operations on two float64 that Go's assembler has no name for, by their encoding in the
// Arm Architecture Reference Manual, C7.2. d, n and m are the numbers of registers, in the
// order of the manual: d receives, n and m are the operands. Bits 0-4 hold d, 5-9 n, 16-20 m
// and bit 11 which of the two elements of m is meant, e. The rest is the name.

#define FADD(d, n, m) WORD $(0x4e60d400 | (m)<<16 | (n)<<5 | (d))      // d = n + m
#define FADDP(d, n, m) WORD $(0x6e60d400 | (m)<<16 | (n)<<5 | (d))     // d = n[0] + n[1], m[0] + m[1]
#define FMULE(d, n, m, e) WORD $(0x4fc09000 | (e)<<11 | (m)<<16 | (n)<<5 | (d)) // d = n·m[e]
#define FMLAE(d, n, m, e) WORD $(0x4fc01000 | (e)<<11 | (m)<<16 | (n)<<5 | (d)) // d = d + n·m[e]
#define FMLSE(d, n, m, e) WORD $(0x4fc05000 | (e)<<11 | (m)<<16 | (n)<<5 | (d)) // d = d − n·m[e]

#define ZERO4(a, b, c, d)        \
	VEOR a.B16, a.B16, a.B16; \
	VEOR b.B16, b.B16, b.B16; \
	VEOR c.B16, c.B16, c.B16; \
	VEOR d.B16, d.B16, d.B16
#define ZERO24                 \
	ZERO4(V0, V1, V2, V3);     \
	ZERO4(V4, V5, V6, V7);     \
	ZERO4(V8, V9, V10, V11);   \
	ZERO4(V12, V13, V14, V15); \
	ZERO4(V16, V17, V18, V19); \
	ZERO4(V20, V21, V22, V23)

// A row of a tile of 12 columns, registers c to c+5, plus element e of m times V24-V29.
#define ROW12(c, m, e)        \
	FMLAE(c, 24, m, e);       \
	FMLAE((c+1), 25, m, e);   \
	FMLAE((c+2), 26, m, e);   \
	FMLAE((c+3), 27, m, e);   \
	FMLAE((c+4), 28, m, e);   \
	FMLAE((c+5), 29, m, e)
