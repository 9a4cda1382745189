// Package score judges predictives by the targets of rows that they do not know: moments of f by
// leave-one-out (E17), or of held-out rows. It has the scores themselves, the scales that calibrate
// a predictive (E18, E21), the novelty of rows, and intervals and sets by the jackknife.
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
// Shapes are as in package predictive. Results do not depend on the number of workers.
package score
