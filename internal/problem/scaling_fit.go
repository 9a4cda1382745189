package problem

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// What decides between ways to scale.
const (
	fitRows = 2000 // training rows that the loss of each way is taken on
	// alike is the difference of two losses up to which they decide nothing, as a share of what the best constant
	// loses: a network that tells classes apart without an error loses less at larger inputs than at its own.
	alike = .05
	// optimal is the cosine of Jᵀr and θ* from which θ* counts as the optimum of some weight decay: there Jᵀr = δθ*.
	optimal = .9
)

// A way is one of the ways in which inputs and targets may be scaled.
type way struct {
	inputs, targets *dataset.Scaling
	typed           *dataset.Scaling // inputs as flags say them
	words           string
	loss            float64 // as a share of what the best constant loses
	cosine          float64 // of Jᵀr and θ*
	spread          spread  // of a regression
}

// why says what was compared.
func (w *way) why(ways []way) string {
	text := fmt.Sprintf("the network loses %s of what a constant loses on its training rows", percent(w.loss))
	var next *way
	for i := range ways {
		if o := &ways[i]; o != w && (next == nil || o.loss < next.loss) {
			next = o
		}
	}
	if next == nil {
		return text
	}
	return text + fmt.Sprintf(", but %s with %s", percent(next.loss), next.words)
}

func percent(share float64) string {
	switch {
	case !(share < 1000):
		return "more than 1000 times"
	case share >= 2:
		return fmt.Sprintf("%.3g times", share)
	}
	return fmt.Sprintf("%.3g %%", 100*share)
}

// wellKnown are the means and deviations of pixels from 0 to 1 by which networks for pictures are trained, by the
// number of channels.
var wellKnown = map[int][]way{
	1: {
		{words: "mean 0.1307 and deviation 0.3081 (those of MNIST)", inputs: &dataset.Scaling{Mean: []float64{.1307}, Scale: []float64{.3081}}},
		{words: "mean 0.2860 and deviation 0.3530 (those of Fashion-MNIST)", inputs: &dataset.Scaling{Mean: []float64{.2860}, Scale: []float64{.3530}}},
	},
	3: {
		{words: "the means and deviations of ImageNet", inputs: &dataset.Scaling{Mean: []float64{.485, .456, .406}, Scale: []float64{.229, .224, .225}}},
		{words: "the means and deviations of CIFAR-10", inputs: &dataset.Scaling{Mean: []float64{.4914, .4822, .4465}, Scale: []float64{.2470, .2435, .2616}}},
	},
}

// inputWays are the ways in which inputs of these rows are scaled, the likeliest first.
func inputWays(ctx context.Context, train *dataset.Subset, whole []int) ([]way, error) {
	rows, err := train.Scaling(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", train.Set.File, err)
	}
	byRows := way{words: "inputs standardized by the training rows", inputs: rows}
	set := train.Set
	if len(whole) == set.Dim() {
		words := "inputs as they are"
		if set.Images() {
			words = set.Pixels()
		}
		return []way{{words: words}}, nil
	}
	if !set.Images() {
		byRows.inputs = unscaled(rows, whole)
		return []way{byRows, {words: "inputs as they are"}}, nil
	}
	one := func(mean, sd float64) *dataset.Scaling {
		return &dataset.Scaling{Mean: []float64{mean}, Scale: []float64{sd}}
	}
	channels, _, _ := set.Picture()
	known := append(slices.Clone(wellKnown[channels]), way{words: "pixels from −1 to 1", inputs: one(.5, .5)})
	asIs := way{words: set.Pixels()}
	lo, hi := set.Range()
	spread := func(list []way) []way {
		for i := range list {
			list[i].typed = list[i].inputs
			list[i].inputs = set.PerChannel(list[i].inputs)
		}
		return list
	}
	switch {
	case lo >= 0 && hi <= 1:
		return spread(slices.Concat([]way{asIs}, known, []way{{words: "pixels from 0 to 255", inputs: one(0, 1./255)}, byRows})), nil
	case !set.Levels():
		return spread(slices.Concat([]way{asIs}, known, []way{byRows})), nil
	}
	// Of whole grey levels from 0 to 255 a network takes 255 as 1, unless it divides them itself.
	const white = 255.
	list := []way{{words: "pixels from 0 to 1", inputs: one(0, white)}, asIs}
	for _, w := range known {
		by := &dataset.Scaling{Mean: slices.Clone(w.inputs.Mean), Scale: slices.Clone(w.inputs.Scale)}
		floats.Scale(white, by.Mean)
		floats.Scale(white, by.Scale)
		list = append(list, way{words: w.words + ", of pixels divided by 255", inputs: by})
	}
	return spread(append(list, byRows)), nil
}

