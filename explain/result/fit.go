package result

import (
	"fmt"
	"math"
	"slices"

	"github.com/funcgp/funcgp/linearize"
)

// Certificate describes the rows of the training data that a posterior is built on, where a row is an example
// with an eigenvector of Λ. It also says how much the rows left out could change (E16).
type Certificate struct {
	Within            Float    `json:"within"`              // by what part a variance may be larger than the variance by all rows
	Threshold         Float    `json:"threshold"`           // τ: rows with s > τ are kept
	Against           int      `json:"against"`             // rows, the strongest, that τ was compared with
	Ratio             Float    `json:"ratio"`               // v_k/v by the rows above τ and by these; with representatives, the factor between v_s and v
	Kept              int      `json:"kept"`                // rows
	Dropped           int      `json:"dropped"`             // rows with λ > 0 that are left out
	Representatives   int      `json:"representatives"`     // of these, each with the weight of several; 0 where variances are never too small
	Trace             Float    `json:"trace"`               // part of tr Λ in kept rows
	DroppedTrace      Float    `json:"dropped_trace"`       // t = tr M
	DroppedTraceError Float    `json:"dropped_trace_error"` // half the width of its interval
	Norm              [2]Float `json:"norm"`                // interval of ‖M‖₂
	VarianceAtMost    Float    `json:"variance_at_most"`    // no variance is more than this times the variance by all rows
	LogDet            [2]Float `json:"log_det"`             // interval of log det B of all rows
	Failure           Float    `json:"failure"`             // probability that one of these does not hold
	Sampled           bool     `json:"sampled"`             // whether they are estimates from a sample of dropped rows
	Rows              int      `json:"rows"`                // dropped rows that were looked at
}

// alarms are the codes of warnings that the network does not suit the data or the prior.
var alarms = []string{"bad-fit", "class-order", "loss-flattened", "loss-weighted", "not-optimum", "overconfident", "targets-scaled", "wrong-outputs"}

// remarks are the codes of warnings that say how something was read or chosen: nothing is wrong.
var remarks = []string{"given-precision", "head", "method-chosen", "not-concave", "remainder", "rounding-steps", "shared-tensor", "taken-for-constants", "taken-for-parameters", "unused-input"}

// Warnings are written as JSON by their codes and texts.
type Warnings = linearize.Warnings

// IsRemark tells whether a warning says only how something was read or chosen.
func IsRemark(w error) bool { return slices.Contains(remarks, linearize.WarningOf(w).Code) }

// Remarks splits a list into warnings and remarks.
func Remarks(list Warnings) (warnings, remarks linearize.Warnings) {
	for _, w := range list {
		if IsRemark(w) {
			remarks = append(remarks, w)
		} else {
			warnings = append(warnings, w)
		}
	}
	return warnings, remarks
}

// IsAlarm tells whether a warning says that the network does not suit the data or the prior.
func IsAlarm(w error) bool { return slices.Contains(alarms, linearize.WarningOf(w).Code) }

// Alarms returns first the texts of the warnings that the network does not suit the data or the prior, which
// are shown before everything else, and then the texts of all other warnings.
func (f *Fit) Alarms() (first, others []string) {
	for _, w := range f.Warnings {
		if IsAlarm(w) {
			first = append(first, w.Error())
		} else {
			others = append(others, w.Error())
		}
	}
	return first, others
}

// SelectStrength is the value of Approximation.Select for which the inducing elements are single rows, each a
// training example with a direction of its Λ. With other values they are examples with all outputs.
const SelectStrength = "strength"

// Preprocessing says in words what was done to the data before the network saw them,
// such as "each column less its mean, over its standard deviation".
type Preprocessing struct {
	Inputs  string `json:"inputs"`
	Targets string `json:"targets"`
	Origin  string `json:"origin"`            // where that came from
	Guessed bool   `json:"guessed,omitempty"` // from what the network does on its training rows: see origin
	Target  string `json:"target,omitempty"`  // the names of the target columns, and that nobody named one
}

