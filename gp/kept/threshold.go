package kept

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// ThresholdOptions are those of FindThreshold. nil means all defaults.
type ThresholdOptions struct {
	// Within is how much larger than that of all rows the variance of an output may be,
	// as a part of it; 0 means 0.05.
	Within float64
	// Share is the part of the asked examples for which this must hold; 0 means 0.99.
	Share float64
	// Examples is the number of training examples that are looked at; 0 means all.
	Examples int
	// Most is the number of rows of these examples that stand for all of their rows, the
	// strongest. 0 begins with 4000 and takes more until what the weaker ones would change,
	// by a sample of them, leaves room for a threshold. Short memory bounds them.
	Most      int
	MaxMemory int64  // bytes; 0 means what gp.MemoryBudget says
	Seed      uint64 // of the choice of the examples
	Workers   int    // 0 means GOMAXPROCS; results do not depend on it
	Progress  func(stage string, done, total int)
}

// firstMost is the number of rows with which the search begins; a variable for tests.
var firstMost = 4000

func (o *ThresholdOptions) withDefaults() ThresholdOptions {
	var d ThresholdOptions
	if o != nil {
		d = *o
	}
	if d.Within < 0 || d.Share < 0 || d.Share > 1 || d.Examples < 0 || d.Most < 0 {
		panic("kept: options out of range")
	}
	if d.Within == 0 {
		d.Within = 0.05
	}
	if d.Share == 0 {
		d.Share = 0.99
	}
	return d
}

// A Threshold is a τ with what was found of it on a sample of training examples.
type Threshold struct {
	// Strength is τ: rows with s > τ are to be kept.
	Strength float64
	// PriorVariance is twice the largest uᵀκ(x_i,x_i)u of the rows looked at, which spares
	// gp.Keep most rows that say nothing.
	PriorVariance float64
	// Ratio is v_k/v with rows above τ and with all: the quantile of ThresholdOptions.Share
	// over the asked examples, of the output where it is largest. It is above 1+Within where
	// there is no memory for more rows.
	Ratio    float64
	Examples int // that were looked at
	Rows     int // of theirs above τ
	Of       int // rows that stood for all of theirs, but for what the weaker ones change
}

// KeepOptions returns the options with which gp.Keep keeps the rows above the threshold.
func (t *Threshold) KeepOptions() *gp.KeepOptions {
	return &gp.KeepOptions{Strength: t.Strength, PriorVariance: t.PriorVariance}
}

// FindThreshold finds the largest τ (E16) for which the posterior of the rows with s > τ has
// variances as near to those of all rows as o demands, for the asked examples. It factors
// the strongest rows of the training examples, or of a sample of them, in the order of
// falling strength, so that the leading parts of one factor are those of all thresholds.
// What the weaker rows would change further, v_k − v ≤ cᵀc (E16), is estimated from 2,000 of
// them, unless Examples or Most are given; then the strongest rows stand for all.
//
// In a sample of the examples a row that is left out has fewer neighbours that say the
// same, but v is larger too: on LeNet-5 and MNIST, δ = 243, the threshold that gives 1.05 on
// 1,500 examples gives 1.086 on all 55,000.
//
// The errors are those of gp.Keep and gp.FitKept.
func FindThreshold(ctx context.Context, k ntk.Kernel, x linearize.Source, s *gp.Sites, asked *linearize.Batch, o *ThresholdOptions) (*Threshold, error) {
	opt := o.withDefaults()
	if asked.Len() == 0 {
		panic("kept: no example to compare the variance of")
	}
	var among []int
	if opt.Examples > 0 && opt.Examples < x.Len() {
		among = sample(x.Len(), opt.Examples, opt.Seed)
	}
	most := opt.Most
	if most == 0 {
		most = firstMost
	}
	for {
		fits := mostThatFit(most, opt.MaxMemory)
		t, err := findThreshold(ctx, k, x, s, asked, &opt, among, fits)
		if err != nil || opt.Most > 0 || fits < most || t.Of < most || t.Ratio <= 1+opt.Within {
			return t, err
		}
		most += most * 3 / 5
	}
}

