package sparse

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

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
		if err := f.advance(ctx, pool, next); err != nil {
			return nil, err
		}
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

// advance accepts examples of the pool as next chooses them, and then passes over
// the data to update the distances.
func (f *kmeans) advance(ctx context.Context, pool []int, next chooser) error {
	batch, err := linearize.Gather(ctx, f.x, pool)
	if err != nil {
		return err
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
		return err
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
		return err
	}
	for _, at := range accepted {
		f.left.take(pool[at])
	}
	f.o.Progress(StageSelect, len(f.left.rows), f.m)
	return nil
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
