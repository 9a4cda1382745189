package result

// A PredictedRow is the prediction of one row, as gpexplain predict writes it.
type PredictedRow struct {
	Index Index `json:"index"` // row of the original file
	Label Float `json:"label"` // label or target in the data; NaN if unknown
	Prediction
	Targets   []Float `json:"targets,omitempty"` // where a row has several; Label is NaN then
	ID        string  `json:"id,omitempty"`      // name of the row; "" for none
	LabelName string  `json:"label_name,omitempty"`

	// Only for a regression of one target: the expected target E[y|x], and what the
	// network alone expects, both in the units of the target.
	Expected    Float `json:"-"`
	MAPExpected Float `json:"-"`
	// Only for a regression of one target: P(Y < y) + P(Y = y)/2 of a new observation
	// Y at the target y, calibrated and by the network alone.
	CDF    Float `json:"-"`
	MAPCDF Float `json:"-"`

	LogDensity    Float `json:"-"` // log p(y|x) of the label or target, calibrated; NaN if it is unknown
	MAPLogDensity Float `json:"-"` // the same by the network alone
}

// Prediction is what the model predicts for the row. Probabilities have one entry
// for each class, in order, and are nil for a regression.
type Prediction struct {
	Class          Float     `json:"class"`                   // label of the largest probability; NaN for a regression
	NetworkClass   *Float    `json:"network_class,omitempty"` // label of the network's largest output, where that is another
	Probability    []Float   `json:"probability"`
	ProbabilitySD  []Float   `json:"probability_sd"`
	MAPProbability []Float   `json:"map_probability"` // g⁻¹(f(x;θ*))
	Mean           []Float   `json:"mean"`            // f(x;θ*), or with --refit the mean of the refit; length C
	Covariance     [][]Float `json:"covariance"`      // C×C, not scaled by the calibration

	// Calibration leads from Mean and Covariance to Probability; all are 1 where nothing was calibrated. Nil where
	// the probability is a mean over drawn or over several networks.
	Calibration *Scales `json:"calibration,omitempty"`

	ClassName string `json:"class_name,omitempty"` // where classes have names

	// For a regression, the expected value of a new observation and its standard
	// deviation, noise included, and the standard deviation of the function without
	// it, all calibrated, of length C; nil for classes.
	ObservationMean []Float `json:"observation_mean,omitempty"`
	ObservationSD   []Float `json:"observation_sd,omitempty"`
	FunctionSD      []Float `json:"function_sd,omitempty"`

	Novelty  *Novelty `json:"novelty,omitempty"` // nil where it was not computed
	LatentSD []Float  `json:"-"`                 // of the mean of several networks, calibrated; nil for one
	Interval []Float  `json:"interval,omitzero"` // ends of an interval for the target, if one was asked for
	Set      []Float  `json:"set,omitzero"`      // labels in the set of classes, which may be empty, if one was asked for
}

// Novelty says how unlike the training rows a row is, and beside it how unsure its prediction is
// before calibration. Score and Rank do not depend on targets, and are NaN where they are not known.
type Novelty struct {
	Score             Float `json:"score"`              // as glm/novelty (E22): surprise in nats, about 1 for rows like the training rows
	Rank              Float `json:"rank"`               // share of training rows whose leave-one-out score is smaller, in [0, 1]
	Entropy           Float `json:"entropy"`            // as score.Novelty: in nats; NaN for a regression
	MutualInformation Float `json:"mutual_information"` // between label and function, in nats
}
