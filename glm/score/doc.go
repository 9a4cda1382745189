// Package score judges predictions by targets that were not used for them: the moments of f are those by
// leave-one-out (E17) or those of held-out rows. It has the scores, the scales that calibrate a prediction (E18,
// E21), the novelty of rows, and intervals and sets by the jackknife.
//
//	c, err := score.Calibrate(ctx, lik, y, mean, cov, nil) // by leave-one-out
//	if err != nil {
//		return err
//	}
//	lik, mean, cov, err = c.Apply(lik, testMean, testCov)
//	if err != nil {
//		return err
//	}
//	s, err := score.ScoreOf(nil, lik, yTest, mean, cov)
//
// Shapes are as in package predictive. Results do not depend on the number of processors.
package score
