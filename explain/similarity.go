package explain

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// influence caches what depends on a training example and no test row. Only
// the examples that were needed are filled in.
type influence struct {
	known []bool    // which examples are filled in
	cov   []float64 // h_i = C(x_i,x_i), N·C×C
	step  []float64 // (I − Λ_i h_i)⁻¹ r_i, N·C; NaN where undefined
}

// A cache holds numbers that depend on training examples alone. Those of an example are written
// once, by the goroutine that holds the lock, and read by goroutines that have held the lock since.
type cache struct {
	lock chan struct{} // holds a value while a goroutine fills the cache
	influence
	spread
}

func newCache() *cache { return &cache{lock: make(chan struct{}, 1)} }

// locked calls do while no other goroutine fills the cache. A cancelled context ends the wait.
func (c *cache) locked(ctx context.Context, do func() error) error {
	select {
	case c.lock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.lock }()
	return do()
}

// similarity is the posterior correlation of the target between the test row
// and example i, C(x*,x_i)/√(C(x*,x*) C(x_i,x_i)).
func (e *Explainer) similarity(w *tally, i int, cross []float64) float64 {
	h := w.target.quadratic(e.cov[i*e.c*e.c:(i+1)*e.c*e.c], e.c)
	return w.target.Of(cross) / math.Sqrt(w.variance*h)
}

// removal is f(x*) after leaving out example i minus f(x*) before.
func (e *Explainer) removal(i int, cross []float64) float64 {
	// −C(x*,x_i) (I − Λ_i h_i)⁻¹ r_i (E15)
	return -dense.Dot(cross, e.step[i*e.c:(i+1)*e.c])
}

// knowAll fills the cache for every training example.
func (e *Explainer) knowAll(ctx context.Context) error {
	need := make([]bool, e.n)
	for i := range need {
		need[i] = true
	}
	return e.know(ctx, need)
}

// know fills the cache for the examples i with need[i] that it does not hold yet.
func (e *Explainer) know(ctx context.Context, need []bool) error {
	return e.fill(ctx, need, &e.known, e.learn)
}

// fill calls learn for the examples i with need[i] that are not known, a few at a time, while
// it holds the lock of the cache. known may be nil.
func (e *Explainer) fill(ctx context.Context, need []bool, known *[]bool, learn func(ctx context.Context, rows []int, b *linearize.Batch) error) error {
	return e.locked(ctx, func() error {
		need := slices.Clone(need)
		for i, filled := range *known {
			need[i] = need[i] && !filled
		}
		done, total := 0, 0
		for _, n := range need {
			if n {
				total++
			}
		}
		return e.visit(ctx, need, func(rows []int, b *linearize.Batch) error {
			if err := learn(ctx, rows, b); err != nil {
				return err
			}
			// A whole tile may hold examples that are not needed.
			for _, i := range rows {
				if need[i] {
					done++
				}
			}
			e.options.Show(gp.StageLeaveOneOut, done, total)
			return nil
		})
	})
}

// fewRows is how many rows a triangular solve handles in about the time of one,
// because with fewer the memory limits its speed.
const fewRows = 48

// visit calls do with the examples i with need[i], a few at a time and in
// increasing order of their rows. It gathers them if they are few and the data can gather rows.
// Otherwise it passes over the data and takes the needed examples of a tile one by one, or the
// whole tile where that is less work.
func (e *Explainer) visit(ctx context.Context, need []bool, do func(rows []int, b *linearize.Batch) error) error {
	var rows []int
	for i, n := range need {
		if n {
			rows = append(rows, i)
		}
	}
	size := min(e.n, max(fewRows, 4*tileFloats/(e.n*e.c*e.c)))
	gathers := linearize.Gathers(e.dual.Data())
	switch {
	case len(rows) == 0:
		return nil
	case gathers && 4*len(rows) <= e.n:
		// Call do with the examples of the given rows, size at a time.
		size := min(size, fewRows)
		for part := range slices.Chunk(rows, size) {
			b, err := linearize.Gather(ctx, e.dual.Data(), part)
			if err != nil {
				return fmt.Errorf("explain: training example %d and others: %w", part[0], err)
			}
			if err := do(part, b); err != nil {
				return err
			}
		}
		return nil
	}
	return e.tiles(ctx, e.dual.Data(), size, func(first int, b *linearize.Batch) error {
		wanted := 0
		for i := range b.Len() {
			if need[first+i] {
				wanted++
			}
		}
		if wanted*max(e.c, fewRows) > b.Len()*e.c {
			return do(span(first, first+b.Len()), b)
		}
		for i := range b.Len() {
			if !need[first+i] {
				continue
			}
			if err := do(span(first+i, first+i+1), b.Slice(i, i+1)); err != nil {
				return err
			}
		}
		return nil
	})
}

// span returns the numbers from lo to hi−1.
func span(lo, hi int) []int {
	s := make([]int, hi-lo)
	for i := range s {
		s[i] = lo + i
	}
	return s
}

// learn fills cov and step for the training examples b at these rows. They are NaN
// for an example whose variance is lost to rounding. The cache must be locked.
func (e *Explainer) learn(ctx context.Context, rows []int, b *linearize.Batch) error {
	if e.known == nil {
		e.known = make([]bool, e.n)
		e.cov = make([]float64, e.n*e.c*e.c)
		e.step = make([]float64, e.n*e.c)
	}
	cov, step := mat.NewDense(len(rows)*e.c, e.c, nil), mat.NewDense(len(rows), e.c, nil)
	if err := e.dual.InfluenceTo(ctx, cov, step, rows, b); err != nil {
		return fmt.Errorf("explain: influence of training example %d and others: %w", rows[0], err)
	}
	for j, i := range rows {
		if e.known[i] { // other goroutines may be reading it
			continue
		}
		copy(e.cov[i*e.c*e.c:(i+1)*e.c*e.c], rowsOf(cov, j*e.c, e.c))
		copy(e.step[i*e.c:(i+1)*e.c], step.RawRowView(j))
		e.known[i] = true
	}
	return nil
}