// Preflight says whether the network appears to have been trained on these data, with this prior and
// preprocessing. If not, no explanation can be trusted.
type Preflight struct {
	Verdict       string `json:"verdict"`                  // ok or warning
	TrainNLL      Float  `json:"train_nll"`                // of the network alone on the training rows, in nats a row
	TrainAccuracy *Float `json:"train_accuracy,omitempty"` // of classes
	TrainRMSE     *Float `json:"train_rmse,omitempty"`     // of a regression, in the target's units
	GradientNorm  Float  `json:"gradient_norm"`            // of the MAP objective at θ*
	LargestInput  Float  `json:"largest_input"`            // in size, as the network sees it
}

// Fit describes the posterior.
type Fit struct {
	Examples       int      `json:"examples"`
	Outputs        int      `json:"outputs"`
	Parameters     int      `json:"parameters"`
	PriorPrecision Float    `json:"prior_precision"` // NaN if parameters have different ones
	Refit          bool     `json:"refit"`
	Method         string   `json:"method"`        // exact, kept, subset, nystrom, parameters, weights or labels
	Inducing       Index    `json:"inducing"`      // M; -1 without inducing examples
	TraceError     Float    `json:"trace_error"`   // tr(K − Q)/tr K over the training examples; NaN for a subset
	GradientNorm   Float    `json:"gradient_norm"` // of the MAP objective at θ*
	LogEvidence    Float    `json:"log_evidence"`
	Bound          string   `json:"bound"` // whether log_evidence bounds the exact one: lower, upper or none
	LogDet         Float    `json:"log_det"`
	LogLikelihood  Float    `json:"log_likelihood"`
	Scatter        Float    `json:"scatter"`
	Warnings       Warnings `json:"warnings"`
	Remarks        Warnings `json:"remarks,omitempty"` // how the network was read and the fit chosen, where nothing is wrong

	Inference string `json:"inference,omitempty"` // variational; empty is laplace
	ELBO      *ELBO  `json:"elbo,omitempty"`      // of variational inference, which log_evidence is; else nil

	Structure  string `json:"structure,omitempty"`  // of the precision of the parameters, with the method weights
	Predictive string `json:"predictive,omitempty"` // bnn or linear; empty is glm, the predictive of the linearized network
	Draws      int    `json:"draws,omitempty"`      // of the parameters, with the predictive bnn

	StatedPrecision      *Float         `json:"stated_precision,omitempty"`       // δ of the training, where prior_precision may be another
	Match                *Match         `json:"match,omitempty"`                  // how prior_precision came about; nil at the trained parameters
	PriorPrecisionOrigin string         `json:"prior_precision_origin,omitempty"` // where δ came from, in words
	Prior                *Prior         `json:"prior,omitempty"`                  // nil where all parameters have PriorPrecision
	NoiseVariance        *Float         `json:"noise_variance,omitempty"`         // σ² of a Gaussian likelihood
	NoiseVarianceOrigin  string         `json:"noise_variance_origin,omitempty"`
	Loss                 *Loss          `json:"loss,omitempty"` // nil where that of the training is −log p of the labels
	Preprocessing        *Preprocessing `json:"preprocessing,omitempty"`
	Preflight            *Preflight     `json:"preflight,omitempty"`
	Grouped              *Grouped       `json:"grouped,omitempty"` // nil where all classes of the network are told apart

	Calibration   *Calibration   `json:"calibration,omitempty"`   // nil where the covariance is used as it is
	Approximation *Approximation `json:"approximation,omitempty"` // nil for an exact posterior
	Certificate   *Certificate   `json:"certificate,omitempty"`   // nil where no rows are left out
	Tuning        *Tuning        `json:"tuning,omitempty"`        // nil where the precision was given
}

