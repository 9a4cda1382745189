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

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// ThresholdOptions are those of FindThreshold. nil means all defaults.
type ThresholdOptions struct {
	// Within is how much larger the variance of an output may be than with all rows,
	// relative to the variance with all rows; 0 means 0.05.
	Within float64
	// Share is the part of the asked examples for which this must hold; 0 means 0.99.
	Share float64
	// Examples is the number of training examples in the sample that is searched; 0 means all.
	Examples int
	// Most is the number of strongest rows of these examples that are factored and taken for
	// all of their rows. 0 begins with 4000 and takes more, until the change that the weaker
	// rows would make, estimated from a sample, leaves room for a threshold. The memory may
	// bound the number.
	Most int
	// Before, if not nil, is the result of a search of the same examples that ended because memory
	// was short. This search goes on from it, and returns it if there is no memory for more rows.
	Before *Threshold
	// Worth, if not nil, is asked whether to go on after a threshold that more rows would change.
	Worth func(t *Threshold) bool
	// Limits are those of the search, and Memory also that of a posterior of the rows above the threshold.
	linearize.Limits
	Seed uint64 // seed of the choice of the examples
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
	d.Within, d.Share = cmp.Or(d.Within, 0.05), cmp.Or(d.Share, 0.99)
	return d
}

// allowed returns for how many of the asked examples the variance may be larger.
func (o *ThresholdOptions) allowed(asked *linearize.Batch) int {
	return int(float64(asked.Len()) * (1 - o.Share))
}

// A Threshold is a τ with its effect on variances, measured on a sample of training examples.
type Threshold struct {
	// Strength is τ: rows with s > τ are to be kept.
	Strength float64
	// PriorVariance is twice the largest uᵀκ(x_i,x_i)u of the rows that were computed. It saves
	// gp.Keep a backward pass for most rows below τ.
	PriorVariance float64
	// Ratio is v_k/v, the variance with the rows above τ over the variance with all rows: for
	// each asked example the largest over its outputs, and of these the quantile
	// ThresholdOptions.Share. It is above 1+Within if there is no memory for more rows.
	Ratio    float64
	Examples int // examples in the sample
	Rows     int // rows of the sample above τ
	Of       int // strongest rows of the sample that were factored
	// Wanted is Rows if Ratio is at most 1+Within. Otherwise it is an estimate, rather too
	// large, of the rows needed, from the change that each weaker row of a sample makes alone.
	Wanted int
	// Representatives is the number of rows that represent those at or below τ (gp.Kept.Represent), where rows
	// above a smaller τ would be too many; 0 means none. Ratio is then the factor between both variances, whichever
	// is larger. A posterior has representatives only with Options.Found.
	Representatives int
	// Needed is the memory in bytes for Wanted rows, and Available the memory that may be used,
	// if memory was short; otherwise both are 0.
	Needed, Available int64

	post *gp.Thinned // the posterior with representatives; nil without representatives
}

// KeepOptions returns the options with which gp.Keep keeps the rows above the threshold, without representatives.
func (t *Threshold) KeepOptions() *gp.KeepOptions {
	return &gp.KeepOptions{Strength: t.Strength, PriorVariance: t.PriorVariance}
}

