package certificate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// tile is how many dropped rows are linearized at once.
const tile = 250

// covariance returns the rows and columns of M that belong to some dropped rows. It takes
// a backward pass and a half-solve for each.
func (d *dropped) covariance(ctx context.Context, at []int) (*mat.SymDense, error) {
	m, n := len(at), d.post.Kept().Len()
	err := gp.CheckMemory("a certificate", "dropped rows", m, d.o.Memory, func(m int) int64 {
		return memory.Mul(8, memory.Mul(int64(m), memory.Add(int64(n), int64(2*m))))
	})
	if err != nil {
		return nil, err
	}
	examples, directions := make([]int, m), mat.NewDense(m, d.outputs(), nil)
	for i, row := range at {
		examples[i] = d.rows.Examples[row]
		directions.SetRow(i, d.rows.Directions.RawRowView(row))
	}
	half := mat.NewDense(m, n, nil)
	var parts []*linearize.Batch
	for p := range par.Tiles(m, tile) {
		lo, hi := par.Bounds(p, m, tile)
		b, err := linearize.GatherCombined(ctx, d.src, examples[lo:hi], dense.Slice(directions, lo, hi))
		if err != nil {
			return nil, err
		}
		if err := d.post.HalfTo(ctx, dense.Slice(half, lo, hi), b); err != nil {
			return nil, err
		}
		parts = append(parts, b)
		d.o.Show(StageSample, hi, m)
	}
	b := linearize.Concat(parts...)
	c := mat.NewDense(m, m, nil)
	if err := ntk.BlockContextTo(ctx, d.kernel, c, b, b); err != nil {
		return nil, err
	}
	raw := c.RawMatrix()
	// C_k = κ − H Hᵀ
	err = dense.SyrkContext(ctx, blas.NoTrans, -1, half.RawMatrix(), 1, blas64.Symmetric{Uplo: blas.Upper, N: m, Stride: raw.Stride, Data: raw.Data})
	if err != nil {
		return nil, err
	}
	sym := mat.NewSymDense(m, raw.Data)
	for i := range m {
		for j := i; j < m; j++ {
			v := d.root[at[i]] * d.root[at[j]] * sym.At(i, j)
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, &gp.NotFiniteError{What: "posterior covariance", Row: examples[i], Value: v, Remedy: "raise the prior precision, or check the network's Jacobian"}
			}
			if i == j {
				v = max(v, 0) // rounding
			}
			sym.SetSym(i, j, v)
		}
	}
	return sym, nil
}

// outputs returns the number of outputs C.
func (d *dropped) outputs() int {
	_, c := d.rows.Directions.Dims()
	return c
}

// A draw is a sample of dropped rows, with replacement and with probabilities p in
// proportion to λ. Sums Σ_j x_j over the dropped rows have the unbiased estimate
// mean x_j/p_j.
type draw struct {
	rows  []int     // the different ones, ascending
	of    []int     // for each draw, its index in rows
	p     []float64 // of rows
	sizes int       // number of draws
}

// sampled estimates c from a sample of rows.
func (d *dropped) sampled(ctx context.Context, c *Certificate) error {
	// Draw n rows.
	n := d.o.Sample
	w := draw{sizes: n}
	drawn := d.rows.Draw(n, rand.New(rand.NewPCG(d.o.Seed, 0x64726f70)))
	sum := floats.Sum(d.rows.Lambda)
	w.rows = slices.Compact(slices.Sorted(slices.Values(drawn)))
	for _, row := range drawn {
		at, _ := slices.BinarySearch(w.rows, row)
		w.of = append(w.of, at)
	}
	for _, row := range w.rows {
		w.p = append(w.p, d.rows.Lambda[row]/sum)
	}
	m, err := d.covariance(ctx, w.rows)
	if err != nil {
		return err
	}
	c.Sampled, c.Failure, c.Rows = true, 0.05, len(w.rows)
	c.TraceM, c.TraceMError = w.sum(func(i int) float64 { return m.At(i, i) })
	if c.Norm, err = w.norm(ctx, m); err != nil {
		return err
	}
	most := c.TraceM + c.TraceMError // no eigenvalue is larger than their sum
	c.Norm[1] = max(c.Norm[0], min(c.Norm[1], most))
	logs, logsError := w.sum(func(i int) float64 { return math.Log1p(m.At(i, i)) })
	c.LogDet = [2]float64{leastLogDet(c.TraceM-c.TraceMError, c.Norm[1]), logs + logsError}
	return nil
}

// leastLogDet returns a lower bound of log det(I + M) from a lower bound of t and an
// upper bound of ‖M‖₂: log(1+x) ≥ x log(1+v)/v for 0 ≤ x ≤ v. It is at least log(1+t).
func leastLogDet(t, norm float64) float64 {
	if t <= 0 || norm <= 0 {
		return 0
	}
	return t * math.Log1p(norm) / norm
}

// sum estimates Σ x over the dropped rows, with half the width of the interval of 95 %.
func (w *draw) sum(x func(i int) float64) (mean, half float64) {
	values := make([]float64, w.sizes)
	for k, i := range w.of {
		values[k] = x(i) / w.p[i]
	}
	return skewedInterval(values)
}

// meanInterval returns the mean of independent values and half the width of Student's
// interval of 95 % about it.
func meanInterval(values []float64) (mean, half float64) {
	mean, sd := stat.MeanStdDev(values, nil)
	n := float64(len(values))
	return mean, distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975) * sd / math.Sqrt(n)
}

