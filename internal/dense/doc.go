// Package dense is dense linear algebra in float64 at the speed of the machine:
// views of rows and columns, matrix products, triangular solves and Cholesky
// factors on gonum's blas64 types, row by row in memory. Everything in the
// library that multiplies matrices goes through it.
//
//	c := blas64.General{Rows: m, Cols: n, Stride: n, Data: make([]float64, m*n)}
//	dense.Gemm(blas.NoTrans, blas.Trans, 1, a, b, 0, c) // C = A Bᵀ
//	dense.Syrk(blas.NoTrans, 1, j, 0, k)                // one triangle of K = J Jᵀ
//	if l, ok := dense.Potrf(k); ok {
//		dense.Trsm(blas.Left, blas.NoTrans, 1, l, x) // X = L⁻¹ X
//	}
//
// Each function runs on up to GOMAXPROCS goroutines, fewer for small work, and
// may be called from several at once. Its twin whose name ends in 1 stays on
// the caller's goroutine, for use in work that is already parallel, and gives
// the same bits. That whose name ends in Context takes a bound on the goroutines
// and stops between panels when its context is done.
//
// # Scheme
//
// A product is blocked as in Goto and van de Geijn, "Anatomy of high-
// performance matrix multiplication" (ACM TOMS 34, 2008), and BLIS (Van Zee
// and van de Geijn, ACM TOMS 41, 2015). The operands are packed in panels as
// wide as a kernel's tile of C; packing resolves transposes, strides and the
// mirrored half of a symmetric operand, so that one kernel serves all cases.
// A kernel holds its tile of C in registers over 256 terms: 8×24 with AVX-512,
// 4×12 with AVX2 and FMA or with NEON, 4×4 in Go. The kernels are chosen when the program
// starts. Syrk packs once, the rows serving as both operands, and computes the
// tiles of one triangle; where a tile crosses the diagonal it goes through a
// copy. Trsm maps its sixteen cases to a lower triangle solved forward, in
// blocks of 256, and leaves the rest to the product. Potrf halves the matrix
// recursively down to order 64, which leaves it to Trsm and Syrk. Pstrf takes 64
// columns at a time, each with those before it in the block subtracted, and then
// subtracts the block's products from the rest by Syrk, as LAPACK's DPSTRF does.
//
// Shifts multiplies by a matrix whose rows are pieces of one array, such as the patches
// of a convolution, where they lie. A convolution of few channels would otherwise spend
// more time on gathering and packing its patches than on multiplying. Symm of few vectors
// reads the stored triangle where it lies, once.
//
// The build tag noasm leaves the assembly out. Where the caller has given
// gonum's blas64 an implementation of its own (blas64.Use), that one does the
// work, also for the twins, and what is said here of bits is up to it.
//
// # Determinism
//
// Every element of a product is computed by the same operations in the same
// order: for each run of 256 terms, acc = Σ aᵢₚ bₚⱼ with p ascending and one
// fused multiply-add a term (in Go, as the compiler translates x*y + z), then
// C = fma(α, acc, β C), with β = 1 after the first run. Neither the number of
// workers nor the place of the element in C enters, so any part of a product
// has the same bits when it is computed alone, Syrk and Symm have those of
// Gemm, and AVX2, AVX-512 and NEON agree. In Trsm and Potrf the order also depends
// on the kernel's tile, and on nothing else but the order of the triangle. In
// Pstrf a sum is cut every 64 terms, at the borders of its blocks. Symv, Trsv and the
// transposed product of Shifts take a sum in as many parts as their kernel has lanes, so
// their bits are those of the kernel set, and of nothing else but the sizes.
//
// # NaN and Inf
//
// They go where the formula takes them: a zero does not hide a NaN that it is
// multiplied with, as it may in gonum. β = 0 does not read C and α = 0 does
// not read A and B. A factorization ends at a NaN on the diagonal.
//
// # Limits
//
// A core with two 512-bit FMA units does 32 flops a cycle, with 256-bit units
// 16. Where this was measured the kernels alone reach that to a few per cent
// from the L1 cache, and Gemm of order 2000, packing and all, about 80 % of it;
// the plain Go kernel does about 2 flops a cycle. By a count of its instructions the
// kernel for NEON does 8 flops a cycle on a core with two vector units (Neoverse N1), and
// 16 on one with four (Apple M1), which is all that they can do. Packing takes at most 16 MiB
// and some padding a call, kept for the next.
package dense
