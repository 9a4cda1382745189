package result

import (
	"math"
	"slices"
)

// A Prediction is what a posterior says of one row. Probabilities have one entry for each class, or label of which a
// row has any number, in order. Numbers that do not exist are NaN, and lists that do not are nil.
type Prediction struct {
	*NamedRow // which row it is of; nil within a Report, whose Input says so

	Class          Float     `json:"class"`                   // label of the largest probability; NaN for a regression and several labels
	NetworkClass   *Float    `json:"network_class,omitempty"` // label of the network's largest output, where that is another
	Probability    []Float   `json:"probability"`             // calibrated
	ProbabilitySD  []Float   `json:"probability_sd"`          // posterior standard deviations, calibrated
	MAPProbability []Float   `json:"map_probability"`         // g⁻¹(f(x;θ*)), by the network alone
	Mean           []Float   `json:"mean"`                    // f(x;θ*), or of a refit its mean; length C
	Covariance     [][]Float `json:"covariance"`              // C×C, not scaled by the calibration

	// Calibration leads from Mean and Covariance to Probability; all are 1 where nothing was calibrated. Nil where
	// the probability is a mean over drawn or over several networks.
	Calibration *Scales `json:"calibration,omitempty"`

	ClassName string `json:"class_name,omitempty"` // where classes have names

	// Of a regression, for each target in its unit: the expected value of a new observation and its standard
	// deviation, noise included, and the standard deviation of the function without it, all calibrated.
	ObservationMean []Float `json:"observation_mean,omitempty"`
	ObservationSD   []Float `json:"observation_sd,omitempty"`
	FunctionSD      []Float `json:"function_sd,omitempty"`

	Novelty  *Novelty `json:"novelty,omitempty"` // nil where it was not computed
	LatentSD []Float  `json:"-"`                 // of the mean of several networks, calibrated; nil for one
	Region

	// Of a regression of one target, calibrated and by the network alone: the expected target E[y|x], in its unit, and
	// P(Y < y) + P(Y = y)/2 of a new observation Y at the target y.
	Expected    Float `json:"-"`
	MAPExpected Float `json:"-"`
	CDF         Float `json:"-"`
	MAPCDF      Float `json:"-"`

	LogDensity    Float `json:"-"` // log p(y|x) of the label or target in nats, calibrated; NaN where it is unknown
	MAPLogDensity Float `json:"-"` // the same by the network alone
}

// Best is the place of Class in Probability; −1 for a regression and several labels.
func (p *Prediction) Best() int {
	if !p.Class.Finite() {
		return -1
	}
	best := 0
	for k, v := range p.Probability {
		if v > p.Probability[best] {
			best = k
		}
	}
	return best
}

// Margin is the largest probability less the next, on which the choice of Class hangs; NaN without one.
func (p *Prediction) Margin() Float {
	c := len(p.Probability)
	if !p.Class.Finite() || c < 2 {
		return Undefined()
	}
	sorted := slices.Sorted(slices.Values(p.Probability))
	return sorted[c-1] - sorted[c-2]
}

// A Region is where the target of a row lies with the probability that was asked for; zero where none was.
type Region struct {
	// Interval holds the two ends of an interval in the unit of the target, nil for classes. An end is infinite
	// where too few training rows are known without themselves, and NaN where no value conforms.
	Interval []Float `json:"interval,omitzero"`
	Set      []Float `json:"set,omitzero"` // labels of the classes, nil for a regression; it may be empty
}

// Holds tells whether the target or the label of the class lies in the region.
func (r *Region) Holds(target Float) bool {
	if r.Set != nil {
		return slices.Contains(r.Set, target)
	}
	return len(r.Interval) == 2 && r.Interval[0] <= target && target <= r.Interval[1]
}

// Empty tells whether no class is in the set, or no value in the interval.
func (r *Region) Empty() bool {
	return r.Set != nil && len(r.Set) == 0 || len(r.Interval) == 2 && !(r.Interval[0] <= r.Interval[1])
}

// Size is the width of the interval or the number of classes of the set, 0 where it is empty and NaN for none.
func (r *Region) Size() float64 {
	switch {
	case r.Empty():
		return 0
	case r.Interval != nil:
		return float64(r.Interval[1] - r.Interval[0])
	case r.Set != nil:
		return float64(len(r.Set))
	}
	return math.NaN()
}

// Novelty says how unlike the training rows a row is, and beside it how unsure its prediction is
// before calibration. Score and Rank do not depend on targets, and are NaN where they are not known.
type Novelty struct {
	Score             Float `json:"score"`              // as glm/novelty (E22): surprise in nats, about 1 for rows like the training rows
	Rank              Float `json:"rank"`               // share of training rows whose leave-one-out score is smaller, in [0, 1]
	Entropy           Float `json:"entropy"`            // as score.Novelty: in nats; NaN for a regression
	MutualInformation Float `json:"mutual_information"` // between label and function, in nats
}
