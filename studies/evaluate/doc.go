// Package evaluate judges attributions of predictions to training examples against
// networks that are trained again on a part of these examples.
//
// A Retraining trains networks on random subsets of the training rows and keeps their
// outputs at test rows in files. A Method gives a score to each pair of a test row and a
// training row: Kernel the terms of package explain, AlongTraining their sums over
// checkpoints, and GradientDot, TracIn, TRAK, EKFAC, LastLayer and Random what others use. The linear datamodeling score (Park et al. 2023)
// is the rank correlation, over subsets, of what the scores of a subset add up to with the
// outcome of the network trained on it:
//
//	subsets := evaluate.Subsets(n, n/2, 100, 0)
//	outputs, err := retraining.Outputs(ctx, runs) // one run a subset
//	outcomes := evaluate.Outcomes(outputs, testY, evaluate.Margin{})
//	list, err := evaluate.Kernel{Precision: 30}.Attribute(ctx, problem)
//	for _, a := range list {
//		var sums mat.Dense
//		evaluate.PredictionsTo(&sums, a.Scores, subsets)
//		fmt.Println(a.Name, evaluate.Datamodel(&sums, outcomes, 0))
//	}
//
// # Other protocols
//
// Leave-one-out correlation: Spearman's, over training rows that are left out one at a
// time, of their scores with what the target of a test row loses, averaged over test rows.
// KernelFit.LeaveOut says what the linearized model loses, without any training; Without
// gives the rows of networks that are trained on from θ*, or again.
//
// Brittleness: Removals.Flips finds how few of the training rows that scores rank first
// must be taken away until retrained networks give a test row another class.
//
// Drop: Removals.Drops says what the target loses without a share of them, such as one of
// a hundred.
//
// Wrong labels: Detect says how many of them, which FlipLabels made, are found by inspecting the
// rows that scores suspect most, by OwnScores or OtherScores.
//
// Letters and shapes are those of package linearize: T test rows, N training rows, S
// subsets. Sums run in a fixed order, so results are bit-identical for any GOMAXPROCS.
package evaluate
