package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
)

// reached explains step by step how the probability of class k follows from the network's probability. Steps
// that do not change the number are left out. It is "" if the steps are not known.
func (v *view) reached(k int) string {
	p, sd, network := v.certainty(k)
	if math.IsNaN(p) || math.IsNaN(network) {
		return ""
	}
	steps := []string{Probability(network) + " by the " + v.alone()}
	last := Probability(network)
	step := func(how string, to float64) {
		if text := Probability(to); text != last {
			last = text
			steps = append(steps, how, text)
		}
	}
	r := v.page.Report
	if plain := v.untempered(k); !math.IsNaN(plain) {
		step(r.Fit.Mean(), plain)
	}
	how := "averaged over the networks that fit the training data"
	switch x := r.Prediction.Calibration; {
	case x != nil:
		if x.Shift != nil {
			step("shares of the classes as in the data"+v.calibratedOn(), v.plain(k, 1, x.Shift))
		}
		if x.Temperature != 1 {
			step("temperature "+result.Short(float64(x.Temperature))+v.calibratedOn(), v.plain(k, float64(x.Temperature), x.Shift))
		}
		if x.Scale != 1 {
			how += " (covariance × " + result.Short(float64(x.Scale)) + ")"
		}
	case v.networks() > 1:
		how = "each network calibrated and averaged, and the mean of them"
	}
	step(how, p)
	return fmt.Sprintf("Probability of %s: %s ± %s.", v.page.Classes[k], strings.Join(steps, " → "), Probability(sd))
}

// calibratedOn names in brackets the rows by which the temperature was chosen, "" if they are not known.
func (v *view) calibratedOn() string {
	switch c := v.page.Report.Fit.Calibration; {
	case c == nil:
		return ""
	case c.Method == "heldout":
		return " (held-out rows)"
	}
	return " (leave-one-out)"
}

// plain returns the probability of class k at the mean outputs plus a shift, which may be nil, times a
// temperature. It is NaN if the mean outputs are not known.
func (v *view) plain(k int, temperature float64, shift []result.Float) float64 {
	mean := v.page.Report.Prediction.Mean
	if len(mean) != v.page.Report.Fit.Outputs {
		return math.NaN()
	}
	f := make([]float64, len(mean))
	for i, m := range mean {
		f[i] = float64(m)
		if shift != nil {
			f[i] += float64(shift[i])
		}
		f[i] *= temperature
	}
	switch {
	case v.kind == classes:
		glm.Categorical{}.MeanTo(f, f)
		return f[k]
	case k == 0:
		f[0] = -f[0]
	}
	glm.Bernoulli{}.MeanTo(f, f)
	return f[0]
}

// untempered returns the probability of class k to which the explained outputs correspond. It is NaN if it is
// not known.
func (v *view) untempered(k int) float64 {
	if !v.page.Report.Fit.Refit {
		_, _, network := v.certainty(k)
		return network
	}
	return v.plain(k, 1, nil)
}

// explains names the probability to which the explained outputs correspond. It is "" for a regression.
func (v *view) explains() string {
	if v.predicted < 0 {
		return ""
	}
	p := v.untempered(v.predicted)
	if math.IsNaN(p) {
		return ""
	}
	of, what := "of the network", "f, explained below, stands"
	if v.page.Report.Fit.Refit {
		of = "of the " + v.page.Report.Fit.Mean()
	} else if v.networks() > 1 {
		of = "of the mean output"
	}
	if v.kind == classes {
		what = "The outputs explained below stand"
	}
	return fmt.Sprintf("%s for probability %s of %s: that %s, before temperature and averaging.", what, Probability(p), v.page.Classes[v.predicted], of)
}
