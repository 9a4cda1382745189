// Package weightspace has posteriors over the P parameters of a linearized model. The full posterior predicts the
// same function values as the posteriors of package gp, with P×P matrices in place of kernels, so that each checks the
// other. A site is the Gaussian approximation of one example's likelihood, with residual r and curvature Λ (package
// gp).
//
//	w, err := weightspace.Fit(ctx, batch, sites, prior, net.Theta(), nil)
//	if err != nil {
//		return err
//	}
//	c, err := weightspace.Validate(ctx, exact, w, test, weightspace.DefaultTolerance)
//	if err != nil {
//		return err
//	}
//	fmt.Println(c.OK())
//
// FitStructure fits posteriors that keep only a part of the precision, such as its diagonal or the block of the
// last layer. It reads the examples as a stream of any length:
//
//	w, err := weightspace.FitStructure(ctx, weightspace.Diagonal, source, sites, prior, net.Theta(), nil)
//	if err != nil {
//		return err
//	}
//	err = w.PredictTo(ctx, &mean, &cov, test)
//
// BNN draws parameters from a posterior and runs the network at them [glm eq. 9].
package weightspace
