package funcgp

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize/network"
)

// A loss says how the loss of the training differs from −log p of the labels. A posterior is fitted to that loss, so
// that the trained parameters are its mode (E23). Predictions are scored by the labels as they are. The zero value is −log p.
type loss struct {
	// ClassWeights has a weight for each class of the network, in the order of its outputs, which multiplies
	// −log p of the rows of that class. With several labels a row, it multiplies −log p of a label in the rows
	// that have it. nil stands for 1 each.
	ClassWeights []float64
	WeightsFrom  decision // nobody without weights

	// Smoothing is ε of label smoothing, 0 ≤ ε < 1: the loss is that of the shares (1 − ε)y + ε/C of C classes.
	Smoothing float64
}

// plain tells whether the loss is −log p.
func (l *loss) plain() bool { return l.ClassWeights == nil && l.Smoothing == 0 }

// ofLabel does what ofShares does, for a row with a label, which is a number of k classes.
func (l *loss) ofLabel(q []float64, label int) (w float64) {
	clear(q)
	q[label] = 1
	return l.ofShares(q)
}

// ofShares is the loss of a row with shares s of the classes as w Σ_c q_c log p_c, and writes q over s: with smoothed shares s
// and weights v_c of the classes that PyTorch has it is Σ_c v_c s_c log p_c, which is w = Σ v_c s_c and q = v s/w.
func (l *loss) ofShares(q []float64) (w float64) {
	for c := range q {
		q[c] = l.Smoothing/float64(len(q)) + (1-l.Smoothing)*q[c]
		if l.ClassWeights != nil {
			q[c] *= l.ClassWeights[c]
		}
		w += q[c]
	}
	floats.Scale(1/w, q)
	return w
}

// LossReport is the loss of the training as JSON shows it; nil where it is −log p of the training rows.
func (p *problem) LossReport() *result.Loss {
	l, d := &p.Task.Loss, p.Examples.Data
	if l.plain() && d.Weights == "" {
		return nil
	}
	return &result.Loss{ClassWeights: result.Floats(l.ClassWeights), ClassWeightsOrigin: l.WeightsFrom.Text.In(p.Words), LabelSmoothing: result.Float(l.Smoothing), RowWeights: d.Weights}
}

// balanced is the value of FitOptions.ClassWeights that weighs classes by N/(C n_c).
const balanced = "balanced"

// classWeights are weights of classes by name. Classes without a name here weigh 1.
type classWeights struct {
	balanced bool // by the numbers of training rows
	names    []string
	weights  []float64
}

var errClassWeights = errors.New("want balanced, or classes with positive weights such as 0=1,1=3.2")

