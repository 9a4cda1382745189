package sparse

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Selector chooses m distinct training examples and returns their indices in
// order of choice. The first m' of them are the choice for m' < m. k may be nil
// for a Selector that does not use it.
type Selector interface {
	Choose(ctx context.Context, k ntk.Kernel, x linearize.Source, m int, o *Options) ([]int, error)
}

// Each random choice has its own stream of random numbers, so that one seed gives
// independent draws.
const (
	uniformStream = 1 + iota
	stratifiedStream
	choleskyStream
	kmeansStream
	sampleStream
)

// Select chooses m inducing examples of x and gathers them. It fails with a *CountError where m is less than 1 or more than x
// has.
func Select(ctx context.Context, how Selector, k ntk.Kernel, x linearize.Source, m int, o *Options) (*Inducing, error) {
	if m < 1 || m > x.Len() {
		return nil, &CountError{M: m, N: x.Len()}
	}
	rows, err := how.Choose(ctx, k, x, m, o)
	if err != nil {
		return nil, err
	}
	b, err := linearize.Gather(ctx, x, rows)
	if err != nil {
		return nil, err
	}
	return &Inducing{Rows: rows, Batch: b}, nil
}

// Uniform chooses at random without replacement. It does not use the kernel.
type Uniform struct {
	Seed uint64
}

var _ Selector = Uniform{}

// Choose implements Selector.
func (u Uniform) Choose(_ context.Context, _ ntk.Kernel, x linearize.Source, m int, _ *Options) ([]int, error) {
	return rand.New(rand.NewPCG(u.Seed, uniformStream)).Perm(x.Len())[:m], nil
}

// Stratified chooses at random within each class, from each class in proportion
// to its number of examples. It does not use the kernel.
type Stratified struct {
	Labels []int // the class of each training example
	Seed   uint64
}

var _ Selector = Stratified{}

// Choose implements Selector. The next example comes from the class with the
// largest n/(2t+1), where n counts its examples and t those already chosen
// (Sainte-Laguë). At every m, each class then has its share but for rounding.
func (s Stratified) Choose(_ context.Context, _ ntk.Kernel, x linearize.Source, m int, _ *Options) ([]int, error) {
	n := x.Len()
	if len(s.Labels) != n {
		panic("sparse: labels and examples differ in number")
	}
	members := make(map[int][]int)
	for _, i := range rand.New(rand.NewPCG(s.Seed, stratifiedStream)).Perm(n) {
		members[s.Labels[i]] = append(members[s.Labels[i]], i)
	}
	classes := make([]int, 0, len(members))
	for label := range members {
		classes = append(classes, label)
	}
	slices.Sort(classes)
	taken, rows := make([]int, len(classes)), make([]int, 0, m)
	for range m {
		best, share := 0, 0.0
		for k, label := range classes {
			// n/(2t+1)
			if v := float64(len(members[label])) / float64(2*taken[k]+1); v > share && taken[k] < len(members[label]) {
				best, share = k, v
			}
		}
		rows = append(rows, members[classes[best]][taken[best]])
		taken[best]++
	}
	return rows, nil
}

// Trace chooses the examples with the largest tr Λ. Equal ones are taken in the order of the data. It does not use the kernel.
type Trace struct {
	Sites *gp.Sites // of all training examples
}

var _ Selector = Trace{}

// Choose implements Selector.
func (t Trace) Choose(_ context.Context, _ ntk.Kernel, x linearize.Source, m int, _ *Options) ([]int, error) {
	if t.Sites == nil || t.Sites.F == nil {
		panic("sparse: the sites of the examples are missing")
	}
	_, c := t.Sites.F.Dims()
	n := x.Len()
	if _, err := sites.New(t.Sites, n, c); err != nil {
		return nil, err
	}
	traces := make([]float64, n)
	for i := range n * c {
		traces[i/c] += t.Sites.Lambda.At(i, i%c)
	}
	rows := dense.Range(len(traces))
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(traces[b], traces[a]) })
	return rows[:m], nil
}

// poolRows is the number of rows of K that a Selector considers between two
// passes over the data.
const poolRows = 256

// poolSize returns the number of examples with c outputs that a Selector considers
// between two passes over the data.
func poolSize(c int) int { return max(4, poolRows/c) }

// A candidates holds the examples or pairs that may be chosen, each with a weight,
// and those chosen so far.
type candidates struct {
	w      []float64 // weights, nonnegative; 0 once chosen
	chosen []bool
	rows   []int // indices of the chosen candidates, in order of choice
}

func newCandidates(n int) *candidates {
	return &candidates{w: make([]float64, n), chosen: make([]bool, n)}
}

// take chooses candidate i.
func (w *candidates) take(i int) {
	w.rows = append(w.rows, i)
	w.chosen[i] = true
	w.w[i] = 0
}

// rest chooses candidates in the given order until m are chosen, and returns all
// chosen ones.
func (w *candidates) rest(m int, order []int) []int {
	for _, i := range order {
		if len(w.rows) == m {
			break
		}
		if !w.chosen[i] {
			w.take(i)
		}
	}
	return w.rows
}

// draw returns n candidates, each drawn with probability proportional to its
// weight, or nil where all weights are zero. Candidates may repeat.
func (w *candidates) draw(n int, rng *rand.Rand) []int {
	sums, total := make([]float64, len(w.w)), 0.0
	for i, v := range w.w {
		total += v
		sums[i] = total
	}
	if !(total > 0) {
		return nil
	}
	rows := make([]int, n)
	for k := range rows {
		u := rng.Float64() * total
		rows[k] = min(sort.Search(len(sums), func(i int) bool { return sums[i] > u }), len(sums)-1)
		for w.w[rows[k]] == 0 { // past the last one by rounding
			rows[k]--
		}
	}
	return rows
}

