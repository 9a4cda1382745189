// Package mode finds the mode of the linearized model (E9), and the prior at which it explains
// the training targets as well as the network does (E21), by products of the Jacobian with
// vectors, for any number of training examples: J, H and K are never formed.
//
//	m, err := mode.FindMatch(ctx, train, targets, likelihood, prior, theta, nil)
//	if err != nil {
//		return err
//	}
//	fmt.Println(m.Factor) // on the prior precisions
//	v, err := mode.Find(ctx, train, targets, likelihood, prior, theta, nil)
package mode
