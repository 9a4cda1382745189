// Package glm has the likelihoods of the generalized linear model, with their first two derivatives
// (E3, E4).
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
//	err = predictive.Exact{}.PredictTo(&mean, &sd, lik, &f, &cov)
//
// Where one output models two classes, the probability is one number, P(y = 1).
//
// Users may write other likelihoods, as types with the methods of Likelihood.
//
// Package integral has the integrals of one output, package predictive turns f ~ N(m, Σ) into
// probabilities and expected responses (E11), and package score judges and calibrates them (E18).
// Package weightspace has the same posterior over the parameters instead of over function values.
// It cross-checks function space and draws whole networks [glm 9].
package glm
