package problem

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize"
)

// A spread compares a regression's predictions of training rows with their targets, both in
// the units of the data, an element for each target.
type spread struct {
	mean, sd         []float64 // of the predictions
	ofMean, ofSD     []float64 // of the targets
	correlation      []float64
	factor, constant []float64 // predictions are factor·f + constant of the network's outputs f
}

// spreadOf compares outputs f, the first of them the means, with targets y.
func spreadOf(targets *dataset.Scaling, f, y *mat.Dense) spread {
	_, c := y.Dims()
	s := spread{factor: make([]float64, c), constant: make([]float64, c)}
	if targets != nil {
		s.factor, s.constant = (&Scaling{Targets: targets}).perOutput(c)
	} else {
		floats.AddConst(1, s.factor)
	}
	for j := range c {
		out, want := mat.Col(nil, j, f), mat.Col(nil, j, y)
		mean, sd := stat.PopMeanStdDev(out, nil)
		s.mean, s.sd = append(s.mean, s.factor[j]*mean+s.constant[j]), append(s.sd, s.factor[j]*sd)
		mean, sd = stat.PopMeanStdDev(want, nil)
		s.ofMean, s.ofSD = append(s.ofMean, mean), append(s.ofSD, sd)
		s.correlation = append(s.correlation, stat.Correlation(out, want, nil))
	}
	return s
}

// misfit is how far the predictions are from having the mean and the deviation of the
// targets, a mean over the targets without unit: the difference of the means in deviations
// of the targets, and that of the logarithms of the deviations. A deviation between ρ times
// that of the targets, with ρ the correlation of both, and all of it counts as right: a fit
// by least squares has the first, and one that repeats its targets the second. It is 0 for
// no regression, and +Inf where it is not a number.
func (s *spread) misfit() float64 {
	total := 0.0
	for j, sd := range s.sd {
		total += math.Abs(s.mean[j]-s.ofMean[j]) / s.ofSD[j]
		share := sd / s.ofSD[j]
		total += math.Max(0, math.Max(math.Log(share), math.Log(max(s.correlation[j], 0)/share)))
	}
	if math.IsNaN(total) {
		return math.Inf(1)
	}
	return total / float64(max(1, len(s.sd)))
}

// words says why these predictions are taken and not those of another way.
func (s *spread) words(o *spread) string {
	if len(s.sd) > 1 {
		return fmt.Sprintf("over the training rows its predictions are nearer to the means and deviations of the targets, with a misfit of %.3g against %.3g", s.misfit(), o.misfit())
	}
	return fmt.Sprintf("over the training rows its predictions have mean %.4g and deviation %.4g, otherwise %.4g and %.4g, and the targets %.4g and %.4g",
		s.mean[0], s.sd[0], o.mean[0], o.sd[0], s.ofMean[0], s.ofSD[0])
}

// moved is the root mean square by which predictions of the training rows differ from those
// of another way to scale the same outputs, in deviations of the targets, and the factors by
// which the latter's deviations are larger.
func (s *spread) moved(o *spread) (rms float64, factor []float64) {
	for j := range s.sd {
		by := o.factor[j] / s.factor[j]
		mean, sd := o.mean[j]-s.mean[j], (by-1)*s.sd[j]
		rms += (mean*mean + sd*sd) / (s.ofSD[j] * s.ofSD[j]) / float64(len(s.sd))
		factor = append(factor, by)
	}
	return math.Sqrt(rms), factor
}

// targetFlags are those that say that targets are scaled so.
func (w *way) targetFlags() string {
	if w.targets == nil {
		return "--target-mean 0 --target-sd 1"
	}
	return "--target-mean " + commas(w.targets.Mean) + " --target-sd " + commas(w.targets.Scale)
}

// commas is a list of numbers as a flag takes it.
func commas(v []float64) string { return strings.ReplaceAll(shortNumbers(v), " ", "") }

// doubt warns that another way to scale the targets is not ruled out.
func (w *way) doubt(rival *way) error {
	rms, factor := w.spread.moved(&rival.spread)
	return linearize.NewWarning("target-scaling-unsure", rival.loss, w.loss, fmt.Sprintf("Give %s to keep what is taken, or %s for the other.", w.targetFlags(), rival.targetFlags()),
		"It is not sure how targets were scaled in training: with %s, which is taken, the network loses %s of what a constant loses on its training rows, and with %s %s. The latter would move predictions by %.3g of a deviation of the targets (RMS over the training rows) and multiply their deviations by %s.",
		w.words, percent(w.loss), rival.words, percent(rival.loss), rms, shortNumbers(factor))
}
