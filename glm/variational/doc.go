// Package variational has variational posteriors over the parameters of a model: the Gaussian q with the largest lower
// bound ELBO = Σ E log p(y|f) − KL(q‖p) on the evidence of the linearized model (E26) [glm 3.2], and the natural-gradient
// updates VOGGN, LGVA and OGGN of a network (E27) [thesis ch. 4]. The Laplace posterior of the same model takes the
// curvature at one point, and q takes its mean over q.
//
//	y := gp.NewTargets(targets, glm.Bernoulli{})
//	q, err := variational.Refine(ctx, batch, y, prior, net.Theta(), nil)
//	if err != nil {
//		return err
//	}
//	fmt.Println(q.ELBO.Value)
//	err = q.PredictTo(ctx, mean, cov, test) // q is a gp.Posterior
//
// RefineStructure has posteriors over the parameters, full, by layers or independent, and Natural has the updates.
//
// # Integrals
//
// The expectations of a Gaussian and a Poisson likelihood are in closed form. Those of
// a Bernoulli likelihood and of a softmax of two classes have an error below 1e-13, and
// those of three and four classes about 1e-9 while Options.Points allows a trapezoid.
// Other softmax expectations and those of a user's likelihood with several outputs are by
// quasi–Monte Carlo with fixed points, so that results repeat bit for bit. Its error on
// four logits with a variance of 7 is up to 4e-3 with 1,024 points and 1e-3 with 4,096.
package variational