// FindThreshold finds the largest τ (E16) for which the posterior of the rows with s > τ has
// variances as near to those of all rows as o demands, for the asked examples. It factors
// the strongest rows of the training examples, or of a sample of them, in the order of
// falling strength, so that the leading parts of one factor are those of all thresholds.
// The further change by the weaker rows, v_k − v ≤ cᵀc (E16), is estimated from 2,000 of
// them, unless Examples or Most are given; then the strongest rows are taken for all.
//
// If the rows above τ would be more than a few thousand, representatives replace the weaker rows. Their number is the
// number of rows above τ, and the search finds this number.
//
// In a sample of the examples a dropped row has fewer neighbours with the same information,
// but v is larger too: on LeNet-5 and MNIST, δ = 243, the threshold that gives 1.05 on
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
		among = rand.New(rand.NewPCG(opt.Seed, 0x6b657074)).Perm(x.Len())[:opt.Examples]
		slices.Sort(among)
	}
	each, err := rowBytes(ctx, asked.Slice(0, 1))
	if err != nil {
		return nil, err
	}
	// Count the rows with their posterior, and their covariances with the asked examples and with tiles of weaker rows.
	need := func(rows int) int64 {
		shared := memory.Mul(8*int64(rows), int64(asked.Len()*asked.Outputs()+2*weakerTile))
		return memory.Add(shared, memory.Add(Bytes(x.Len(), asked.Outputs(), asked.P, rows), memory.Mul(int64(rows), each)))
	}
	most := cmp.Or(opt.Most, firstMost)
	if b := opt.Before; b != nil {
		most = larger(b.Of, b.Wanted)
		if b.Representatives > 0 {
			if most = b.Rows; b.Ratio > 1+opt.Within {
				most = b.Wanted / 2
			}
			return represented(ctx, k, x, s, asked, &opt, most, need)
		}
	}
	for {
		fits, budget := memory.Fit(most, opt.Memory, need)
		if fits == 0 {
			return nil, &gp.MemoryError{Op: "a search for rows to keep", Needed: need(1), Available: budget, Unit: gp.KeptRows}
		}
		if opt.Before != nil && fits <= opt.Before.Of {
			return opt.Before, nil
		}
		t, err := findThreshold(ctx, k, x, s, asked, &opt, among, fits, fits < most)
		if err == nil && fits < most && t.Of == fits && t.Ratio > 1+opt.Within {
			t.Needed, t.Available = need(max(t.Wanted, fits+1)), budget
		}
		if err != nil || opt.Most > 0 || fits < most || t.Of < most || t.Ratio <= 1+opt.Within {
			return t, err
		}
		if opt.Worth != nil && !opt.Worth(t) {
			return t, nil
		}
		if t.Wanted > mostAlone {
			return represented(ctx, k, x, s, asked, &opt, most, need)
		}
		most = larger(most, t.Wanted)
	}
}

// mostAlone is the largest number of rows above the threshold for which no representatives are used; a variable for
// tests.
var mostAlone = 12000

// poolRows is the most rows from which representatives are drawn, and comparedRows the most other rows with which the
// result is compared; variables for tests.
var poolRows, comparedRows = 40000, 2000

// represented finds how many of the strongest rows, with as many representatives of the others, give variances
// as near to those with all rows as opt demands. It begins with most rows of each kind.
//
// Representatives are drawn in two steps, because the posterior strength of a row given the strongest rows takes a
// backward pass and a half-solve. The first step draws poolRows rows by λ and the prior variance of one row of the same
// example. The second draws representatives from these by their posterior strength given the first most rows. No row
// then has a weight with which it counts much more than another.
func represented(ctx context.Context, k ntk.Kernel, x linearize.Source, s *gp.Sites, asked *linearize.Batch, opt *ThresholdOptions,
	most int, need func(rows int) int64) (*Threshold, error) {
	fit := func(rows *gp.Kept) (*gp.Thinned, error) {
		return gp.FitKept(ctx, k, x, s, rows, &gp.Options{Limits: opt.Limits})
	}
	strongest := func(n int) (*gp.Kept, error) {
		return gp.Keep(ctx, k, x, s, &gp.KeepOptions{Most: n, Progress: opt.Progress})
	}
	first, err := strongest(min(most, firstMost))
	if err != nil {
		return nil, err
	}
	rest, err := first.Dropped(ctx, s)
	if err != nil {
		return nil, err
	}
	if rest.Strength, err = likelyStrengths(ctx, k, x, rest, opt); err != nil {
		return nil, err
	}
	alone, err := fit(first)
	if err != nil {
		return nil, err
	}
	var pools [2]*gp.Kept // rows to draw representatives from, and rows to compare them with
	for i, n := range []int{poolRows, 2 * comparedRows} {
		pool := first.Represent(rest, n, opt.Seed+uint64(i)<<32).Representing()
		if pool.Strength, err = strengths(ctx, k, x, alone, pool, opt); err != nil {
			return nil, err
		}
		pools[i] = pool
	}
	alone = nil // free its memory before the next posterior is made
	for {
		fits, budget := memory.Fit(2*most, opt.Memory, need)
		if fits < 2 {
			return nil, &gp.MemoryError{Op: "a search for rows to keep", Needed: need(2), Available: budget, Unit: gp.KeptRows}
		}
		own, err := strongest(fits / 2)
		if err != nil {
			return nil, err
		}
		t := &Threshold{Strength: math.Nextafter(slices.Min(own.Strength), 0), Examples: x.Len(),
			Rows: own.Len(), Representatives: fits - fits/2, Of: fits, Wanted: 2 * most}
		pool := own.Without(pools[0])
		if t.post, err = fit(own.Represent(pool, t.Representatives, opt.Seed)); err != nil {
			return nil, err
		}
		if pool.Len() > t.Representatives {
			if err := t.post.Weigh(ctx); err != nil {
				return nil, err
			}
		} else if rest.Len() <= poolRows {
			t.Ratio = 1 // all rows are there
			return t, nil
		}
		others := own.Represent(own.Without(pools[1]), comparedRows, opt.Seed+1<<32).Representing()
		if t.Ratio, err = deviation(ctx, k, x, t.post, asked, others, opt); err != nil || t.Ratio <= 1+opt.Within {
			return t, err
		}
		// The error falls about as the number of rows grows to the power .85.
		grow := math.Min(1.05*math.Pow((1-1/t.Ratio)*(1+opt.Within)/opt.Within, 1/.85), 2.5)
		t.Wanted = int(math.Min(grow*float64(fits), float64(x.Len()*asked.Outputs())))
		if fits < 2*most {
			t.Needed, t.Available = need(max(t.Wanted, fits+1)), budget
			return t, nil
		}
		if opt.Worth != nil && !opt.Worth(t) {
			return t, nil
		}
		most = max(t.Wanted/2, most*5/4)
	}
}

