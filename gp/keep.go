package gp

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Kept are the rows of the training data that a posterior is built on (E16). A row is
// an example i with an eigenvector u of Λ_i: the observation of uᵀf_i with weight λ, the
// eigenvalue. A network is sure of most training examples, and there Λ is nearly zero:
// the rows that are left out say almost nothing. Rows are in the order of examples.
type Kept struct {
	Examples   []int      // the example of each row, ascending
	Directions *mat.Dense // u of each row, n×C; those of an example are orthonormal
	Lambda     []float64  // λ > 0
	Strength   []float64  // s = λ uᵀκ(x_i,x_i)u
	Trace      float64    // Σ λ of the kept rows, without representatives
	Total      float64    // tr Λ over all examples, or those of KeepOptions.Among
	// Representatives is how many of the rows, the last ones and in the order of examples again, stand
	// for all rows that are left out; see Represent. No example has them as its own.
	Representatives int
}

// Len returns the number of rows.
func (k *Kept) Len() int { return len(k.Examples) }

// AddTo adds Σ u a over the rows to the vector to, N·C, for a number a of each.
func (k *Kept) AddTo(to, a []float64) {
	_, c := k.Directions.Dims()
	for i, at := range k.Examples {
		floats.AddScaled(to[at*c:(at+1)*c], a[i], k.Directions.RawRowView(i))
	}
}

// Own returns the number of rows that are kept for what they say themselves: all but representatives.
func (k *Kept) Own() int { return k.Len() - k.Representatives }

// of returns the own rows [lo, hi) of example i.
func (k *Kept) of(i int) (lo, hi int) {
	own := k.Examples[:k.Own()]
	lo, _ = slices.BinarySearch(own, i)
	for hi = lo; hi < len(own) && own[hi] == i; hi++ {
	}
	return lo, hi
}

// Represent returns the own rows of k with n representatives of the rows that k leaves out. Where these say
// little each but much together, a sample says nearly the same. It is drawn with probabilities in proportion to
// Strength, or to λ where rest, which Dropped returned, has no Strength. A row that is drawn with probability p
// has the weight λ/(np) in the place of its λ, so that Σ λ JᵀuuᵀJ over the sample has the mean of the sum over all.
// The draws lie at equal distances along the sums of p in the order of examples, from a random start
// (systematic sampling); a row that is drawn twice has twice the weight. Where n or fewer rows are left out,
// all are taken as they are.
func (k *Kept) Represent(rest *Kept, n int, seed uint64) *Kept {
	own := k.Own()
	rows := make([]keptRow, own)
	for i := range rows {
		rows[i] = keptRow{k.Examples[i], k.Directions.RawRowView(i), k.Lambda[i], k.Strength[i]}
	}
	measure := rest.Strength
	if measure == nil {
		measure = rest.Lambda
	}
	step := floats.Sum(measure) / float64(n)
	next, sum := step*rand.New(rand.NewPCG(seed, 0x72657072)).Float64(), 0.0
	for i, v := range measure {
		weight := 1.0
		if rest.Len() > n {
			times := 0.0
			for sum += v; next < sum; next += step {
				times++
			}
			weight = times * step / v
		}
		if weight > 0 {
			rows = append(rows, keptRow{example: rest.Examples[i], direction: rest.Directions.RawRowView(i), lambda: weight * rest.Lambda[i]})
		}
	}
	_, c := k.Directions.Dims()
	to := newKept(rows, k.Total, c)
	to.Trace, to.Representatives = k.Trace, len(rows)-own
	return to
}

// Representing returns the representatives alone, with their weights as λ and without strengths.
func (k *Kept) Representing() *Kept {
	own := k.Own()
	return &Kept{Examples: k.Examples[own:], Directions: dense.Slice(k.Directions, own, k.Len()), Lambda: k.Lambda[own:]}
}

// Thin returns the sites with Λ̃_i = Σ_kept λuuᵀ in the place of Λ_i (E16). The columns of
// its root are √λ u, followed by zeros.
func (k *Kept) Thin(s *Sites) *Sites {
	n, c := s.F.Dims()
	to := &Sites{F: s.F, Residual: s.Residual, Lambda: mat.NewDense(n*c, c, nil), Root: mat.NewDense(n*c, c, nil), LogLik: s.LogLik}
	columns := make([]int, n) // of the root of each example that have a row
	for i, at := range k.Examples {
		column := columns[at]
		columns[at]++
		lambda := dense.Slice(to.Lambda, at*c, (at+1)*c)
		for a, v := range k.Directions.RawRowView(i) {
			to.Root.Set(at*c+a, column, math.Sqrt(k.Lambda[i])*v)
			floats.AddScaled(lambda.RawRowView(a), k.Lambda[i]*v, k.Directions.RawRowView(i))
		}
	}
	return to
}

