// Package kept builds posteriors of all training examples whose covariance uses only the
// informative rows (E16). A row is an example with an eigenvector of its Λ; the rows whose
// strength s is above a threshold τ are kept. FindThreshold finds the τ at which the
// variances of some examples are near enough to those with all rows.
//
//	found, err := kept.FindThreshold(ctx, kernel, train, sites, test, nil)
//	if err != nil {
//		return err
//	}
//	post, err := kept.Refit(ctx, train, targets, prior, theta, &kept.Options{Found: found})
//
// Leaving out rows can only make the covariance larger, unless a weighted sample represents
// them (Threshold.Representatives). The mean and the sums over training examples use all
// examples.
package kept