// outputs are the network's outputs at some of the training rows, with the positions of the rows.
func (w *way) outputs(ctx context.Context, m *Model, train *dataset.Subset) (f *mat.Dense, at []int, err error) {
	n := min(train.Len(), fitRows)
	pos := make([]int, n)
	at = make([]int, n)
	for i := range n {
		at[i] = i * train.Len() / n
		pos[i] = train.Pos[at[i]]
	}
	x, err := train.Set.Read(ctx, pos)
	if err != nil {
		return nil, nil, err
	}
	w.inputs.Apply(x)
	f, err = m.Net.Forward(ctx, x)
	return f, at, err
}

// losses returns the loss of one way to scale the inputs, with each way to scale the targets. Outputs that are not
// finite lose everything. With reordered, labels count as the class that the network gives most of their rows: see
// reorder.
func (s *Scaling) losses(ctx context.Context, m *Model, t *Task, train *dataset.Subset, y *mat.Dense, in way, targets []way, reordered bool) ([]way, error) {
	f, at, err := in.outputs(ctx, m, train)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var out []way
	for _, w := range targets {
		joined := way{inputs: in.inputs, typed: in.typed, targets: w.targets, loss: math.Inf(1), words: in.words}
		if w.words != "" && in.words != "" {
			joined.words += " and "
		}
		joined.words += w.words
		if err == nil {
			labels := RowsAt(y, at)
			if reordered {
				reorder(labels, f, len(t.Classes))
			}
			if l := lossShare(t, w.targets, f, labels); !math.IsNaN(l) {
				joined.loss = l
			}
			if hasRealTargets(t.Likelihood) {
				joined.spread = spreadOf(w.targets, f, labels)
			}
		}
		out = append(out, joined)
	}
	return out, nil
}

// reorder replaces each label by the class that outputs f give most of its rows, if these are different ones.
func reorder(y, f *mat.Dense, classes int) {
	label, to := make([]int, y.RawMatrix().Rows), make([]int, classes)
	for i := range label {
		label[i] = int(y.At(i, 0))
	}
	confusion := confusionOf(f, label, classes)
	for k := range to {
		to[k] = floats.MaxIdx(confusion.RawRowView(k))
		if slices.Contains(to[:k], to[k]) {
			return
		}
	}
	for i, k := range label {
		y.Set(i, 0, float64(to[k]))
	}
}

// lossShare is the loss of outputs f as a share of the loss of the best constant: the mean square of a regression on
// real numbers, else the negative log likelihood.
func lossShare(t *Task, targets *dataset.Scaling, f, y *mat.Dense) float64 {
	n, _ := f.Dims()
	if hasRealTargets(t.Likelihood) {
		_, c := y.Dims() // of a heteroscedastic likelihood, the means
		s := &Scaling{Targets: targets}
		share := 0.0
		for j := range c {
			sd, mean := []float64{1}, []float64{0}
			if targets != nil {
				sd, mean = s.perOutput(c)
				sd, mean = sd[j:], mean[j:]
			}
			col := mat.Col(nil, j, y)
			middle := floats.Sum(col) / float64(n)
			var rest, all float64
			for i, v := range col {
				d := v - (sd[0]*f.At(i, j) + mean[0])
				rest, all = rest+d*d, all+(v-middle)*(v-middle)
			}
			share += rest / all / float64(c)
		}
		return share
	}
	loss := 0.0
	for i := range n {
		loss -= t.Likelihood.LogProb(y.RawRowView(i), f.RawRowView(i))
	}
	// That of the best constant for labels or counts is at least a small positive number.
	_, c := y.Dims()
	constant := 0.0
	if t.Classes != nil {
		count := map[float64]float64{}
		for i := range n {
			count[y.At(i, 0)]++
		}
		for _, k := range slices.Sorted(maps.Keys(count)) {
			constant -= count[k] * math.Log(count[k]/float64(n))
		}
	} else {
		rate := make([]float64, c)
		for j := range rate {
			rate[j] = math.Log(max(mat.Sum(y.ColView(j))/float64(n), 1/float64(n)))
		}
		for i := range n {
			constant -= t.Likelihood.LogProb(y.RawRowView(i), rate)
		}
	}
	return loss / max(constant, 1e-9*float64(n))
}