// Dropped returns the rows with λ > 0 that k leaves out, of all N examples with sites s, from which k was chosen. Rows
// that k has as representatives are among them. Their strengths are not computed: Strength is nil. A row of k
// that is no eigenvector of its example's Λ panics.
func (k *Kept) Dropped(ctx context.Context, s *Sites) (*Kept, error) {
	all, total, err := directions(ctx, s, nil, func(rows []keptRow) []keptRow { return rows })
	if err != nil {
		return nil, err
	}
	found := len(all)
	d := k.Without(newKept(all, total, s.outputs()))
	if found -= d.Len(); found != k.Own() {
		panic("gp: kept rows are not eigenvectors of the sites")
	}
	d.Strength = nil
	return d, nil
}

// Without returns the rows of d, which has strengths, that are not own rows of k.
func (k *Kept) Without(d *Kept) *Kept {
	at := make(map[int][]int, k.Own()) // the kept rows of each example
	for j, i := range k.Examples[:k.Own()] {
		at[i] = append(at[i], j)
	}
	var rest []keptRow
	for j, i := range d.Examples {
		u := d.Directions.RawRowView(j)
		// Directions of one example are orthogonal, so that a kept one is parallel to one alone.
		if !slices.ContainsFunc(at[i], func(own int) bool { return math.Abs(floats.Dot(k.Directions.RawRowView(own), u)) > 0.5 }) {
			rest = append(rest, keptRow{i, u, d.Lambda[j], d.Strength[j]})
		}
	}
	_, c := d.Directions.Dims()
	return newKept(rest, d.Total, c)
}

// Draw draws n rows with replacement and returns their positions. A row has a probability
// in proportion to its λ.
func (k *Kept) Draw(n int, rng *rand.Rand) []int {
	sums := floats.CumSum(make([]float64, k.Len()), k.Lambda)
	drawn := make([]int, n)
	for i := range drawn {
		u := rng.Float64() * sums[len(sums)-1]
		drawn[i] = min(sort.Search(len(sums), func(j int) bool { return sums[j] > u }), len(sums)-1)
	}
	return drawn
}

// KeepOptions say which rows to keep. A nil *KeepOptions keeps all with λ > 0.
type KeepOptions struct {
	// Strength is the threshold τ: rows with s > τ are kept.
	Strength float64
	// Most bounds the number of rows, and those with the largest s are kept; 0 is
	// no bound. With it, s is computed of the 2·Most rows with the largest λ alone,
	// so that the other examples need not be linearized.
	Most int
	// Among, if not nil, are the examples whose rows may be kept, ascending.
	Among []int
	// PriorVariance, if positive, is an upper bound of uᵀκ(x_i,x_i)u for all i and unit
	// vectors u: rows with λ times it at most Strength are left out without a backward
	// pass. A bound that is too small leaves out more rows than Strength alone.
	PriorVariance float64
	Progress      func(stage string, done, total int)
}

// StageKeep counts the rows whose strength is computed by Keep.
const StageKeep = "strengths"

// keepTile is how many rows Keep linearizes at once.
const keepTile = 500

// Keep chooses rows of the training examples x with sites s. It fails with
// ErrNoExamples, with a *NotFiniteError where a prior variance is NaN or Inf, and with
// ctx.Err(), wrapped.
func Keep(ctx context.Context, k ntk.Kernel, x linearize.Source, s *Sites, o *KeepOptions) (*Kept, error) {
	var opt KeepOptions
	if o != nil {
		opt = *o
	}
	if opt.Strength < 0 || opt.Most < 0 || opt.PriorVariance < 0 {
		panic("gp: negative strength, number of rows to keep or prior variance")
	}
	if opt.Progress == nil {
		opt.Progress = func(string, int, int) {}
	}
	if s.F.RawMatrix().Rows != x.Len() {
		panic("gp: sites and examples differ in size")
	}
	if x.Len() == 0 {
		return nil, ErrNoExamples
	}
	all, total, err := directions(ctx, s, opt.Among, func(rows []keptRow) []keptRow {
		if opt.PriorVariance > 0 {
			rows = slices.DeleteFunc(rows, func(r keptRow) bool { return r.lambda*opt.PriorVariance <= opt.Strength })
		}
		return strongest(rows, 2*opt.Most, func(r keptRow) float64 { return r.lambda })
	})
	if err != nil {
		return nil, err
	}
	if err := strengths(ctx, k, x, all, &opt); err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r keptRow) bool { return !(r.strength > opt.Strength) })
	all = strongest(all, opt.Most, func(r keptRow) float64 { return r.strength })
	return newKept(all, total, s.outputs()), nil
}

// strongest returns the n rows with the largest measure, in the order of examples, or all where n is 0.
func strongest(rows []keptRow, n int, measure func(keptRow) float64) []keptRow {
	if n == 0 || len(rows) <= n {
		return rows
	}
	slices.SortStableFunc(rows, func(a, b keptRow) int { return cmp.Compare(measure(b), measure(a)) })
	clear(rows[n:])
	rows = rows[:n]
	slices.SortStableFunc(rows, func(a, b keptRow) int { return cmp.Compare(a.example, b.example) })
	return rows
}

