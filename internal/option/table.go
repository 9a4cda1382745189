package option

// MostWithin is the largest value of the option within.
const MostWithin = 10

// Table holds the options of models, data, fits and questions, in the order of their names. doc/library.md lists
// those of package funcgp.
var Table = []Option{
	{Name: "append"},
	{Name: "arch"},
	{Name: "at", Go: "Prior", Default: "match", Kept: true,
		Help: "answer at the prior precision `WHICH`: match, at which the refit fits the training rows as the network " +
			"does; stated, that of the training; or a number. --prior-precision, --prior and --tune-prior say it too"},
	{Name: "bind", Go: "Model.Bind",
		Help: "`NAME=VALUE` of what a model leaves open: the size of a dimension, height=48; one number that an input is " +
			"in all its elements, sr=16000 or state=0; or the shape of an input, x=n,3,48,192 with n for the examples; " +
			"once for each name"},
	{Name: "by-layer", Go: "ExplainOptions.ByLayer"},
	{Name: "calibrate", Go: "Calibrate", Default: "loo", Values: []string{"loo", "heldout", "none"}, Kept: true,
		Help: "scale the covariance, and the mean of classes, for probabilities and intervals by `HOW`: loo, by " +
			"leave-one-out predictions of the training rows; heldout, by rows that were not trained on; or none"},
	{Name: "certify", Go: "Method.Certify", Default: "false", Kept: true,
		Help: "of --method kept: pass over all rows left out once more, for bounds of what they would change instead of " +
			"estimates from a sample"},
	{Name: "checkpoint", Go: "FitOptions.Checkpoint"},
	{Name: "class-names", Go: "Data.ClassNames",
		Help: "`NAMES` of the classes in the order of the outputs, for example repaid,default, or of several labels a " +
			"row (default the model's, else the words of the data, sorted, or the target columns)"},
	{Name: "class-weights", Go: "ClassWeights", Kept: true,
		Help: "weights of the classes in the loss of the training, as weight= or pos_weight= of PyTorch: `CLASS=W,...`, " +
			"1 for those not named, or balanced for N/(C·n) of a class with n of the N training rows; of several " +
			"labels a row, the weights of the rows that have each, LABEL=W, or balanced for the rows without over " +
			"those with it; the posterior is fitted to that loss, and probabilities are for classes as often as they " +
			"occur (default the model's)"},
	{Name: "classes", Go: "Data.Classes", Kept: true,
		Help: "keep the rows of these classes, in this `ORDER`, for example 4,9 or no,yes"},
	{Name: "contrast", Go: "ExplainOptions.Against", Member: "contrast"},
	{Name: "coverage", Go: "PredictOptions.Coverage", Member: "coverage",
		Help: "for each row give an interval (a regression) or a set of classes that should hold the target of a share " +
			"`P` of new rows, by jackknife+ from leave-one-out predictions, or by held-out rows with --calibrate " +
			"heldout"},
	{Name: "data", Go: "Data.Source", Python: "X", Values: []string{"digits", "mnist"},
		Help: "rows from `NAME|DIR|FILE`: digits (synthetic; digits:TRAIN,TEST sets how many), mnist (downloaded once), " +
			"a directory of IDX files, a CSV file with a header, plain or .gz, or NumPy's .npy or .npz; CSV and .npy " +
			"files also by a pattern in quotes, 'x-*.npy', or a list a.csv,b.csv (default digits)"},
	{Name: "early-stopping", Go: "TrainingSet.HeldOut"},
	{Name: "epochs"},
	{Name: "fit", Member: "fit"},
	{Name: "flip", Go: "ExplainOptions.Flip", Member: "flip"},
	{Name: "flip-most", Go: "ExplainOptions.FlipMost"},
	{Name: "force", Go: "FitOptions.Force",
		Help: "answer even where the outputs are those of the classes in another order, which is an error otherwise"},
	{Name: "form", Values: []string{"refit", "held-sites", "linear-gaussian", "at-theta"}},
	{Name: "freeze", Go: "Model.Freeze",
		Help: "tensors of the model that are not parameters, as inspect names them: `NAME,...`, in which * stands for " +
			"any characters and ? for one"},
	{Name: "g-prior"},
	{Name: "host"},
	{Name: "id", Go: "Data.ID", Python: "ids",
		Help: "`COLUMN` of a CSV file that names the rows and is no feature, or array of a .npz file"},
	{Name: "index", Go: "TestRows", Member: "row"},
	{Name: "inducing", Go: "Method.Inducing", Kept: true,
		Help: "`M` inducing examples of --method subset or nystrom, or with --select strength inducing rows (default as " +
			"many as have 2000 outputs)"},
	{Name: "inducing-file"},
	{Name: "inference", Go: "FitOptions.Inference", Default: "laplace", Values: []string{"laplace", "variational"}, Kept: true,
		Help: "find the posterior at the prior precision of the answers by `HOW`: laplace, by the curvature at one point; " +
			"or variational, the Gaussian with the largest lower bound on the evidence, of --method exact or " +
			"parameters, or of --structure full, block or diag, whose mean is the mean of the answers as with --refit"},
	{Name: "influence", Go: "ExplainOptions.Influence", Member: "influence"},
	{Name: "init"},
	{Name: "input", Python: "X"},
	{Name: "input-columns", Go: "Model.InputColumns",
		Help: "`INPUT=COLUMNS` of the data that an input of the model takes, by name, a:c or 0-9, for example " +
			"x=age,income; once for each input (default the columns in order)"},
	{Name: "input-mean", Go: "FitOptions.InputMean", Kept: true,
		Help: "subtract these means from the inputs before the network: `X,...`, one for all, a channel or a column, or " +
			"a JSON file; pixels run from 0 to 1"},
	{Name: "input-sd", Go: "FitOptions.InputSD", Kept: true,
		Help: "divide the inputs by these deviations: `X,...`, or a JSON file"},
	{Name: "invert", Go: "ReadOptions.Invert", Member: "invert",
		Help: "`yes|no`: pictures of --input are dark ink on light paper or not (default found by their borders, and " +
			"said)"},
	{Name: "json",
		Help: "write JSON to standard output"},
	{Name: "label-smoothing", Go: "LabelSmoothing", Kept: true,
		Help: "label smoothing `X` in the loss of the training, ε of the shares (1−ε)y + ε/C of C classes as PyTorch has " +
			"it; the posterior is fitted to that loss (default the model's)"},
	{Name: "last-layer", Go: "Model.Layers",
		Help: "the same as --layers last"},
	{Name: "layers", Go: "Model.Layers",
		Help: "layers of the model whose tensors alone are parameters, `LAYER,...`: last, numbers as inspect has them, or " +
			"names of tensors or layers, such as 'layer4.*' or '*lora*'; what is before them is computed once for each row"},
	{Name: "learn", Go: "Model.Learn",
		Help: "tensors of the model that are parameters, though they were taken for constants, as inspect names them: " +
			"`NAME,...`, with * and ? as in --freeze, before which they go"},
	{Name: "likelihood", Go: "Likelihood", Values: []string{"gaussian", "bernoulli", "categorical", "poisson", "negative-binomial:R", "heteroscedastic"}, Kept: true,
		Help: "`NAME` of the likelihood: gaussian, bernoulli of two classes or of labels of which a row has any number, " +
			"categorical, poisson, negative-binomial:R of counts with the variance μ + μ²/R, or heteroscedastic, whose " +
			"outputs are the means and then the log noise variances (default the model's, else by the targets)"},
	{Name: "link", Go: "PredictOptions.Link"},
	{Name: "max-memory", Go: "Limits.Memory",
		Help: "take at most this much memory, a `SIZE` such as 4GiB (default 80 % of what is free)"},
	{Name: "method", Go: "Method.Name", Default: "exact", Values: []string{"exact", "kept", "subset", "nystrom", "parameters", "auto"}, Kept: true,
		Help: "`METHOD` of the posterior: exact; kept, exact for the rows of all data that say something; subset, which " +
			"takes part of the data; nystrom, which takes all data through inducing examples; parameters, exact for " +
			"any number of rows by the precision of the P parameters, 8·P² bytes; or auto, which takes exact where " +
			"that is quick, and else kept, parameters or nystrom, and says why"},
	{Name: "model", Go: "Model.File",
		Help: "trained network, an ONNX `FILE` (default the built-in network); explain takes several, A,B,..."},
	{Name: "noise-variance", Go: "NoiseVariance", Kept: true,
		Help: "noise variance `X` of the gaussian likelihood (default the model's, else 1; of answers at the match by " +
			"leave-one-out)"},
	{Name: "normalized-apart"},
	{Name: "operators"},
	{Name: "optimize"},
	{Name: "out", Python: "path"},
	{Name: "output", Go: "Model.Output", Member: "output",
		Help: "`NAME` of the tensor that is the output f: of several outputs, or any inside the graph"},
	{Name: "outputs", Go: "FitOptions.Outputs", Kept: true,
		Help: "of many classes, tell apart those of this `LIST`, such as 3,17 or cat,dog, or the K most probable with " +
			"top:K, and take the others as one class; all takes every class (default top:10 of more than 100 classes)"},
	{Name: "page"},
	{Name: "picture", Member: "picture"},
	{Name: "pool"},
	{Name: "posterior", Python: "path",
		Help: "answer from the posterior in `FILE`, which gpexplain fit wrote, instead of fitting one"},
	{Name: "predictive", Go: "FitOptions.Predictive", Default: "glm", Values: []string{"glm", "bnn", "linear"},
		Help: "`HOW` predictions are made: glm, of the linearized network; bnn, by drawing parameters and running the " +
			"network; or linear, with the response linearized too"},
	{Name: "prior", Kept: true,
		Help: "take the prior, and the noise variance of the gaussian likelihood, from `FILE`, which gpexplain evidence " +
			"--optimize wrote"},
	{Name: "prior-precision", Go: "Precision", Kept: true,
		Help: "precision `X` of the Gaussian prior on every parameter: of a training, of the evidence, or of answers in " +
			"place of the match (default the model's, else 1; see --at)"},
	{Name: "profile",
		Help: "write a `KIND` of profile, cpu, mem or trace, to the current directory"},
	{Name: "quiet",
		Help: "write nothing to standard error but an error"},
	{Name: "refit", Go: "FitOptions.Refit", Default: "false", Kept: true,
		Help: "take the mean of the refit, the linearized model at its optimum for the training rows, in place of the " +
			"network's own output; the covariance, and the terms of explanations, are the refit's in either case"},
	{Name: "row-weights", Go: "Data.RowWeights",
		Help: "`COLUMN` of a CSV file with the weights of the training rows in the loss, numbers of 0 or more, which is " +
			"no feature, or array of a .npz file: a row of weight 2 counts as two equal rows, and one of weight 0 as " +
			"none"},
	{Name: "rows", Member: "rows"},
	{Name: "samples", Go: "FitOptions.Samples"},
	{Name: "seed", Go: "Seed",
		Help: "seed `N` of training, of --select, the error report, and of predict --link mc and --predictive bnn " +
			"(default 0)"},
	{Name: "select", Go: "Method.Select", Values: []string{"uniform", "stratified", "trace", "greedy", "rpcholesky", "kmeans", "strength"}, Kept: true,
		Help: "`HOW` to choose inducing examples: uniform, stratified, trace, greedy, rpcholesky or kmeans (default " +
			"stratified by class, uniform for a regression); or, of --method nystrom, strength: single rows, each an " +
			"example with a direction of its Λ, which say most"},
	{Name: "select-only"},
	{Name: "shard"},
	{Name: "smallest-flip", Go: "ExplainOptions.SmallestFlip"},
	{Name: "split", Go: "Data.Split",
		Help: "take the parts of a CSV file from split `K` of FILE.splits.csv"},
	{Name: "standardize", Go: "Standardize", Default: "auto", Values: []string{"auto", "yes", "sample", "robust", "minmax", "signed", "255", "no"}, Kept: true,
		Help: "`WAY` in which inputs are scaled by the training rows: yes (less their mean, over their deviation, by " +
			"column or by channel), sample (with deviations over N − 1), robust (less their median, over their " +
			"interquartile range), minmax (by their range to 0 to 1), signed (to −1 to 1), 255 (divided by it), or no " +
			"(inputs and targets as they are); auto goes by the model's metadata, else guesses by what the network " +
			"does on its training rows, targets and counts too, and says so, with a warning where two ways with other " +
			"answers are near"},
	{Name: "strict",
		Help: "exit with status 1 on a warning, and at once on one that the network does not suit the data or the prior; " +
			"what is said on reading the model does not count"},
	{Name: "structure", Go: "FitOptions.Structure", Values: []string{"full", "diag", "block", "kfac", "kfac-damped", "last-layer", "subnetwork", "chain"},
		Help: "take the posterior over the parameters with the `STRUCTURE` full, diag, block (a block a layer), kfac, " +
			"kfac-damped, last-layer, subnetwork or chain"},
	{Name: "table", Member: "table"},
	{Name: "target", Go: "Data.Target", Python: "y",
		Help: "target `COLUMN` of a CSV file, or several as a,b, one for each output: numbers, or labels 0 and 1 of " +
			"which a row has any number (default the last); of .npz the array, of .npy the file"},
	{Name: "target-mean", Go: "FitOptions.TargetMean", Kept: true,
		Help: "mean `X` of the targets that the network was trained on standardized; results are in the units of the " +
			"data"},
	{Name: "target-sd", Go: "FitOptions.TargetSD", Kept: true,
		Help: "deviation `X` of those targets"},
	{Name: "test-data", Go: "Data.TestFile",
		Help: "take the test rows of a CSV file from a second `FILE`"},
	{Name: "tie", Go: "Model.Tie",
		Help: "tensors of the model that are one parameter with those that the file stores in the same place for their equal " +
			"numbers, `NAME,...` as inspect has them; without it they are parameters of their own"},
	{Name: "top", Go: "ExplainOptions.Top", Member: "top"},
	{Name: "train-count", Go: "Data.TrainCount", Kept: true,
		Help: "train on the first `N` kept rows (default all, or those that the model records)"},
	{Name: "train-index", Go: "Data.TrainFile", Kept: true,
		Help: "train on the rows listed in `FILE`, one row number a line"},
	{Name: "tune-prior", Go: "Tuned", Values: []string{"loo", "evidence", "heldout"}, Kept: true,
		Help: "answer at a prior precision chosen by `HOW` in place of the match: evidence, the log evidence; loo, " +
			"leave-one-out predictions of training rows; both refit at every precision; or heldout, rows that were not " +
			"trained on: validation rows, or the last 5000 training rows that are left (without a value: heldout)"},
	{Name: "valid-data", Go: "Data.ValidFile",
		Help: "take the validation rows of a CSV file from another `FILE`; predictions are calibrated on them with " +
			"--calibrate heldout"},
	{Name: "values", Member: "values"},
	{Name: "verbose",
		Help: "say on standard error what is done"},
	{Name: "weight-decay", Go: "WeightDecay", Kept: true,
		Help: "the prior precision of the training by the weight decay `X`, λ, of torch.optim.SGD or Adam on a mean loss " +
			"of N training rows: N·λ, N·C·λ of C labels a row, or N·λ/(2σ²) for MSELoss (AdamW's decay is no such " +
			"prior)"},
	{Name: "with-inputs", Go: "SaveOptions.Inputs"},
	{Name: "within", Go: "Method.Within", Default: "0", Kept: true,
		Help: "leave out rows that say nothing, so that for 99 % of a sample of test rows the variance is at most " +
			"1+`PART` times that of all rows; --method exact becomes kept, whose default is 0.05, and nystrom passes " +
			"over the rows kept alone"},
	{Name: "without", Go: "ExplainOptions.Without", Member: "without"},
	{Name: "without-inputs", Go: "SaveOptions.WithoutInputs"},
	{Name: "workers",
		Help: "let `N` goroutines work at a time (default one a processor)"},
}
