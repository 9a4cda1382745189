// Package glm is the generalized linear model around a Gaussian posterior over
// function values: likelihoods with their first two derivatives (E3, E4), the
// predictives that turn f ~ N(m, Σ) into probabilities and expected responses
// (E11), and the metrics that judge them.
//
//	lik := glm.Bernoulli{}
//	post, err := gp.Refit(ctx, kernel, train, y, lik, nil)
//	if err != nil {
//		return err
//	}
//	var f, cov, mean, sd mat.Dense
//	if err := post.PredictTo(&f, &cov, test); err != nil {
//		return err
//	}
//	err = glm.Exact{}.PredictTo(&mean, &sd, lik, &f, &cov)
//
// Shapes are those of package gp: f is T×C, cov is T·C×C with one block an
// example, results are T×C. A probability of two classes modelled by one
// output is one number, P(y = 1).
//
// A likelihood of the user's own is a type with the methods of Likelihood. Its
// predictive is exact for one output and by Monte Carlo for more, unless it is a
// Marginal or a Logistic. Expectation and LogExpectation integrate any function
// of one output.
//
// The same posterior over the parameters, P×P, is FitWeights and RefitWeights.
// It is the cross-check of function space (Validate) and the source of draws
// of whole networks (BNN, [glm 9]).
//
// Sums run in a fixed order, so results are bit-identical for any GOMAXPROCS.
package glm
