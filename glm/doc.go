// Package glm has the likelihoods p(y|f) of the generalized linear model, with their first two derivatives in f
// (E3, E4).
//
//	lik := glm.Bernoulli{}
//	post, err := gp.Refit(ctx, kernel, train, gp.NewTargets(y, lik), nil)
//	if err != nil {
//		return err
//	}
//	var f, cov, mean, sd mat.Dense
//	if err := post.PredictTo(ctx, &f, &cov, test); err != nil {
//		return err
//	}
//	err = predictive.Exact{}.PredictTo(&mean, &sd, lik, &f, &cov)
//
// Two classes may be modelled by one output. The predictive mean is then one number, P(y = 1).
//
// Other likelihoods can be added: any type with the methods of Likelihood is one.
//
// Package integral has the integrals over one Gaussian output. Package predictive turns f ~ N(m, Σ) into
// probabilities and expected responses (E11). Package score judges and calibrates predictions (E18). Package
// weightspace has the same posterior over the P parameters in place of function values. It is an independent check of
// the results in function space, and draws whole networks [glm 9].
package glm
