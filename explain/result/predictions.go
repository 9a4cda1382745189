package result

import (
	"io"
	"math"
	"slices"

	"github.com/funcgp/funcgp/glm/score"
)

// Predictions collects what scores and a page need from the predictions of T rows. Add takes these predictions
// one at a time. AddLeaveOneOut takes predictions of training rows without themselves, from which the scores to
// expect on new rows are computed. A row takes some 150 bytes, whatever the number of classes, and 20 more for
// each of several labels.
type Predictions struct {
	Classes []Float // labels in the order of the probabilities; nil for a regression and several labels
	// Labels are the names of the labels of which a row has any number, in the order of the probabilities; nil otherwise.
	Labels []string
	// ClassNames are the names of Classes; nil names them by their labels.
	ClassNames []string
	Targets    int  // of a regression, whose means are the first outputs; else 0
	IDs        bool // whether rows have an ID
	Fit        Fit
	Timings    Timings
	Coverage   *Coverage // of the regions of rows; nil where they have none

	Test, Training []Digest // in the order in which they were added

	classwise [3]*score.Classwise // of test rows by the network and calibrated, and of training rows; nil without rows
	labels    [3]labelCount       // the same of several labels
}

// Add adds the prediction of a test row, of which it keeps nothing. It panics if the number of probabilities is
// not the number of classes, or if the label is not one of the classes.
func (p *Predictions) Add(r *Prediction) {
	d := p.digest(r)
	p.Test = append(p.Test, d)
	p.addClasses(networkTest, &d, &d.Network, r.MAPProbability)
	p.addClasses(calibratedTest, &d, &d.Calibrated, r.Probability)
	p.addLabels(networkTest, &d.Network, r, r.MAPProbability)
	p.addLabels(calibratedTest, &d.Calibrated, r, r.Probability)
	if p.Coverage != nil {
		p.Coverage.add(r)
	}
}

// Indices of Predictions.classwise and labels.
const (
	networkTest = iota
	calibratedTest
	calibratedTraining
)

// addClasses adds the probabilities of a scored row to the sums over classes.
func (p *Predictions) addClasses(to int, d *Digest, o *Outcome, prob []Float) {
	if p.Classes == nil || math.IsNaN(o.LogDensity) {
		return
	}
	if p.classwise[to] == nil {
		p.classwise[to] = score.NewClasswise(len(p.Classes))
	}
	for k, v := range prob {
		p.classwise[to].Add(k, float64(v), p.Classes[k] == d.Label)
	}
}

// AddLeaveOneOut adds the prediction of a training row that was predicted without itself. Its MAPProbability,
// MAPExpected, MAPCDF and MAPLogDensity must come from the leave-one-out mean without a covariance.
func (p *Predictions) AddLeaveOneOut(r *Prediction) {
	d := p.digest(r)
	p.Training = append(p.Training, d)
	p.addClasses(calibratedTraining, &d, &d.Calibrated, r.Probability)
	p.addLabels(calibratedTraining, &d.Calibrated, r, r.Probability)
}

// Len returns T, the number of test rows.
func (p *Predictions) Len() int { return len(p.Test) }

// A Digest holds what a page and the scores need from one row.
type Digest struct {
	Index               Index
	ID                  string
	Label, Class        Float
	Scored              bool // the targets are known
	Calibrated, Network Outcome
	Novelty             Novelty
	Region              Region  // of a set the first SetLabels labels
	Size                float64 // of the region, NaN without one
	Says, Truth         string  // of several labels, those that are predicted and those that the row has
}

// SetLabels is the largest number of labels of a set that a page shows.
const SetLabels = 8

// An Outcome holds what follows from one predictive distribution for a row. A number that does not apply is
// NaN.
type Outcome struct {
	LogDensity float64
	Top        int     // class of largest probability; -1 for none
	Confidence float64 // its probability
	Truth      float64 // probability of the label
	Second     float64 // probability of the second of two classes
	Brier      float64 // Σ_c (p_c − 1[y=c])²; of several labels, each as two classes, their mean
	Right      float64 // of several labels, the share that is predicted correctly
	Expected   float64 // E[y|x] of a regression
	CDF        float64 // distribution function at the target
	SD         float64 // standard deviation of an observation
}