// decide returns the best of the ways, and why; rival, if not nil, is another way to scale the targets that is not
// ruled out.
func decide(ctx context.Context, c *job.Job, m *Model, t *Task, train *dataset.Subset, y *mat.Dense, ways []way, pictures bool) (best, rival *way, why string, err error) {
	least := 0
	for i := range ways {
		if ways[i].loss < ways[least].loss {
			least = i
		}
	}
	var near []*way
	for i := range ways {
		if ways[i].loss <= ways[least].loss+alike {
			near = append(near, &ways[i])
		}
	}
	if math.IsInf(ways[least].loss, 1) || len(near) == 1 {
		return near[0], nil, near[0].why(ways), nil
	}
	best = near[0]
	defer c.Clear()
	for i, w := range near {
		show := func(done int) { c.Show("scalings compared", i*train.Len()+done, len(near)*train.Len()) }
		if err := w.optimum(ctx, m, t, train, y, show); err != nil {
			return nil, nil, "", err
		}
		if w.cosine > best.cosine {
			best = w
		}
	}
	if best.cosine >= optimal {
		next := near[0]
		for _, w := range near {
			if next == best || w != best && w.cosine > next.cosine {
				next = w
			}
		}
		if rival = best.otherTargets(near); rival != nil && rival.cosine < optimal && best.spread.misfit() <= rival.spread.misfit() {
			rival = nil
		}
		return best, rival, fmt.Sprintf("the network fits its training rows about as well with %s, but here its parameters are the optimum of a weight decay (cosine of their gradient and themselves %.3f, there %.3f)", next.words, best.cosine, next.cosine), nil
	}
	if best = &ways[least]; pictures || near[0].targets == nil && best.targets != nil {
		best = near[0]
	}
	if rival = best.otherTargets(near); rival == nil {
		return best, nil, best.why(ways), nil
	}
	if rival.spread.misfit() < best.spread.misfit() {
		best, rival = rival, best
	}
	return best, rival, best.why(ways) + "; " + best.spread.words(&rival.spread), nil
}

// otherTargets is the first of near with the same inputs and other targets, or nil.
func (w *way) otherTargets(near []*way) *way {
	for _, o := range near {
		if o.inputs == w.inputs && o.targets != w.targets {
			return o
		}
	}
	return nil
}

// optimum finds the cosine of Jᵀr and θ* over all training rows. Of a regression r is y − f in the network's units;
// the noise variance does not matter. show is told of the rows that are done.
func (w *way) optimum(ctx context.Context, m *Model, t *Task, train *dataset.Subset, y *mat.Dense, show func(done int)) error {
	theta := m.Net.Theta()
	pull, err := w.pull(ctx, m, t, train, y, show)
	if err != nil {
		return err
	}
	if a, b := floats.Norm(pull, 2), floats.Norm(theta, 2); a > 0 && b > 0 {
		w.cosine = floats.Dot(pull, theta) / a / b
	}
	return nil
}

// pull is Jᵀr over all training rows.
func (w *way) pull(ctx context.Context, m *Model, t *Task, train *dataset.Subset, y *mat.Dense, show func(done int)) ([]float64, error) {
	pull, part := make([]float64, m.Parameters()), make([]float64, m.Parameters())
	for tile := range par.Tiles(train.Len(), PredictRows) {
		lo, hi := par.Bounds(tile, train.Len(), PredictRows)
		x, err := train.Set.Read(ctx, train.Pos[lo:hi])
		if err != nil {
			return nil, err
		}
		w.inputs.Apply(x)
		f, err := m.Net.Forward(ctx, x)
		if err != nil {
			return nil, NamesOf(train, lo, hi).ExplainError(err)
		}
		r, target := mat.NewDense(hi-lo, m.Outputs, nil), mat.DenseCopyOf(y.Slice(lo, hi, 0, y.RawMatrix().Cols))
		if w.targets != nil {
			w.targets.Apply(target)
		}
		for i := range hi - lo {
			t.Likelihood.Expand(r.RawRowView(i), nil, nil, target.RawRowView(i), f.RawRowView(i))
		}
		if err := m.Net.VJP(ctx, part, x, r); err != nil {
			return nil, NamesOf(train, lo, hi).ExplainError(err)
		}
		floats.Add(pull, part)
		show(hi)
	}
	return pull, nil
}

// A spread compares a regression's predictions of training rows with their targets, both in the units of the data, an
// element for each target.
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

// misfit is how far the predictions are from having the mean and the deviation of the targets, a mean over the targets
// without unit: the difference of the means in deviations of the targets, and the difference of the logarithms of the
// deviations. A deviation between ρ times the targets' and the targets' own, with ρ the correlation of both, counts as
// right: a fit by least squares has the first, and one that repeats its targets the second. It is 0 for no regression,
// and +Inf where it is not a number.
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

// words says why this way is taken and not another.
func (s *spread) words(o *spread) string {
	if len(s.sd) > 1 {
		return fmt.Sprintf("over the training rows its predictions are nearer to the means and deviations of the targets, with a misfit of %.3g against %.3g", s.misfit(), o.misfit())
	}
	return fmt.Sprintf("over the training rows its predictions have mean %.4g and deviation %.4g, otherwise %.4g and %.4g, and the targets %.4g and %.4g",
		s.mean[0], s.sd[0], o.mean[0], o.sd[0], s.ofMean[0], s.ofSD[0])
}

