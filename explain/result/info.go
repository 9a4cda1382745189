package result

// Info describes the model, the data and the method of a posterior.
type Info struct {
	Model                string `json:"model"`                  // name of the network
	Data                 string `json:"data"`                   // name of the data
	Method               string `json:"method"`                 // as of funcgp's Method.Name
	Likelihood           string `json:"likelihood"`             // as of FitOptions.Likelihood
	PriorPrecision       Float  `json:"prior_precision"`        // δ of the answers; NaN where parameters have different ones
	PriorPrecisionOrigin string `json:"prior_precision_origin"` // where it comes from, in words
	NoiseVariance        Float  `json:"noise_variance"`         // σ² of a Gaussian likelihood, by default by leave-one-out; NaN of others
	// LogEvidence is the log evidence of the training rows in nats, or NaN if the method has none. Bound says
	// whether LogEvidence is a "lower" or an "upper" bound of the exact log evidence; "none" and "" mean
	// neither.
	LogEvidence Float  `json:"log_evidence"`
	Bound       string `json:"bound,omitempty"`

	Refitted   bool     `json:"refitted"` // covariance and sums are those of the linearized model at its optimum, as of all but files of early versions
	Examples   int      `json:"examples"`
	Parameters int      `json:"parameters"`
	Outputs    int      `json:"outputs"`
	InputShape []int    `json:"input_shape"`       // of one row
	Columns    []string `json:"columns,omitempty"` // of the inputs of a table, nil of pictures
	Target     string   `json:"target,omitempty"`  // name of the target, "" where it has none
	Classes    []string `json:"classes,omitempty"` // in the order of probabilities, nil for a regression
	Labels     []string `json:"labels,omitempty"`  // of which a row has any number, in the order of probabilities; else nil
}

// A Card holds what people must know who use a network with its posterior, or approve its use.
type Card struct {
	Info
	Fit Fit
	Origin
	Quantity string // what an output of a regression is
	Holds    Held
}

// Held says which training inputs the file of a posterior holds.
type Held int

// The training inputs that a file may hold.
const (
	NoFile         Held = iota // there is no file
	NoInputs                   // number, identifier and label of the training rows alone
	AllInputs                  // the training inputs
	InducingInputs             // the inputs of the inducing rows
)

// An Exported graph is one that was written in ONNX, with its largest differences from the answers of the posterior.
type Exported struct {
	Schema  string   `json:"schema"`
	Bytes   int      `json:"bytes"`
	Outputs []string `json:"outputs"` // names, in order
	Terms   int      `json:"terms"`   // listed for each row; 0 for none
	// Errors has, for each output, the largest difference from Predict on some training rows. It is relative to
	// the largest number of the row, but absolute for probabilities.
	Errors map[string]Float `json:"errors"`
	Rows   int              `json:"rows"` // training rows that Errors are the largest over
	// FarErrors is the same on rows far from the data: training rows scaled up to 10⁸ times, with signs of
	// their own, with one huge number, or replaced by zeros. Each difference is relative to the largest number
	// of its row.
	FarErrors map[string]Float `json:"far_errors"`
	FarRows   int              `json:"far_rows"`
	// Bounds has the largest error that the integral over the link can have, for any mean and covariance, in
	// probability and in probability_sd.
	Bounds map[string]Float `json:"bounds"`
}
