package funcgp

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize/network"
)

// A dataScaling is what is done to inputs and targets outside the network. The network of a Model has its outputs already
// in the units of the targets. A nil dataScaling does nothing.
type dataScaling struct {
	Inputs, Targets             *dataset.Scaling // nil leaves them as they are
	InputsFrom, TargetsFrom     decision
	inputsInside, outputsInside []string // constants inside the network that do the same
	scaleInside                 float64  // by which the latter scale the outputs; 0 where that is unknown
	pictures                    bool
	pixels                      string // which numbers the pixels of pictures are
	logVariances                bool   // the second half of the outputs are log noise variances
}

// scalingOf decides how inputs and targets are scaled: by the options, else by the metadata of the model, else
// by the data, see fitting. y are the training targets, in the units of the data.
func scalingOf(ctx context.Context, c *job.Job, f *FitOptions, m *trainedModel, t *problemTask, d *dataset.Data, train *dataset.Rows, y *mat.Dense) (*dataScaling, error) {
	s := &dataScaling{pictures: d.Images(), pixels: train.Pixels(), logVariances: hasLogVariances(t.Likelihood)}
	if m.Net != nil {
		about := m.Net.Describe()
		s.inputsInside, s.outputsInside, s.scaleInside = about.InputConstants, about.OutputConstants, about.OutputScale
	}
	if was := m.Meta.saved; was != nil {
		s.Inputs, s.Targets, s.InputsFrom, s.TargetsFrom = was.Inputs, was.Targets, was.InputsFrom, was.TargetsFrom
		return s, s.check(c, m, d, y)
	}
	var err error
	if s.Inputs, s.InputsFrom, err = scaling(ctx, "input", &f.InputMean, &f.InputSD, func(file *dataset.ScalingFile) (*dataset.Scaling, bool, error) { return file.Inputs(d.Columns) }); err != nil {
		return nil, err
	}
	if s.Targets, s.TargetsFrom, err = scaling(ctx, "target", &f.TargetMean, &f.TargetSD, func(file *dataset.ScalingFile) (*dataset.Scaling, bool, error) { return file.Targets(d.TargetColumns) }); err != nil {
		return nil, err
	}
	if s.Targets != nil && !hasRealTargets(t.Likelihood) {
		return nil, option.Errorf("%s: standardized targets are for the gaussian likelihood and the heteroscedastic one, but %s has the %s likelihood; leave it out or give {likelihood=gaussian}", s.TargetsFrom.thing(), m.Name, t.Likelihood.Name())
	}
	for _, by := range []**dataset.Scaling{&s.Inputs, &s.Targets} {
		if *by != nil && (*by).Identity() {
			*by = nil
		}
	}
	// Then FitOptions.Standardize and the metadata say it, and what a network that is still to be trained gets.
	meta, untrained := m.Meta, m.Net == nil
	if s.TargetsFrom.By == nobody {
		switch {
		case !hasRealTargets(t.Likelihood):
			s.TargetsFrom = fromKind
		case f.Standardize == "no":
			s.TargetsFrom = f.standardized()
		case meta.Targets != nil:
			s.Targets, s.TargetsFrom = meta.Targets, fromMetadata
		case meta.Scaling != nil || meta.Data != "":
			s.TargetsFrom = fromMetadata
		case untrained:
			s.TargetsFrom = fromTrain
		}
	}
	s.Inputs = train.PerChannel(s.Inputs)
	switch {
	case s.InputsFrom.By != nobody:
	case f.Standardize == "no":
		s.InputsFrom = f.standardized()
	case cmp.Or(f.Standardize, "auto") != "auto":
		s.InputsFrom = f.standardized()
		if s.Inputs, err = ordered(ctx, f.Standardize, train, m.wholeColumns()); err != nil {
			return nil, err
		}
	case meta.Scaling != nil:
		s.Inputs, s.InputsFrom = meta.Scaling, fromMetadata
	case meta.Data != "" && d.Images():
		s.InputsFrom = fromMetadata
	case untrained:
		s.InputsFrom = fromTrain
		if !d.Images() {
			if s.Inputs, err = ordered(ctx, "yes", train, m.wholeColumns()); err != nil {
				return nil, err
			}
		}
	}
	t.open = t.open && t.NoiseFrom.By == byDefault // a noise variance is of real numbers
	if m.Net != nil && (s.InputsFrom.By == nobody || s.TargetsFrom.By == nobody || t.open) {
		if err := s.guess(ctx, c, m, t, d, train, y); err != nil {
			return nil, err
		}
	}
	return s, s.check(c, m, d, y)
}

