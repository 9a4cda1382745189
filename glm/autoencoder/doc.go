// Package autoencoder gives autoencoders a posterior over their weights: uncertainty of
// codes and reconstructions, learnt without labels [lae].
//
// An autoencoder is a regression onto its own input, so that the generalized
// Gauss–Newton matrix of a Gaussian likelihood is the sum of JᵀJ over the training rows.
// Fit takes its diagonal at trained parameters (post hoc). Train draws the parameters
// from the posterior at every step, and lets the precision follow (online).
//
//	a, err := autoencoder.New(net, "") // the code is the narrowest layer
//	if err != nil {
//		return err
//	}
//	post, _, err := autoencoder.Train(ctx, a, x, &autoencoder.TrainOptions{Validation: held})
//	if err != nil {
//		return err
//	}
//	drawn, err := post.Draw(ctx, test, nil) // by 100 networks
//	fmt.Println(drawn.Mean, drawn.SD, drawn.Latent)
//
// Rows are examples: x is N×D, and the network's output has the D numbers of its input.
// A code has L numbers. θ has P, in the order of package linearize.
package autoencoder
