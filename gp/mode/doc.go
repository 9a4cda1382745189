// Package mode finds the mode of the linearized model (E9), and the prior under which this model explains the
// training targets as well as the network does (E21). It uses products of the Jacobian with vectors and never forms
// J, H or K, so it works for any number of training examples.
//
//	m, err := mode.FindMatch(ctx, train, targets, prior, theta, nil)
//	if err != nil {
//		return err
//	}
//	fmt.Println(m.Factor) // on the prior precisions
//	v, err := mode.Find(ctx, train, targets, prior, theta, nil)
package mode