// guess decides the scalings that are still open by the network's answers on its training rows, see candidate.
// A message says which was chosen, and a warning says if another is not ruled out.
func (s *dataScaling) guess(ctx context.Context, c *job.Job, m *trainedModel, t *problemTask, d *dataset.Data, train *dataset.Rows, y *mat.Dense) error {
	inputs, err := []*candidate{{inputs: s.Inputs}}, error(nil)
	if s.InputsFrom.By == nobody {
		if inputs, err = inputWays(ctx, train, m.wholeColumns()); err != nil {
			return err
		}
	}
	targets, err := targetWays(m, t, y)
	if err != nil {
		return fmt.Errorf("%s: %w", train.File, err)
	}
	if s.TargetsFrom.By != nobody { // known, and perhaps not whether they are counts
		targets = slices.DeleteFunc(targets, func(a *candidate) bool { return a.targets != nil })
		targets[0].targets = s.Targets
		if !t.open {
			targets[0].words, targets[0].options = "", nil
		}
	}
	all := both(inputs, targets)
	if len(all) == 1 {
		only := decision{byDefault, "no other way is usual"}
		s.InputsFrom, s.TargetsFrom = cmp.Or(s.InputsFrom, only), cmp.Or(s.TargetsFrom, only)
		return nil
	}
	rows, err := compareOn(ctx, m, t, train, y)
	if err != nil {
		return err
	}
	g, err := rows.choose(ctx, all)
	if err != nil {
		return err
	}
	if t.Classes != nil && !(g.best.loss < 1) { // no way fits: the classes may be in another order
		rows.order = true
		if g, err = rows.choose(ctx, both(inputs, targets)); err != nil {
			return err
		}
	}
	doubtful := !g.sure()
	if !doubtful && s.InputsFrom.By == nobody {
		if doubtful, err = rows.leaked(ctx, g, train, d.Test); err != nil {
			return err
		}
	}
	if doubtful {
		if err := c.Alarm(g.doubt()); err != nil {
			return err
		}
	}
	from := guessed(g.why())
	counts := t.open && !hasRealTargets(g.best.likelihood)
	if counts {
		from = guessed("outputs are logarithms of rates of counts; " + g.why())
	}
	if s.InputsFrom.By == nobody {
		s.Inputs, s.InputsFrom = g.best.inputs, from
	}
	if s.TargetsFrom.By == nobody {
		s.Targets, s.TargetsFrom = g.best.targets, from
	}
	if counts {
		t.Likelihood, t.Noise, t.NoiseFrom = g.best.likelihood, 0, decision{}
		s.TargetsFrom = from
	}
	c.Note("guessed %s: %s", g.best.words, g.why())
	return nil
}

// check returns an error for numbers that do not fit the data, and warns of numbers that look wrong.
func (s *dataScaling) check(c *job.Job, m *trainedModel, d *dataset.Data, y *mat.Dense) error {
	if s.Inputs != nil {
		if err := s.Inputs.Fits(d.Shape); err != nil {
			if s.InputsFrom.By == byModel {
				return option.Errorf("%s: its metadata entry %s has %w; give {data} that the model was trained on", m.Name, keyScaling, err)
			}
			return option.Errorf("%s: %w", s.InputsFrom.thing(), err)
		}
		// Columns that hold integers as the network takes them stay as they are.
		for _, k := range m.wholeColumns() {
			at := k
			if len(s.Inputs.Mean) != elements(d.Shape) {
				at = 0
			}
			if s.Inputs.Mean[at] != 0 || s.Inputs.Scale[at] != 1 {
				if m.takesWholeAlone() {
					return option.Errorf("%s: it scales inputs, which %s takes as whole numbers; leave it out", s.InputsFrom.thing(), m.Name)
				}
				return option.Errorf("%s: it scales column %d, which an input of %s takes as whole numbers; give it a mean of 0 and a deviation of 1, or {standardize=no}", s.InputsFrom.thing(), k, m.Name)
			}
		}
		for _, v := range s.Inputs.Mean {
			if d.Images() && s.InputsFrom.By != byModel && math.Abs(v) > 1 {
				c.Warn(job.NewWarning("pixel-mean", v, 1, "For pixels from 0 to 255 divide it by 255.",
					"%s has a mean of %v, but pixels run from 0 to 1 here. The network sees inputs unlike those of its training.", s.InputsFrom.thing(), v))
				break
			}
		}
	}
	if s.Targets != nil {
		if k, w := len(s.Targets.Mean), y.RawMatrix().Cols; k != 1 && k != w {
			return option.Errorf("%s: %d means and deviations of targets, but the data have %d", s.TargetsFrom.thing(), k, w)
		}
	}
	return nil
}

// Rescaled returns the network with its outputs in the units of the targets.
func (s *dataScaling) Rescaled(net *network.Network) (*network.Network, error) {
	if s.Targets == nil {
		return net, nil
	}
	_, c, _ := net.Dims()
	out, err := net.Rescaled(s.perOutput(c))
	if err != nil {
		return nil, option.Errorf("targets %s: %w", s.TargetsFrom.Text, err)
	}
	return out, nil
}