// A keptRow is one row that may be kept.
type keptRow struct {
	example          int
	direction        []float64
	lambda, strength float64
}

func newKept(rows []keptRow, total float64, c int) *Kept {
	k := &Kept{Total: total, Directions: new(mat.Dense)}
	if len(rows) > 0 {
		k.Directions = mat.NewDense(len(rows), c, nil)
	}
	for i, r := range rows {
		k.Examples, k.Lambda, k.Strength = append(k.Examples, r.example), append(k.Lambda, r.lambda), append(k.Strength, r.strength)
		k.Directions.SetRow(i, r.direction)
		k.Trace += r.lambda
	}
	return k
}

// directions returns the eigenvectors of Λ_i with a positive eigenvalue of all examples, or of those among, and the
// sum of the traces. choose is called again and again with those found so far, and returns those to go on with, so
// that the others take no memory.
func directions(ctx context.Context, s *Sites, among []int, choose func([]keptRow) []keptRow) (rows []keptRow, total float64, err error) {
	const tile, tiles = 256, 64
	n := s.F.RawMatrix().Rows
	example := func(i int) int { return i }
	if among != nil {
		n, example = len(among), func(i int) int { return among[i] }
	}
	for first := 0; first < n; first += tile * tiles {
		parts := make([][]keptRow, par.Tiles(min(n-first, tile*tiles), tile))
		err := par.Do(ctx, len(parts), func(p int) error {
			lo := first + p*tile
			for i := lo; i < min(lo+tile, n); i++ {
				own, err := s.directionsOf(example(i))
				if err != nil {
					return err
				}
				parts[p] = append(parts[p], own...)
			}
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
		for _, own := range parts {
			for _, r := range own {
				total += r.lambda
			}
			rows = append(rows, own...)
		}
		rows = choose(rows)
	}
	return rows, total, nil
}

// directionsOf returns the eigenvectors of Λ_i with eigenvalues above rounding. A diagonal Λ_i has the axes of the
// outputs as eigenvectors.
func (s *Sites) directionsOf(i int) ([]keptRow, error) {
	c := s.outputs()
	lambda := dense.Slice(s.Lambda, i*c, (i+1)*c)
	values, vectors := make([]float64, c), mat.NewDense(c, c, nil)
	if diagonal := newBlockDiag(lambda).diag; diagonal != nil {
		copy(values, diagonal)
		for j := range c {
			vectors.Set(j, j, 1)
		}
	} else {
		sym := mat.NewSymDense(c, nil)
		for a := range c {
			for b := a; b < c; b++ {
				sym.SetSym(a, b, lambda.At(a, b))
			}
		}
		var eigen mat.EigenSym
		if !eigen.Factorize(sym, true) {
			return nil, fmt.Errorf("gp: the eigenvectors of Λ of example %d were not found", i)
		}
		eigen.Values(values)
		eigen.VectorsTo(vectors)
	}
	var own []keptRow
	for j, v := range values {
		// The eigenvalues of a softmax's null direction are rounding.
		if v > 4*float64(c)*epsilon*slices.Max(values) {
			own = append(own, keptRow{example: i, direction: mat.Col(nil, j, vectors), lambda: v})
		}
	}
	return own, nil
}

// strengths sets s = λ uᵀκ(x_i,x_i)u.
func strengths(ctx context.Context, k ntk.Kernel, x linearize.Source, rows []keptRow, o *KeepOptions) error {
	for p := range par.Tiles(len(rows), keepTile) {
		lo, hi := par.Bounds(p, len(rows), keepTile)
		b, err := gatherKept(ctx, x, newKept(rows[lo:hi], 0, len(rows[lo].direction)))
		if err != nil {
			return stopped("choosing rows to keep", err)
		}
		prior := mat.NewDense(hi-lo, 1, nil)
		k.DiagTo(prior, b)
		for i := range hi - lo {
			r := &rows[lo+i]
			v := prior.At(i, 0)
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return &NotFiniteError{What: "prior variance", Row: r.example, Value: v, Remedy: tooLarge}
			}
			r.strength = r.lambda * v
		}
		o.Progress(StageKeep, hi, len(rows))
	}
	return nil
}

// gatherKept linearizes rows, as examples with one output each.
func gatherKept(ctx context.Context, x linearize.Source, k *Kept) (*linearize.Batch, error) {
	var parts []*linearize.Batch
	for p := range par.Tiles(k.Len(), keepTile) {
		lo, hi := par.Bounds(p, k.Len(), keepTile)
		b, err := linearize.GatherCombined(ctx, x, k.Examples[lo:hi], dense.Slice(k.Directions, lo, hi))
		if err != nil {
			return nil, err
		}
		parts = append(parts, b)
	}
	return linearize.Concat(parts...), nil
}