// eachTile calls do with the rows [lo, hi), linearized, and their half H of Thinned.HalfTo unless post is nil, for
// one tile of rows after another.
func eachTile(ctx context.Context, x linearize.Source, post *gp.Thinned, rows *gp.Kept,
	do func(lo, hi int, b *linearize.Batch, half *mat.Dense) error) error {
	for lo := 0; lo < rows.Len(); lo += weakerTile {
		hi := min(lo+weakerTile, rows.Len())
		b, err := linearize.GatherCombined(ctx, x, rows.Examples[lo:hi], dense.Slice(rows.Directions, lo, hi))
		if err != nil {
			return err
		}
		var half mat.Dense
		if post != nil {
			if err := post.HalfTo(ctx, &half, b); err != nil {
				return err
			}
		}
		if err := do(lo, hi, b, &half); err != nil {
			return err
		}
	}
	return nil
}

// strengths returns λ uᵀC(x_i,x_i)u of rows, with C the covariance of post, or the kernel if post is nil.
func strengths(ctx context.Context, k ntk.Kernel, x linearize.Source, post *gp.Thinned, rows *gp.Kept, o *ThresholdOptions) ([]float64, error) {
	s := make([]float64, rows.Len())
	err := eachTile(ctx, x, post, rows, func(lo, hi int, b *linearize.Batch, half *mat.Dense) error {
		prior := mat.NewDense(hi-lo, 1, nil)
		k.DiagTo(prior, b)
		for i := range hi - lo {
			v := prior.At(i, 0)
			if post != nil {
				h := half.RawRowView(i)
				v = math.Max(v-floats.Dot(h, h), 1e-12*v)
			}
			if s[lo+i] = rows.Lambda[lo+i] * v; math.IsNaN(s[lo+i]) || math.IsInf(s[lo+i], 0) {
				return &gp.NotFiniteError{What: "prior variance", Row: rows.Examples[lo+i], Value: v, Remedy: "raise the prior precision, or check the network's Jacobian"}
			}
		}
		o.Show(gp.StageKeep, hi, rows.Len())
		return nil
	})
	return s, err
}

// likelyStrengths returns λ uᵀκ(x_i,x_i)u of rows, with u of the row of the same example that has the largest λ. Those
// of the other rows are of that order.
func likelyStrengths(ctx context.Context, k ntk.Kernel, x linearize.Source, rows *gp.Kept, o *ThresholdOptions) ([]float64, error) {
	var top []int
	for i, at := range rows.Examples {
		switch last := len(top) - 1; {
		case last < 0 || rows.Examples[top[last]] != at:
			top = append(top, i)
		case rows.Lambda[i] > rows.Lambda[top[last]]:
			top[last] = i
		}
	}
	first := pick(&gp.Kept{Examples: rows.Examples, Directions: rows.Directions, Lambda: rows.Lambda, Strength: rows.Lambda}, top)
	s, err := strengths(ctx, k, x, nil, first, o)
	if err != nil {
		return nil, err
	}
	likely, at := make([]float64, rows.Len()), 0
	for i := range likely {
		if first.Examples[at] != rows.Examples[i] {
			at++
		}
		likely[i] = rows.Lambda[i] * s[at] / first.Lambda[at]
	}
	return likely, nil
}

