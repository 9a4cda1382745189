// Package autoencoder gives autoencoders a posterior over their weights, and with it the uncertainty of codes and
// reconstructions. It needs no labels [lae].
//
// An autoencoder is a regression of its input on itself. With a Gaussian likelihood its generalized Gauss–Newton
// matrix (GGN) is Σ JᵀJ/σ² over the training rows. Fit takes the diagonal of the GGN at trained parameters (post
// hoc). Train draws parameters from the posterior at every step and updates the diagonal on the way (online).
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
// A row is an example: x is N×D, and the network returns N×D. A code has L numbers. θ has P numbers, in the order
// of package linearize.
package autoencoder