// mostThatFit returns how many of these rows have a factor that fits into memory.
func mostThatFit(rows int, maxMemory int64) int {
	for budget := gp.MemoryBudget(maxMemory); rows > 1 && gp.Bytes(rows, 1) > budget; {
		rows -= max(1, rows/16)
	}
	return rows
}

// findThreshold compares with the posterior of the most strongest rows.
func findThreshold(ctx context.Context, k ntk.Kernel, x linearize.Source, s *gp.Sites, asked *linearize.Batch, opt *ThresholdOptions, among []int, most int) (*Threshold, error) {
	all, err := gp.Keep(ctx, k, x, s, &gp.KeepOptions{Most: most, Among: among, Workers: opt.Workers, Progress: opt.Progress})
	if err != nil {
		return nil, err
	}
	t := &Threshold{Examples: x.Len(), Of: all.Len()}
	if among != nil {
		t.Examples = len(among)
	}
	if all.Len() == 0 {
		return nil, fmt.Errorf("kept: the sites of %d examples say nothing: %w", t.Examples, gp.ErrNoExamples)
	}
	all = strongestFirst(all)
	post, err := gp.FitKept(ctx, k, x, s, all, &gp.Options{MaxMemory: opt.MaxMemory, Workers: opt.Workers, Progress: opt.Progress})
	if err != nil {
		return nil, err
	}
	excess, err := excessOf(ctx, post, asked)
	if err != nil {
		return nil, err
	}
	if among == nil && opt.Most == 0 {
		rest, err := all.Dropped(ctx, s, opt.Workers)
		if err != nil {
			return nil, err
		}
		if err := excess.addWeaker(ctx, k, x, post, asked, rest, opt); err != nil {
			return nil, err
		}
	}
	allowed := int(float64(asked.Len()) * (1 - opt.Share))
	t.Rows = excess.fewest(opt.Within, allowed)
	// Rows of the same strength are kept together.
	for t.Rows < all.Len() && all.Strength[t.Rows] == all.Strength[t.Rows-1] {
		t.Rows++
	}
	if t.Rows < all.Len() {
		t.Strength = all.Strength[t.Rows]
	}
	t.Ratio = 1 + excess.quantile(t.Rows, allowed)
	for i, v := range all.Strength {
		t.PriorVariance = max(t.PriorVariance, 2*v/all.Lambda[i])
	}
	return t, nil
}

// sample returns n of the numbers below of, ascending; all where there are no more.
func sample(of, n int, seed uint64) []int {
	rng := rand.New(rand.NewPCG(seed, 0x6b657074))
	picked := rng.Perm(of)[:min(n, of)]
	slices.Sort(picked)
	return picked
}

// strongestFirst returns the rows in the order of falling strength.
func strongestFirst(k *gp.Kept) *gp.Kept {
	order := make([]int, k.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(k.Strength[b], k.Strength[a]) })
	_, c := k.Directions.Dims()
	to := &gp.Kept{Directions: mat.NewDense(k.Len(), c, nil), Trace: k.Trace, Total: k.Total}
	for i, at := range order {
		to.Examples, to.Lambda, to.Strength = append(to.Examples, k.Examples[at]), append(to.Lambda, k.Lambda[at]), append(to.Strength, k.Strength[at])
		to.Directions.SetRow(i, k.Directions.RawRowView(at))
	}
	return to
}

// An excess says how much larger the variance of outputs is without the last rows.
type excess struct {
	outputs int
	half    *mat.Dense // H of Thinned.HalfTo, T·C×n
	lost    *mat.Dense // T·C×n: with the first j rows alone, in column j
	v       []float64  // with all rows, T·C
	weaker  []float64  // what rows that are weaker than all of these would take from v, T·C
}

