package problem

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/par"
)

// What decides between ways to scale.
const (
	fitRows = 2000 // training rows that the loss of each way is taken on
	// alike is the difference of two losses up to which they decide nothing, as a share
	// of what the best constant loses: a network that tells classes apart without an
	// error loses less at larger inputs than at its own.
	alike = .05
	// optimal is the cosine of Jᵀr and θ* from which θ* counts as the optimum of
	// some weight decay: there Jᵀr = δθ*.
	optimal = .9
)

// A way is one of the ways in which inputs and targets may be scaled.
type way struct {
	inputs, targets *dataset.Scaling
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

// wellKnown are the means and deviations of pixels from 0 to 1 by which networks for
// pictures are trained, by the number of channels.
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

// inputWays are the ways in which inputs of these rows are scaled, the likeliest
// first.
func inputWays(ctx context.Context, train *dataset.Subset, whole []int) ([]way, error) {
	rows, err := train.Scaling(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", train.Set.File, err)
	}
	byRows := way{words: "inputs standardized by the training rows", inputs: rows}
	if !train.Set.Images() {
		if byRows.inputs = unscaled(rows, whole); len(whole) == train.Set.Dim() {
			return []way{{words: "inputs as they are"}}, nil
		}
		return []way{byRows, {words: "inputs as they are"}}, nil
	}
	one := func(mean, sd float64) *dataset.Scaling {
		return &dataset.Scaling{Mean: []float64{mean}, Scale: []float64{sd}}
	}
	return slices.Concat([]way{{words: "pixels from 0 to 1"}}, wellKnown[train.Set.Shape[0]], []way{
		{words: "pixels from −1 to 1", inputs: one(.5, .5)}, {words: "pixels from 0 to 255", inputs: one(0, 1./255)}, byRows}), nil
}

// outputs are those of the network at some of the training rows, with their positions.
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

// losses returns the loss of one way to scale the inputs, with each way to scale the
// targets. Outputs that are not finite lose everything. With reordered, labels count as
// the class that the network gives most of their rows: see reorder.
func (s *Scaling) losses(ctx context.Context, m *Model, t *Task, train *dataset.Subset, y *mat.Dense, in way, targets []way, reordered bool) ([]way, error) {
	f, at, err := in.outputs(ctx, m, train)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var out []way
	for _, w := range targets {
		joined := way{inputs: in.inputs, targets: w.targets, loss: math.Inf(1), words: in.words}
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

// reorder replaces each label by the class that outputs f give most of its rows, if
// these are different ones.
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

// lossShare is the loss of outputs f as a share of that of the best constant: the mean
// square of a regression on real numbers, else the negative log likelihood.
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

// decide returns the best of the ways, and why; rival, if not nil, is another way to scale
// the targets that is not ruled out.
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

// optimum finds the cosine of Jᵀr and θ* over all training rows. Of a regression
// r is y − f in the network's units; the noise variance does not matter. show is told of
// the rows that are done.
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