func (p *Predictions) digest(r *Prediction) Digest {
	truth, nan := -1, math.NaN()
	if p.Classes != nil && r.Label.Finite() {
		if truth = slices.Index(p.Classes, r.Label); truth < 0 {
			panic("result: the label of a prediction is none of the classes")
		}
	}
	d := Digest{Index: r.Index, ID: r.ID, Label: r.Label, Class: r.Class, Scored: r.Label.Finite() || r.Targets != nil, Novelty: *r.Novelty, Region: Region{slices.Clone(r.Interval), slices.Clone(r.Set[:min(SetLabels, len(r.Set))])}, Size: r.Size()}
	d.Calibrated = Outcome{LogDensity: float64(r.LogDensity), Top: -1, Confidence: nan, Truth: nan, Second: nan, Brier: nan, Right: nan, Expected: float64(r.Expected), CDF: float64(r.CDF), SD: nan}
	d.Network = Outcome{LogDensity: float64(r.MAPLogDensity), Top: -1, Confidence: nan, Truth: nan, Second: nan, Brier: nan, Right: nan, Expected: float64(r.MAPExpected), CDF: float64(r.MAPCDF), SD: nan}
	if p.Labels != nil {
		d.Calibrated.labels(r.Probability, r.Targets)
		d.Network.labels(r.MAPProbability, r.Targets)
		d.Says, d.Truth = Labelled(p.Labels, r.Probability), Labelled(p.Labels, r.Targets)
	} else if p.Classes != nil {
		d.Calibrated.classify(r.Probability, truth, len(p.Classes))
		d.Network.classify(r.MAPProbability, truth, len(p.Classes))
	} else if len(r.ObservationSD) == 1 {
		d.Calibrated.SD = float64(r.ObservationSD[0])
	}
	if !r.Label.Finite() {
		d.Calibrated.CDF, d.Network.CDF = nan, nan
	}
	if !d.Scored {
		d.Calibrated.LogDensity, d.Network.LogDensity = nan, nan
	}
	return d
}

// NameOf is the name of the class of a label, "" where classes have no names.
func (p *Predictions) NameOf(label Float) string {
	if k := slices.Index(p.Classes, label); k >= 0 && k < len(p.ClassNames) {
		return p.ClassNames[k]
	}
	return ""
}

// classify sets what follows from k probabilities. If one of them is NaN, all results stay undefined.
func (o *Outcome) classify(prob []Float, truth, k int) {
	if len(prob) != k {
		panic("result: a prediction does not have one probability for each class")
	}
	o.Top, o.Confidence = 0, float64(prob[0])
	brier := 0.0
	for c, p := range prob {
		if math.IsNaN(float64(p)) {
			o.Top, o.Confidence, o.LogDensity = -1, math.NaN(), math.NaN()
			return
		}
		if float64(p) > o.Confidence {
			o.Top, o.Confidence = c, float64(p)
		}
		if c == truth {
			p--
		}
		brier += float64(p * p)
	}
	if k == 2 {
		o.Second = float64(prob[1])
	}
	if truth >= 0 {
		o.Truth, o.Brier = float64(prob[truth]), brier
	}
}

// A PredictionSummary has the averages over predicted rows, as gpexplain predict --json ends with them.
type PredictionSummary struct {
	Accuracy     Float     `json:"accuracy"`
	NLL          Float     `json:"nll"`
	MAPNLL       Float     `json:"map_nll"`
	ECE          Float     `json:"ece"`
	ClasswiseECE Float     `json:"classwise_ece"`
	Coverage     *Coverage `json:"coverage,omitempty"`
	Record       *Record   `json:"record"` // left to the caller
	Fit          Fit       `json:"fit"`
	Timings      Timings   `json:"timings"`
	Classes      []string  `json:"classes,omitempty"` // where classes have names
	Labels       []string  `json:"labels,omitempty"`  // of which a row has any number
}

// Summary returns the averages over the test rows.
func (p *Predictions) Summary() *PredictionSummary {
	network, calibrated, _ := p.Scores()
	return &PredictionSummary{Accuracy: calibrated.Accuracy, NLL: calibrated.NLL, MAPNLL: network.NLL, ECE: calibrated.ECE, ClasswiseECE: calibrated.Classes,
		Coverage: p.Covered(), Fit: p.Fit, Timings: p.Timings, Classes: p.ClassNames, Labels: p.Labels}
}

// WriteJSON writes the summary as one object on one line, with the name of its schema, which is
// doc/schema/predict-summary.json, as the first member.
func (s *PredictionSummary) WriteJSON(w io.Writer) error {
	return writeJSON(w, struct {
		Schema string `json:"schema"`
		*PredictionSummary
	}{"funcgp/predict-summary/1", s})
}

// WriteRow writes the prediction of a row as one object on one line, with the name of its schema, which is
// doc/schema/predict-row.json, as the first member.
func (p *Predictions) WriteRow(w io.Writer, r *Prediction) error {
	return writeJSON(w, struct {
		Schema string `json:"schema"`
		*Prediction
		Classes []string `json:"classes,omitempty"`
		Labels  []string `json:"labels,omitempty"`
	}{"funcgp/predict-row/1", r, p.ClassNames, p.Labels})
}