// deviation returns the factor within which the variance by post, which has representatives S, agrees with the variance
// with all rows. It allows for two standard errors of the sampling and for the bias. The standard error is the largest
// over the outputs of an asked example, and of these the quantile ThresholdOptions.Share.
//
// With c = C(x,·) of post, its variance v_s = C(x,x) and that of all rows, v, have
//
//	v_s − (a − b) ≤ v,  v = v_s − (a − b) + q − …,  a = Σ λc²,  b = Σ_S λ̃c²
//
// where a sums over all rows that are left out, and q is of second order in the error of the representatives. The
// inequality is the variational bound: v is the largest 2yᵀj − yᵀ(Σ₀⁻¹ + JᵀΛJ)y over all y, with j the Jacobian of x,
// and the left side is its value at the y that is best for the representatives. The terms of b are independent draws,
// except for a spacing that makes them more even, so the squared standard error of b is at most Σ_S (λ̃c²)². The bias
// is the mean of (a − b)/v_s over the asked outputs, with a estimated from others, a second sample.
func deviation(ctx context.Context, k ntk.Kernel, x linearize.Source, post *gp.Thinned, asked *linearize.Batch, others *gp.Kept,
	opt *ThresholdOptions) (float64, error) {
	e, err := excessOf(ctx, post, asked)
	if err != nil {
		return 0, err
	}
	if err := e.add(ctx, k, x, post, asked, others, func(int, float64, []float64) {}); err != nil {
		return 0, err
	}
	var gain mat.Dense
	if err := post.GainTo(ctx, &gain, asked, nil); err != nil {
		return 0, err
	}
	kept := post.Kept()
	errs, bias := make([]float64, asked.Len()), 0.0
	for i, v := range e.v {
		b, square := 0.0, 0.0
		for j, g := range gain.RawRowView(i)[kept.Own():] {
			term := g * g / kept.Lambda[kept.Own()+j] // G = cΛ̃
			b += term
			square += term * term
		}
		if v > 0 { // an output that is known exactly has no error
			errs[i/e.outputs] = max(errs[i/e.outputs], math.Sqrt(square)/v)
			bias += (e.weaker[i] - b) / v / float64(len(e.v))
		}
	}
	slices.Sort(errs)
	off := 2*errs[len(errs)-1-opt.allowed(asked)] + math.Abs(bias)
	return 1 / math.Max(1-off, 0), nil
}

// larger returns the number of rows to factor next, where most were too few and about wanted should suffice.
func larger(most, wanted int) int {
	return min(max(wanted, most+most*3/5), most*5/2)
}

// RatioAt returns v_k/v for the rows that p keeps, as Threshold.Ratio is for a threshold. The
// change by the other rows is estimated from a sample of them.
func (p *Posterior) RatioAt(ctx context.Context, asked *linearize.Batch, o *ThresholdOptions) (float64, error) {
	opt := o.withDefaults()
	e, err := excessOf(ctx, p.thin, asked)
	if err != nil {
		return 0, err
	}
	rest, err := p.Kept().Dropped(ctx, p.Sites())
	if err != nil {
		return 0, err
	}
	if err := e.addWeaker(ctx, p.kernel, p.Data(), p.thin, asked, rest, &opt); err != nil {
		return 0, err
	}
	return 1 + e.quantile(p.Kept().Len(), opt.allowed(asked)), nil
}

