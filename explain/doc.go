// Package explain says which training examples made a prediction what it is.
//
// The mean of a Gaussian process posterior is a sum over the training
// examples. An Explainer takes that sum apart for any number of test rows,
// from nothing but a gp.Dual, and a Page shows the result as text, JSON,
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
// example.
//
// # Memory
//
// Training examples are read tile by tile; a bounded heap keeps the largest
// terms. Nothing of size T×N is held unless Options.All asks for it. What the
// gp.Cross of the posterior holds is its own business.
package explain
