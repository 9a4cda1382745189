// Package dense is dense linear algebra in float64 at the speed of the machine: views of rows and columns, matrix
// products, triangular solves and Cholesky factors. It works on gonum's blas64 types, stored row by row. All matrix
// products of the library go through it.
//
//	c := blas64.General{Rows: m, Cols: n, Stride: n, Data: make([]float64, m*n)}
//	dense.Gemm(blas.NoTrans, blas.Trans, 1, a, b, 0, c) // C = A Bᵀ
//	dense.Syrk(blas.NoTrans, 1, j, 0, k)                // one triangle of K = J Jᵀ
//	if l, ok := dense.Potrf(k); ok {
//		dense.Trsm(blas.Left, blas.NoTrans, 1, l, x) // X = L⁻¹ X
//	}
//
// Each function runs on up to GOMAXPROCS goroutines, fewer for small work, and may be called by several goroutines
// at once. Its twin whose name ends in 1 stays on the caller's goroutine, for use in work that is already parallel.
// It gives the same bits. Its twin whose name ends in Context bounds the goroutines, and stops between panels when
// its context is done.
//
// # Scheme
//
// A product is blocked as in Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (ACM TOMS
// 34, 2008), and BLIS (Van Zee and van de Geijn, ACM TOMS 41, 2015). The operands are packed in panels as wide as a
// kernel's tile of C. Packing resolves transposes, strides and the mirrored half of a symmetric operand, so that
// one kernel serves all cases. A kernel holds its tile of C in registers over 256 terms: 8×24 elements with
// AVX-512, 4×12 with AVX2 and FMA or with NEON, 4×4 in Go. The kernels are chosen when the program starts.
//
// Syrk packs once, because the rows are both operands, and computes the tiles of one triangle. A tile that crosses
// the diagonal goes through a copy. Trsm maps its sixteen cases to a lower triangle that is solved forward in
// blocks of 256, and leaves the rest to the product. Potrf halves the matrix recursively down to order 64 and
// leaves the rest to Trsm and Syrk. Pstrf factors 64 columns at a time, after subtracting the earlier columns of
// the block from each. Then it subtracts the block's products from the rest by Syrk, as LAPACK's DPSTRF does.
//
// Shifts multiplies by a matrix whose rows are pieces of one array, such as the patches of a convolution, without
// copying them. A convolution with few channels would otherwise spend more time on gathering and packing its
// patches than on multiplying. Symm with few vectors reads the stored triangle in place, once.
//
// The build tag noasm leaves out the assembly. Where the caller has set another implementation by blas64.Use, that
// implementation does the work, also for the twins, and the statements on bits here do not hold.
//
// # Determinism
//
// Every element of a product is computed by the same operations in the same order. For each run of 256 terms, acc =
// Σ aᵢₚ bₚⱼ with p ascending and one fused multiply-add for each term (in Go, as the compiler translates x*y + z).
// Then C = fma(α, acc, β C), with β = 1 after the first run. The result does not depend on the number of workers or
// on the position of the element in C. Any part of a product therefore has the same bits when it is computed alone,
// Syrk and Symm have the bits of Gemm, and AVX2, AVX-512 and NEON agree.
//
// In Trsm and Potrf the order also depends on the kernel's tile and on the order of the triangle, and on nothing
// else. In Pstrf a sum is split every 64 terms, at the borders of its blocks. Symv, Trsv and the transposed product
// of Shifts split a sum into as many parts as their kernel has lanes, so their bits depend on the kernels and the
// sizes only.
//
// # NaN and Inf
//
// A NaN or Inf spreads as the formula says: a zero times a NaN is a NaN, which gonum may skip. With β = 0, C is not
// read, and with α = 0, A and B are not read. A factorization ends at a NaN on the diagonal.
//
// # Limits
//
// A core with two 512-bit FMA units does 32 flops in a cycle, with 256-bit units 16. Where this was measured, the
// kernels alone reach this to a few per cent from the L1 cache. Gemm of order 2000, with packing, reaches about 80
// % of it. The plain Go kernel does about 2 flops in a cycle. By a count of its instructions the NEON kernel does 8
// flops in a cycle on a core with two vector units (Neoverse N1), and 16 on a core with four (Apple M1), the most
// these can do. Packing takes at most 16 MiB and some padding for each call, and keeps the memory for the next
// call.
package dense
