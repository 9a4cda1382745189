package result

import (
	"math"
	"slices"
)

// A Prediction holds what a posterior predicts for one row. Probabilities have one entry, in order, for each
// class, or for each label where a row has any number of labels. A number that does not exist is NaN, and a
// list that does not exist is nil.
type Prediction struct {
	*NamedRow // which row it is of; nil within a Report, whose Input says so

	Class          Float     `json:"class"`                   // label of the largest probability; NaN for a regression and several labels
	NetworkClass   *Float    `json:"network_class,omitempty"` // label of the network's largest output, where that is another
	Probability    []Float   `json:"probability"`             // calibrated
	ProbabilitySD  []Float   `json:"probability_sd"`          // posterior standard deviations, calibrated
	MAPProbability []Float   `json:"map_probability"`         // g⁻¹(f(x;θ*)), by the network alone
	Mean           []Float   `json:"mean"`                    // f(x;θ*), or of a refit its mean; length C
	Covariance     [][]Float `json:"covariance"`              // C×C, not scaled by the calibration

	// Calibration holds the scales that transform Mean and Covariance to Probability. All are 1 if nothing was
	// calibrated. It is nil if the probability is a mean over draws or over several networks.
	Calibration *Scales `json:"calibration,omitempty"`

	ClassName string `json:"class_name,omitempty"` // where classes have names

	// Set for a regression only, for each target in its unit: the expected value of a new observation; its
	// standard deviation, noise included; and the standard deviation of the function, without noise. All are
	// calibrated.
	ObservationMean []Float `json:"observation_mean,omitempty"`
	ObservationSD   []Float `json:"observation_sd,omitempty"`
	FunctionSD      []Float `json:"function_sd,omitempty"`

	Novelty  *Novelty `json:"novelty,omitempty"` // nil where it was not computed
	LatentSD []Float  `json:"-"`                 // of the mean of several networks, calibrated; nil for one
	Region

	// Set for a regression of one target only, calibrated and by the network alone: the expected target E[y|x],
	// in its unit, and P(Y < y) + P(Y = y)/2 of a new observation Y at the target y.
	Expected    Float `json:"-"`
	MAPExpected Float `json:"-"`
	CDF         Float `json:"-"`
	MAPCDF      Float `json:"-"`

	LogDensity    Float `json:"-"` // log p(y|x) of the label or target in nats, calibrated; NaN where it is unknown
	MAPLogDensity Float `json:"-"` // the same by the network alone
}

// Best returns the index of Class in Probability. It is −1 for a regression and for several labels.
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

// Margin returns the largest probability less the second largest, on which the choice of Class depends. It is
// NaN if there is no choice of a class.
func (p *Prediction) Margin() Float {
	c := len(p.Probability)
	if !p.Class.Finite() || c < 2 {
		return Undefined()
	}
	sorted := slices.Sorted(slices.Values(p.Probability))
	return sorted[c-1] - sorted[c-2]
}

// A Region is the interval or set in which the target of a row lies with the probability asked for. It is zero
// if none was asked for.
type Region struct {
	// Interval holds the two ends of an interval in the unit of the target; it is nil for classes. An end is
	// infinite if leave-one-out predictions of too few training rows are known, and NaN if no value conforms.
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

// Size returns the width of the interval or the number of classes in the set. It is 0 for an empty region and
// NaN without a region.
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

// Novelty measures how unlike the training rows a row is, and how uncertain its prediction is before
// calibration. Score and Rank do not depend on targets. They are NaN if they are not known.
type Novelty struct {
	Score             Float `json:"score"`              // as glm/novelty (E22): surprise in nats, about 1 for rows like the training rows
	Rank              Float `json:"rank"`               // share of training rows whose leave-one-out score is smaller, in [0, 1]
	Entropy           Float `json:"entropy"`            // as score.Novelty: in nats; NaN for a regression
	MutualInformation Float `json:"mutual_information"` // between label and function, in nats
}
