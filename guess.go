package funcgp

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

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/head"
)

// How inputs and targets were scaled outside of a network, and whether its outputs are logarithms of rates, no file says.
// It is guessed: among candidates the one with the least
//
//	score = 5 log(loss + ε) + log(strain + .001) + 3 log(record + .02)
//
// is taken. The loss is that of the training rows, as a share of what the best constant loses, with ε = .03 for labels and .001 for numbers. The strain says how far θ* is
// from an optimum of some weight decay: for each tensor ‖Σ gᵢ − Nλθ‖²/Σ‖gᵢ‖² with the gradients gᵢ of the rows and one λ ≥ 0, which is
// 0 at the optimum, 1 for gradients with independent signs and up to N for equal ones; of all tensors the mean. The record is how far the
// input of the first BatchNormalization is from the moments that it recorded in training; without one the term is left out.
// A loss alone does not tell: a network that tells classes apart loses less at larger inputs than at its own. A loss of labels far below
// 1e-6, which no training reaches, counts against a candidate by log(1 + 1e-6/loss).
//
// The weights and the limits below were chosen on one half of the trainings of studies/scaling, and its tables are of the other half.
const (
	lossWeight, strainFloor, recordWeight, recordFloor = 5, .001, 3, .02
	labelLoss, numberLoss                              = .03, .001

	// looseRecord is from which distance on a BatchNormalization recorded moments of other inputs than any candidate's.
	looseRecord = .08

	// unsure is the difference of scores up to which another candidate is not ruled out.
	unsure = .3
	// Deviations over N and over N − 1 differ so little that only the end of a training tells them apart.
	unsureOfTwins = 1.2
	// Answers differ from which difference of a probability on, or of a mean in deviations of the targets.
	otherProbability, otherMean = .005, .02

	nearOptimum = .3   // strain
	guessRows   = 1000 // training rows that candidates are compared on
	leakRows    = 5e4  // training rows beyond which test rows change a scaling by too little
	strainWork  = 1e4  // gradients of single outputs
	recordWork  = 8e6  // numbers before a BatchNormalization
	reachable   = 1e-6 // loss of labels
	mostStrain  = 1e4  // scores beyond differ by nothing
	momentsZero = 1e-5 // added to variances
)

// A candidate is one way in which a network may have been trained: how inputs and targets were scaled outside of it,
// and its likelihood.
type candidate struct {
	inputs, targets *dataset.Scaling
	likelihood      glm.Likelihood
	words           string
	options         []option.Text // that say so

	loss, strain, record float64
	score                float64
	answers              *mat.Dense // of some training rows: probabilities, or means in deviations of the targets
}

// A guess is the result of comparing candidates.
type guess struct {
	best   *candidate
	next   *candidate // the nearest of those with other answers; nil for none
	margin float64    // between their scores, of which unsure decides
}

// sure tells whether no other candidate with other answers scores nearly as well, and the best candidate is one
// with which the network could have been trained.
func (g *guess) sure() bool { return g.next == nil || g.margin > unsure && g.best.record < looseRecord }

// why describes the comparison in words.
func (g *guess) why() string {
	text := fmt.Sprintf("the network loses %s of what a constant loses on its training rows", percent(g.best.loss))
	if g.next == nil {
		return text + ", and no other way to scale gives other answers"
	}
	return text + fmt.Sprintf("; next comes %s with %s", g.next.words, percent(g.next.loss))
}

// apart describes in words the largest difference between the answers of the best candidate and the next one.
func (g *guess) apart() string {
	unit := "in a probability"
	if g.best.likelihood != nil && !hasClasses(g.best.likelihood) {
		unit = "deviations of the targets"
	}
	return fmt.Sprintf("%.2g %s", apart(g.best, g.next), unit)
}

// doubt returns a warning that the next candidate is not ruled out.
func (g *guess) doubt() error {
	return job.NewWarning("guess-unsure", g.margin, unsure,
		option.Textf("Give %s to keep what is taken, or %s for the other.", option.Join(g.best.options, "{,}"), option.Join(g.next.options, "{,}")),
		"It is not sure how the network was trained: with %s, which is taken, it loses %s of what a constant loses on its training rows, and with %s %s. Their answers there are up to %s apart.",
		g.best.words, percent(g.best.loss), g.next.words, percent(g.next.loss), g.apart())
}

