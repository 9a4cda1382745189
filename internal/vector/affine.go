package vector

import "math"

// AffineNodes divides the number of nodes of ExpAffine and Deviations.
const AffineNodes = 16

// ExpAffine writes the logits l and the exponentials e for each row i of coefficients a at n nodes z,
//
//	l[i,k] = a[i,0] + Σ_q a[i,q+1] z[q,k]   and   e[i,k] = exp(l[i,k]),
//
// and inverse[k] = 1/Σ_i e[i,k] over all rows i except the last extra ones. Rows of l and e are ld apart, rows of z
// are ldz apart; a is rows×(rank+1). All logits must be within ±700. With AVX2 and FMA or NEON the exponentials
// have a relative error of at most 4e-14. n must be a multiple of AffineNodes.
func ExpAffine(l, e, inverse, a, z []float64, rows, extra, rank, ld, ldz, n int) {
	switch {
	case rows <= extra || rank <= 0 || n <= 0:
		return
	case n%AffineNodes != 0 || n > ld || n > ldz:
		panic("vector: wrong number of nodes")
	}
	l, e, z = l[:(rows-1)*ld+n], e[:(rows-1)*ld+n], z[:(rank-1)*ldz+n]
	inverse, a = inverse[:n], a[:rows*(rank+1)]
	if fast {
		expAffine(&l[0], &e[0], &inverse[0], &a[0], &z[0], rows, extra, rank, ld, ldz, n)
		return
	}
	clear(inverse)
	for i := range rows {
		c, li, ei := a[i*(rank+1):(i+1)*(rank+1)], l[i*ld:i*ld+n], e[i*ld:i*ld+n]
		for k := range li {
			li[k] = c[0]
		}
		for q, v := range c[1:] {
			Axpy(li, v, z[q*ldz:q*ldz+n])
		}
		for k, v := range li {
			ei[k] = math.Exp(v)
			if i < rows-extra {
				inverse[k] += ei[k]
			}
		}
	}
	for k, v := range inverse {
		inverse[k] = 1 / v
	}
}

// Deviations overwrites x[i] with x[i]·y[i] − base, and returns the sum of these numbers and the sum of their
// squares. The order of the sums depends only on the length. The length of x must be a multiple of AffineNodes, and
// y at least as long.
func Deviations(x, y []float64, base float64) (sum, square float64) {
	y = y[:len(x)]
	if len(x)%AffineNodes != 0 {
		panic("vector: wrong number of nodes")
	}
	if fast && len(x) > 0 {
		return deviations(&x[0], &y[0], len(x), base)
	}
	for i, v := range x {
		x[i] = v*y[i] - base
		sum += x[i]
		square += x[i] * x[i]
	}
	return sum, square
}
