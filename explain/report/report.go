package report

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/linearize"
)

// A Report is the result of `gpexplain explain`. Other programs read its JSON, so
// the names, order and meaning of the fields do not change. Outputs come from
// Rows.Output; the caller fills in the rest.
type Report struct {
	Input   Input    `json:"input"`
	Classes []string `json:"classes,omitempty"` // names in the order of the probabilities; none for a regression
	// What each score says, its unit and its sign, by the name of the member; nil says nothing.
	Meanings   map[string]string `json:"meanings,omitempty"`
	Prediction Prediction        `json:"prediction"`
	Outputs    []Output          `json:"outputs"`           // every output in order, then contrasts
	Without    *Changed          `json:"without,omitempty"` // nil unless it was asked for
	Flip       *Changed          `json:"flip,omitempty"`    // nil unless it was asked for

	SmallestFlip *SmallestFlip `json:"smallest_flip,omitempty"` // nil unless it was asked for

	Networks *Networks `json:"networks,omitempty"` // of the mean of several networks; nil for one

	Attribution *Attribution `json:"attribution,omitempty"` // nil where the terms are those of Fit

	Fit     Fit     `json:"fit"`
	Timings Timings `json:"timings"`
}

// Changed is what would be predicted for the row had the training data been others: without
// some rows, or with other labels: the prediction, changed by what the linearized model changes
// by when it is fitted to those data, and calibrated as the other.
type Changed struct {
	Rows        []int   `json:"rows"`             // of the original file, as they were given
	Labels      []Float `json:"labels,omitempty"` // the other label of each row, of a flip
	Mean        []Float `json:"mean"`             // of f, length C
	Probability []Float `json:"probability"`      // of each class; nil for a regression
	Class       Float   `json:"class"`            // label of the most probable class; NaN for a regression

	LabelNames []string `json:"label_names,omitempty"` // where classes have names
	ClassName  string   `json:"class_name,omitempty"`
}

// Attribution is the prior precision of the posterior whose terms are listed. Prediction and Fit
// are of another one where Rule is not prior.
type Attribution struct {
	Precision Float  `json:"prior_precision"` // δ; NaN where several networks differ
	Rule      string `json:"rule"`            // prior, given, training, removals, loo or evidence
	Says      string `json:"says"`            // the same in a sentence
}

// NewAttribution describes the precision that a rule gave, besides that of predictions. how says
// how it came about.
func NewAttribution(rule string, precision, predictions float64, how string) *Attribution {
	a := &Attribution{Precision: Float(precision), Rule: rule}
	if a.Says = fmt.Sprintf("The terms are those of the prior precision %s, as predictions are.", short(precision)); rule != "prior" {
		a.Says = fmt.Sprintf("The terms are those of the prior precision %s (rule %s: %s); predictions are those of %s.", short(precision), rule, how, short(predictions))
	}
	return a
}

// text is the sentence where the terms are not those of Fit, else "".
func (a *Attribution) text() string {
	if a == nil || a.Rule == "prior" {
		return ""
	}
	return a.Says
}

// SmallestFlip is the smallest set of training rows, found greedily, without which the class
// of the row is another: that of the largest posterior mean f, for one output of its sign.
// Rows ascend. They are empty, and the prediction nil, where no set was found.
type SmallestFlip struct {
	Changed
	Found     bool    `json:"found"`
	Confirmed bool    `json:"confirmed"`        // a fit without Rows from scratch has the other class too
	Tried     int     `json:"tried"`            // sets that were fitted
	Left      int     `json:"left_out"`         // the most rows that were left out, those of Rows where a set was found
	Margin    []Float `json:"margin,omitempty"` // where no set was found, how far f is from another class with all rows and without so many, in units of f
}

// Input is the row explained.
type Input struct {
	Split string `json:"split"`          // train, valid or test, or file for an input file
	Index Index  `json:"index"`          // row of the original file; -1 for a file
	Label Float  `json:"label"`          // label or target in the data; NaN if unknown
	File  string `json:"file,omitempty"` // name of the input file

	LabelName string `json:"label_name,omitempty"` // where classes have names
	ID        string `json:"id,omitempty"`         // name of the row, where rows have names

	Targets []Float `json:"targets,omitempty"` // where a row has several; Label is NaN then

	Notes []string `json:"notes,omitempty"` // what was done to a file to fit it to the model
}

