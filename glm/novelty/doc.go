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
// The entropy of a prediction does not show novelty where the classes are sure. There Λ is nearly zero, so training
// examples hardly change the posterior, and its variance hardly depends on where they lie. A Detector takes three
// distances that do not depend on the targets:
//
//   - the function's variance after every training example was observed with the same noise,
//     v(x) = κ(x,x) − K_*n (K + εI)⁻¹ K_n*, as tr v/√tr κ;
//   - the Mahalanobis distance of the inputs from the nearest training inputs;
//   - the angle between the inputs and the nearest training inputs.
//
// The surprise of a distance is −log of the share of training examples that have a larger distance when they are
// left out. The score is the mean of the three surprises. It is about 1 on average for rows like the training
// examples. A row whose distances are each exceeded by one training example in a hundred has −log .01 = 4.6. No
// single distance is best for all data: see studies/novelty.
//
// Distances of inputs have a meaning for numbers on a scale, not for names such as tokens: see
// Options.FunctionAlone.
package novelty
