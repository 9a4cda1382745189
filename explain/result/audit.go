package result

// An Audit lists the training rows that are worth a look. In each list the rows that matter most come first.
type Audit struct {
	Schema      string            `json:"schema"`
	Meanings    map[string]string `json:"meanings"`             // what each score says, its unit and its sign
	By          string            `json:"by"`                   // what finds wrong labels: labels, a regression of them, or posterior
	Noise       *Float            `json:"noise"`                // variance of the noise of that regression over the mean prior variance; nil without one
	Examples    int               `json:"examples"`             // that were left out of the posterior
	Effective   Float             `json:"effective_parameters"` // Σ of their leverage
	Suspects    *int              `json:"suspects"`             // rows whose label is not the most probable one; nil of a regression
	Mislabelled []Suspect         `json:"mislabelled"`          // by LogDensity, the lowest first
	Duplicates  []Duplicate       `json:"duplicates"`
	Boundary    []NearBoundary    `json:"boundary"` // by Entropy, the highest first; empty of a regression
	Leverage    []HighLeverage    `json:"leverage"` // the highest first
	Record      *Record           `json:"record"`   // nil until the caller asks for it
	Fit         Fit               `json:"fit"`
	Timings     Timings           `json:"timings"`

	Scores []AuditScores `json:"-"` // of all rows that have any, in their order
}

// A Suspect is a training row that the others contradict.
type Suspect struct {
	NamedRow
	LogDensity Float `json:"log_density"` // of its own label or target without the row, nats
	// Set for classes only: the most probable class without the row, its probability, and the probability of
	// the row's own label.
	Suggested            *Float `json:"suggested,omitempty"`
	SuggestedName        string `json:"suggested_name,omitempty"`
	SuggestedProbability *Float `json:"suggested_probability,omitempty"`
	LabelProbability     *Float `json:"label_probability,omitempty"`

	Residual []Float   `json:"residual,omitempty"` // of each target of a regression: (y − E y)/sd y without the row
	Supports []Support `json:"supports"`           // rows that say so, the largest Value first
}

// A Support is a training row that speaks against the label or target of another.
type Support struct {
	NamedRow
	Value Float `json:"value"` // its term, in units of f
}

// A Duplicate is two training rows that are nearly the same for the posterior.
type Duplicate struct {
	First       NamedRow `json:"first"`
	Second      NamedRow `json:"second"`
	Correlation Float    `json:"correlation"`
	Equal       bool     `json:"equal"`    // number by number
	Conflict    bool     `json:"conflict"` // whether the labels or targets differ
}

// A NearBoundary is a training row for which several classes are probable when the row itself is left out.
type NearBoundary struct {
	NamedRow
	Entropy Float    `json:"entropy"` // nats
	Margin  Float    `json:"margin"`
	Between []Float  `json:"between"` // the two most probable classes, the most probable first
	Names   []string `json:"between_names,omitempty"`
}

// A HighLeverage is a training row that fixes the function at its own input.
type HighLeverage struct {
	NamedRow
	Leverage Float `json:"leverage"`
}

// AuditScores are the scores of one training row. A score that does not exist is NaN.
type AuditScores struct {
	NamedRow
	LogDensity                             Float
	Suggested                              Float  // label of the most probable class without the row
	SuggestedName                          string // "" where classes have no names
	SuggestedProbability, LabelProbability Float
	Residual                               Float // the largest in size of all targets
	Entropy, Margin, Leverage              Float
	EqualTo                                Index // row of the first example with the same input; -1 for none
}

// Explanations of the scores of audits and acquisitions, which every output includes.
const (
	ResidualMeaning    = "residual: (target − prediction without the row) in standard deviations; positive where the target is above the prediction"
	SupportMeaning     = "value of a row that says so: its term in the sum that makes up f of the suggested label less f of the row's own, in units of f; positive: it speaks against the label"
	PullMeaning        = "value of a row that pulls away: its term in the sum that makes up the prediction, in units of f; positive: away from the target"
	DuplicateMeaning   = "posterior correlation of the functions at both rows, no unit, at most 1: the nearer to 1, the more one row says what the other does"
	BoundaryMeaning    = "entropy of the class probabilities predicted without the row, in nats: the higher, the nearer the row is to a boundary; margin: the difference of the two largest probabilities, near 0 at a boundary"
	LeverageMeaning    = "leverage: how many of its outputs the row fixes by itself, tr Λh, no unit, from 0 to the number of outputs; those of all rows add up to the effective number of parameters"
	InformationMeaning = "information: expected information gain, the mutual information of the row's label and the function, in nats, at least 0: the more, the more a label would tell"
	GainMeaning        = "gain: ½ log det(I + RᵀCR), in nats, at least 0: what a label tells to second order; in a batch, what it adds to the labels of the rows chosen before"
)

// DensityMeaning explains Suspect.LogDensity, for classes or for real targets.
func DensityMeaning(classes bool) string {
	own := "label"
	if !classes {
		own = "target"
	}
	return "log density of the row's own " + own + ", in nats, predicted without the row: the lower, the more the other rows contradict it"
}

// An Acquisition ranks the rows of a pool by how much their labels would tell.
type Acquisition struct {
	Schema   string            `json:"schema"`
	Meanings map[string]string `json:"meanings"` // what each score says, its unit and its sign
	Pool     int               `json:"pool"`     // rows
	Ranking  []Acquired        `json:"ranking"`  // by Information, the highest first
	Batch    []Chosen          `json:"batch"`    // in the order in which they were chosen
	Fit      Fit               `json:"fit"`
	Timings  Timings           `json:"timings"`
}

// An Acquired is a row of a pool, with the class of the largest mean.
type Acquired struct {
	Index       Index   `json:"index"`
	ID          string  `json:"id,omitempty"`
	Information Float   `json:"information"` // nats
	Gain        Float   `json:"gain"`        // nats
	Class       Float   `json:"class"`       // NaN of a regression
	ClassName   string  `json:"class_name,omitempty"`
	Mean        []Float `json:"mean"` // of f
}

// A Chosen is a row of a batch.
type Chosen struct {
	Index     Index  `json:"index"`
	ID        string `json:"id,omitempty"`
	Class     Float  `json:"class"`
	ClassName string `json:"class_name,omitempty"`
	Gain      Float  `json:"gain"`  // nats that its label adds to the labels of the rows chosen before
	Total     Float  `json:"total"` // nats of all labels so far
}
