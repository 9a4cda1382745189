// Operations on two float64 that Go's assembler has no name for, by their encoding in the
// Arm Architecture Reference Manual, C7.2. d, n and m are the numbers of registers, in the
// order of the manual: d receives, n and m are the operands. Bits 0-4 hold d, 5-9 n, 16-20 m.
// The rest is the name.

#define FADD(d, n, m) WORD $(0x4e60d400 | (m)<<16 | (n)<<5 | (d))  // d = n + m
#define FSUB(d, n, m) WORD $(0x4ee0d400 | (m)<<16 | (n)<<5 | (d))  // d = n − m
#define FMUL(d, n, m) WORD $(0x6e60dc00 | (m)<<16 | (n)<<5 | (d))  // d = n·m
#define FDIV(d, n, m) WORD $(0x6e60fc00 | (m)<<16 | (n)<<5 | (d))  // d = n/m
#define FMAX(d, n, m) WORD $(0x4e60f400 | (m)<<16 | (n)<<5 | (d))  // d = max(n, m), NaN where one is
#define FMIN(d, n, m) WORD $(0x4ee0f400 | (m)<<16 | (n)<<5 | (d))  // d = min(n, m), NaN where one is
#define FMAXP(d, n, m) WORD $(0x6e60f400 | (m)<<16 | (n)<<5 | (d)) // d = max(n[0], n[1]), max(m[0], m[1])
#define FADDPS(d, n) WORD $(0x7e70d800 | (n)<<5 | (d))             // d = n[0] + n[1], 0
#define FABS(d, n) WORD $(0x4ee0f800 | (n)<<5 | (d))               // d = |n|
#define FCMEQ(d, n, m) WORD $(0x4e60e400 | (m)<<16 | (n)<<5 | (d)) // d = all bits where n = m, or none
#define FCMGT(d, n, m) WORD $(0x6ee0e400 | (m)<<16 | (n)<<5 | (d)) // the same for n > m
#define FCMLEZ(d, n) WORD $(0x6ee0d800 | (n)<<5 | (d))             // the same for n ≤ 0
#define BIC(d, n, m) WORD $(0x4e601c00 | (m)<<16 | (n)<<5 | (d))   // d = the bits of n that m has not
#define FCVTZS(d, n) WORD $(0x4ee1b800 | (n)<<5 | (d))             // d = whole part of n, as an integer
#define MLAS(d, n, m) WORD $(0x4ea09400 | (m)<<16 | (n)<<5 | (d))  // d = d + n·m, four integers of 32 bits

#define ZERO4(a, b, c, d)        \
	VEOR a.B16, a.B16, a.B16; \
	VEOR b.B16, b.B16, b.B16; \
	VEOR c.B16, c.B16, c.B16; \
	VEOR d.B16, d.B16, d.B16