// perOutput returns the deviation and the mean of the targets for each output. A log variance shifts by the log
// of the squared deviation.
func (s *dataScaling) perOutput(c int) (sd, mean []float64) {
	sd, mean = make([]float64, c), make([]float64, c)
	for j := range c {
		if s.logVariances && j >= c/2 {
			sd[j], mean[j] = 1, 2*math.Log(sd[j-c/2])
			continue
		}
		k := min(j, len(s.Targets.Mean)-1)
		sd[j], mean[j] = s.Targets.Scale[k], s.Targets.Mean[k]
	}
	return sd, mean
}

// noiseUnit returns the factor from the variance of the network's own outputs to the units of the noise
// variance. For one output these are the squared units of the data. Several outputs may have different units,
// so there the units are those of the network.
func (s *dataScaling) noiseUnit(outputs int) float64 {
	if s == nil || s.Targets == nil || outputs != 1 {
		return 1
	}
	return s.Targets.Scale[0] * s.Targets.Scale[0]
}

// setNoise sets the noise variance of a gaussian task and its likelihood for outputs in the units of the data.
func (s *dataScaling) setNoise(t *problemTask, variance float64, outputs int) error {
	if !hasNoise(t.Likelihood) {
		return nil
	}
	t.Noise = variance
	var err error
	if s == nil || s.Targets == nil || outputs == 1 {
		t.Likelihood, err = glm.NewGaussian(variance)
		return err
	}
	sd, _ := s.perOutput(outputs)
	for j := range sd {
		sd[j] *= variance * sd[j]
	}
	t.Likelihood, err = glm.NewGaussianVector(sd)
	return err
}

// WithNoise is the problem with its noise variance multiplied by a factor.
func (p *problem) WithNoise(factor float64, from option.Text) (*problem, error) {
	q, t := *p, *p.Task
	q.Task, t.NoiseFrom = &t, decision{byComputation, from}
	return &q, p.Examples.Scaling.setNoise(&t, factor*t.Noise, p.Model.Outputs)
}

// meanSquare is the mean of the squared differences of outputs and targets, in the units of the noise variance.
func (s *dataScaling) meanSquare(f, y *mat.Dense) float64 {
	if _, c := f.Dims(); s != nil && s.Targets != nil && c > 1 {
		sd, _ := s.perOutput(c)
		f, y = mat.DenseCopyOf(f), mat.DenseCopyOf(y)
		for _, m := range []*mat.Dense{f, y} {
			m.Apply(func(_, j int, v float64) float64 { return v / sd[j] }, m)
		}
	}
	return meanSquare(f, y)
}

// Report describes the scaling in words.
func (s *dataScaling) Report(words option.Words) *result.Preprocessing {
	in := "as they are in the data"
	if s.pictures {
		in = strings.TrimPrefix(s.pixels, "inputs ")
	}
	if s.Inputs != nil {
		if s.pictures {
			in += ", "
		} else {
			in = ""
		}
		in += inWords(s.Inputs, "columns")
	}
	if len(s.inputsInside) > 0 {
		in += "; the network itself standardizes them by its constants " + strings.Join(s.inputsInside, ", ")
	}
	out := "as they are in the data"
	if s.Targets != nil {
		out = inWords(s.Targets, "targets") + " (results are in the units of the data)"
	}
	if len(s.outputsInside) > 0 {
		out += "; the network itself scales its outputs by its constants " + strings.Join(s.outputsInside, ", ")
	}
	from := s.InputsFrom.Text
	if s.TargetsFrom != s.InputsFrom && (s.Targets != nil || s.TargetsFrom.By != moot) {
		from = option.Textf("inputs: %s; targets: %s", s.InputsFrom.Text, s.TargetsFrom.Text)
	}
	return &result.Preprocessing{Inputs: in, Targets: out, Origin: from.In(words), Guessed: s.InputsFrom.By == byGuess || s.TargetsFrom.By == byGuess}
}

// inWords describes a scaling for people. many names what the numbers belong to.
func inWords(s *dataset.Scaling, many string) string {
	if len(s.Mean) > 4 {
		return fmt.Sprintf("standardized by means and deviations of %d %s", len(s.Mean), many)
	}
	return fmt.Sprintf("minus %s, divided by %s", shortNumbers(s.Mean), shortNumbers(s.Scale))
}

func shortNumbers(v []float64) string {
	out := make([]string, len(v))
	for i, x := range v {
		out[i] = strconv.FormatFloat(x, 'g', 6, 64)
	}
	return strings.Join(out, ", ")
}
