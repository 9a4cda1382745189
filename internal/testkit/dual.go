package testkit

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// Dual is a posterior computed by weight-space formulas with dense matrices. Its tiles do not
// depend on how the training data is divided into batches.
type Dual struct {
	Train      *linearize.Batch
	At         *gp.Sites
	Chunk      int        // examples in each batch of Data; 0 for all
	J          *mat.Dense // N·C×P
	Prior      *mat.Dense // Σ₀
	Delta      []float64  // μ₀ − θ*
	Sigma      *mat.Dense // (Σ₀⁻¹ + JᵀΛJ)⁻¹
	DualVector []float64
	Pseudo     []float64
}

var _ gp.Dual = (*Dual)(nil)

func (d *Dual) Sites() *gp.Sites         { return d.At }
func (d *Dual) Alpha() []float64         { return d.DualVector }
func (d *Dual) PseudoTargets() []float64 { return d.Pseudo }
func (d *Dual) Data() linearize.Source   { return InTiles(d.Train, d.Chunk) }

// Jacobian returns the Jacobian of b, N·C×P.
func Jacobian(b *linearize.Batch) *mat.Dense {
	var j mat.Dense
	b.JacobianTo(&j)
	return &j
}

func (d *Dual) MeanTo(dst []float64, b *linearize.Batch) {
	b.MulVecTo(dst, d.Delta)
	for i, f := range mat.DenseCopyOf(b.F).RawMatrix().Data {
		dst[i] += f
	}
}

func (d *Dual) PredictTo(_ context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	j, c := Jacobian(x), x.Outputs()
	if dense.SizeTo(mean, x.Len(), c); mean != nil {
		// m + K_*n α (E6)
		m := make([]float64, x.Len()*c)
		d.MeanTo(m, x)
		move := Product(j, d.Prior, d.J.T(), Vec(d.DualVector))
		for i, v := range m {
			mean.Set(i/c, i%c, v+move.At(i, 0))
		}
	}
	if cov == nil {
		return nil
	}
	all := Product(j, d.Sigma, j.T())
	for t := range x.Len() {
		cov.Slice(t*c, (t+1)*c, 0, c).(*mat.Dense).Copy(all.Slice(t*c, (t+1)*c, t*c, (t+1)*c))
	}
	return nil
}

func (d *Dual) JointTo(_ context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	panic("testkit: JointTo is not used by explain")
}

// InfluenceTo implements gp.Dual.
func (d *Dual) InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, x *linearize.Batch) error {
	if err := d.PredictTo(ctx, nil, h, x); err != nil {
		return err
	}
	c := x.Outputs()
	for j, i := range rows {
		gp.RemovalFrom(q.RawRowView(j), dense.Slice(h, j*c, (j+1)*c), dense.Slice(d.At.Root, i*c, (i+1)*c), nil, d.At.Residual.RawRowView(i))
	}
	return nil
}

