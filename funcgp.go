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

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// ErrClosed is the error of a call on a posterior that was closed.
var ErrClosed = errors.New("funcgp: the posterior is closed")

// Limits bound what a call may take: Memory in bytes, 0 for 80 % of what is free, and Progress, which is told of done of
// total parts of a stage, from any goroutine.
type Limits = linearize.Limits

// A Model is a trained network. The zero value is the built-in one, which tells the digits 4 and 9 apart.
type Model struct {
	File          string           // an ONNX file
	Network       *network.Network // in place of a file, which network.ReadONNX or Sequential makes
	Freeze, Learn []string         // names of tensors that are no parameters, or are though they look like constants
	Output        string           // name of the tensor of a file that is the output f; "" is the only output
	// Bind gives what a file leaves open, by name: the size of a dimension, one number that an input is in all its
	// elements, or the shape of an input, as network.ReadOptions.Bind does.
	Bind map[string]string
}

// Data say where rows are. The zero value is the built-in synthetic digits.
type Data struct {
	// X and Y are the training rows in memory, N×D and N×targets, in place of Source; labels are whole numbers.
	// Columns name the columns of X, nil for numbers. All rows are trained on, and there are no test rows.
	X, Y    *mat.Dense
	Columns []string
	// Weights are those of the rows X in the loss of the training, N numbers of 0 or more; nil stands for 1 each. A row
	// of weight 2 counts as two equal rows, and one of weight 0 as none.
	Weights []float64
	// Source is a CSV file with a header (plain or .gz), NumPy's .npy or .npz, a folder of
	// IDX files, "digits" or "mnist", which is downloaded once.
	Source              string
	TestFile, ValidFile string   // of a CSV file: test rows, and rows that were held out
	Target, ID          string   // names of the column of targets (default the last) and of names of rows (default none)
	RowWeights          string   // name of the column with the weights of the training rows; "" is none
	Classes, ClassNames []string // the classes to keep and their names, or names of labels, in the order of the outputs; default the classes of the model, else all
	TrainCount          int      // train on the first kept rows; 0 is all, or the rows that the model records
	TrainFile           string   // train on the rows listed in a file, a number a line
}

// A Prior says at which prior precision answers are. The zero value is the match: the precision at which the
// linearized model fits the training rows as the network does.
type Prior struct {
	kind  string
	value float64
}

// WeightDecay says the precision of the training by the weight decay λ of torch.optim.SGD or Adam on a mean
// loss; answers are at the match, which is that precision where the training ran to its end. AdamW's decay is
// none of these.
func WeightDecay(lambda float64) Prior { return Prior{"decay", lambda} }

// Precision is the precision δ of the Gaussian prior on every parameter, used as it is.
func Precision(delta float64) Prior { return Prior{"precision", delta} }

// Stated is the precision that the model records of its training.
func Stated() Prior { return Prior{kind: "stated"} }

// GPrior is the prior with the variance 1/F for a parameter with the mean Fisher information F over the training rows.
func GPrior() Prior { return Prior{kind: "g"} }

// Tuned chooses the precision by "loo", leave-one-out predictions of training rows, by "evidence", or by
// "heldout", rows that were not trained on.
func Tuned(how string) Prior { return Prior{kind: how} }

// A Method says how a posterior is computed. The zero value is exact.
type Method struct {
	// Name is exact; kept, exact for the rows of all data that say something; parameters, exact for any number
	// of rows by the precision of the parameters, 8·P² bytes; nystrom, all data through inducing examples; subset, part
	// of the data; or auto, which takes exact, kept, parameters or nystrom by their time and memory and says which in a warning.
	Name     string
	Inducing int     // number of inducing examples; 0 is as many as have 2000 outputs
	Within   float64 // of kept: variances are at most this part larger for 99 in 100 rows; 0 is .05
	Select   string  // how inducing examples are chosen; "" is stratified by class, else uniform
}

// FitOptions are the options of Fit. The zero value is what gpexplain fit does without flags.
type FitOptions struct {
	Limits
	// Likelihood is gaussian, bernoulli (of two classes, or of labels of which a row has any number), categorical,
	// poisson, negative-binomial:R or heteroscedastic; "" is the model's, else by the targets.
	Likelihood string
	// ClassWeights are the weights of classes in the loss of the training, as weight= and pos_weight= of PyTorch: "0=1,1=3.2",
	// where a class without a weight has 1, or "balanced", N/(C n) for a class with n of the N rows. With several labels a
	// row, the weight of a label is that of the rows that have it, and balanced is the number of rows without the label
	// over the number with it. "" is the model's, else none. The posterior is fitted to that loss. Calibrated
	// probabilities are for classes as often as they occur.
	ClassWeights string
	// LabelSmoothing is ε of a training on the shares (1 − ε)y + ε/C of C classes, to which the posterior is fitted; 0 is
	// the model's, else none.
	LabelSmoothing float64
	Prior          Prior
	Method         Method
	NoiseVariance  float64 // σ² of a Gaussian; 0 is the model's, else by leave-one-out
	// Standardize says what is done to the inputs before the network, by the training rows, which is wrong
	// for a network that does so itself: yes, less their mean over their deviation; sample, with deviations over N − 1;
	// robust, less their median over their interquartile range; minmax and signed, by their range to 0 to 1 and −1 to 1;
	// 255, divided by it; no; or auto, by the model's metadata, else by a guess among these, targets too. "" is auto. Other means and deviations can be given to
	// gpexplain fit alone, whose file Open reads.
	Standardize string
	// Calibrate is loo, by leave-one-out predictions of training rows; heldout, by rows that were not trained
	// on; or none. "" is loo.
	Calibrate string
	Seed      uint64
	// AtTheta stays at the trained parameters and the precision that was stated, for Evidence and Validate, which otherwise fit
	// another posterior there: it has no match, no calibration and no Novelty.Score.
	AtTheta bool
	// Force answers even where the outputs of a network are those of the classes in another order.
	Force bool
}