// ELBO is the lower bound on the log evidence that variational inference makes largest (E26), with its parts:
// Value = ExpectedLogLikelihood − KL.
type ELBO struct {
	Value                 Float `json:"value"`
	ExpectedLogLikelihood Float `json:"expected_log_likelihood"` // Σ w_i E log p(y_i|f_i), f ~ q
	KL                    Float `json:"kl"`                      // KL(q‖p), of the posterior q from the prior
}

// Mean names the function that is the mean where Refit is set.
func (f *Fit) Mean() string {
	if f.Inference != "" {
		return "variational mean"
	}
	return "refit"
}

// Loss describes how the training loss differs from −log p of the labels. The posterior is fitted to the
// training loss, but scores use the labels as they are.
type Loss struct {
	ClassWeights       []Float `json:"class_weights,omitempty"` // one for each class of the network
	ClassWeightsOrigin string  `json:"class_weights_origin,omitempty"`
	RowWeights         string  `json:"row_weights,omitempty"`     // the column with the weights of the rows
	LabelSmoothing     Float   `json:"label_smoothing,omitempty"` // ε of the shares (1 − ε)y + ε/C
}

// Match says at which prior precision the posterior answers. By default that is the precision at which the
// refit of the linearized model fits the training rows as well as the network does (E21).
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
	Method string `json:"method"` // loo or heldout
	Scales
	Refit   *Scales    `json:"refit,omitempty"`   // of the refit, by which rows are predicted without themselves, where those of the network differ
	Rows    int        `json:"rows"`              // number of rows behind the scores
	NLLSE   Float      `json:"nll_se"`            // standard error of the calibrated negative log likelihood
	LOO     *RowScores `json:"loo,omitempty"`     // calibrated predictions of training rows without themselves
	HeldOut *RowScores `json:"heldout,omitempty"` // calibrated predictions of held-out rows, with method heldout
	Network RowScores  `json:"network"`           // the same rows and means as they are, without a covariance

	// Surprising are the training rows whose labels the others predict worst, the
	// worst first.
	Surprising []SurprisingRow `json:"surprising,omitempty"`
}

// SurprisingRow is a training row whose label has a low density under the predictive
// distribution without the row itself.
type SurprisingRow struct {
	Index      Index `json:"index"` // row of the original file
	Label      Float `json:"label"`
	LogDensity Float `json:"log_density"`

	LabelName string `json:"label_name,omitempty"`
	ID        string `json:"id,omitempty"`
}

// Scales transform the mean and the covariance of the outputs to predictions. For classes, the probability is E
// g⁻¹(u) over u ~ N(τ·(mean + β), s·cov). For a Gaussian likelihood, the variance of an observation is s·v +
// t·σ², where v is the variance of its output.
type Scales struct {
	Scale       Float `json:"scale"`       // s of s·cov; of counts the mean of f is less s·v/2 too
	Temperature Float `json:"temperature"` // τ for classes, 1 for other likelihoods
	NoiseScale  Float `json:"noise_scale"` // t of t·σ² for a Gaussian, 1 for other likelihoods

	// Shift is β for classes, one number for each output. It corrects a mean that expects other shares of the
	// classes than the rows have, and is nil if no correction is needed.
	Shift []Float `json:"shift,omitempty"`
}

// RowScores are averages over the rows of a Calibration. A score that the likelihood does not define is NaN.
type RowScores struct {
	NLL      Float `json:"nll"` // negative log likelihood of a row, in nats
	Accuracy Float `json:"accuracy"`
	ECE      Float `json:"ece"` // expected calibration error
}

// Approximation gives the errors of a posterior that is not exact. Fields that
// do not apply to the method are left out.
type Approximation struct {
	Select       string       `json:"select,omitempty"`        // how the inducing examples were chosen
	Rows         int          `json:"rows,omitempty"`          // M·C
	Rank         int          `json:"rank,omitempty"`          // number of independent rows
	TestRows     int          `json:"test_rows,omitempty"`     // number of test rows behind the residuals
	ResidualMean *Float       `json:"residual_mean,omitempty"` // of (k_** − q_**)/k_** over the test rows
	ResidualMax  *Float       `json:"residual_max,omitempty"`  // largest of the same
	Sample       *SampleError `json:"sample,omitempty"`        // comparison with an exact posterior
}

