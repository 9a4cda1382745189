// Package glm is the generalized linear model around a Gaussian posterior over
// function values: likelihoods with their first two derivatives (E3, E4), the
// predictives that turn f ~ N(m, Σ) into probabilities and expected responses
// (E11), the scales that calibrate a predictive (E18), and the metrics that judge
// it.
//
//	lik := glm.Bernoulli{}
//	post, err := gp.Refit(ctx, kernel, train, y, lik, nil)
//	if err != nil {
//		return err
//	}
//	var f, cov, mean, sd mat.Dense
//	if err := post.PredictTo(ctx, &f, &cov, test); err != nil {
//		return err
//	}
//	err = glm.Exact{}.PredictTo(&mean, &sd, lik, &f, &cov)
//
// Shapes are those of package gp: f is T×C, cov is T·C×C with one block per
// example, results are T×C. Where one output models two classes, the probability
// is one number, P(y = 1).
//
// Users may write other likelihoods, as types with the methods of Likelihood. By
// default their predictive is exact for one output and by Monte Carlo for more,
// unless they also have the methods of Marginal, Coupled or Logistic. Expectation and
// LogExpectation integrate any function of one output.
//
// Package weightspace has the same posterior over the parameters instead of over
// function values. It cross-checks function space and draws whole networks
// [glm 9].
//
// Sums run in a fixed order, so results are bit-identical for any GOMAXPROCS.
package glm
