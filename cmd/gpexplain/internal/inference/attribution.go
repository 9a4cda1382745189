package inference

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
	"github.com/funcgp/funcgp/explain/evaluate"
	"github.com/funcgp/funcgp/explain/report"
)

// AttributionFlags say at which prior precision the terms of an explanation are computed.
type AttributionFlags struct {
	text    string
	rule    string // one of attributionRules, given or prior
	given   float64
	descent *evaluate.Descent // that the flag states; nil takes the model's
}

var attributionRules = []string{"training", "loo", "evidence", "geometric"}

// Add defines --attribution-precision.
func (s *AttributionFlags) Add(c *cobra.Command) {
	c.Flags().StringVar(&s.text, "attribution-precision", "", "compute the terms at another prior precision than predictions, a positive number or by a `RULE`: training, rows·(1 − momentum)/(step size·steps) of a training by SGD that train recorded, or training:RATE,MOMENTUM,STEPS of any other; loo or evidence, as of --tune-prior; or geometric, the geometric mean of these two (default the prior's)")
}

// Check refuses what is no precision, or does not go with other flags. posteriorFile may be "".
func (s *AttributionFlags) Check(c *cobra.Command, f *Flags, posteriorFile string) error {
	s.rule = "prior"
	if !c.Flags().Changed("attribution-precision") {
		return nil
	}
	if posteriorFile != "" {
		return console.Usagef("--attribution-precision fits another posterior than that of --posterior; leave one of them out")
	}
	if f.Method == "fitc" {
		return console.Usagef("--attribution-precision is not for --method fitc; give --method nystrom, or leave it out")
	}
	rule, values, stated := strings.Cut(s.text, ":")
	switch {
	case stated && rule == "training":
		d, err := problem.ParseTraining(values)
		if err != nil {
			return console.Usagef("--attribution-precision %s must give step size, momentum and steps, as in training:0.01,0.9,3950", s.text)
		}
		s.rule, s.descent = rule, d
	case slices.Contains(attributionRules, s.text):
		s.rule = s.text
	default:
		v, err := strconv.ParseFloat(s.text, 64)
		if err != nil {
			return console.NotOneOf("attribution-precision", s.text, append([]string{"a number"}, attributionRules...))
		}
		if !(v >= 1e-300 && v <= 1e300) {
			return console.Usagef("--attribution-precision %s must be a positive number", s.text)
		}
		s.rule, s.given = "given", v
	}
	return nil
}

// Posterior returns the posterior whose terms are to be listed, which is q where nothing else was
// asked for, and what reports say of it. flags are those by which q was fitted.
func (s *AttributionFlags) Posterior(ctx context.Context, c *console.Console, p *problem.Problem, flags *Flags, q *Posterior) (*Posterior, *report.Attribution, error) {
	if s.rule == "prior" || s.rule == "" {
		return q, report.NewAttribution("prior", q.precision, q.precision, ""), nil
	}
	precision, how := s.given, "--attribution-precision"
	switch s.rule {
	case "training":
		var err error
		if precision, how, err = s.byTraining(p); err != nil {
			return nil, nil, err
		}
	case "loo", "evidence":
		a, err := tunedBy(ctx, c, p, flags, s.rule)
		if err != nil {
			return nil, nil, err
		}
		return a, report.NewAttribution(s.rule, a.precision, q.precision, "chosen as by --tune-prior "+s.rule), nil
	case "geometric":
		var by [2]float64
		for k, rule := range []string{"loo", "evidence"} {
			a, err := tunedBy(ctx, c, p, flags, rule)
			if err != nil {
				return nil, nil, err
			}
			by[k] = a.precision
		}
		precision, how = math.Sqrt(by[0])*math.Sqrt(by[1]), fmt.Sprintf("the geometric mean of %.4g by leave-one-out and %.4g by the evidence", by[0], by[1])
	}
	says := report.NewAttribution(s.rule, precision, q.precision, how)
	if precision == q.precision {
		return q, says, nil
	}
	other := *flags
	other.tune, other.at = "", atStated
	a, err := Fit(ctx, c, p.WithPrecision(precision), &other, Options{NoReport: true})
	return a, says, err
}

// tunedBy is the posterior at the precision that a rule of --tune-prior chooses.
func tunedBy(ctx context.Context, c *console.Console, p *problem.Problem, flags *Flags, rule string) (*Posterior, error) {
	other := *flags
	other.tune, other.tuneFlag = rule, "--attribution-precision"
	a, err := Fit(ctx, c, p, &other, Options{NoReport: true})
	return a, err
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