// Prediction is what the model predicts for the row. Probabilities have one entry
// for each class, in order, and are nil for a regression.
type Prediction struct {
	Class          Float     `json:"class"`                   // label of the largest probability; NaN for a regression
	NetworkClass   *Float    `json:"network_class,omitempty"` // label of the network's largest output, where that is another
	Probability    []Float   `json:"probability"`
	ProbabilitySD  []Float   `json:"probability_sd"`
	MAPProbability []Float   `json:"map_probability"` // g⁻¹(f(x;θ*))
	Mean           []Float   `json:"mean"`            // f(x;θ*), or with --refit that of the refit; length C
	Covariance     [][]Float `json:"covariance"`      // C×C, not scaled by the calibration

	ClassName string `json:"class_name,omitempty"` // where classes have names

	// For a regression, the expected value of a new observation and its standard
	// deviation, noise included, and the standard deviation of the function without
	// it, all calibrated, of length C; nil for classes.
	ObservationMean []Float `json:"observation_mean,omitempty"`
	ObservationSD   []Float `json:"observation_sd,omitempty"`
	FunctionSD      []Float `json:"function_sd,omitempty"`

	Novelty  *Novelty `json:"novelty,omitempty"`  // nil where it was not computed
	LatentSD []Float  `json:"-"`                  // of the mean of several networks, calibrated; nil for one
	Interval []Float  `json:"interval,omitempty"` // ends of an interval for the target, if one was asked for
	Set      []Float  `json:"set,omitempty"`      // labels in the set of classes, if one was asked for
}

// Novelty says how unlike the training rows a row is, and beside it how unsure its prediction is
// before calibration. Score and Rank do not depend on targets, and are NaN where they are not known.
type Novelty struct {
	Score             Float `json:"score"`              // as glm/novelty (E22): surprise in nats, about 1 for rows like the training rows
	Rank              Float `json:"rank"`               // share of training rows whose leave-one-out score is smaller, in [0, 1]
	Entropy           Float `json:"entropy"`            // as glm.Novelty: in nats; for a regression the predictive variance
	MutualInformation Float `json:"mutual_information"` // between label and function, in nats
}

// Output is the explanation of one output or contrast.
type Output struct {
	Output          Index          `json:"output"`             // c; -1 for a contrast
	Contrast        *Contrasted    `json:"contrast,omitempty"` // only for a contrast
	Network         Float          `json:"network"`
	PriorMean       Float          `json:"prior_mean"`
	ContributionSum Float          `json:"contribution_sum"` // over all N
	Remainder       Float          `json:"remainder"`
	Cancellation    Float          `json:"cancellation"`     // over all N
	RawCancellation Float          `json:"raw_cancellation"` // over all N
	Contributions   []Contribution `json:"contributions"`
	Subtotals       []Subtotal     `json:"subtotals,omitempty"` // over all N
	Layers          []LayerSum     `json:"layers,omitempty"`    // over all N; they add up to ContributionSum
	Networks        *NetworkSums   `json:"networks,omitempty"`  // of the mean of several networks; nil for one

	// Shown by pages but not part of the JSON: the largest contributions of each
	// sign, and the most similar training examples.
	For, Against []Contribution `json:"-"`
	Similar      []Contribution `json:"-"`
	// The running sum of the terms, the largest first, shown by pages.
	Curve []explain.CurvePoint `json:"-"`
}

// Subtotal is what the training examples of one class contribute together or, in a
// regression, those with targets in a range.
type Subtotal struct {
	Label     Float   `json:"label"` // NaN for a range
	LabelName string  `json:"label_name,omitempty"`
	Range     []Float `json:"range,omitempty"` // smallest and largest target of the examples
	Examples  int     `json:"examples"`
	Positive  Float   `json:"positive"` // sum of the positive terms
	Negative  Float   `json:"negative"` // sum of the negative terms
}

// Contrasted names the outputs of a contrast, f_plus − f_minus.
type Contrasted struct {
	Plus  int `json:"plus"`
	Minus int `json:"minus"`
}

// Contribution is what one training example contributes, with the fields of
// explain.Term.
type Contribution struct {
	Index        Index   `json:"index"` // row of the original file
	Label        Float   `json:"label"` // label or target in the data
	Value        Float   `json:"value"`
	PseudoTarget []Float `json:"pseudo_target"` // nil for the mean of several networks
	Raw          Float   `json:"raw"`
	Alpha        []Float `json:"alpha"` // nil likewise
	Similarity   Float   `json:"similarity"`
	Removal      Float   `json:"removal"`

	LabelName string `json:"label_name,omitempty"` // where classes have names
	ID        string `json:"id,omitempty"`         // name of the row, where rows have names

	// Nil unless Rows.ErrorBars is set; those of explain.Term.
	VarianceReduction *Float `json:"variance_reduction,omitempty"`
	SD                *Float `json:"sd,omitempty"` // of Value
	Distinguishable   *bool  `json:"distinguishable,omitempty"`

	Layers []Float `json:"layers,omitempty"` // parts of the listed kind of term, in the order of Output.Layers

	Networks *TermSpread `json:"networks,omitempty"` // how the term varies over several networks; nil for one
}