// parseClassWeights reads balanced, or CLASS=W with commas between them; "" is nil.
func parseClassWeights(text string) (*classWeights, error) {
	if text == "" {
		return nil, nil
	}
	if text == balanced {
		return &classWeights{balanced: true}, nil
	}
	fields, err := job.SplitNames(norm.NFC.String(text))
	if err != nil {
		return nil, err
	}
	w := &classWeights{}
	for _, field := range fields {
		at := strings.LastIndexByte(field, '=')
		if at <= 0 {
			return nil, errClassWeights
		}
		name := strings.TrimSpace(field[:at])
		v, err := positive(strings.TrimSpace(field[at+1:]))
		if err != nil || v == 0 {
			return nil, errClassWeights
		}
		if slices.Contains(w.names, name) {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		w.names, w.weights = append(w.names, name), append(w.weights, v)
	}
	return w, nil
}

// MarshalText writes the weights as String does.
func (w *classWeights) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText reads what parseClassWeights does.
func (w *classWeights) UnmarshalText(text []byte) error {
	v, err := parseClassWeights(string(text))
	if v != nil {
		*w = *v
	}
	return err
}

// String is the inverse of parseClassWeights, without weights of 1, in the order of the names.
func (w *classWeights) String() string {
	if w == nil {
		return ""
	}
	if w.balanced {
		return balanced
	}
	var list []string
	for i, name := range w.names {
		if w.weights[i] != 1 {
			list = append(list, name+"="+shortest(w.weights[i]))
		}
	}
	if slices.Sort(list); list == nil {
		return ""
	}
	return job.JoinNames(list)
}

// setLoss takes the loss of the training from the flags, else from what the model says.
func (t *problemTask) setLoss(f *FitOptions, m *trainedModel, d *dataset.Data, train *dataset.Rows) error {
	switch {
	case t.Classes != nil && f.LabelSmoothing != nil:
		t.Loss.Smoothing = *f.LabelSmoothing
	case t.Classes != nil:
		t.Loss.Smoothing = m.Meta.Smoothing
	case f.LabelSmoothing != nil && t.MultiLabel():
		return option.Errorf("{label-smoothing} is for one class a row, but %s has several labels; leave it out, and write the smoothed labels, numbers from 0 to 1, into the columns", m.Name)
	case f.LabelSmoothing != nil:
		return option.Errorf("{label-smoothing} is for labels, but %s has the %s likelihood; leave it out", m.Name, t.Likelihood.Name())
	}
	return t.setClassWeights(f, m, d, train)
}

// setClassWeights takes the weights of the classes from a flag, else from what the model says.
func (t *problemTask) setClassWeights(f *FitOptions, m *trainedModel, d *dataset.Data, train *dataset.Rows) error {
	w, err := parseClassWeights(f.ClassWeights)
	if err != nil {
		return err
	}
	from, flag := orderedBy("class-weights"), option.Set("class-weights", f.ClassWeights)
	if w == nil {
		w, from, flag = m.Meta.ClassWeights, fromMetadata, m.metadataEntry(keyClassWeights)
	}
	if w == nil {
		return nil
	}
	if !hasClasses(t.Likelihood) {
		if f.ClassWeights == "" {
			return nil // of a training on labels
		}
		return option.Errorf("%s is for labels, but %s has the %s likelihood; leave it out", flag, m.Name, t.Likelihood.Name())
	}
	k := max(len(t.Classes), len(t.LabelNames))
	weights := slices.Repeat([]float64{1}, k)
	if w.balanced && t.MultiLabel() {
		// The rows without a label over those with it.
		for y := range weights {
			has := 0.0
			for i := range train.Len() {
				has += train.Targets[i*k+y]
			}
			if has > 0 {
				weights[y] = max(1/float64(train.Len()), (float64(train.Len())-has)/has)
			}
		}
	} else if w.balanced {
		count := make([]int, k)
		for _, y := range train.Class {
			count[y]++
		}
		for y, n := range count {
			if n > 0 { // no row asks for the weight of another
				weights[y] = float64(train.Len()) / float64(k*n)
			}
		}
	}
	for i, name := range w.names {
		y, ok := t.classOf(d, name)
		if t.MultiLabel() {
			y = slices.Index(t.LabelNames, norm.NFC.String(name))
			if ok = y >= 0; !ok {
				return job.FullErrorf("%s: %s is not one of the labels %s; name these", flag, name, job.Cut(job.JoinNames(t.LabelNames), 60))
			}
		}
		if !ok {
			return job.FullErrorf("%s: %s is not one of the classes %s; name these", flag, name, t.ClassList())
		}
		weights[y] = w.weights[i]
	}
	t.Loss.ClassWeights, t.Loss.WeightsFrom = weights, from
	return nil
}

// checkWeights refuses weights of rows that leave none, or one class alone.
func (t *problemTask) checkWeights(d *dataset.Data, train *dataset.Rows) error {
	if train.Weights == nil {
		return nil
	}
	seen := map[int]bool{}
	for i, w := range train.Weights {
		if w > 0 && train.Class != nil {
			seen[train.Class[i]] = true
		} else if w > 0 {
			return nil
		}
	}
	switch {
	case len(seen) == 0:
		return job.FullErrorf("{row-weights=%s}: all %d training rows of %s have the weight 0; give some of them another", d.Weights, train.Len(), d.Source)
	case len(seen) == 1:
		for k := range seen {
			return t.oneClass(option.Textf("{row-weights=%s}: %s has, of a weight above 0,", d.Weights, d.Source), k)
		}
	}
	return nil
}

// ClassWeights are the weights of the classes by name, as a file keeps them; nil where all are 1.
func (t *problemTask) ClassWeights() *classWeights {
	if !slices.ContainsFunc(t.Loss.ClassWeights, func(w float64) bool { return w != 1 }) {
		return nil
	}
	classes, names := t.Ungrouped()
	if t.MultiLabel() {
		names = t.LabelNames
	}
	if names == nil {
		for _, k := range classes {
			names = append(names, strconv.Itoa(k))
		}
	}
	return &classWeights{names: names, weights: t.Loss.ClassWeights}
}

// objective returns the targets N×T of rows as a posterior is fitted to them, or a network trained on them.
func (t *problemTask) objective(rows *dataset.Rows, y *mat.Dense, outputs int) *gp.Targets {
	l := &t.Loss
	to := &gp.Targets{Y: y, Likelihood: t.Likelihood, Weights: rows.Weights}
	if l.plain() && !t.soft(rows) {
		return to
	}
	if t.MultiLabel() {
		to.Likelihood = glm.WeightedBernoulli{Positive: l.ClassWeights}
		return to
	}
	n, class, shares := rows.Len(), t.networkClass(rows), l.Smoothing > 0 || t.soft(rows)
	classes, _ := t.Ungrouped()
	if l.ClassWeights != nil {
		to.Weights = make([]float64, n)
	}
	if shares {
		to.Y = mat.NewDense(n, outputs, nil)
		if isSoftmax(t.Likelihood) {
			to.Likelihood = glm.CategoricalShares{}
		}
	}
	q := make([]float64, len(classes))
	for i := range n {
		w := 1.0
		if t.soft(rows) {
			t.softTo(q, rows, i)
			w = l.ofShares(q)
		} else {
			w = l.ofLabel(q, class(i))
		}
		if l.ClassWeights != nil {
			if to.Weights[i] = w; rows.Weights != nil {
				to.Weights[i] *= rows.Weights[i]
			}
		}
		if shares {
			t.sharesTo(to.Y.RawRowView(i), q)
		}
	}
	return to
}

// soft tells whether rows have soft labels, shares of the classes.
func (t *problemTask) soft(rows *dataset.Rows) bool { return rows.Shares != nil && t.Classes != nil }

// softTo writes the shares of row i of the classes of the network, which sum to 1.
func (t *problemTask) softTo(q []float64, rows *dataset.Rows, i int) {
	k := len(rows.Shares) / rows.Len()
	classes, _ := t.Ungrouped()
	for c, label := range classes {
		q[c] = rows.Shares[i*k+label]
	}
	floats.Scale(1/floats.Sum(q), q)
}

// SoftLabel returns the shares of the classes of the task that a row has, nil where its label is one class.
func (t *problemTask) SoftLabel(rows *dataset.Rows, i int) []float64 {
	if !t.soft(rows) {
		return nil
	}
	classes, _ := t.Ungrouped()
	q := make([]float64, len(classes))
	t.softTo(q, rows, i)
	if t.Grouping == nil {
		return q
	}
	to := make([]float64, len(t.Classes))
	t.sharesTo(to, q)
	return to
}

// Scored are the targets by which predictions of rows are scored, and their likelihood: those of soft labels are shares of the
// outputs, whose NLL is the cross entropy. y are the targets with the labels of largest share.
func (t *problemTask) Scored(rows *dataset.Rows, y *mat.Dense, outputs int) (*mat.Dense, glm.Likelihood) {
	if !t.soft(rows) {
		return y, t.Likelihood
	}
	to := *t
	to.Loss = loss{}
	all := to.objective(rows, y, outputs)
	return all.Y, all.Likelihood.(glm.Likelihood)
}

// sharesTo writes shares of the classes of the network as targets of the outputs: of classes that are taken together their
// sum, and of one output the share of the second class.
func (t *problemTask) sharesTo(dst, q []float64) {
	switch {
	case !isSoftmax(t.Likelihood):
		dst[0] = q[1]
	case t.Grouping == nil:
		copy(dst, q)
	default:
		clear(dst)
		for c, v := range q {
			dst[t.Grouping.to[c]] += v
		}
	}
}

// Relabelled returns the targets of the training rows after the rows at these positions were given other
// classes.
func (p *problem) Relabelled(at, classes []int) *gp.Targets {
	to := p.TrainTargets().Without()
	to.Y = mat.DenseCopyOf(to.Y)
	for k, i := range at {
		y, weight := p.relabelled(classes[k])
		if own := p.Examples.Train.Weights; own != nil {
			weight *= own[i]
		}
		if to.Y.SetRow(i, y); weight > 0 {
			to.Weights[i] = weight
		}
	}
	return to
}

// relabelled returns the target and the weight that a training row would have with another class. A weight of 0
// means that the weight does not change.
func (p *problem) relabelled(class int) (y []float64, weight float64) {
	t, soft := p.Task, p.Task.soft(p.Examples.Train)
	if t.Loss.plain() && !soft {
		return []float64{float64(class)}, 0
	}
	classes, _ := t.Ungrouped()
	own := class
	if t.Grouping != nil {
		own = slices.Index(t.Grouping.to, class) // one of those that are taken together stands for them
	}
	q := make([]float64, len(classes))
	weight = t.Loss.ofLabel(q, own)
	if t.Loss.Smoothing == 0 && !soft {
		return []float64{float64(class)}, weight
	}
	y = make([]float64, p.Model.Outputs)
	t.sharesTo(y, q)
	return y, weight
}

// trainingLoss is −log p of rows as a training takes it: the targets, and what log p is of them. Where rows have weights the
// last target is the weight.
func trainingLoss(to *gp.Targets) (*mat.Dense, network.Loss) {
	if to.Weights == nil {
		return to.Y, to.Likelihood
	}
	n, width := to.Y.Dims()
	with := mat.NewDense(n, width+1, nil)
	with.Slice(0, n, 0, width).(*mat.Dense).Copy(to.Y)
	with.SetCol(width, to.Weights)
	return with, weightedLoss{to.Likelihood}
}

// A weightedLoss is log p times the weight of a row, its last target.
type weightedLoss struct{ lik gp.Likelihood }

// Expand implements network.Loss.
func (l weightedLoss) Expand(residual, _, _, y, f []float64) float64 {
	last := len(y) - 1
	logp := l.lik.Expand(residual, nil, nil, y[:last], f)
	floats.Scale(y[last], residual)
	return y[last] * logp
}

// networkClass tells the class of row i of a subset among all classes of the network.
func (t *problemTask) networkClass(rows *dataset.Rows) func(i int) int {
	if t.Grouping == nil {
		return func(i int) int { return rows.Class[i] }
	}
	at := make(map[int]int, len(t.Grouping.Classes))
	for k, label := range t.Grouping.Classes {
		at[label] = k
	}
	return func(i int) int { return at[rows.OwnLabel(i)] }
}

// meanOver is what the mean of a loss of PyTorch divides the sum over rows by: CrossEntropyLoss by the sum of the
// weights of their classes, and BCEWithLogitsLoss, and CrossEntropyLoss of shares, by their number.
func (t *problemTask) meanOver(rows *dataset.Rows) float64 {
	if t.Loss.ClassWeights == nil || !isSoftmax(t.Likelihood) || t.soft(rows) {
		return float64(rows.Len())
	}
	sum, class := 0.0, t.networkClass(rows)
	for i := range rows.Len() {
		sum += t.Loss.ClassWeights[class(i)]
	}
	return sum
}

// WeightShift is β = −log w of the outputs, by which a posterior that is fitted with class weights predicts rows as they
// occur: the weights multiply the odds of the classes (E25). Its mean over classes is 0. It is nil without class weights.
func (p *problem) WeightShift() []float64 {
	t, train := p.Task, p.Examples.Train
	if t.Loss.ClassWeights == nil {
		return nil
	}
	if t.MultiLabel() {
		beta := make([]float64, len(t.LabelNames))
		for y, w := range t.Loss.ClassWeights {
			beta[y] = -math.Log(w)
		}
		return beta
	}
	k := len(t.Classes)
	sum, count, class := make([]float64, k), make([]float64, k), t.networkClass(train)
	for i, y := range train.Class { // of classes that are taken together, the mean
		sum[y] += t.Loss.ClassWeights[class(i)]
		count[y]++
	}
	beta, mean := make([]float64, k), 0.0
	for y := range beta {
		if count[y] > 0 {
			beta[y] = -math.Log(sum[y] / count[y])
		}
		mean += beta[y] / float64(k)
	}
	if !isSoftmax(t.Likelihood) {
		return []float64{beta[1] - beta[0]}
	}
	floats.AddConst(-mean, beta)
	return beta
}