// excessOf computes the excess for the examples x.
func excessOf(ctx context.Context, post *gp.Thinned, x *linearize.Batch) (*excess, error) {
	e := &excess{outputs: x.Outputs(), half: new(mat.Dense), v: make([]float64, x.Len()*x.Outputs())}
	e.weaker = make([]float64, len(e.v))
	if err := post.HalfTo(ctx, e.half, x); err != nil {
		return nil, err
	}
	e.lost = mat.DenseCopyOf(e.half)
	var cov mat.Dense
	if err := post.PredictTo(ctx, nil, &cov, x); err != nil {
		return nil, err
	}
	for i := range e.v {
		e.v[i] = cov.At(i, i%e.outputs)
		// With the first j columns of H the variance is κ − Σ h².
		row, sum := e.lost.RawRowView(i), 0.0
		for j := len(row) - 1; j >= 0; j-- {
			sum += row[j] * row[j]
			row[j] = sum
		}
	}
	return e, nil
}

// weakerRows is how many of the weaker rows are looked at, at most.
const weakerRows = 2000

// addWeaker estimates cᵀc of the rows that post does not have, each of which is drawn with a
// probability in proportion to λ; where they are few, all are taken.
func (e *excess) addWeaker(ctx context.Context, k ntk.Kernel, x linearize.Source, post *gp.Thinned, asked *linearize.Batch, rest *gp.Kept, o *ThresholdOptions) error {
	examples, directions, weights := draw(rest, weakerRows, o.Seed)
	const tile = 250
	for lo := 0; lo < len(examples); lo += tile {
		hi := min(lo+tile, len(examples))
		b, err := linearize.GatherCombined(ctx, x, examples[lo:hi], directions.Slice(lo, hi, 0, e.outputs).(*mat.Dense))
		if err != nil {
			return err
		}
		var half, c mat.Dense
		if err := post.HalfTo(ctx, &half, b); err != nil {
			return err
		}
		// C_k = κ − H Hᵀ
		prior := mat.NewDense(len(e.v), hi-lo, nil)
		k.BlockTo(prior, asked, b)
		c.Mul(e.half, half.T())
		c.Sub(prior, &c)
		for i := range e.v {
			for j, v := range c.RawRowView(i) {
				e.weaker[i] += weights[lo+j] * v * v
			}
		}
	}
	return nil
}

// draw returns n rows, in the order of their examples, with weights such that Σ w c² is an
// unbiased estimate of Σ λc² over all rows. Where there are no more than n, it is exact.
func draw(rows *gp.Kept, n int, seed uint64) (examples []int, directions *mat.Dense, weights []float64) {
	if rows.Len() <= n {
		return rows.Examples, rows.Directions, rows.Lambda
	}
	times := make(map[int]int, n)
	for _, row := range rows.Draw(n, rand.New(rand.NewPCG(seed, 0x7765616b))) {
		times[row]++
	}
	total := floats.Sum(rows.Lambda)
	at := slices.Sorted(maps.Keys(times))
	_, c := rows.Directions.Dims()
	directions = mat.NewDense(len(at), c, nil)
	for i, row := range at {
		examples = append(examples, rows.Examples[row])
		directions.SetRow(i, rows.Directions.RawRowView(row))
		weights = append(weights, total/float64(n)*float64(times[row]))
	}
	return examples, directions, weights
}

// largest returns the largest excess of the outputs of example t with the first rows
// alone, as a part of the variance with all. An output that is known exactly has none.
func (e *excess) largest(t, rows int) float64 {
	top := 0.0
	_, n := e.lost.Dims()
	for i := t * e.outputs; i < (t+1)*e.outputs; i++ {
		lost := e.weaker[i]
		if rows < n {
			lost += e.lost.At(i, rows)
		}
		if lost > 0 {
			top = max(top, lost/math.Max(e.v[i]-e.weaker[i], 0))
		}
	}
	return top
}

// fewest returns the smallest number of rows, at least 1, with which no more than
// allowed examples have an excess over within.
func (e *excess) fewest(within float64, allowed int) int {
	_, n := e.lost.Dims()
	return 1 + sort.Search(n-1, func(j int) bool { return e.quantile(j+1, allowed) <= within })
}

// quantile returns the excess with the first rows alone that no more than allowed examples
// are over.
func (e *excess) quantile(rows, allowed int) float64 {
	all := make([]float64, len(e.v)/e.outputs)
	for t := range all {
		all[t] = e.largest(t, rows)
	}
	slices.Sort(all)
	return all[len(all)-1-allowed]
}