// LayerSum is what the parameters of one layer contribute over all training examples.
type LayerSum struct {
	Name string `json:"name"`
	Sum  Float  `json:"sum"`
}

// MethodLabels is the Fit.Method of an audit by a regression of the labels, which takes no
// posterior: what a posterior has is then NaN.
const MethodLabels = "labels"

// Fit describes the posterior.
type Fit struct {
	Examples       int                `json:"examples"`
	Outputs        int                `json:"outputs"`
	Parameters     int                `json:"parameters"`
	PriorPrecision Float              `json:"prior_precision"` // NaN if parameters have different ones
	Refit          bool               `json:"refit"`
	Method         string             `json:"method"`        // exact, kept, subset, nystrom, fitc, cg, weights or labels
	Inducing       Index              `json:"inducing"`      // M; -1 without inducing examples
	TraceError     Float              `json:"trace_error"`   // tr(K − Q)/tr K over the training examples; NaN for a subset
	GradientNorm   Float              `json:"gradient_norm"` // of the MAP objective at θ*
	LogEvidence    Float              `json:"log_evidence"`
	Bound          string             `json:"bound"` // whether log_evidence bounds the exact one: lower, upper or none
	LogDet         Float              `json:"log_det"`
	LogLikelihood  Float              `json:"log_likelihood"`
	Scatter        Float              `json:"scatter"`
	Warnings       linearize.Warnings `json:"warnings"`

	Structure  string `json:"structure,omitempty"`  // of the precision of the parameters, with the method weights
	Predictive string `json:"predictive,omitempty"` // bnn or linear; empty is glm, that of the linearized network
	Draws      int    `json:"draws,omitempty"`      // of the parameters, with the predictive bnn

	StatedPrecision      *Float         `json:"stated_precision,omitempty"`       // δ of the training, where prior_precision may be another
	Match                *Match         `json:"match,omitempty"`                  // how prior_precision came about; nil at the trained parameters
	PriorPrecisionOrigin string         `json:"prior_precision_origin,omitempty"` // where δ came from, in words
	Prior                *Prior         `json:"prior,omitempty"`                  // nil where PriorPrecision is that of all parameters
	NoiseVariance        *Float         `json:"noise_variance,omitempty"`         // σ² of a Gaussian likelihood
	NoiseVarianceOrigin  string         `json:"noise_variance_origin,omitempty"`
	Preprocessing        *Preprocessing `json:"preprocessing,omitempty"`
	Preflight            *Preflight     `json:"preflight,omitempty"`
	Grouped              *Grouped       `json:"grouped,omitempty"` // nil where all classes of the network are told apart

	Calibration   *Calibration   `json:"calibration,omitempty"`   // nil where the covariance is used as it is
	Approximation *Approximation `json:"approximation,omitempty"` // nil for an exact posterior
	Certificate   *Certificate   `json:"certificate,omitempty"`   // nil where no rows are left out
	Tuning        *Tuning        `json:"tuning,omitempty"`        // nil where the precision was given
}

// Match says at which prior precision the answers are: by default that at which the refit of the
// linearized model fits the training rows as the network does (E21).
type Match struct {
	Used      string `json:"used"`                   // match, stated, given or tuned
	Why       string `json:"why"`                    // in words
	Precision Float  `json:"precision"`              // of the match; NaN where there is none or it was not looked for
	Network   Float  `json:"network_log_likelihood"` // of the training rows, in nats, by the network; NaN where no match was looked for
	Refit     Float  `json:"refit_log_likelihood"`   // the same by the refit at the precision used
	Remainder Float  `json:"remainder"`              // rms(f − f̂)/rms f over the training rows; logits less their mean over classes
}

// Grouped says which classes of a network are told apart; the others are one class, the
// last.
type Grouped struct {
	Of     int   `json:"of"`     // classes of the network
	Kept   []int `json:"kept"`   // the outputs that are told apart, in order
	Others Float `json:"others"` // mean probability that the network gives to the others over the rows asked for, or the training rows
}

// Calibration says how the posterior covariance and mean were scaled for predictions
// and how well the scaled posterior predicts rows that it was not fitted to.
type Calibration struct {
	Method      string     `json:"method"`            // loo or heldout
	Scale       Float      `json:"scale"`             // s of s·cov; of counts the mean of f is less s·v/2 too
	Temperature Float      `json:"temperature"`       // τ of τ·mean for classes, 1 for other likelihoods
	NoiseScale  Float      `json:"noise_scale"`       // t of t·σ² for a Gaussian, 1 for other likelihoods
	Rows        int        `json:"rows"`              // number of rows behind the scores
	NLLSE       Float      `json:"nll_se"`            // standard error of the calibrated negative log likelihood
	LOO         *RowScores `json:"loo,omitempty"`     // calibrated predictions of training rows without themselves
	HeldOut     *RowScores `json:"heldout,omitempty"` // calibrated predictions of held-out rows, with method heldout
	Network     RowScores  `json:"network"`           // the same rows and means as they are, without a covariance

	// Surprising are the training rows whose labels the others predict worst, the
	// worst first.
	Surprising []SurprisingRow `json:"surprising,omitempty"`
}