// moved is the root mean square difference of predictions of the training rows by two ways to scale the same outputs,
// in deviations of the targets, and the factors by which the latter's deviations are larger.
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

// otherInputs looks for another way to scale the inputs under which the network fits its training rows: where θ* is an
// optimum of some weight decay, where the labels agree with the outputs in another order, or where it loses less than
// half and differs by more than decides nothing. It returns what it found and what to give for it, "" where there is
// none.
func (l *look) otherInputs(ctx context.Context) (cause, give string) {
	p := l.problem
	if p.Model.Net == nil {
		return "", ""
	}
	ways, err := inputWays(ctx, p.Examples.Train, p.Model.wholeColumns())
	if err != nil {
		return "", ""
	}
	now := l.nll / l.constant
	if HasNoise(p.Task.Likelihood) {
		now = lossShare(p.Task, nil, l.at.F, p.Examples.Y)
	}
	var best *way
	found := otherScale
	for i := range ways {
		w := &ways[i]
		f, at, err := w.outputs(ctx, p.Model, p.Examples.Train)
		if err != nil {
			continue // where outputs are not finite it is not this way
		}
		y := RowsAt(p.Examples.Y, at)
		w.loss = lossShare(p.Task, nil, f, y)
		var order []int
		if l.confusion != nil {
			logp, label := make([][]float64, len(at)), make([]int, len(at))
			for i, row := range at {
				label[i], logp[i] = p.Examples.Train.Class[row], logProbabilities(f.RawRowView(i))
			}
			order, _ = orderOf(confusionOf(f, label, len(p.Task.Classes)), logp, label, p.Task.Classes, l.constant)
		}
		if order != nil {
			return fmt.Sprintf("its outputs agree with the labels with %s and the classes in another order", w.words), fmt.Sprintf("Give %s --classes %s.", w.flags(ctx, p), job.Word(classText(order, p.Examples.Data)))
		}
		if s := slopeOf(f, y); HasNoise(p.Task.Likelihood) && s.better > found {
			cause, found = fmt.Sprintf("it was trained on scaled targets and with %s", w.words), s.better
			give = fmt.Sprintf("Give %s --target-mean %.6g --target-sd %.6g.", w.flags(ctx, p), s.mean, s.sd)
		}
		if !(w.loss <= now+alike) || w.optimum(ctx, p.Model, p.Task, p.Examples.Train, p.Examples.Y, func(int) {}) != nil {
			continue
		}
		if w.cosine >= optimal && (best == nil || w.cosine > best.cosine) {
			best = w
		}
	}
	if best == nil {
		for i := range ways {
			if w := &ways[i]; w.loss < min(now/2, now-alike, .5) && (best == nil || w.loss < best.loss) {
				best = w
			}
		}
	}
	if best == nil || same(best.inputs, p.Examples.Scaling) {
		return cause, give
	}
	return fmt.Sprintf("it fits them with %s", best.words), fmt.Sprintf("Give %s.", best.flags(ctx, p))
}

// OtherInputs looks for another way to scale the inputs under which the network, with outputs f on the training rows,
// N×C, was trained on these rows: what to give for it, "" where there is none or it is known how they are scaled. It
// is for a network whose parameters are no optimum as its inputs are.
func (p *Problem) OtherInputs(ctx context.Context, f *mat.Dense) (cause, give string) {
	if s := p.Examples.Scaling; p.Model.takesWholeAlone() || s != nil && s.InputsFrom == fromMetadata {
		return "", ""
	}
	l := &look{problem: p, at: &AtTheta{F: f}}
	l.score()
	return l.otherInputs(ctx)
}

// same tells whether inputs scaled by a are those that the network gets.
func same(a *dataset.Scaling, now *Scaling) bool {
	if now == nil || now.Inputs == nil || a == nil {
		return a == nil && (now == nil || now.Inputs == nil)
	}
	return slices.Equal(a.Mean, now.Inputs.Mean) && slices.Equal(a.Scale, now.Inputs.Scale)
}

// flags ask for this way to scale the inputs.
func (w *way) flags(ctx context.Context, p *Problem) string {
	rows, err := p.Examples.Train.Scaling(ctx)
	switch {
	case w.inputs == nil:
		return "--standardize no"
	case err == nil && same(w.inputs, &Scaling{Inputs: p.Examples.Train.Set.PerChannel(rows)}):
		return "--standardize yes"
	}
	by := w.inputs
	if w.typed != nil {
		by = w.typed
	}
	return fmt.Sprintf("--input-mean %s --input-sd %s", commas(by.Mean), commas(by.Scale))
}