// skewedInterval is meanInterval for values of which a few may be much larger than the
// others: where it is wider, it takes the interval of the bootstrap for the ratio of the
// mean's error to its estimate (Efron and Tibshirani 1993, section 12.5).
func skewedInterval(values []float64) (mean, half float64) {
	mean, half = meanInterval(values)
	rng := rand.New(rand.NewPCG(uint64(len(values)), 0x626f6f74))
	again, ratios := make([]float64, len(values)), make([]float64, 0, resamples)
	for range resamples {
		for i := range again {
			again[i] = values[rng.IntN(len(values))]
		}
		if m, sd := stat.MeanStdDev(again, nil); sd > 0 {
			ratios = append(ratios, (m-mean)/sd)
		}
	}
	if len(ratios) == 0 {
		return mean, half
	}
	slices.Sort(ratios)
	tail := len(ratios) / 40
	return mean, max(half, stat.StdDev(values, nil)*max(-ratios[tail], ratios[len(ratios)-1-tail]))
}

// resamples is the number of samples of the bootstrap.
const resamples = 1000

// norm returns an interval of ‖M‖₂. M has the eigenvalues of A = Σ_j ψ_jψ_jᵀ over the
// dropped rows, where M_ij = ψ_iᵀψ_j.
//
// The estimate Â = mean ψ_jψ_jᵀ/p_j has a norm that is too large on average, because the
// norm is convex; with the scatter of ŵᵀψ along its first eigenvector ŵ it is the upper
// end. A vector w that does not depend on the sample has the unbiased estimate wᵀÂw of
// wᵀAw ≤ ‖A‖₂: of each half of the draws the first eigenvector is tried on the other, which
// gives the lower end, unless the norm of a part of M, which is no larger, is above it.
func (w *draw) norm(ctx context.Context, m *mat.SymDense) ([2]float64, error) {
	none := [2]float64{}
	part := make([]float64, len(w.rows))
	for i := range part {
		part[i] = 1
	}
	least, _, err := first(ctx, m, part, roughly)
	if err != nil {
		return none, err
	}
	whole, err := w.first(ctx, m, 0, w.sizes)
	if err != nil {
		return none, err
	}
	top, scatter := whole.on(0, w.sizes)
	if half := w.sizes / 2; half >= 2 {
		before, err := w.first(ctx, m, 0, half)
		if err != nil {
			return none, err
		}
		after, err := w.first(ctx, m, half, w.sizes)
		if err != nil {
			return none, err
		}
		x, dx := before.on(half, w.sizes)
		y, dy := after.on(0, half)
		// Both use all draws, so that their errors are not independent.
		least = max(least, (x+y)/2-(dx+dy)/2)
	}
	return [2]float64{least, max(least, top+scatter)}, nil
}

// first returns the largest eigenvalue of the matrix with the entries root_i M_ij root_j,
// to the relative accuracy within and never too large, and its eigenvector.
func first(ctx context.Context, m *mat.SymDense, root []float64, within float64) (float64, []float64, error) {
	n := len(root)
	y := newKrylov(n, func(_ context.Context, dst, v []float64) error {
		x := mat.NewVecDense(n, floats.MulTo(make([]float64, n), root, v))
		mat.NewVecDense(n, dst).MulVec(m, x)
		floats.Mul(dst, root)
		return nil
	}, 0, 0)
	for steps := 4; ; steps += steps / 2 {
		if err := y.run(ctx, min(steps, n), func() bool { return false }); err != nil {
			return 0, nil, err
		}
		value, vector, residual, ok := y.largest()
		switch {
		case !ok:
			return 0, nil, fmt.Errorf("the largest eigenvalue of the covariance of %d dropped rows was not found", n)
		case residual <= within*value || y.exhausted || steps >= n:
			// Compute Σ_j c_j v_j.
			sum := make([]float64, len(y.v[0]))
			for j, a := range vector {
				floats.AddScaled(sum, a, y.v[j])
			}
			return value, sum, nil
		}
	}
}

// roughly is the relative accuracy to which eigenvalues of the estimate Â are computed. Sampling adds a larger error.
const roughly = 1e-4

// A firstVector is the first eigenvector ŵ of the estimate of A from some draws.
type firstVector struct {
	w        *draw
	products []float64 // ŵᵀψ_j of rows
}

// first returns the first eigenvector of mean ψ_jψ_jᵀ/p_j over draws [lo, hi).
func (w *draw) first(ctx context.Context, m *mat.SymDense, lo, hi int) (*firstVector, error) {
	n := len(w.rows)
	// The weight of ψ_jψ_jᵀ, and its root.
	root := make([]float64, n)
	for _, i := range w.of[lo:hi] {
		root[i] += 1 / (w.p[i] * float64(hi-lo))
	}
	for i := range root {
		root[i] = math.Sqrt(root[i])
	}
	f := &firstVector{w: w, products: make([]float64, n)}
	top, v, err := first(ctx, m, root, roughly)
	if err != nil || top == 0 {
		return f, err
	}
	// ŵ = Σ_i root_i v_i ψ_i/√top, ŵᵀψ_j = Σ_i root_i v_i M_ij/√top
	floats.Mul(v, root)
	floats.Scale(1/math.Sqrt(top), v)
	product := mat.NewVecDense(n, f.products)
	product.MulVec(m, mat.NewVecDense(n, v))
	return f, nil
}

// on returns the mean of (ŵᵀψ_j)²/p_j over draws [lo, hi), and half the width of its
// interval.
func (f *firstVector) on(lo, hi int) (mean, half float64) {
	values := make([]float64, 0, hi-lo)
	for _, i := range f.w.of[lo:hi] {
		values = append(values, f.products[i]*f.products[i]/f.w.p[i])
	}
	return meanInterval(values)
}
