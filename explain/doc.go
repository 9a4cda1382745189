// Package explain says which training examples made a prediction what it is.
//
// The mean of a Gaussian process posterior is a sum over the training
// examples. An Explainer takes that sum apart for any number of test rows,
// from nothing but a gp.Dual, and package report shows the result as text, JSON,
// HTML or PNG.
//
//	post, err := gp.Refit(ctx, kernel, train, y, likelihood, nil)
//	if err != nil {
//		return err
//	}
//	e, err := explain.New(post, kernel, &explain.Options{Top: 8})
//	if err != nil {
//		return err
//	}
//	rows, err := e.Explain(ctx, test) // rows[t][c]: test row t, output c
//
// # The sum
//
// With C the posterior covariance and b the pseudo-targets,
//
//	f_lin(x*) = m(x*) + Σ_i C(x*,x_i) b_i    (E14), the default,
//	f_lin(x*) = m(x*) + Σ_i κ(x*,x_i) α_i    (E12), the raw terms.
//
// Both are exact and sum to the same number. The raw terms cancel each other
// almost completely and their largest are the same for every test row; the
// posterior ones are specific to the row. What is left between the sum and
// the network, f − m − Σ, is the remainder: how far θ* is from being a
// stationary point of the linearized model, or how far the refit moved.
//
// Removal is the first-order effect of leaving one example out (E15), and
// similarity is the posterior correlation between the test row and a training
// example. Both come from Dual.InfluenceTo. A sparse posterior knows of a
// training example only what the inducing examples explain of it, so this is
// the covariance it gives. Where an example nearly fixes the function by itself,
// I − RᵀhR is lost to rounding: an exact posterior then gives the removal from
// its factor, and for the others it is NaN (gp.RemovalFrom).
//
// # Work
//
// One pass over the training examples gives all sums and lists. Where the
// gp.Cross of the posterior is a gp.CombinedCross, as that of package sparse is,
// only the two sums b_iᵀf and α_iᵀf of each example are linearized
// (linearize.Combine) instead of all C outputs. What is told of the listed
// examples alone, removal and similarity, is found by gathering these. With
// Options.Similar or All every output of every example is needed.
//
// # Memory
//
// Training examples are read tile by tile; a bounded heap keeps the largest
// terms. Nothing of size T×N is held unless Options.All asks for it. What the
// gp.Cross of the posterior holds is its own business.
package explain