// findThreshold compares with the posterior of the strongest rows, most of them. bounded says that memory
// bounds their number, so that no threshold is below them.
func findThreshold(ctx context.Context, k ntk.Kernel, x linearize.Source, s *gp.Sites, asked *linearize.Batch, opt *ThresholdOptions, among []int, most int, bounded bool) (*Threshold, error) {
	all, err := gp.Keep(ctx, k, x, s, &gp.KeepOptions{Most: most, Among: among, Progress: opt.Progress})
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
	all = pick(all, byStrength(all))
	post, err := gp.FitKept(ctx, k, x, s, all, &gp.Options{Limits: opt.Limits})
	if err != nil {
		return nil, err
	}
	excess, err := excessOf(ctx, post, asked)
	if err != nil {
		return nil, err
	}
	if among == nil && opt.Most == 0 {
		rest, err := all.Dropped(ctx, s)
		if err != nil {
			return nil, err
		}
		if err := excess.addWeaker(ctx, k, x, post, asked, rest, opt); err != nil {
			return nil, err
		}
	}
	allowed := opt.allowed(asked)
	// Find the smallest number of rows, at least 1, with which no more than allowed examples have an
	// excess over within.
	within := opt.Within
	_, n := excess.half.Dims()
	t.Rows = 1 + sort.Search(n-1, func(j int) bool { return excess.quantile(j+1, allowed) <= within })
	// Rows of the same strength are kept together.
	for t.Rows < all.Len() && all.Strength[t.Rows] == all.Strength[t.Rows-1] {
		t.Rows++
	}
	switch {
	case t.Rows < all.Len():
		t.Strength = all.Strength[t.Rows]
	case bounded && t.Of == most:
		t.Strength = math.Nextafter(all.Strength[most-1], 0)
	}
	t.Ratio = 1 + excess.quantile(t.Rows, allowed)
	t.Wanted = t.Rows + excess.more(opt.Within, allowed)
	for i, v := range all.Strength {
		t.PriorVariance = max(t.PriorVariance, 2*v/all.Lambda[i])
	}
	return t, nil
}

// byStrength returns the positions of the rows in the order of falling strength.
func byStrength(k *gp.Kept) []int {
	order := dense.Range(k.Len())
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(k.Strength[b], k.Strength[a]) })
	return order
}

// pick returns the rows at these positions.
func pick(k *gp.Kept, at []int) *gp.Kept {
	_, c := k.Directions.Dims()
	to := &gp.Kept{Directions: mat.NewDense(len(at), c, nil), Total: k.Total}
	for i, at := range at {
		to.Examples, to.Lambda, to.Strength = append(to.Examples, k.Examples[at]), append(to.Lambda, k.Lambda[at]), append(to.Strength, k.Strength[at])
		to.Directions.SetRow(i, k.Directions.RawRowView(at))
		to.Trace += k.Lambda[at]
	}
	return to
}

// An excess says how much larger the variance of outputs is without the last rows.
type excess struct {
	outputs int
	half    *mat.Dense // H of Thinned.HalfTo, T·C×n
	v       []float64  // with all rows, T·C
	weaker  []float64  // how much the rows that are weaker than all of these would lower v, T·C
	rest    int        // number of weaker rows
	sample  []weaker   // a sample of the weaker rows
}

// A weaker is a row in a sample of the rows that a posterior does not have.
type weaker struct {
	strength float64
	count    float64   // number of rows that it represents
	takes    []float64 // how much it lowers v, T·C
}

// excessOf computes the excess for the examples x.
func excessOf(ctx context.Context, post *gp.Thinned, x *linearize.Batch) (*excess, error) {
	e := &excess{outputs: x.Outputs(), half: new(mat.Dense), v: make([]float64, x.Len()*x.Outputs())}
	e.weaker = make([]float64, len(e.v))
	if err := post.HalfTo(ctx, e.half, x); err != nil {
		return nil, err
	}
	var cov mat.Dense
	if err := post.PredictTo(ctx, nil, &cov, x); err != nil {
		return nil, err
	}
	for i := range e.v {
		e.v[i] = cov.At(i, i%e.outputs)
	}
	return e, nil
}

// weakerRows is the most weaker rows in a sample, and weakerTile how many are computed at once.
const weakerRows, weakerTile = 2000, 250

