package result

import (
	"math"

	"github.com/funcgp/funcgp/glm/score"
)

// Scores are averages over rows with labels. A score that does not apply, or has no rows, is NaN.
type Scores struct {
	Rows     int   // number of rows scored
	NLL      Float // negative log likelihood of a row, in nats
	NLLSE    Float // its standard error
	Accuracy Float // of several labels, the share of all labels of all rows
	ECE      Float // expected calibration error of the largest probability
	Classes  Float // class-wise calibration error: score.Classwise
	Brier    Float // Σ_c (p_c − 1[y=c])²
	AUROC    Float // of two classes, by the probability of the second; of several labels, over all labels of all rows
	RMSE     Float // of the expected target of a regression
	Covered  Float // share of targets in the central interval of Level
	Level    Float // Predictions.Coverage, or 0.9
}

// Scores returns the scores of the test rows by the network alone, their calibrated scores, and the scores to
// expect on new rows. The last come from the rows given to AddLeaveOneOut or, if there are none, from the
// calibration.
func (p *Predictions) Scores() (network, calibrated, expected Scores) {
	network = p.scores(p.Test, NetworkAlone, networkTest)
	calibrated = p.scores(p.Test, WithCovariance, calibratedTest)
	if len(p.Training) > 0 {
		return network, calibrated, p.scores(p.Training, WithCovariance, calibratedTraining)
	}
	expected = p.scores(nil, WithCovariance, calibratedTraining)
	if c := p.Fit.Calibration; c != nil {
		x := c.LOO
		if x == nil {
			x = c.HeldOut
		}
		if x != nil {
			expected.Rows, expected.NLL, expected.NLLSE, expected.Accuracy, expected.ECE = c.Rows, x.NLL, c.NLLSE, x.Accuracy, x.ECE
		}
	}
	return network, calibrated, expected
}

// NetworkAlone and WithCovariance select one of the two predictive distributions of
// a row.
func NetworkAlone(d *Digest) *Outcome   { return &d.Network }
func WithCovariance(d *Digest) *Outcome { return &d.Calibrated }

// scores averages over the rows with a label and a defined log density. sums is the index of their class-wise
// sums.
func (p *Predictions) scores(rows []Digest, of func(*Digest) *Outcome, sums int) Scores {
	s := Scores{Level: 0.9} // of the intervals whose coverage is scored
	if p.Coverage != nil {
		s.Level = p.Coverage.Share
	}
	var nll, accuracy, brier, square, covered mean
	var first, second []float64 // P(second class) by label
	for i := range rows {
		d := &rows[i]
		o := of(d)
		if math.IsNaN(o.LogDensity) {
			continue
		}
		nll.add(-o.LogDensity)
		switch {
		case p.Labels != nil:
			accuracy.add(o.Right)
			brier.add(o.Brier)
			continue
		case p.Classes == nil:
			square.add(math.Pow(o.Expected-float64(d.Label), 2))
			covered.add(boolean(math.Abs(2*o.CDF-1) <= float64(s.Level), o.CDF))
			continue
		case d.Label == p.Classes[len(p.Classes)-1]:
			second = append(second, o.Second)
		default:
			first = append(first, o.Second)
		}
		accuracy.add(boolean(p.Classes[o.Top] == d.Label, 0))
		brier.add(o.Brier)
	}
	s.Rows, s.NLL, s.NLLSE = nll.n, nll.value(), nll.standardError()
	s.Accuracy, s.Brier, s.Covered, s.RMSE = accuracy.value(), brier.value(), covered.value(), Float(math.Sqrt(float64(square.value())))
	s.AUROC, s.ECE, s.Classes = Undefined(), Undefined(), Undefined()
	if classwise := p.classwise[sums]; classwise != nil {
		s.Classes = Float(classwise.ECE())
	}
	if p.Labels != nil && nll.n > 0 {
		p.labels[sums].scores(&s)
	}
	if len(p.Classes) == 2 {
		s.AUROC = Float(score.AUROC(first, second))
	}
	if p.Classes != nil {
		s.ECE = Float(score.ECEOf(p.Hits(rows, of)))
	}
	return s
}

// boolean returns 1 if given is true and 0 if not, or NaN if of is NaN.
func boolean(given bool, of float64) float64 {
	switch {
	case math.IsNaN(of):
		return of
	case given:
		return 1
	}
	return 0
}

// A mean is a running mean with its standard error. A NaN makes both NaN, and an infinite number makes the
// standard error NaN.
type mean struct {
	n          int
	sum        float64
	at, square float64 // running mean and sum of squared distances from it (Welford)
}

func (m *mean) add(x float64) {
	m.n++
	m.sum += x
	d := x - m.at
	m.at += d / float64(m.n)
	m.square += d * (x - m.at)
}

func (m *mean) value() Float {
	if m.n == 0 {
		return Undefined()
	}
	return Float(m.sum / float64(m.n))
}

// standardError is the standard error of the mean, NaN for fewer than two numbers.
func (m *mean) standardError() Float {
	if m.n < 2 {
		return Undefined()
	}
	return Float(math.Sqrt(m.square / float64(m.n-1) / float64(m.n)))
}

// Hits returns, for each scored row, the largest probability and whether its class is the label.
func (p *Predictions) Hits(rows []Digest, of func(*Digest) *Outcome) (confidence []float64, hit []bool) {
	for i := range rows {
		if o := of(&rows[i]); !math.IsNaN(o.LogDensity) {
			confidence, hit = append(confidence, o.Confidence), append(hit, p.Classes[o.Top] == rows[i].Label)
		}
	}
	return confidence, hit
}

// NoveltyTail is the rank of its novelty above which a row counts as far from the training data.
const NoveltyTail = 0.95

// Beyond returns the share of test rows whose rank of novelty is above q, and the number of rows that have a
// rank.
func (p *Predictions) Beyond(q float64) (share float64, n int) {
	var m mean
	for i := range p.Test {
		if r := float64(p.Test[i].Novelty.Rank); !math.IsNaN(r) {
			m.add(boolean(r > q, 0))
		}
	}
	return float64(m.value()), m.n
}

// Gain returns the mean, over the test rows, of the calibrated negative log likelihood minus that of the
// network, in nats, and its standard error. Both are NaN if there are no rows.
func (p *Predictions) Gain() (d, se Float) {
	var m mean
	for i := range p.Test {
		if d := p.Test[i].Network.LogDensity - p.Test[i].Calibrated.LogDensity; !math.IsNaN(d) {
			m.add(d)
		}
	}
	return m.value(), m.standardError()
}

// Labelled returns the probabilities of all labels of the scored test rows, by the network alone or calibrated,
// and whether the rows have the labels.
func (p *Predictions) Labelled(calibrated bool) (prob []float64, has []bool) {
	c := &p.labels[networkTest]
	if calibrated {
		c = &p.labels[calibratedTest]
	}
	return c.prob, c.has
}
