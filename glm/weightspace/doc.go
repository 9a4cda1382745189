// Package weightspace holds posteriors over the parameters of a linearized
// model. They give the same function-space predictions as package gp by other
// means, P×P matrices in place of kernels, and so cross-check it.
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
// BNN draws parameters from a posterior and runs the network with them
// [glm eq. 9].
package weightspace