// addWeaker estimates cᵀc of the rows that post does not have, each of which is drawn with a
// probability in proportion to λ; where they are few, all are taken.
func (e *excess) addWeaker(ctx context.Context, k ntk.Kernel, x linearize.Source, post *gp.Thinned, asked *linearize.Batch, rest *gp.Kept, o *ThresholdOptions) error {
	e.rest = rest.Len()
	examples, directions, lambda, counts := draw(rest, weakerRows, o.Seed)
	weighed := slices.Clone(lambda)
	floats.Mul(weighed, counts)
	return e.add(ctx, k, x, post, asked, &gp.Kept{Examples: examples, Directions: directions, Lambda: weighed}, func(i int, own float64, takes []float64) {
		e.sample = append(e.sample, weaker{strength: lambda[i] * own, count: counts[i], takes: takes})
	})
}

// add adds Σ λc² of rows that post does not have to e.weaker, and calls each with the prior variance of every row and
// its part of that.
func (e *excess) add(ctx context.Context, k ntk.Kernel, x linearize.Source, post *gp.Thinned, asked *linearize.Batch, rows *gp.Kept,
	each func(i int, prior float64, takes []float64)) error {
	return eachTile(ctx, x, post, rows, func(lo, hi int, b *linearize.Batch, half *mat.Dense) error {
		// C_k = κ − H Hᵀ
		c := mat.NewDense(len(e.v), hi-lo, nil)
		if err := ntk.BlockContextTo(ctx, k, c, asked, b); err != nil {
			return err
		}
		dense.Gemm(blas.NoTrans, blas.Trans, -1, e.half.RawMatrix(), half.RawMatrix(), 1, c.RawMatrix())
		own := mat.NewDense(hi-lo, 1, nil)
		k.DiagTo(own, b)
		for j := range hi - lo {
			takes := make([]float64, len(e.v))
			for i := range takes {
				takes[i] = rows.Lambda[lo+j] * c.At(i, j) * c.At(i, j)
			}
			floats.Add(e.weaker, takes)
			each(lo+j, own.At(j, 0), takes)
		}
		return nil
	})
}

// more estimates how many of the weaker rows, the strongest first, it takes beside all rows of the
// posterior for an excess of within.
func (e *excess) more(within float64, allowed int) int {
	_, n := e.half.Dims()
	slices.SortFunc(e.sample, func(a, b weaker) int { return cmp.Compare(b.strength, a.strength) })
	left, count := slices.Clone(e.weaker), 0.0
	for _, w := range e.sample {
		if e.quantileOf(n, left, allowed) <= within {
			break
		}
		floats.Sub(left, w.takes)
		count += w.count
	}
	return min(int(math.Ceil(count)), e.rest)
}

// draw returns n rows, in the order of their examples, with their λ and the number of rows that each
// represents: Σ count λc² is an unbiased estimate of Σ λc² over all rows. If there are no more than n
// rows, it is exact.
func draw(rows *gp.Kept, n int, seed uint64) (examples []int, directions *mat.Dense, lambda, counts []float64) {
	if rows.Len() <= n {
		counts = make([]float64, rows.Len())
		floats.AddConst(1, counts)
		return rows.Examples, rows.Directions, rows.Lambda, counts
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
		lambda = append(lambda, rows.Lambda[row])
		counts = append(counts, total/float64(n)*float64(times[row])/rows.Lambda[row])
	}
	return examples, directions, lambda, counts
}

// largest returns the largest excess over the outputs of example t, relative to the variance with
// all rows, when only the first rows are used and weaker has the loss by the weaker rows that are
// missing. An output that is known exactly has no excess.
func (e *excess) largest(t, rows int, weaker []float64) float64 {
	top := 0.0
	for i := t * e.outputs; i < (t+1)*e.outputs; i++ {
		// With the first columns of H alone the variance is κ − Σ h².
		rest := e.half.RawRowView(i)[rows:]
		if lost := weaker[i] + floats.Dot(rest, rest); lost > 0 {
			top = max(top, lost/math.Max(e.v[i]-e.weaker[i], 0))
		}
	}
	return top
}

// quantile returns the excess with the first rows alone that at most allowed examples exceed.
func (e *excess) quantile(rows, allowed int) float64 { return e.quantileOf(rows, e.weaker, allowed) }

// quantileOf is quantile where weaker has the loss by the weaker rows that are missing.
func (e *excess) quantileOf(rows int, weaker []float64, allowed int) float64 {
	all := make([]float64, len(e.v)/e.outputs)
	for t := range all {
		all[t] = e.largest(t, rows, weaker)
	}
	slices.Sort(all)
	return all[len(all)-1-allowed]
}
