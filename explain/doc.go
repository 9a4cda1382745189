// Package explain says which training examples made a prediction what it is.
//
// The mean of a Gaussian process posterior is a sum over the training
// examples. An Explainer takes that sum apart for any number of test rows. It
// needs a gp.Dual and its prior mean. Package report shows the result as text,
// JSON, HTML or PNG.
//
//	post, err := gp.Refit(ctx, kernel, train, gp.NewTargets(y, likelihood), nil)
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
// posterior ones are specific to the row. The difference between the network and
// the sum, f − m − Σ, is the remainder. It shows how far θ* is from being a
// stationary point of the linearized model, or how far the refit moved.
//
// Options.Groups adds up the terms of each class, and Options.Curve the largest terms
// one by one, so that the many small terms that are not listed can be shown too.
//
// Removal is the first-order effect of leaving one example out (E15), and
// similarity is the posterior correlation between the test row and a training
// example. Both come from Dual.InfluenceTo. A sparse posterior gives the part of
// a training example's covariance that its inducing examples explain. Where an
// example nearly fixes the function by itself, rounding loses I − RᵀhR. An exact posterior then
// computes the removal from its factor; other posteriors give NaN (gp.RemovalFrom).
//
// # Error bars and layers
//
// Options.ErrorBars adds to every listed term how much the example reduces the posterior variance
// at the test row. The same number is the variance of the term if the label of the example were
// drawn anew from what the other examples predict for it. Its square root is therefore the error
// bar of the term (Term.SD), and a term larger than two error bars is marked
// (Term.Distinguishable). Options.Layers splits terms and sum by groups of parameters, with
// κ = Σ_g κ_g (E10).
//
// # Several networks
//
// MeanOf explains the mean output of separately trained networks, from the explanation of the same
// row by each of them. Its terms add up as well, and their spread over the networks is the error
// bar for training again (Term.Networks).
//
// # Work
//
// One pass over the training examples gives all sums and lists. Where the
// gp.Cross of the posterior is a gp.CombinedCross, as that of package sparse is,
// only the two sums b_iᵀf and α_iᵀf of each example are linearized
// (linearize.Combine) instead of all C outputs. Removal and similarity are then
// computed for the listed examples alone. Options.Similar and All need every
// output of every example.
//
// # Memory
//
// Training examples are read tile by tile; a bounded heap keeps the largest
// terms. Numbers of size T×N are held only for Options.All, Curve and Layers. The memory of the
// posterior's gp.Cross comes on top.
package explain