// LeaveOneOutTo implements gp.Dual. The posterior mean at the training examples is
// the function values of the sites.
func (d *Dual) LeaveOneOutTo(ctx context.Context, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error {
	c := x.Outputs()
	h := mat.NewDense(len(rows)*c, c, nil)
	if err := d.PredictTo(ctx, nil, h, x); err != nil {
		return err
	}
	dense.SizeTo(mean, len(rows), c)
	dense.SizeTo(cov, len(rows)*c, c)
	for j, i := range rows {
		var m []float64
		if mean != nil {
			m = mean.RawRowView(j)
		}
		block := func(m *mat.Dense, i int) *mat.Dense { return dense.Slice(m, i*c, (i+1)*c) }
		gp.LeaveOneOutFrom(m, block(cov, j), block(h, j), block(d.At.Root, i), nil, d.At.F.RawRowView(i), d.At.Residual.RawRowView(i))
	}
	return nil
}

func (d *Dual) Cross(_ context.Context, x *linearize.Batch) (gp.Cross, error) {
	j := Jacobian(x)
	return &DenseCross{d: d, Left: [2]*mat.Dense{Product(j, d.Sigma), Product(j, d.Prior)}}, nil
}

// DenseCross is the cross-kernel of a Dual. Left holds J_*·Σ for posterior terms and J_*·Σ₀ for raw terms.
type DenseCross struct {
	d    *Dual
	Left [2]*mat.Dense
}

func (c *DenseCross) TileTo(_ context.Context, dst *mat.Dense, first int, train *linearize.Batch, t gp.Terms) error {
	rows, cols := dst.Dims()
	for i := range rows {
		for k := range cols {
			dst.Set(i, k, dense.Dot(c.Left[t].RawRowView(i), c.d.J.RawRowView(first*c.d.Train.Outputs()+k)))
		}
	}
	return nil
}

// RandomMatrix returns r×c standard normal numbers.
func RandomMatrix(rng *rand.Rand, r, c int) *mat.Dense {
	m := mat.NewDense(r, c, nil)
	for i := range m.RawMatrix().Data {
		m.RawMatrix().Data[i] = rng.NormFloat64()
	}
	return m
}

// RandomBatch returns n random examples with c outputs and a Jacobian of p columns.
func RandomBatch(rng *rand.Rand, n, c, p int) *linearize.Batch {
	j := RandomMatrix(rng, n*c, p)
	full := &linearize.Full{J: j, Params: []linearize.Span{{Name: "theta", Rows: 1, Cols: p}}, C: c}
	return &linearize.Batch{X: RandomMatrix(rng, n, 2), F: RandomMatrix(rng, n, c), Blocks: []linearize.Block{full}, P: p}
}

// NewDual returns a posterior over n random examples whose sites are random;
// some are saturated (Λ = 0), and for C > 1 some have rank one.
func NewDual(rng *rand.Rand, n, c, p int) *Dual {
	d := &Dual{Train: RandomBatch(rng, n, c, p), Prior: mat.NewDense(p, p, nil), Delta: make([]float64, p)}
	d.J = Jacobian(d.Train)
	for i := range p {
		d.Prior.Set(i, i, 0.2+rng.Float64())
		d.Delta[i] = 0.3 * rng.NormFloat64()
	}
	d.At = &gp.Sites{F: d.Train.F, Residual: RandomMatrix(rng, n, c), Lambda: mat.NewDense(n*c, c, nil), Root: mat.NewDense(n*c, c, nil)}
	for i := range n {
		root := RandomMatrix(rng, c, c)
		switch {
		case i%7 == 3:
			root.Zero()
		case i%5 == 1:
			root.SetCol(0, make([]float64, c))
		}
		d.At.Root.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense).Copy(root)
		d.At.Lambda.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense).Copy(Product(root, root.T()))
	}
	d.Solve()
	return d
}

// Solve computes Σ, b and α (E5) from the sites.
func (d *Dual) Solve() {
	nc, p := d.J.Dims()
	c := d.Train.Outputs()
	lambda := mat.NewDense(nc, nc, nil)
	for i := 0; i < nc; i += c {
		lambda.Slice(i, i+c, i, i+c).(*mat.Dense).Copy(d.At.Lambda.Slice(i, i+c, 0, c))
	}
	precision := Product(d.J.T(), lambda, d.J)
	for i := range p {
		precision.Set(i, i, precision.At(i, i)+1/d.Prior.At(i, i))
	}
	d.Sigma = new(mat.Dense)
	if err := d.Sigma.Inverse(precision); err != nil {
		panic(err)
	}
	m := make([]float64, nc)
	d.MeanTo(m, d.Train)
	off := mat.NewVecDense(nc, nil)
	off.SubVec(mat.NewVecDense(nc, mat.DenseCopyOf(d.At.F).RawMatrix().Data), mat.NewVecDense(nc, m))
	// b = r + Λ(f − m)
	b := mat.NewVecDense(nc, nil)
	b.MulVec(lambda, off)
	b.AddVec(b, mat.NewVecDense(nc, mat.DenseCopyOf(d.At.Residual).RawMatrix().Data))
	// α = b − ΛCb
	alpha := mat.DenseCopyOf(b)
	alpha.Sub(b, Product(lambda, d.J, d.Sigma, d.J.T(), b))
	d.Pseudo, d.DualVector = b.RawVector().Data, alpha.RawMatrix().Data
}

// AtMode moves the sites to the function values of the posterior mean, with
// Gaussian likelihoods that keep Λ and b: the residual becomes α.
func (d *Dual) AtMode() {
	nc, _ := d.J.Dims()
	m := make([]float64, nc)
	d.MeanTo(m, d.Train)
	f := Product(d.J, d.Sigma, d.J.T(), mat.NewVecDense(nc, d.Pseudo))
	r, c := d.Train.F.Dims()
	d.At.F = mat.NewDense(r, c, nil)
	for i := range nc {
		d.At.F.RawMatrix().Data[i] = f.At(i, 0) + m[i]
	}
	d.At.Residual = mat.NewDense(r, c, append([]float64(nil), d.DualVector...))
}

// RequireNear compares two numbers relative to the larger of want and 1.
func RequireNear(t *testing.T, want, got, tolerance float64, what string, args ...any) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(want-got) > tolerance*math.Max(1, math.Abs(want)) {
		t.Fatalf("%s: got %v, want %v: differs by %g", what, got, want, got-want)
	}
}
