// Package counterfactual says what a posterior would predict if its training data had been different: without some
// examples, with other targets or weights, or with more examples.
//
//	y := gp.NewTargets(targets, likelihood)
//	post, err := gp.Refit(ctx, kernel, train, y, nil)
//	if err != nil {
//		return err
//	}
//	m, err := counterfactual.New(ctx, post, kernel, y, linearize.Limits{})
//	if err != nil {
//		return err
//	}
//	without, err := m.Fit(ctx, y.Without(12, 99), nil)
//	if err != nil {
//		return err
//	}
//	err = without.PredictTo(ctx, mean, cov, test) // as any posterior does
//
// Model.Fit goes to the mode of the linearized model with the changed data, which is what a refit finds. It uses the
// factor of the given posterior, so that an answer takes a few products with K and solves, O((N·C)²), where a refit
// takes O((N·C)³). Model.Refit does that refit. Model.SmallestFlip looks for a small set of examples whose removal
// changes the class of a row.
//
// The question is about the linearized model at θ*. The parameters θ*, at which it is linearized, were trained on all
// examples, including the ones left out. A posterior that is not refitted is refused with ErrNotRefitted: its mean is
// f(x;θ*), which the examples have already shaped; leave-one-out (gp.Dual.LeaveOneOutTo) is one step from there.
package counterfactual