// SurprisingRow is a training row of which the predictive distribution without
// the row itself has a low density at its label.
type SurprisingRow struct {
	Index      Index `json:"index"` // row of the original file
	Label      Float `json:"label"`
	LogDensity Float `json:"log_density"`

	LabelName string `json:"label_name,omitempty"`
	ID        string `json:"id,omitempty"`
}

// RowScores are averages over the rows of a Calibration. Those that the
// likelihood does not define are NaN.
type RowScores struct {
	NLL      Float `json:"nll"` // negative log likelihood of a row, in nats
	Accuracy Float `json:"accuracy"`
	ECE      Float `json:"ece"` // expected calibration error
}

// Approximation gives the errors of a posterior that is not exact. Fields that
// do not apply to the method are left out.
type Approximation struct {
	Select       string       `json:"select,omitempty"`          // how the inducing examples were chosen
	Rows         int          `json:"rows,omitempty"`            // M·C
	Rank         int          `json:"rank,omitempty"`            // number of independent rows
	TestRows     int          `json:"test_rows,omitempty"`       // number of test rows behind the residuals
	ResidualMean *Float       `json:"residual_mean,omitempty"`   // of (k_** − q_**)/k_** over the test rows
	ResidualMax  *Float       `json:"residual_max,omitempty"`    // largest of the same
	Sample       *SampleError `json:"sample,omitempty"`          // comparison with an exact posterior
	MeanError    *Float       `json:"mean_error,omitempty"`      // bound of the error of every mean, in posterior sd
	EvidenceSE   *Float       `json:"log_evidence_se,omitempty"` // standard error of log_evidence
}

// SampleError compares an approximate with the exact posterior of a sample of the
// training rows.
type SampleError struct {
	Examples            int   `json:"examples"`
	ShiftRMS            Float `json:"mean_shift_rms"` // in exact posterior sd
	ShiftMax            Float `json:"mean_shift_max"`
	VarianceRatioMin    Float `json:"variance_ratio_min"` // approximate over exact
	VarianceRatioMedian Float `json:"variance_ratio_median"`
	VarianceRatioMax    Float `json:"variance_ratio_max"`
}

// Timings are wall-clock seconds; the parts sum to Total within 5 %.
type Timings struct {
	Load      Float `json:"load"`
	Linearize Float `json:"linearize"`
	Kernel    Float `json:"kernel"`
	Factorize Float `json:"factorize"` // with the calibration
	Predict   Float `json:"predict"`
	Write     Float `json:"write"`
	Total     Float `json:"total"`
}

// WriteJSON writes the report as one object on one line, with the name of its schema,
// which is doc/schema/explain.json, as the first member.
func (r *Report) WriteJSON(w io.Writer) error {
	return writeJSON(w, struct {
		Schema string `json:"schema"`
		*Report
	}{"funcgp/explain/1", r})
}

func writeJSON(w io.Writer, object any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(object); err != nil {
		return fmt.Errorf("report: writing JSON: %w", err)
	}
	return nil
}

// An ImportanceReport is the result of `gpexplain importances`.
type ImportanceReport struct {
	Meanings    map[string]string `json:"meanings"`    // what each score says, its unit and its sign
	Importances []ImportantRow    `json:"importances"` // the largest |α_i|, largest first
	Curve       []Float           `json:"curve"`       // |α_i| of all N, sorted
	Fit         Fit               `json:"fit"`
	Timings     Timings           `json:"timings"`
}

// ImportantRow is the importance of one training example.
type ImportantRow struct {
	Index Index   `json:"index"` // row of the original file
	Label Float   `json:"label"`
	Norm  Float   `json:"norm"`  // |α_i|
	Alpha []Float `json:"alpha"` // α_i, length C

	LabelName string `json:"label_name,omitempty"`
	ID        string `json:"id,omitempty"`
}

// WriteJSON writes the report as one object on one line, with the name of its schema,
// which is doc/schema/importances.json, as the first member.
func (r *ImportanceReport) WriteJSON(w io.Writer) error {
	return writeJSON(w, struct {
		Schema string `json:"schema"`
		*ImportanceReport
	}{"funcgp/importances/1", r})
}
