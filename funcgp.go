// Package funcgp says of a trained neural network how sure each prediction is and why: it makes a Gaussian
// process over functions of the network, and writes a prediction as a sum over the training examples that
// adds up exactly. An ordinary program needs nothing below this package.
//
//	p, err := funcgp.Fit(ctx, funcgp.Model{File: "credit.onnx"}, funcgp.Data{Source: "credit.csv"}, nil)
//	if err != nil {
//		return err
//	}
//	defer p.Close()
//	if err := p.Check(); err != nil { // the network does not suit the data or the prior
//		return err
//	}
//	rows, err := p.ReadCSV(ctx, file) // by column name, in the units of the data
//	if err != nil {
//		return err
//	}
//	predictions, err := p.Predict(ctx, rows)
//	if err != nil {
//		return err
//	}
//	fmt.Println(predictions[0].Class, predictions[0].Probability, predictions[0].Novelty.Rank)
//	explanations, err := p.Explain(ctx, rows, &funcgp.ExplainOptions{Top: 3})
//
// A Posterior is fitted once, or opened from a file that Save or the command gpexplain fit wrote, and then
// answers from any number of goroutines. Its answers are those of gpexplain predict and explain, to the last
// bit: the mean is the network's own output, and the covariance and the sums are those of the linearized model
// at the prior precision at which it fits the training rows as the network does (E21 of doc/equations.md).
//
// The packages below are for those who build posteriors of their own: linearize and its network, ntk, gp,
// sparse, glm and explain. Posterior.Dual, Kernel, Network and Calibration lead there.
package funcgp

import (
	"errors"

	"github.com/funcgp/funcgp/linearize"
)

// ErrClosed is the error of a call on a posterior that was closed.
var ErrClosed = errors.New("funcgp: the posterior is closed")

// Limits bound what a call may take: Memory in bytes, 0 for 80 % of what is free, and Progress, which is told of done of
// total parts of a stage, from any goroutine.
type Limits = linearize.Limits

// WeightDecay says the precision of the training by the weight decay λ of torch.optim.SGD or Adam on a mean
// loss; answers are at the match, which is that precision where the training ran to its end. AdamW's decay is
// none of these.
func WeightDecay(lambda float64) Prior { return Prior{WeightDecay: &lambda} }

// Precision is the precision δ of the Gaussian prior on every parameter, used as it is.
func Precision(delta float64) Prior { return Prior{Precision: &delta} }

// Stated is the precision that the model records of its training.
func Stated() Prior { return Prior{At: "stated"} }

// GPrior is the prior with the variance 1/F for a parameter with the mean Fisher information F over the training rows.
func GPrior() Prior { return Prior{G: true} }

// Tuned chooses the precision by "loo", leave-one-out predictions of training rows, by "evidence", or by
// "heldout", rows that were not trained on.
func Tuned(how string) Prior { return Prior{Tune: how} }