// largest returns the n candidates with the largest weights, and the largest
// weight of the others. Candidates of weight zero are left out, and equal weights
// keep their order.
func (w *candidates) largest(n int) (rows []int, next float64) {
	rows = dense.Range(len(w.w))
	sort.SliceStable(rows, func(a, b int) bool { return w.w[rows[a]] > w.w[rows[b]] })
	n = min(n, len(rows))
	for n > 0 && w.w[rows[n-1]] == 0 {
		n--
	}
	if n < len(rows) {
		next = w.w[rows[n]]
	}
	return rows[:n], next
}

// eachColumns calls do with each chunk of x, whose examples have c outputs, and
// the kernel κ(chunk, s).
func eachColumns(ctx context.Context, k ntk.Kernel, x linearize.Source, c int, s *linearize.Batch, do func(p chunk, block blas64.General) error) error {
	width := s.Len() * s.Outputs()
	buf := make([]float64, min(x.Len(), linearize.Tile(c))*c*width)
	return linearize.Rebatch(x, linearize.Tile(c)).Batches(ctx, func(first int, b *linearize.Batch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := chunk{first: first, x: b, rows: b.Len() * c}
		block := dense.In(buf, p.rows, width)
		k.BlockTo(dense.View(block), b, s)
		if err := sites.NotFiniteRows("kernel", dense.View(block), first, c); err != nil {
			return err
		}
		return do(p, block)
	})
}

// traces returns tr κ(x_i, x_i) of every example, and the number of outputs of an
// example.
func traces(ctx context.Context, k ntk.Kernel, x linearize.Source) (t []float64, c int, err error) {
	t = make([]float64, x.Len())
	err = x.Batches(ctx, func(first int, b *linearize.Batch) error {
		c = b.Outputs()
		diag := new(mat.Dense)
		k.DiagTo(diag, b)
		if err := sites.NotFiniteRows("kernel", diag, first, c); err != nil {
			return err
		}
		for i := range b.Len() * c {
			t[first+i/c] += diag.At(i, i%c)
		}
		return nil
	})
	return t, c, err
}

// KMeans chooses the first example at random and each further one with
// probability proportional to its squared distance from the nearest one chosen
// before (k-means++). The squared distance of x and z is
// tr(k(x,x) + k(z,z) − 2k(x,z)). It keeps N numbers.
type KMeans struct {
	Seed uint64
}

var _ Selector = KMeans{}

// Choose implements Selector.
func (s KMeans) Choose(ctx context.Context, k ntk.Kernel, x linearize.Source, m int, o *Options) ([]int, error) {
	f := &kmeans{k: k, x: x, o: o.withDefaults(), m: m, left: newCandidates(x.Len())}
	var err error
	if f.trace, f.c, err = traces(ctx, k, x); err != nil {
		return nil, err
	}
	for i := range f.left.w {
		f.left.w[i] = math.Inf(1)
	}
	rng := rand.New(rand.NewPCG(s.Seed, kmeansStream))
	pool, next := []int{rng.IntN(x.Len())}, chooser(func(step int, _, _ []float64) int { return -min(step, 1) })
	for pool != nil && len(f.left.rows) < m {
		// Accept examples of the pool as next chooses them, and then pass over the data to update the
		// distances.
		batch, err := linearize.Gather(ctx, f.x, pool)
		if err != nil {
			return nil, err
		}
		var h mat.Dense
		f.k.BlockTo(&h, batch, batch)
		before := make([]float64, len(pool))
		for i, row := range pool {
			before[i] = f.left.w[row]
		}
		now := append([]float64(nil), before...)
		var accepted []int
		for step := 0; len(f.left.rows)+len(accepted) < f.m; step++ {
			at := next(step, before, now)
			if at < 0 {
				break
			}
			accepted = append(accepted, at)
			for i := range now { // a repeated example is at distance zero
				now[i] = math.Min(now[i], f.distance(pool[i], pool[at], h.RawMatrix(), i, at))
			}
		}
		s, err := batch.Gather(ctx, accepted)
		if err != nil {
			return nil, err
		}
		err = eachColumns(ctx, f.k, f.x, f.c, s, func(p chunk, block blas64.General) error {
			for i := range p.x.Len() {
				e := p.first + i
				for j, at := range accepted {
					f.left.w[e] = math.Min(f.left.w[e], f.distance(e, pool[at], block, i, j))
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, at := range accepted {
			f.left.take(pool[at])
		}
		f.o.Show(StageSelect, len(f.left.rows), f.m)
		pool, next = f.left.draw(poolSize(f.c), rng), thinned(rng)
	}
	return f.left.rest(m, rng.Perm(x.Len())), nil
}

// A kmeans holds the state of KMeans.Choose.
type kmeans struct {
	k     ntk.Kernel
	x     linearize.Source
	o     Options
	c, m  int
	trace []float64   // tr k(x,x) of each example
	left  *candidates // squared distance from the nearest chosen example
}

// distance returns tr(k(x,x) + k(z,z) − 2k(x,z)) of examples x and z, or zero where
// that is rounding. k(x,z) is block (i, j) of k.
func (f *kmeans) distance(x, z int, k blas64.General, i, j int) float64 {
	cross := 0.0
	for a := range f.c {
		cross += k.Data[(i*f.c+a)*k.Stride+j*f.c+a]
	}
	d, scale := f.trace[x]+f.trace[z]-2*cross, f.trace[x]+f.trace[z]
	if x == z || d <= 1e-14*scale {
		return 0
	}
	return d
}