// apart is the largest difference of the answers of two candidates.
func apart(a, b *candidate) float64 {
	if a.answers == nil || b.answers == nil {
		return math.Inf(1)
	}
	most := 0.0
	for i, v := range a.answers.RawMatrix().Data {
		if d := math.Abs(v - b.answers.RawMatrix().Data[i]); !(d <= most) {
			most = d
		}
	}
	return most
}

// differ tells whether two candidates give other answers.
func differ(a, b *candidate) bool {
	limit := otherMean
	if hasClasses(a.likelihood) {
		limit = otherProbability
	}
	return !(apart(a, b) <= limit)
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

// A comparison judges candidates by some of the training rows.
type comparison struct {
	model   *trainedModel
	classes int
	x       *mat.Dense
	y       *mat.Dense
	loss    loss       // of the training, beside the likelihood
	soft    *mat.Dense // shares of the classes that soft labels of the rows have; nil for others
	rows    []int      // the positions of these rows among the training rows
	order   bool       // labels count as the class that the network gives most of their rows
}

// compareOn reads the rows that candidates are compared on.
func compareOn(ctx context.Context, m *trainedModel, t *problemTask, train *dataset.Rows, y *mat.Dense) (*comparison, error) {
	n := min(train.Len(), guessRows)
	c := &comparison{model: m, loss: t.Loss, classes: len(t.Classes), rows: make([]int, n)}
	for i := range n {
		c.rows[i] = i * train.Len() / n
	}
	var err error
	if c.x, err = train.At(c.rows).Read(ctx); err != nil {
		return nil, err
	}
	c.y = rowsAt(y, c.rows)
	if t.soft(train) {
		c.soft = mat.NewDense(n, c.classes, nil)
		for k, i := range c.rows {
			t.softTo(c.soft.RawRowView(k), train, i)
		}
	}
	return c, nil
}

// choose compares all candidates and returns the result. Among candidates with equal scores it prefers the
// first, so all must list the likeliest first.
func (c *comparison) choose(ctx context.Context, all []*candidate) (*guess, error) {
	for i, a := range all {
		if i > 0 && a.inputs == all[i-1].inputs { // a forward pass serves all that have the same inputs
			continue
		}
		same := all[i : i+1]
		for j := i + 1; j < len(all) && all[j].inputs == a.inputs; j++ {
			same = all[i : j+1]
		}
		if err := c.fit(ctx, same); err != nil {
			return nil, err
		}
	}
	// A network that loses more than a constant was not trained so, where with another way it loses less.
	if slices.ContainsFunc(all, func(a *candidate) bool { return a.loss < 1 }) {
		for _, a := range all {
			if !(a.loss < 1) {
				a.score = math.Inf(1)
			}
		}
	}
	// Only those that could still be the best, or near it, have their strain taken.
	most := math.Log(mostStrain) - math.Log(strainFloor)
	least := slices.MinFunc(all, func(a, b *candidate) int { return compare(a.score, b.score) })
	for _, a := range all {
		if a.strain = mostStrain; a.score <= least.score+most+unsure {
			if err := c.strain(ctx, a); err != nil {
				return nil, err
			}
		}
		a.score += math.Log(min(a.strain, mostStrain) + strainFloor)
	}
	g := &guess{best: slices.MinFunc(all, func(a, b *candidate) int { return compare(a.score, b.score) })}
	first := slices.IndexFunc(all, func(a *candidate) bool {
		return a.score-g.best.score <= unsure && !differ(a, g.best) || a.score-g.best.score <= unsureOfTwins && twins(a, g.best)
	})
	g.best = all[max(0, first)]
	for _, a := range all {
		if !differ(a, g.best) || math.IsInf(a.loss, 1) {
			continue
		}
		margin := a.score - g.best.score
		if twins(a, g.best) {
			margin *= unsure / unsureOfTwins
		}
		if g.next == nil || margin < g.margin {
			g.next, g.margin = a, margin
		}
	}
	return g, nil
}

// leaked tells whether the inputs were scaled by training and test rows together, as they are where a scaler was fitted before the
// rows were split. It compares the scores of both scalings, and says yes where the one by all rows is better by more than
// unsureOfTwins. That scaling then becomes g.next. It is never taken, so that no answer depends on which test rows are there.
func (c *comparison) leaked(ctx context.Context, g *guess, train, test *dataset.Rows) (bool, error) {
	way := slices.IndexFunc(tableWays, func(w tableWay) bool {
		return g.best.words == w.words || strings.HasPrefix(g.best.words, w.words+" and ")
	})
	if train.Images() || test.Len() == 0 || way < 0 || tableWays[way].name == "no" || tableWays[way].name == "255" || train.Len() > leakRows {
		return false, nil
	}
	ways, err := standardized(ctx, train, c.model.wholeColumns(), test)
	if err != nil {
		return false, err
	}
	with := *g.best
	with.inputs = ways[tableWays[way].name]
	words := strings.Replace(tableWays[way].words, "the training rows", "training and test rows", 1)
	if words == tableWays[way].words {
		words += ", of training and test rows"
	}
	with.words = words + strings.TrimPrefix(g.best.words, tableWays[way].words)
	with.options = append(byNumbers("input", with.inputs), g.best.options[1:]...)
	if _, err := c.choose(ctx, []*candidate{g.best, &with}); err != nil {
		return false, err
	}
	if !differ(g.best, &with) || !(g.best.score-with.score > unsureOfTwins) {
		return false, nil
	}
	g.next, g.margin = &with, with.score-g.best.score
	return true, nil
}

// twins tells whether two candidates differ only in the divisor of their deviations, N or N − 1.
func twins(a, b *candidate) bool {
	same := func(a, b *dataset.Scaling) bool {
		return a == nil && b == nil || a != nil && b != nil && slices.Equal(a.Mean, b.Mean)
	}
	return same(a.inputs, b.inputs) && same(a.targets, b.targets) && a.likelihood == b.likelihood
}

// compare orders scores, with NaN last.
func compare(a, b float64) int {
	switch {
	case a < b || !math.IsNaN(a) && math.IsNaN(b):
		return -1
	case a > b || math.IsNaN(a) && !math.IsNaN(b):
		return 1
	}
	return 0
}

// scaled returns the rows with the inputs scaled as the candidate scales them.
func (c *comparison) scaled(a *candidate) *mat.Dense {
	x := mat.DenseCopyOf(c.x)
	a.inputs.Apply(x)
	return x
}

// targets returns the targets of the rows as the candidate trains on them, for outputs f.
func (c *comparison) targets(a *candidate, f *mat.Dense) *mat.Dense {
	y := mat.DenseCopyOf(c.y)
	if a.targets != nil {
		a.targets.Apply(y)
	}
	if c.order {
		reorder(y, f, c.classes)
	}
	return y
}

// fit computes the loss, the record and the answers of candidates that share their inputs. A candidate whose
// outputs are not finite gets an infinite loss.
func (c *comparison) fit(ctx context.Context, same []*candidate) error {
	x := c.scaled(same[0])
	f, err := c.model.Net.Forward(ctx, x)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	record := 0.0
	if err == nil {
		if record, err = c.record(ctx, x); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	for _, a := range same {
		a.loss, a.score = math.Inf(1), math.Inf(1)
		if err != nil {
			continue
		}
		if l := lossShare(a.likelihood, c.targets(a, f), f); !math.IsNaN(l) {
			a.loss = l
		}
		a.answers = c.answer(a, f)
		a.record, a.score = record, lossWeight*math.Log(a.loss+numberLoss)
		if hasClasses(a.likelihood) {
			a.score = lossWeight*math.Log(a.loss+labelLoss) + math.Log1p(reachable/max(a.loss, math.SmallestNonzeroFloat64))
		}
		if record >= 0 {
			a.score += recordWeight * math.Log(record+recordFloor)
		}
	}
	return nil
}

// answer returns the candidate's answers for the rows.
func (c *comparison) answer(a *candidate, f *mat.Dense) *mat.Dense {
	n, k := f.Dims()
	out := mat.NewDense(n, k, nil)
	for i := range n {
		a.likelihood.MeanTo(out.RawRowView(i), f.RawRowView(i))
	}
	if hasClasses(a.likelihood) {
		return out
	}
	_, w := c.y.Dims() // of a heteroscedastic likelihood, the means
	means := mat.NewDense(n, w, nil)
	for j := range w {
		_, unit := stat.PopMeanStdDev(mat.Col(nil, j, c.y), nil)
		sd, mean := 1.0, 0.0
		if a.targets != nil {
			k := min(j, len(a.targets.Mean)-1)
			sd, mean = a.targets.Scale[k], a.targets.Mean[k]
		}
		for i := range n {
			means.Set(i, j, (sd*out.At(i, j)+mean)/unit)
		}
	}
	return means
}

// lossTo writes the residual of a row with a label, where the loss of the training is not −log p of it.
func (c *comparison) lossTo(r []float64, row, label int, f []float64) {
	l := &c.loss
	if l.plain() && c.soft == nil {
		return
	}
	q, logp := make([]float64, c.classes), logProbabilities(f)
	if c.soft != nil {
		copy(q, c.soft.RawRowView(row))
	} else {
		q[label] = 1
	}
	w := l.ofShares(q)
	for j := range r {
		k := j + c.classes - len(r) // one output is that of the second class
		r[j] = w * (q[k] - math.Exp(logp[k]))
	}
}

// strain is how far θ* is from an optimum of a weight decay under a candidate.
func (c *comparison) strain(ctx context.Context, a *candidate) error {
	n, k := c.x.RawMatrix().Rows, c.model.Outputs
	take := min(n, max(64, int(strainWork)/k))
	at := make([]int, take)
	for i := range at {
		at[i] = i * n / take
	}
	part := &comparison{model: c.model, loss: c.loss, classes: c.classes, x: rowsAt(c.x, at), y: rowsAt(c.y, at), order: c.order}
	x := part.scaled(a)
	f, err := c.model.Net.Forward(ctx, x)
	if err != nil {
		return ctx.Err()
	}
	y := part.targets(a, f)
	theta, r := c.model.Net.Theta(), mat.NewDense(take, k, nil)
	for i := range take {
		row := r.RawRowView(i)
		a.likelihood.Expand(row, nil, nil, y.RawRowView(i), f.RawRowView(i))
		if c.classes == 0 && c.loss.ClassWeights != nil { // of several labels
			glm.WeightedBernoulli{Positive: c.loss.ClassWeights}.Expand(row, nil, nil, y.RawRowView(i), f.RawRowView(i))
		} else if hasClasses(a.likelihood) {
			c.lossTo(row, at[i], int(y.At(i, 0)), f.RawRowView(i))
		}
	}
	pull, square := make([]float64, len(theta)), map[int]float64{} // by offset of the tensor
	step := int(max(1, min(64, strainBytes/max(1, c.model.Net.BatchBytes(1)))))
	for lo := 0; lo < take; lo += step {
		hi := min(lo+step, take)
		b, err := c.model.Net.LinearizeCombined(ctx, dense.Slice(x, lo, hi), dense.Slice(r, lo, hi))
		if err != nil {
			return ctx.Err() // derivatives that are not finite are of no optimum
		}
		ones := slices.Repeat([]float64{1}, hi-lo)
		for _, block := range b.Blocks {
			block.AddMulTransVec(pull, ones)
			addSquaredNorms(square, block, hi-lo)
		}
	}
	if size := floats.Dot(theta, theta); size > 0 {
		floats.AddScaled(pull, -max(0, floats.Dot(pull, theta)/size), theta)
	}
	total, tensors := 0.0, 0.0
	for _, p := range c.model.Net.Params() {
		lo, hi := p.Offset, p.Offset+p.Len()
		if all := square[lo]; all > 0 { // no row has a gradient there
			total += floats.Dot(pull[lo:hi], pull[lo:hi]) / all
			tensors++
		}
	}
	a.strain = total / max(1, tensors)
	return nil
}

// strainBytes bounds the batches of gradients that a strain takes.
const strainBytes = 256 << 20

// addSquaredNorms adds the squared norms of the gradients of a block's n examples, with one output, to those of its
// tensors, by offset.
func addSquaredNorms(sums map[int]float64, block linearize.Block, n int) {
	square := func(v []float64) float64 { return floats.Dot(v, v) }
	switch v := block.(type) {
	case *linearize.Outer:
		for i := range n {
			norm := square(v.G.RawRowView(i))
			if v.Weight != nil {
				sums[v.Weight.Offset] += norm * square(v.A.RawRowView(i))
			}
			if v.Bias != nil {
				sums[v.Bias.Offset] += norm
			}
		}
		return
	case *linearize.Conv:
		t, k, m := v.Factors()
		if v.Weight == nil || t > min(k, m) {
			break
		}
		// ‖Σ_t g_t p_tᵀ‖² = Σ_tt' (g_t·g_t')(p_t·p_t')
		patches, gradients := mat.NewDense(t, k, nil), mat.NewDense(t, m, nil)
		inner, outer := mat.NewDense(t, t, nil), mat.NewDense(t, t, nil)
		for i := range n {
			one := v.Slice(i, i+1).(*linearize.Conv)
			for group := range v.Groups() {
				one.FactorsTo(patches, gradients, group)
				inner.Mul(patches, patches.T())
				outer.Mul(gradients, gradients.T())
				sums[v.Weight.Offset] += floats.Dot(inner.RawMatrix().Data, outer.RawMatrix().Data)
			}
		}
		if v.Bias == nil {
			return
		}
		bias := *v
		bias.Weight = nil
		block = &bias
	}
	tile := mat.NewDense(1, linearize.Width(block), nil)
	for i := range n {
		block.Slice(i, i+1).TileTo(tile)
		row := tile.RawRowView(0)
		for _, s := range block.Spans() {
			sums[s.Offset] += square(row[:s.Len()])
			row = row[s.Len():]
		}
	}
}

// record is how far the input of the first BatchNormalization is from the moments that it recorded in training, over its
// channels: the mean of squared differences of means in variances, and of logarithms of variances. It is −1 where there is none.
func (c *comparison) record(ctx context.Context, x *mat.Dense) (float64, error) {
	net := c.model.Net
	list := net.RunningStatistics()
	if len(list) == 0 {
		return -1, nil
	}
	s, h := &list[0], x
	if inputs := net.Inputs(); len(inputs) != 1 || inputs[0].Name != s.Tensor {
		with, size, err := net.WithCode(s.Tensor)
		if err != nil {
			return -1, nil //nolint:nilerr // it normalizes nothing that a parameter changes
		}
		rows, d := x.Dims()
		if h, err = with.Forward(ctx, x.Slice(0, min(rows, max(16, int(recordWork)/size)), 0, d).(*mat.Dense)); err != nil {
			return 0, err
		}
		h = h.Slice(0, h.RawMatrix().Rows, 0, size).(*mat.Dense)
	}
	n, size := h.Dims()
	channels := len(s.Mean)
	if size%channels != 0 {
		return -1, nil
	}
	total := 0.0
	for j := range channels {
		var numbers []float64
		for i := range n {
			numbers = append(numbers, h.RawRowView(i)[j*size/channels:(j+1)*size/channels]...)
		}
		mean, variance := stat.PopMeanVariance(numbers, nil)
		variance += momentsZero
		said := max(0, s.Variance[j]) + momentsZero
		total += (mean-s.Mean[j])*(mean-s.Mean[j])/min(variance, said) + math.Pow(math.Log(said/variance), 2)
	}
	return total / float64(channels), nil
}

// reorder replaces each label by the class that the outputs f give to most rows with that label, if the classes
// so found are all different.
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

// lossShare is the loss of outputs f on targets y, as the network is trained on them, as a share of the loss of the best constant: the
// mean square of real numbers, for labels the negative log likelihood, and for counts that less the least one.
func lossShare(lik glm.Likelihood, y, f *mat.Dense) float64 {
	n, c := y.Dims()
	if hasRealTargets(lik) { // of a heteroscedastic likelihood, the means
		share := 0.0
		for j := range c {
			col := mat.Col(nil, j, y)
			middle := floats.Sum(col) / float64(n)
			var rest, all float64
			for i, v := range col {
				d := v - f.At(i, j)
				rest, all = rest+d*d, all+(v-middle)*(v-middle)
			}
			share += rest / all / float64(c)
		}
		return share
	}
	loss := 0.0
	for i := range n {
		loss -= lik.LogProb(y.RawRowView(i), f.RawRowView(i))
	}
	// That of the best constant for labels or counts is at least a small positive number.
	constant := 0.0
	switch {
	case hasClasses(lik) && !isSoftmax(lik):
		for j := range c {
			p := mat.Sum(y.ColView(j)) / float64(n)
			constant += float64(n) * integral.EntropyOf([]float64{p, 1 - p})
		}
	case hasClasses(lik):
		count := map[float64]float64{}
		for i := range n {
			count[y.At(i, 0)]++
		}
		for _, k := range slices.Sorted(maps.Keys(count)) {
			constant -= count[k] * math.Log(count[k]/float64(n))
		}
	default:
		rate, own := make([]float64, c), make([]float64, c)
		for j := range rate {
			rate[j] = math.Log(max(mat.Sum(y.ColView(j))/float64(n), 1/float64(n)))
		}
		for i := range n {
			for j, v := range y.RawRowView(i) {
				own[j] = math.Log(max(v, 1e-9))
			}
			least := lik.LogProb(y.RawRowView(i), own)
			loss += least
			constant += least - lik.LogProb(y.RawRowView(i), rate)
		}
	}
	return loss / max(constant, 1e-9*float64(n))
}

// targetWays are the ways in which the targets of a task may have been scaled, and its likelihoods, the likeliest first.
func targetWays(m *trainedModel, t *problemTask, y *mat.Dense) ([]*candidate, error) {
	list := []*candidate{{likelihood: t.Likelihood}}
	h := m.Net.Head()
	positive := h.Function != head.None && h.Function != head.LogSoftmax && !h.Removed // of standardized targets about half are negative
	if hasRealTargets(t.Likelihood) {
		list[0].words, list[0].options = "targets as they are", []option.Text{"{target-mean=0}", "{target-sd=1}"}
		if !positive {
			by, err := dataset.NewScaling(y)
			if err != nil {
				return nil, err
			}
			for _, way := range []struct {
				words string
				by    *dataset.Scaling
			}{{"standardized targets", by}, {"targets standardized by deviations over N − 1", sample(by, y.RawMatrix().Rows)}} {
				list = append(list, &candidate{likelihood: t.Likelihood, targets: way.by, words: way.words,
					options: byNumbers("target", way.by)})
			}
		}
	}
	if t.open && counts(y) && h.Function == head.None {
		list = append(list, &candidate{likelihood: likelihoodNamed("poisson"), words: "outputs that are logarithms of rates of counts", options: []option.Text{"{likelihood=poisson}"}})
		for _, a := range list[:len(list)-1] {
			a.options = append(a.options, "{likelihood=gaussian}")
		}
	}
	return list, nil
}

// counts tells whether all targets are small numbers of something.
func counts(y *mat.Dense) bool {
	const most = 1e4
	return !slices.ContainsFunc(y.RawMatrix().Data, func(v float64) bool { return v < 0 || v > most || v != math.Trunc(v) })
}

// byNumbers returns the options that give the scaling of the "input" or the "target" by its numbers.
func byNumbers(of string, s *dataset.Scaling) []option.Text {
	commas := func(v []float64) string { return strings.ReplaceAll(shortNumbers(v), " ", "") }
	return []option.Text{option.Set(of+"-mean", commas(s.Mean)), option.Set(of+"-sd", commas(s.Scale))}
}

// both returns the candidates that combine each of some ways to scale the inputs with each of some ways to
// scale the targets.
func both(inputs, targets []*candidate) []*candidate {
	var all []*candidate
	for _, in := range inputs {
		for _, to := range targets {
			a := &candidate{inputs: in.inputs, targets: to.targets, likelihood: to.likelihood, options: slices.Concat(in.options, to.options)}
			a.words = strings.Join(slices.DeleteFunc([]string{in.words, to.words}, func(s string) bool { return s == "" }), " and ")
			all = append(all, a)
		}
	}
	return all
}

// otherInputs looks for another way to scale the inputs under which the network was trained on its rows, rather than as it gets them now,
// or for one with the classes in another order. It returns what it found and what to give for it, nil where there is none: each has been
// carried out, and what is returned has a score that is surely better, and with optimum is one with which θ* is near an optimum.
func (l *look) otherInputs(ctx context.Context, optimum bool) (cause string, give []option.Text) {
	p := l.problem
	if p.Model.Net == nil {
		return "", nil
	}
	c, err := compareOn(ctx, p.Model, p.Task, p.Examples.Train, p.Examples.Y)
	if err != nil {
		return "", nil
	}
	inputs, err := inputWays(ctx, p.Examples.Train, p.Model.wholeColumns())
	if err != nil {
		return "", nil
	}
	now := &candidate{likelihood: p.Task.Likelihood}
	if s := p.Examples.Scaling; s != nil {
		now.inputs = s.Inputs
	}
	all := []*candidate{now}
	for _, in := range inputs {
		a := &candidate{inputs: in.inputs, likelihood: p.Task.Likelihood, words: in.words, options: in.options}
		all = append(all, a)
		f, err := p.Model.Net.Forward(ctx, c.scaled(a))
		if err != nil {
			continue // where outputs are not finite it is not this way
		}
		if l.confusion != nil {
			logp, label := make([][]float64, len(c.rows)), make([]int, len(c.rows))
			for i, row := range c.rows {
				label[i], logp[i] = p.Examples.Train.Class[row], logProbabilities(f.RawRowView(i))
			}
			if order, _ := orderOf(confusionOf(f, label, len(p.Task.Classes)), logp, label, p.Task.Classes, l.constant); order != nil {
				return fmt.Sprintf("its outputs agree with the labels with %s and the classes in another order", in.words),
					append(slices.Clone(in.options), option.Set("classes", job.Word(classText(order, p.Examples.Data))))
			}
		}
		if s := slopeOf(f, c.y); hasNoise(p.Task.Likelihood) && s.better > otherScale && s.own && (p.Examples.Scaling == nil || p.Examples.Scaling.Targets == nil) {
			// The outputs follow standardized targets: f is on the scale of (y − mean)/sd.
			all = append(all, &candidate{inputs: in.inputs, likelihood: p.Task.Likelihood, targets: &dataset.Scaling{Mean: []float64{s.mean}, Scale: []float64{s.sd}},
				words: "scaled targets and with " + in.words, options: slices.Concat(in.options, s.options(nil))})
		}
	}
	g, err := c.choose(ctx, all)
	if err != nil || g.best == now || !differ(g.best, now) || now.score-g.best.score <= unsure || !(g.best.loss < 1) || optimum && !(g.best.strain < nearOptimum) {
		return "", nil
	}
	cause = "it fits them with " + g.best.words
	if g.best.targets != nil {
		cause = "it was trained on " + g.best.words
	}
	return cause, g.best.options
}

// OtherInputs looks for another way to scale the inputs under which the network, with outputs f on the training rows,
// N×C, was trained on these rows: what to give for it, nil where there is none or it is known how they are scaled. It
// is for a network whose parameters are no optimum as its inputs are.
func (p *problem) OtherInputs(ctx context.Context, f *mat.Dense) (cause string, give []option.Text) {
	if s := p.Examples.Scaling; p.Model.takesWholeAlone() || s != nil && (s.InputsFrom.By == byModel || s.InputsFrom.By == byGuess) {
		return "", nil
	}
	l := &look{problem: p, at: &atTheta{F: f}}
	l.score()
	return l.otherInputs(ctx, true)
}
