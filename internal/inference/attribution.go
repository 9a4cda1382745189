package inference

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
)

// AttributionFlags say at which prior precision the terms of an explanation are computed.
type AttributionFlags struct {
	Text    string
	rule    string // one of attributionRules, given or prior
	given   float64
	descent *explain.Descent // that the flag states; nil takes the model's
}

var attributionRules = []string{"training", "removals", "loo", "evidence"}

// removalsOver is how many times the match the precision is at which removals of many rows tell best what
// networks that are trained again become. Of multiples from 1 to 10 it is the least short of the best
// precision over six kinds of networks, by .015 of the linear datamodeling score (studies/records/attribution.md).
const removalsOver = 8

// Check refuses what is no precision, or does not go with other flags. posteriorFile may be "".
func (s *AttributionFlags) Check(given func(flag string) bool, f *Flags, posteriorFile string) error {
	s.rule = "prior"
	if !given("attribution-precision") {
		return nil
	}
	if posteriorFile != "" {
		return job.Usagef("--attribution-precision fits another posterior than that of --posterior; leave one of them out")
	}
	if f.Method == "fitc" {
		return job.Usagef("--attribution-precision is not for --method fitc; give --method nystrom, or leave it out")
	}
	rule, values, stated := strings.Cut(s.Text, ":")
	switch {
	case stated && rule == "training":
		d, err := problem.ParseTraining(values)
		if err != nil {
			return job.Usagef("--attribution-precision %s must give step size, momentum and steps, as in training:0.01,0.9,3950", s.Text)
		}
		s.rule, s.descent = rule, d
	case slices.Contains(attributionRules, s.Text):
		s.rule = s.Text
	default:
		v, err := strconv.ParseFloat(s.Text, 64)
		if err != nil {
			return job.NotOneOf("attribution-precision", s.Text, append([]string{"a number"}, attributionRules...))
		}
		if !(v >= 1e-300 && v <= 1e300) {
			return job.Usagef("--attribution-precision %s must be a positive number", s.Text)
		}
		s.rule, s.given = "given", v
	}
	return nil
}

// Posterior returns the posterior whose terms are to be listed, which is q where nothing else was
// asked for, and what reports say of it. flags are those by which q was fitted.
func (s *AttributionFlags) Posterior(ctx context.Context, c *job.Job, p *problem.Problem, flags *Flags, q *Posterior) (*Posterior, *result.Attribution, error) {
	if s.rule == "prior" || s.rule == "" {
		return q, result.NewAttribution("prior", q.precision, q.precision, ""), nil
	}
	precision, how := s.given, "--attribution-precision"
	switch s.rule {
	case "training":
		var err error
		if precision, how, err = s.byTraining(p); err != nil {
			return nil, nil, err
		}
	case "loo", "evidence":
		// The posterior at the precision that a rule of --tune-prior chooses.
		rule := s.rule
		other := *flags
		other.Tune, other.tuneFlag = rule, "--attribution-precision"
		a, err := Fit(ctx, c, p, &other, Options{NoReport: true})
		if err != nil {
			return nil, nil, err
		}
		return a, result.NewAttribution(s.rule, a.precision, q.precision, "chosen as by --tune-prior "+s.rule), nil
	case "removals":
		match, which := q.precision, "of predictions"
		if s := q.settled; s != nil && s.match.Precision.Finite() {
			match, which = float64(s.match.Precision), "of the match"
		}
		precision, how = removalsOver*match, fmt.Sprintf("%d times that %s, %.4g", removalsOver, which, match)
	}
	says := result.NewAttribution(s.rule, precision, q.precision, how)
	if precision == q.precision {
		return q, says, nil
	}
	other := *flags
	other.Tune, other.At = "", atStated
	a, err := Fit(ctx, c, p.WithPrecision(precision), &other, Options{NoReport: true})
	return a, says, err
}

// byTraining is the precision by the length of the training, and how it came about.
func (s *AttributionFlags) byTraining(p *problem.Problem) (precision float64, how string, err error) {
	m, n := p.Model, p.Examples.Train.Len()
	d := s.descent
	if d == nil {
		if d = m.Meta.Training; d == nil {
			return 0, "", fmt.Errorf("--attribution-precision training: %s does not say how it was trained by SGD; give training:RATE,MOMENTUM,STEPS, such as training:0.01,0.9,3950, or a number", m.Name)
		}
	}
	full := *d
	text := fmt.Sprintf("N(1−μ)/(ηT) = %d × (1 − %g)/(%g × %d), the length of the training", n, d.Momentum, d.Rate, d.Steps)
	if p.Task.StatedPrecision() {
		full.Decay = p.Task.Precision
		text = fmt.Sprintf("δ/(1 − exp(−δ/δ_T)) with the decay δ = %.4g and δ_T = %s", full.Decay, text)
	}
	precision, err = full.Precision(n)
	return precision, text, err
}
