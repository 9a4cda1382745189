// Package kept builds posteriors of all training examples whose covariance takes only the
// rows that say something (E16). A row is an example with an eigenvector of its Λ; those
// whose strength s is above a threshold τ are kept. FindThreshold finds the τ that brings
// the variances of some examples near enough to those of all rows.
//
//	found, err := kept.FindThreshold(ctx, kernel, train, sites, test, nil)
//	if err != nil {
//		return err
//	}
//	post, err := kept.Refit(ctx, train, targets, prior, theta, &kept.Options{Found: found})
//
// What is left out can only make the covariance larger, unless a weighted sample stands for it
// (Threshold.Representatives). The mean and the sums over training examples have all of them.
package kept
