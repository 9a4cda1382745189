package report

import (
	"math"
	"slices"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/score"
)

// Predictions summarizes what `gpexplain predict` found on T test rows, for a
// PredictionPage. Add takes the test rows one at a time, and AddLeaveOneOut the
// training rows predicted without themselves, from which the scores to expect on new
// rows come. A row takes some 150 bytes, whatever the number of classes, and 20 more for each of several labels.
type Predictions struct {
	Classes []result.Float // labels in the order of the probabilities; nil for a regression and several labels
	// Labels are the names of the labels of which a row has any number, in the order of the probabilities; nil otherwise.
	Labels []string
	// ClassNames are the names of Classes; nil names them by their labels.
	ClassNames []string
	Fit        result.Fit
	Timings    result.Timings
	// Coverage is the share of targets that the rows' intervals or sets should hold,
	// between 0 and 1; 0 if the rows have none.
	Coverage float64

	test, training []digest
	classwise      [3]*score.Classwise // of test rows by the network and calibrated, and of training rows; nil without rows
	labels         [3]labelCount       // the same of several labels
}

// Add takes up a test row. It keeps nothing of r. A number of probabilities other
// than that of the classes panics, as does a label that is none of them.
func (p *Predictions) Add(r *result.PredictedRow) {
	d := p.digest(r)
	p.test = append(p.test, d)
	p.addClasses(networkTest, &d, &d.network, r.MAPProbability)
	p.addClasses(calibratedTest, &d, &d.calibrated, r.Probability)
	p.addLabels(networkTest, &d.network, r, r.MAPProbability)
	p.addLabels(calibratedTest, &d.calibrated, r, r.Probability)
}

// Indices of Predictions.classwise and labels.
const (
	networkTest = iota
	calibratedTest
	calibratedTraining
)

// addClasses takes the probabilities of a row that is scored into sums over classes.
func (p *Predictions) addClasses(to int, d *digest, o *outcome, prob []result.Float) {
	if p.Classes == nil || math.IsNaN(o.logDensity) {
		return
	}
	if p.classwise[to] == nil {
		p.classwise[to] = score.NewClasswise(len(p.Classes))
	}
	for k, v := range prob {
		p.classwise[to].Add(k, float64(v), p.Classes[k] == d.label)
	}
}

// AddLeaveOneOut takes up a training row that was predicted without itself. Its
// MAPProbability, MAPExpected, MAPCDF and MAPLogDensity are those of the
// leave-one-out mean without a covariance.
func (p *Predictions) AddLeaveOneOut(r *result.PredictedRow) {
	d := p.digest(r)
	p.training = append(p.training, d)
	p.addClasses(calibratedTraining, &d, &d.calibrated, r.Probability)
	p.addLabels(calibratedTraining, &d.calibrated, r, r.Probability)
}

// Len returns T, the number of test rows.
func (p *Predictions) Len() int { return len(p.test) }

// A digest is what a page and the scores need of a row.
type digest struct {
	index               result.Index
	id                  string
	label, class        result.Float
	scored              bool // the targets are known
	calibrated, network outcome
	novelty             result.Novelty
	lo, hi, in          float64        // interval; in: 1 if it or the set holds the label, 0 if not, NaN if unknown
	size                int            // number of classes in the set; -1 without a set
	set                 []result.Float // its first labels, setLabels at most
	says, truth         string         // of several labels, those that are predicted and those that the row has
}

// setLabels is the number of labels of a set that a page shows.
const setLabels = 8

// An outcome is what one predictive distribution says of a row. What does not
// apply is NaN.
type outcome struct {
	logDensity float64
	top        int     // class of largest probability; -1 for none
	confidence float64 // its probability
	truth      float64 // probability of the label
	second     float64 // probability of the second of two classes
	brier      float64 // Σ_c (p_c − 1[y=c])²; of several labels, each as two classes, their mean
	right      float64 // of several labels, the share that is predicted correctly
	expected   float64 // E[y|x] of a regression
	cdf        float64 // distribution function at the target
	sd         float64 // standard deviation of an observation
}

func (p *Predictions) digest(r *result.PredictedRow) digest {
	truth, nan := -1, math.NaN()
	if p.Classes != nil && r.Label.Finite() {
		if truth = slices.Index(p.Classes, r.Label); truth < 0 {
			panic("report: the label of a prediction is none of the classes")
		}
	}
	d := digest{index: r.Index, id: r.ID, label: r.Label, class: r.Class, scored: r.Label.Finite() || r.Targets != nil, novelty: *r.Novelty, lo: nan, hi: nan, in: nan, size: -1}
	d.calibrated = outcome{logDensity: float64(r.LogDensity), top: -1, confidence: nan, truth: nan, second: nan, brier: nan, right: nan, expected: float64(r.Expected), cdf: float64(r.CDF), sd: nan}
	d.network = outcome{logDensity: float64(r.MAPLogDensity), top: -1, confidence: nan, truth: nan, second: nan, brier: nan, right: nan, expected: float64(r.MAPExpected), cdf: float64(r.MAPCDF), sd: nan}
	if p.Labels != nil {
		d.calibrated.labels(r.Probability, r.Targets)
		d.network.labels(r.MAPProbability, r.Targets)
		d.says, d.truth = result.Labelled(p.Labels, r.Probability), result.Labelled(p.Labels, r.Targets)
	} else if p.Classes != nil {
		d.calibrated.classify(r.Probability, truth, len(p.Classes))
		d.network.classify(r.MAPProbability, truth, len(p.Classes))
	} else if len(r.ObservationSD) == 1 {
		d.calibrated.sd = float64(r.ObservationSD[0])
	}
	if !r.Label.Finite() {
		d.calibrated.cdf, d.network.cdf = nan, nan
	}
	if !d.scored {
		d.calibrated.logDensity, d.network.logDensity = nan, nan
	}
	switch {
	case len(r.Interval) == 2:
		d.lo, d.hi = float64(r.Interval[0]), float64(r.Interval[1])
		d.in = within(r.Label, r.Interval[0] <= r.Label && r.Label <= r.Interval[1])
	case r.Set != nil:
		d.size, d.set = len(r.Set), slices.Clone(r.Set[:min(setLabels, len(r.Set))])
		d.in = within(r.Label, slices.Contains(r.Set, r.Label))
	}
	return d
}

// within is 1 or 0, or NaN without a label.
func within(label result.Float, is bool) float64 {
	switch {
	case !label.Finite():
		return math.NaN()
	case is:
		return 1
	}
	return 0
}

// nameOf names a label by its class, if classes have names, and "" for none.
func (p *Predictions) nameOf(l result.Float) string {
	if k := slices.Index(p.Classes, l); k >= 0 && k < len(p.ClassNames) {
		return p.ClassNames[k]
	}
	return label(l)
}

// classify fills in what follows from k probabilities. A NaN among them leaves all
// undefined.
func (o *outcome) classify(prob []result.Float, truth, k int) {
	if len(prob) != k {
		panic("report: a prediction does not have one probability for each class")
	}
	o.top, o.confidence = 0, float64(prob[0])
	brier := 0.0
	for c, p := range prob {
		if math.IsNaN(float64(p)) {
			o.top, o.confidence, o.logDensity = -1, math.NaN(), math.NaN()
			return
		}
		if float64(p) > o.confidence {
			o.top, o.confidence = c, float64(p)
		}
		if c == truth {
			p--
		}
		brier += float64(p * p)
	}
	if k == 2 {
		o.second = float64(prob[1])
	}
	if truth >= 0 {
		o.truth, o.brier = float64(prob[truth]), brier
	}
}
