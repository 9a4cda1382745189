// Package weightspace holds posteriors over the parameters of a linearized
// model. They predict the same function values as the posteriors of package gp,
// with P×P matrices instead of kernels, and so cross-check them.
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
