// Package novelty tells how unlike the training examples an input is (E22).
//
//	d, err := novelty.Fit(ctx, kernel, post, nil)
//	if err != nil {
//		return err
//	}
//	novel := make([]float64, test.Len())
//	err = d.ScoreTo(ctx, novel, test)
//	rank := score.Rank(d.Training(), novel[0]) // .997: more novel than 99.7 % of the training examples
//
// The entropy of a prediction does not tell it where the classes are sure: Λ is nearly zero
// there, so training examples say nothing, and the posterior knows little of where they lie.
// A Detector takes three distances that do not depend on the targets:
//
//   - what is left of the variance of the function where every training example was seen with
//     the same noise, v(x) = κ(x,x) − K_*n (K + εI)⁻¹ K_n*, as tr v/√tr κ;
//   - the Mahalanobis distance of the inputs from their mean;
//   - the angle between the inputs and the nearest ones of the training examples.
//
// Each becomes −log of the share of training examples that have a larger one when they are
// left out, and the score is the mean of the three. It is about 1 on average over rows like
// the training examples, and a row that is farther out than one training example in a
// hundred by each distance has −log .01 = 4.6. No single distance wins: see
// studies/novelty.
//
// Distances in the inputs mean something where inputs are numbers on scales, and not where
// they are names, such as names of tokens: see Options.
package novelty
