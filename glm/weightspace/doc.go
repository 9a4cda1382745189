// Package weightspace holds posteriors over the parameters of a linearized
// model. The full one predicts the same function values as the posteriors of package
// gp, with P×P matrices instead of kernels, and so cross-checks them.
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
// FitStructure fits posteriors that keep only a part of the precision, such as its
// diagonal or the block of the last layer, from a stream of any number of examples:
//
//	w, err := weightspace.FitStructure(ctx, weightspace.Diagonal, source, sites, prior, net.Theta(), nil)
//	if err != nil {
//		return err
//	}
//	err = w.PredictTo(ctx, &mean, &cov, test)
//
// BNN draws parameters from a posterior and runs the network with them
// [glm eq. 9].
package weightspace
