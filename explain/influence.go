package explain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/par"
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
	return -dot(cross, e.step[i*e.c:(i+1)*e.c])
}

// knowAll learns about every training example.
func (e *Explainer) knowAll(ctx context.Context) error {
	need := make([]bool, e.n)
	for i := range need {
		need[i] = true
	}
	return e.know(ctx, need)
}

// knowListed learns about the examples that some tally lists.
func (e *Explainer) knowListed(ctx context.Context, work [][]tally) error {
	need := make([]bool, e.n)
	for t := range work {
		for k := range work[t] {
			w := &work[t][k]
			for _, c := range slices.Concat(w.top.heap, w.plus.heap, w.minus.heap) {
				need[c.index] = true
			}
		}
	}
	return e.know(ctx, need)
}

// fewRows is how many rows a triangular solve takes in the time of one: below
// that it waits for memory.
const fewRows = 48

// know learns about the examples in need that are not known yet: one by one,
// or a tile as a whole where that is less work.
func (e *Explainer) know(ctx context.Context, need []bool) error {
	if e.known == nil {
		e.known = make([]bool, e.n)
		e.cov = make([]float64, e.n*e.c*e.c)
		e.step = make([]float64, e.n*e.c)
	}
	missing := 0
	for i := range need {
		need[i] = need[i] && !e.known[i]
		if need[i] {
			missing++
		}
	}
	if missing == 0 {
		return nil
	}
	// A prediction of n examples holds n·C × N·C numbers.
	size := min(e.n, max(1, 4*tileFloats/(e.n*e.c*e.c)))
	return e.tiles(ctx, size, func(first int, b *linearize.Batch) error {
		wanted := 0
		for i := range b.Len() {
			if need[first+i] {
				wanted++
			}
		}
		if wanted*max(e.c, fewRows) > b.Len()*e.c {
			return e.learn(ctx, first, b)
		}
		for i := range b.Len() {
			if !need[first+i] {
				continue
			}
			if err := e.learn(ctx, first+i, b.Slice(i, i+1)); err != nil {
				return err
			}
		}
		return nil
	})
}

// learn fills cov and step for the examples of b, which start at first. An
// example whose variance rounding has eaten has neither removal nor similarity.
func (e *Explainer) learn(ctx context.Context, first int, b *linearize.Batch) error {
	n, cc := b.Len(), e.c*e.c
	cov := e.cov[first*cc : (first+n)*cc]
	var negative *gp.NegativeVarianceError
	switch err := e.dual.PredictTo(nil, mat.NewDense(n*e.c, e.c, cov), b); {
	case errors.As(err, &negative) && n > 1:
		for i := range n {
			if err := e.learn(ctx, first+i, b.Slice(i, i+1)); err != nil {
				return err
			}
		}
		return nil
	case negative != nil:
		fill(cov, math.NaN())
		fill(e.step[first*e.c:(first+1)*e.c], math.NaN())
		e.known[first] = true
		return nil
	case err != nil:
		return fmt.Errorf("explain: posterior covariance of training examples from %d: %w", first, err)
	}
	s := e.dual.Sites()
	return par.Do(ctx, e.options.Workers, n, func(j int) error {
		i := first + j
		h, root := mat.NewDense(e.c, e.c, cov[j*cc:(j+1)*cc]), s.Root.Slice(i*e.c, (i+1)*e.c, 0, e.c)
		r := mat.NewVecDense(e.c, s.Residual.RawRowView(i))
		stepTo(mat.NewVecDense(e.c, e.step[i*e.c:(i+1)*e.c]), h, root, r)
		e.known[i] = true
		return nil
	})
}

// stepTo writes (I − Λh)⁻¹ r, Λ = R Rᵀ, or NaN where I − RᵀhR is not positive
// definite: then the example alone fixes the function where it lies.
func stepTo(dst *mat.VecDense, h, root mat.Matrix, r *mat.VecDense) {
	c := r.Len()
	var hr, u, rhr mat.Dense
	hr.Mul(h, root)
	rhr.Mul(root.T(), &hr)
	inner := mat.NewSymDense(c, nil)
	for i := range c {
		for j := i; j < c; j++ {
			// [B⁻¹]_ii = I − RᵀhR
			inner.SetSym(i, j, -(rhr.At(i, j)+rhr.At(j, i))/2)
		}
		inner.SetSym(i, i, 1+inner.At(i, i))
	}
	var chol mat.Cholesky
	if !chol.Factorize(inner) {
		fill(dst.RawVector().Data, math.NaN())
		return
	}
	// r + R (I − RᵀhR)⁻¹ Rᵀ h r (E15)
	u.Mul(hr.T(), r)
	var z mat.Dense
	// A condition warning still carries the solution.
	_ = chol.SolveTo(&z, &u)
	dst.MulVec(root, z.ColView(0))
	dst.AddVec(dst, r)
}

func fill(dst []float64, v float64) {
	for i := range dst {
		dst[i] = v
	}
}
