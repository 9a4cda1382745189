package funcgp

import (
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// A Model names a trained network. The zero value is the built-in one, which tells the digits 4 and 9 apart.
type Model struct {
	File    string           // an ONNX file
	Network *network.Network // in place of a file, which network.ReadONNX or Sequential makes
	// Layers names the layers whose tensors alone are parameters: LastLayer, numbers of layers as Inspect has them, or
	// names of tensors or layers; nil is all. What is computed before them is computed once for each row.
	Layers []string
	// Freeze and Learn name tensors that are no parameters, or are though they look like constants. In these and in
	// Layers, * stands for any characters and ? for one.
	Freeze, Learn []string
	// Tie names tensors that are one parameter with those beside which the exporter stored them, for their equal numbers.
	Tie    []string
	Output string // name of the tensor of a file that is the output f; "" is the only output
	// Bind sets, by name, what a file leaves open: the size of a dimension, the one number that fills an input,
	// or the shape of an input. It works as network.ReadOptions.Bind does.
	Bind map[string]string
	// InputColumns are the columns of the data that an input of a file takes, by the input's name: names with commas
	// between them, or ranges of numbers such as 0-9. By default the inputs take the columns in order.
	InputColumns map[string]string
}

// LastLayer is the entry of Model.Layers that chooses the last layer.
const LastLayer = network.LastLayer

// Data say where rows are. The zero value is the built-in synthetic digits.
type Data struct {
	// X and Y are the training rows in memory, N×D and N×targets, in place of Source; labels are whole numbers.
	// Columns name the columns of X, nil for numbers. All rows are trained on, and there are no test rows.
	X, Y    *mat.Dense
	Columns []string
	// Weights are the weights of the rows of X in the training loss, N numbers of 0 or more; nil stands for 1
	// each. A row of weight 2 counts as two equal rows, and a row of weight 0 counts as none.
	Weights []float64
	// Source is a CSV file with a header (plain or .gz), NumPy's .npy or .npz, a folder of
	// IDX files, "digits" or "mnist", which is downloaded once.
	Source              string
	TestFile, ValidFile string   // of a CSV file: test rows, and rows that were held out
	Split               *int     // of a CSV file: the split of FILE.splits.csv that tells its parts; nil for none
	Target, ID          string   // names of the column of targets (default the last) and of names of rows (default none)
	RowWeights          string   // name of the column with the weights of the training rows; "" is none
	Classes, ClassNames []string // the classes to keep and their names, or names of labels, in the order of the outputs; default the classes of the model, else all
	TrainCount          int      // train on the first kept rows; 0 is all, or the rows that the model records
	TrainFile           string   // train on the rows listed in a file, a number a line
	// InMemory reads all inputs, and the file of a posterior, into memory, for answers to many who ask.
	InMemory bool
}

// Files are the files that Source names.
func (d *Data) Files() []string { return dataset.FilesOf(d.source()) }

// A Prior chooses the prior precision of the answers. The zero value is the match: the precision at which the
// linearized model fits the training rows as well as the network does.
type Prior struct {
	// WeightDecay is the weight decay λ of torch.optim.SGD or Adam on a mean loss, which says the precision of the
	// training; answers are at the match, which is that precision where the training ran to its end. AdamW's decay is
	// none of these.
	WeightDecay *float64
	// Precision is the precision δ of the Gaussian prior on every parameter, used as it is.
	Precision *float64
	// File holds a prior and the noise variance of a gaussian likelihood, as gpexplain evidence --optimize writes them.
	File string
	// G gives each parameter the prior variance 1/F, where F is its mean Fisher information over the training
	// rows.
	G bool
	// At is the precision of the answers: "match"; "stated", that of the training; or a number. "" is the match, unless
	// another field says the precision.
	At string
	// Tune chooses the precision that scores best: by "loo", leave-one-out predictions of training rows; by
	// "evidence"; or by "heldout", predictions of rows that were not trained on. "" does not tune it.
	Tune string
}

// A Method says how a posterior is computed. The zero value is exact.
type Method struct {
	// Name is exact; kept, exact for the rows of all data that say something; parameters, exact for any number
	// of rows by the precision of the parameters, 8·P² bytes; nystrom, all data through inducing examples; subset, part
	// of the data; or auto, which takes exact, kept, parameters or nystrom by their time and memory and says which in a warning.
	Name     string
	Inducing int     // number of inducing examples; 0 is as many as have 2000 outputs
	Within   float64 // of kept, which exact with it is: variances are at most this part larger for 99 in 100 rows; 0 is .05
	Certify  bool    // of kept: bound what the rows left out would change, by another pass over them
	Select   string  // how inducing examples are chosen; "" is stratified by class, else uniform
}

// A Numbers is a list of numbers, or the name of a JSON file with them. The zero value says nothing.
type Numbers struct {
	Values []float64
	File   string
}

// FitOptions are the options of a fit. The zero value is what gpexplain fit does without flags.
type FitOptions struct {
	linearize.Limits
	// Likelihood is gaussian, bernoulli (of two classes, or of labels of which a row has any number), categorical,
	// poisson, negative-binomial:R or heteroscedastic; "" is the model's, else by the targets.
	Likelihood string
	// ClassWeights are the weights of classes in the loss of the training, as weight= and pos_weight= of PyTorch: "0=1,1=3.2",
	// where a class without a weight has 1, or "balanced", N/(C n) for a class with n of the N rows. With several labels a
	// row, the weight of a label is that of the rows that have it, and balanced is the number of rows without the label
	// over the number with it. "" is the model's, else none. The posterior is fitted to that loss. Calibrated
	// probabilities are for classes as often as they occur.
	ClassWeights string
	// LabelSmoothing is the ε with which the network was trained, on the shares (1 − ε)y + ε/C of C classes.
	// The posterior is fitted to the same shares. nil means the value that the model records, or else none.
	LabelSmoothing *float64
	Prior          Prior
	Method         Method
	// Inference says how the posterior is found at the prior precision of the answers: "laplace", by the curvature at one
	// point; or "variational", the Gaussian with the largest lower bound on the evidence of the linearized model (E26). It
	// takes method exact or parameters, or structure full, block or diag, a log-concave likelihood, and about as many fits
	// as it has iterations. Its mean is that of the answers, as with Refit, and the terms of an explanation add up to it and
	// not to the network's output. Report has the bound with its parts as ELBO, and so has Evidence. With a Structure it is
	// at the stated precision, as every posterior over the parameters. "" is laplace.
	Inference     string
	NoiseVariance *float64 // σ² of a Gaussian; nil is the model's, else by leave-one-out
	// Standardize says what is done to the inputs before the network, by the training rows, which is wrong
	// for a network that does so itself: yes, less their mean over their deviation; sample, with deviations over N − 1;
	// robust, less their median over their interquartile range; minmax and signed, by their range to 0 to 1 and −1 to 1;
	// 255, divided by it; no; or auto, by the model's metadata, else by a guess among these, targets too. "" is auto.
	Standardize string
	// InputMean and InputSD are the means and deviations of the inputs, in place of Standardize: one number for all,
	// one a channel or one a column; pixels run from 0 to 1. TargetMean and TargetSD are those of the targets that the
	// network was trained on standardized.
	InputMean, InputSD, TargetMean, TargetSD Numbers
	// Outputs chooses which of many classes are told apart: a list of classes, "top:10" for the ten most
	// probable, or "all". All other classes are taken as one. "" is top:10 for more than 100 classes, and else
	// all.
	Outputs string
	// Refit makes the answers' mean the mean of the refit, which is the linearized model at its optimum for the
	// training rows, instead of the network's own output.
	Refit bool
	// Structure chooses a posterior over the parameters and the structure of its precision: full, diag, block,
	// kfac, kfac-damped, last-layer, subnetwork or chain. It is at the stated precision, whatever Prior.At says, and has
	// no explanations and no file. "" chooses a posterior over functions.
	Structure string
	// Predictive says how predictions are made: "glm", of the linearized network; "bnn", by Samples draws of the
	// parameters and the network itself; or "linear", with the response linearized too. "" is glm.
	Predictive string
	Samples    int // 0 is 1000
	// Calibrate chooses the predictions that calibrate the posterior: loo, leave-one-out predictions of
	// training rows; heldout, predictions of rows that were not trained on; none; or skip, which omits the
	// novelty detector too. "" is loo.
	Calibrate string
	// Checkpoint is the file that keeps the state of a long pass, so that a later fit can resume from it. ""
	// keeps none.
	Checkpoint string
	Seed       uint64
	// AtTheta keeps the posterior at the trained parameters and at the stated precision, for Evidence and
	// Validate, which otherwise fit such a posterior themselves. It has no match, no calibration and no
	// Novelty.Score.
	AtTheta bool
	// Force allows answers even if the outputs of a network are in another order of the classes than the
	// labels.
	Force bool
}
