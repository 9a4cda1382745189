package explain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
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

// visitSize is how many examples are learnt about at a time: an exact
// prediction of n examples holds n·C × N·C numbers.
func (e *Explainer) visitSize() int {
	size := max(1, 4*tileFloats/(e.n*e.c*e.c))
	if _, ok := e.dual.(selfer); ok {
		size = max(size, fewRows)
	}
	return min(e.n, size)
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

// A selfer is a posterior in whose kernel an example has another covariance
// with itself than PredictTo's: seen through inducing examples, a training
// example is only what they explain of it.
type selfer interface {
	// SelfTo writes what Cross gives of each example with itself, n·C×C.
	SelfTo(dst *mat.Dense, x *linearize.Batch) error
}

// A rooter is a posterior that does not weigh the training examples as its
// sites say.
type rooter interface {
	// RootTo writes R, n·C×C, such that the example weighs R Rᵀ, for the
	// training examples at these rows, b.
	RootTo(dst *mat.Dense, rows []int, b *linearize.Batch) error
}

// An influencer is a posterior that knows its training examples' influence on
// themselves to more digits than their covariance gives: (I − Λ_i h_i)⁻¹ r_i
// keeps few of them where an example nearly fixes the function by itself.
type influencer interface {
	// InfluenceTo writes h_i = C(x_i,x_i), n·C×C, and (I − Λ_i h_i)⁻¹ r_i, n×C,
	// of the training examples at these rows, b, and NaN where they are undefined.
	InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, b *linearize.Batch) error
}

// selfTo writes h_i = C(x_i,x_i) of the examples of b.
func (e *Explainer) selfTo(dst *mat.Dense, b *linearize.Batch) error {
	if s, ok := e.dual.(selfer); ok {
		return s.SelfTo(dst, b)
	}
	return e.dual.PredictTo(nil, dst, b)
}

// rootsTo writes the roots of the weights of the examples at these rows, b.
func (e *Explainer) rootsTo(dst *mat.Dense, rows []int, b *linearize.Batch) error {
	if s, ok := e.dual.(rooter); ok {
		return s.RootTo(dst, rows, b)
	}
	root := e.dual.Sites().Root
	for j, i := range rows {
		for a := range e.c {
			dst.SetRow(j*e.c+a, root.RawRowView(i*e.c+a))
		}
	}
	return nil
}

// learn fills cov and step for the training examples at these rows, b. An
// example whose variance rounding has eaten has neither removal nor similarity.
func (e *Explainer) learn(ctx context.Context, rows []int, b *linearize.Batch) error {
	if e.known == nil {
		e.known = make([]bool, e.n)
		e.cov = make([]float64, e.n*e.c*e.c)
		e.step = make([]float64, e.n*e.c)
	}
	if d, ok := e.dual.(influencer); ok {
		return e.copyInfluence(ctx, d, rows, b)
	}
	n, cc := len(rows), e.c*e.c
	cov, roots := mat.NewDense(n*e.c, e.c, nil), mat.NewDense(n*e.c, e.c, nil)
	var negative *gp.NegativeVarianceError
	switch err := e.selfTo(cov, b); {
	case errors.As(err, &negative) && n > 1:
		for j := range n {
			if err := e.learn(ctx, rows[j:j+1], b.Slice(j, j+1)); err != nil {
				return err
			}
		}
		return nil
	case negative != nil:
		i := rows[0]
		fill(e.cov[i*cc:(i+1)*cc], math.NaN())
		fill(e.step[i*e.c:(i+1)*e.c], math.NaN())
		e.known[i] = true
		return nil
	case err != nil:
		return fmt.Errorf("explain: posterior covariance of training example %d and others: %w", rows[0], err)
	}
	if err := e.rootsTo(roots, rows, b); err != nil {
		return fmt.Errorf("explain: weights of training example %d and others: %w", rows[0], err)
	}
	s, least := e.dual.Sites(), e.leastLeft(roots, b)
	return par.Do(ctx, e.options.Workers, n, func(j int) error {
		i, h := rows[j], cov.Slice(j*e.c, (j+1)*e.c, 0, e.c)
		copy(e.cov[i*cc:(i+1)*cc], rowsOf(cov, j*e.c, e.c))
		r := mat.NewVecDense(e.c, s.Residual.RawRowView(i))
		stepTo(mat.NewVecDense(e.c, e.step[i*e.c:(i+1)*e.c]), h, roots.Slice(j*e.c, (j+1)*e.c, 0, e.c), r, least[j])
		e.known[i] = true
		return nil
	})
}

// copyInfluence fills cov and step with what the posterior itself gives.
func (e *Explainer) copyInfluence(ctx context.Context, d influencer, rows []int, b *linearize.Batch) error {
	cov, step := mat.NewDense(len(rows)*e.c, e.c, nil), mat.NewDense(len(rows), e.c, nil)
	if err := d.InfluenceTo(ctx, cov, step, rows, b); err != nil {
		return fmt.Errorf("explain: influence of training example %d and others: %w", rows[0], err)
	}
	for j, i := range rows {
		copy(e.cov[i*e.c*e.c:(i+1)*e.c*e.c], rowsOf(cov, j*e.c, e.c))
		copy(e.step[i*e.c:(i+1)*e.c], step.RawRowView(j))
		e.known[i] = true
	}
	return nil
}

// What the subtraction in I − RᵀhR leaves of I has too few digits below lost,
// and below lostOfPrior of RᵀκR, from which h is found by subtraction itself.
const lost, lostOfPrior = 1e-8, 1e-9

// A priorVariance gives κ(x, x), n·C×C. An ntk.Kernel is one.
type priorVariance interface {
	DiagTo(dst *mat.Dense, b *linearize.Batch)
}

// leastLeft returns, for each example of b, how much of I must be left in
// I − RᵀhR, given the roots R.
func (e *Explainer) leastLeft(roots *mat.Dense, b *linearize.Batch) []float64 {
	least := make([]float64, b.Len())
	fill(least, lost)
	prior, ok := e.prior.(priorVariance)
	if !ok {
		return least
	}
	diag := mat.NewDense(b.Len()*e.c, e.c, nil)
	prior.DiagTo(diag, b)
	for i := range least {
		root := roots.Slice(i*e.c, (i+1)*e.c, 0, e.c)
		var scaled mat.Dense
		scaled.Product(root.T(), diag.Slice(i*e.c, (i+1)*e.c, 0, e.c), root)
		least[i] = math.Max(lost, lostOfPrior*mat.Trace(&scaled))
	}
	return least
}

// stepTo writes (I − Λh)⁻¹ r, Λ = R Rᵀ, or NaN where I − RᵀhR is below least or
// not positive definite: then the example alone fixes the function where it
// lies, and only a posterior that is an influencer has the number.
func stepTo(dst *mat.VecDense, h, root mat.Matrix, r *mat.VecDense, least float64) {
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
	if !chol.Factorize(inner) || smallestPivot(&chol) < least {
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

// smallestPivot returns the smallest squared diagonal element of the factor.
func smallestPivot(c *mat.Cholesky) float64 {
	var u mat.TriDense
	c.UTo(&u)
	least := math.Inf(1)
	for i := range c.SymmetricDim() {
		least = math.Min(least, u.At(i, i)*u.At(i, i))
	}
	return least
}

func fill(dst []float64, v float64) {
	for i := range dst {
		dst[i] = v
	}
}