// SampleError compares an approximate posterior with the exact posterior given a sample of the training rows.
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

// Tuning says how the prior precision was chosen.
type Tuning struct {
	Method string  `json:"method"` // loo, evidence or heldout
	Start  Float   `json:"start"`  // the precision at which the search began
	Edge   bool    `json:"edge"`   // the choice is the smallest or largest precision searched
	Trials []Trial `json:"trials"` // in the order tried

	// Shift and StartShift are the root mean square difference between the refit and the network over the
	// training outputs, at the chosen precision and at Start. They are nil without a refit.
	Shift      *Float `json:"shift,omitempty"`
	StartShift *Float `json:"start_shift,omitempty"`
}

// Trial is a prior precision that was tried. It has exactly one of the scores.
type Trial struct {
	PriorPrecision Float  `json:"prior_precision"`
	NLL            *Float `json:"nll,omitempty"`
	LogEvidence    *Float `json:"log_evidence,omitempty"`
}

// Score returns the trial's score: the negative log likelihood of an example, or the negative log evidence. A
// smaller score is better.
func (t *Trial) Score() float64 {
	if t.NLL != nil {
		return float64(*t.NLL)
	}
	return -float64(*t.LogEvidence)
}

// Chosen is the precision of the best trial.
func (t *Tuning) Chosen() float64 {
	chosen, best := math.NaN(), math.Inf(1)
	for i := range t.Trials {
		if score := t.Trials[i].Score(); score < best {
			chosen, best = float64(t.Trials[i].PriorPrecision), score
		}
	}
	return chosen
}

// Prior describes a Gaussian prior whose variances are not all the same.
type Prior struct {
	Kind   string       `json:"kind"` // groups, or g where the variance of a group is times a scale of each parameter
	Groups []PriorGroup `json:"groups"`
	Held   int          `json:"held"` // parameters of variance 0, which are held at their trained values
}

// PriorGroup is a set of parameter tensors with one variance.
type PriorGroup struct {
	Name       string `json:"name"`
	Parameters int    `json:"parameters"`
	Variance   Float  `json:"variance"`
}

// Text describes in sentences which rows are left out and how much they could change.
func (k *Certificate) Text() string {
	if k.Dropped == 0 {
		return "No row is left out."
	}
	text := fmt.Sprintf("The %s left out hold %.2g %% of tr Λ. ", Some(k.Dropped, "row", "rows"), 100*max(0, 1-float64(k.Trace)))
	if k.Representatives > 0 {
		return text + fmt.Sprintf("A sample of %s stands for them. For 99 %% of the rows asked about, variances are those of all rows "+
			"but for a factor of at most %.4g, two standard errors of the sampling.", Count(k.Representatives), float64(k.Ratio))
	}
	text += fmt.Sprintf("Variances are at most %.3g times those of all rows", float64(k.VarianceAtMost))
	if k.Sampled {
		text += fmt.Sprintf(", by a sample of %s (95 %%)", Some(k.Rows, "of these", "of these"))
	}
	return text + fmt.Sprintf("; for 99 %% of the rows asked about they are at most %.4g times, by the %s strongest rows and a sample of the others.", float64(k.Ratio), Count(k.Against))
}

// CrossEntropy is Σ q_c log p_c of shares q of the classes and their probabilities, with p_c of at least 1e-300.
func CrossEntropy(q []float64, p []Float) Float {
	sum := 0.0
	for c, share := range q {
		if share > 0 {
			sum += share * math.Log(max(float64(p[c]), 1e-300))
		}
	}
	return Float(sum)
}
