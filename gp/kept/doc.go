// Package kept finds how few rows of the training data an exact posterior can be built
// on (E16). A row is an example with an eigenvector of its Λ; gp.Keep chooses those whose
// strength s is above a threshold τ, and gp.FitKept builds the posterior.
//
//	found, err := kept.FindThreshold(ctx, kernel, train, sites, test, nil)
//	if err != nil {
//		return err
//	}
//	rows, err := gp.Keep(ctx, kernel, train, sites, found.KeepOptions())
//	if err != nil {
//		return err
//	}
//	post, err := gp.FitKept(ctx, kernel, train, sites, rows, nil)
//
// What is left out can only make the covariance larger.
package kept
