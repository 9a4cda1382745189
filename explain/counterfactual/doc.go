// Package counterfactual says what a posterior would predict had its training data been others: without some examples,
// with other targets or weights, with more examples.
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
// factor of the posterior that is there, so that an answer takes a few products with K and solves, O((N·C)²), where a
// refit takes O((N·C)³). Model.Refit is that refit. Model.SmallestFlip looks for a small set of examples without which
// the class of a row is another.
//
// The question is about the linearized model at θ*. The trained parameters θ*, at which it is linearized, have seen all
// examples, also the ones left out. A posterior that is not refitted is refused with ErrNotRefitted: its mean is f(x;θ*),
// which the examples have already shaped; leave-one-out (gp.Dual.LeaveOneOutTo) is one step from there.
package counterfactual
