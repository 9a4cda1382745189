// Package audit ranks training examples that are worth a look, and unlabelled
// examples that are worth a label.
//
//	found, err := audit.Of(ctx, post, likelihood, y, nil)
//	if err != nil {
//		return err
//	}
//	for _, k := range found.Mislabelled[:10] {
//		x := found.Examples[k]
//		fmt.Println(x.Index, x.LogDensity, x.Suggested, x.Probability[x.Suggested])
//	}
//
// # Scores of a training example
//
// All scores but the leverage come from the prediction of the example by the posterior without that
// example (E17). It is in closed form, exact for a Gaussian likelihood, and one Newton step
// otherwise.
//
//	LogDensity  log p(y_i | x_i, other examples), nats; low: the others contradict the label
//	Residual    (y_i − E y)/sd y of the same prediction, no unit; of regressions
//	Entropy     of the probabilities of that prediction, nats; high: near a boundary
//	Margin      difference of the two largest of these probabilities; low: near a boundary
//	Leverage    tr Λ_i C(x_i,x_i), no unit; near the number of outputs: the example alone
//	            fixes the function at its own input
//
// The leverages of all examples add up to the effective number of parameters,
// tr(I − B⁻¹) in the notation of (E4).
//
// If a network was trained until it agreed with wrong labels, θ* reproduces each of them,
// leave-one-out at θ* finds few of them, and the prior mean f(x;θ*) + J(x)(μ₀−θ*) still contains
// them after a refit. OfLabels uses neither θ* nor this mean: it regresses the labels on the
// Jacobian of the network with shuffled parameters, which depend on no label. On MNIST's first
// 1,000 rows with a tenth of the labels flipped, it finds more of the flipped labels than Of at the
// precisions tried, and suggests the right label for more of them (studies/records/figures).
//
// # Unlabelled examples
//
// Acquire ranks an unlabelled pool by how much a label would tell about the function, and chooses a
// batch whose labels tell much together.
package audit
