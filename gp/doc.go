// Package gp is exact Gaussian process inference over the functions of a
// linearized network: posterior, evidence, and the parts from which a
// prediction is explained.
//
// The likelihood enters through sites: its first and second derivatives at
// given function values (E3). Fit builds the Laplace posterior at the trained
// parameters; Refit first moves to the mode of the linearized model (E9). The
// numbered equations are listed in doc/equations.md.
//
//	y := gp.NewTargets(targets, lik)     // N rows
//	sites, err := gp.NewSites(y, x.F)    // x.F: N rows
//	if err != nil {
//		return err
//	}
//	post, err := gp.Fit(ctx, kernel, x, sites, nil)
//	if err != nil {
//		return err
//	}
//	var mean, cov mat.Dense
//	err = post.PredictTo(ctx, &mean, &cov, test) // T×C and T·C×C
//	fmt.Println(post.EvidenceLinearGaussian().Value)
//
// # How it is computed
//
// With the root R of the sites' Λ = R Rᵀ, everything follows from one
// Cholesky factor of B = I + RᵀKR (E4), which exists for any Λ, singular or
// zero. Λ is never inverted. K and the factor share one buffer of
// N·C×(N·C+1) numbers, so a posterior takes 8·(N·C)² bytes.
//
// A network is sure of most training examples, and there Λ is nearly zero. Keep chooses
// the rows, an example and an eigenvector of its Λ, that say something, and FitKept is
// the exact posterior given these alone (E16), whose memory does not grow with N·C.
//
// All results are bit-identical for any GOMAXPROCS. An Exact is
// immutable and safe for concurrent use.
//
// Exact.Save writes a posterior to a store, with fingerprints of the model, the
// examples and the prior. Load maps it into memory, in any process, and refuses
// another model, other examples or another prior: see package store.
package gp
