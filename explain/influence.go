package explain

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// influence is what is known about the training examples themselves, filled
// as far as it was needed.
type influence struct {
	known []bool
	cov   []float64 // h_i = C(x_i,x_i), N·C×C
	step  []float64 // (I − Λ_i h_i)⁻¹ r_i, N·C; NaN where undefined
}

// similarity is the posterior correlation of the target between the test row
// and example i, C(x*,x_i)/√(C(x*,x*) C(x_i,x_i)).
func (e *Explainer) similarity(w *tally, i int, cross []float64) float64 {
	h := w.target.quadratic(e.cov[i*e.c*e.c:(i+1)*e.c*e.c], e.c)
	return w.target.of(cross) / math.Sqrt(w.variance*h)
}

// removal is f(x*) after leaving out example i minus f(x*) before.
func (e *Explainer) removal(i int, cross []float64) float64 {
	// −C(x*,x_i) (I − Λ_i h_i)⁻¹ r_i (E15)
	return -dense.Dot(cross, e.step[i*e.c:(i+1)*e.c])
}

// knowAll learns about every training example.
func (e *Explainer) knowAll(ctx context.Context) error {
	need := make([]bool, e.n)
	for i := range need {
		need[i] = true
	}
	return e.know(ctx, need)
}

// know learns about the examples in need that are not known yet.
func (e *Explainer) know(ctx context.Context, need []bool) error {
	if e.known != nil {
		for i := range need {
			need[i] = need[i] && !e.known[i]
		}
	}
	return e.visit(ctx, need, func(rows []int, b *linearize.Batch) error { return e.learn(ctx, rows, b) })
}

// fewRows is how many rows a triangular solve takes in the time of one: below
// that it waits for memory.
const fewRows = 48

// visit calls do with the examples in need, a few at a time and their rows in
// order: gathered where there are few and the data can do so, and otherwise in
// a pass over the data, one by one or a tile as a whole where that is less
// work.
func (e *Explainer) visit(ctx context.Context, need []bool, do func(rows []int, b *linearize.Batch) error) error {
	var rows []int
	for i, n := range need {
		if n {
			rows = append(rows, i)
		}
	}
	size := e.visitSize()
	_, gathers := e.dual.Data().(linearize.Gatherer)
	switch {
	case len(rows) == 0:
		return nil
	case gathers && 4*len(rows) <= e.n:
		return e.gather(ctx, rows, min(size, fewRows), do)
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

// visitSize is how many examples are learnt about at a time: few enough that
// their covariances with all examples would fit in four tiles, unless that is
// less than fewRows.
func (e *Explainer) visitSize() int {
	return min(e.n, max(fewRows, 4*tileFloats/(e.n*e.c*e.c)))
}

func (e *Explainer) gather(ctx context.Context, rows []int, size int, do func(rows []int, b *linearize.Batch) error) error {
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

// span returns the numbers from lo to hi−1.
func span(lo, hi int) []int {
	s := make([]int, hi-lo)
	for i := range s {
		s[i] = lo + i
	}
	return s
}

// learn fills cov and step for the training examples at these rows, b. An
// example whose variance rounding has eaten has neither removal nor similarity.
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
		copy(e.cov[i*e.c*e.c:(i+1)*e.c*e.c], rowsOf(cov, j*e.c, e.c))
		copy(e.step[i*e.c:(i+1)*e.c], step.RawRowView(j))
		e.known[i] = true
	}
	return nil
}
