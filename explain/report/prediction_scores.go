package report

import (
	"math"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/score"
)

// Scores are averages over rows with labels. Those that do not apply, or have no
// row, are NaN.
type Scores struct {
	Rows     int          // number of rows scored
	NLL      result.Float // negative log likelihood of a row, in nats
	NLLSE    result.Float // its standard error
	Accuracy result.Float // of several labels, the share of all labels of all rows
	ECE      result.Float // expected calibration error of the largest probability
	Classes  result.Float // class-wise calibration error: score.Classwise
	Brier    result.Float // Σ_c (p_c − 1[y=c])²
	AUROC    result.Float // of two classes, by the probability of the second; of several labels, over all labels of all rows
	RMSE     result.Float // of the expected target of a regression
	Covered  result.Float // share of targets in the central interval of Level
	Level    result.Float // Predictions.Coverage, or 0.9
}

// Scores returns the scores of the test rows by the network alone and calibrated, and
// those to expect on new rows: of the rows given to AddLeaveOneOut or, without any,
// what the calibration says.
func (p *Predictions) Scores() (network, calibrated, expected Scores) {
	network = p.scores(p.test, networkAlone, networkTest)
	calibrated = p.scores(p.test, withCovariance, calibratedTest)
	if len(p.training) > 0 {
		return network, calibrated, p.scores(p.training, withCovariance, calibratedTraining)
	}
	expected = p.scores(nil, withCovariance, calibratedTraining)
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

// networkAlone and withCovariance select one of the two predictive distributions of
// a row.
func networkAlone(d *digest) *outcome   { return &d.network }
func withCovariance(d *digest) *outcome { return &d.calibrated }

// scores averages over the rows with a label and a defined log density, whose class-wise sums are those of this index.
func (p *Predictions) scores(rows []digest, of func(*digest) *outcome, sums int) Scores {
	s := Scores{Level: 0.9} // of the intervals whose coverage is scored
	if p.Coverage > 0 {
		s.Level = result.Float(p.Coverage)
	}
	var nll, accuracy, brier, square, covered mean
	var first, second []float64 // P(second class) by label
	for i := range rows {
		d := &rows[i]
		o := of(d)
		if math.IsNaN(o.logDensity) {
			continue
		}
		nll.add(-o.logDensity)
		switch {
		case p.Labels != nil:
			accuracy.add(o.right)
			brier.add(o.brier)
			continue
		case p.Classes == nil:
			square.add(math.Pow(o.expected-float64(d.label), 2))
			covered.add(boolean(math.Abs(2*o.cdf-1) <= float64(s.Level), o.cdf))
			continue
		case d.label == p.Classes[len(p.Classes)-1]:
			second = append(second, o.second)
		default:
			first = append(first, o.second)
		}
		accuracy.add(boolean(p.Classes[o.top] == d.label, 0))
		brier.add(o.brier)
	}
	s.Rows, s.NLL, s.NLLSE = nll.n, nll.value(), nll.standardError()
	s.Accuracy, s.Brier, s.Covered, s.RMSE = accuracy.value(), brier.value(), covered.value(), result.Float(math.Sqrt(float64(square.value())))
	s.AUROC, s.ECE, s.Classes = result.Undefined(), result.Undefined(), result.Undefined()
	if classwise := p.classwise[sums]; classwise != nil {
		s.Classes = result.Float(classwise.ECE())
	}
	if p.Labels != nil && nll.n > 0 {
		p.labels[sums].scores(&s)
	}
	if len(p.Classes) == 2 {
		s.AUROC = result.Float(score.AUROC(first, second))
	}
	if p.Classes != nil {
		s.ECE = result.Float(score.ECEOf(p.hits(rows, of)))
	}
	return s
}

// boolean is 1 or 0, or NaN if of is.
func boolean(is bool, of float64) float64 {
	switch {
	case math.IsNaN(of):
		return of
	case is:
		return 1
	}
	return 0
}

// A mean is a running mean with its standard error. NaN makes both NaN, and
// infinity the standard error.
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

func (m *mean) value() result.Float {
	if m.n == 0 {
		return result.Undefined()
	}
	return result.Float(m.sum / float64(m.n))
}

// standardError is the standard error of the mean, NaN for fewer than two numbers.
func (m *mean) standardError() result.Float {
	if m.n < 2 {
		return result.Undefined()
	}
	return result.Float(math.Sqrt(m.square / float64(m.n-1) / float64(m.n)))
}

// hits are the largest probabilities of the scored rows, and whether that class is
// the label.
func (p *Predictions) hits(rows []digest, of func(*digest) *outcome) (confidence []float64, hit []bool) {
	for i := range rows {
		if o := of(&rows[i]); !math.IsNaN(o.logDensity) {
			confidence, hit = append(confidence, o.confidence), append(hit, p.Classes[o.top] == rows[i].label)
		}
	}
	return confidence, hit
}

// beyond is the share of test rows whose rank of novelty is above q, and the number
// of rows with a rank.
func (p *Predictions) beyond(q float64) (share float64, n int) {
	var m mean
	for i := range p.test {
		if r := float64(p.test[i].novelty.Rank); !math.IsNaN(r) {
			m.add(boolean(r > q, 0))
		}
	}
	return float64(m.value()), m.n
}

// A measuredCoverage counts the rows with a label that have an interval or a set.
type measuredCoverage struct {
	rows, held, empty int
	size              mean // width of the finite intervals, or number of classes
}

// covered returns how many targets or labels lie in their interval or set.
func (p *Predictions) covered() (c measuredCoverage) {
	for i := range p.test {
		d := &p.test[i]
		if !math.IsNaN(d.in) {
			c.rows++
			c.held += int(d.in)
		}
		if width := d.hi - d.lo; !math.IsNaN(width) && !math.IsInf(width, 0) {
			c.size.add(max(0, width))
		}
		if d.size >= 0 {
			c.size.add(float64(d.size))
		}
		if d.size == 0 || d.hi < d.lo {
			c.empty++
		}
	}
	return c
}
