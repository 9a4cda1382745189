// Package cg solves the exact posterior of package gp by preconditioned
// conjugate gradients, where the N·C × N·C numbers of the kernel do not fit but
// an approximation will not do.
//
//	post, err := cg.Fit(ctx, kernel, data, sites, nil) // data: any linearize.Source
//	if err != nil {
//		return err
//	}
//	var mean, cov mat.Dense
//	err = post.PredictTo(ctx, &mean, &cov, test) // T×C and T·C×C
//
// It needs products J Σ₀ Jᵀ v of the kernel with vectors only (MulKernel).
// Every answer carries a bound on its error, and the log determinant of an
// evidence its standard error.
package cg
