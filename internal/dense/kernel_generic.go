package dense

// gemm4x4 is the kernel in plain Go. The compiler may fuse x*y + z on a machine that can, always in the same way,
// so the bits depend on the machine and not on the partition of the work. Two passes over two rows each keep the
// eight sums in registers on amd64.
func gemm4x4(k int, a []float64, ars, acs int, b []float64, brs int, c []float64, ldc int, alpha, beta float64) {
	for r := 0; r < 4; r += 2 {
		gemm2x4(k, a[r*ars:], ars, acs, b, brs, c[r*ldc:], ldc, alpha, beta)
	}
}

func gemm2x4(k int, a []float64, ars, acs int, b []float64, brs int, c []float64, ldc int, alpha, beta float64) {
	var c00, c01, c02, c03, c10, c11, c12, c13 float64
	for p, i, j := 0, 0, 0; p < k; p, i, j = p+1, i+acs, j+brs {
		x, y, v := a[i], a[i+ars], b[j:j+4:j+4]
		c00 += x * v[0]
		c01 += x * v[1]
		c02 += x * v[2]
		c03 += x * v[3]
		c10 += y * v[0]
		c11 += y * v[1]
		c12 += y * v[2]
		c13 += y * v[3]
	}
	store4(c, alpha, beta, c00, c01, c02, c03)
	store4(c[ldc:], alpha, beta, c10, c11, c12, c13)
}

// store4 writes C = α·acc + β·C for four columns of a row.
func store4(c []float64, alpha, beta, x0, x1, x2, x3 float64) {
	c = c[:4]
	if beta == 0 {
		c[0], c[1], c[2], c[3] = alpha*x0, alpha*x1, alpha*x2, alpha*x3
		return
	}
	c[0] = alpha*x0 + float64(beta*c[0])
	c[1] = alpha*x1 + float64(beta*c[1])
	c[2] = alpha*x2 + float64(beta*c[2])
	c[3] = alpha*x3 + float64(beta*c[3])
}

// trsm4x4 is the tile solve in plain Go. It solves T X = X in place for 4 rows and 4 columns. T is lower
// triangular, with element (r, j) at t[4j + r] and reciprocals on the diagonal.
func trsm4x4(t, x []float64, ldx int) {
	t = t[:16]
	for j := range 4 {
		d, s := t[5*j], x[j*ldx:][:4]
		s[0], s[1], s[2], s[3] = s[0]*d, s[1]*d, s[2]*d, s[3]*d
		for r := j + 1; r < 4; r++ {
			e, y := t[4*j+r], x[r*ldx:][:4]
			y[0] -= e * s[0]
			y[1] -= e * s[1]
			y[2] -= e * s[2]
			y[3] -= e * s[3]
		}
	}
}
