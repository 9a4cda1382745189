package explain

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// dense is a Dual by weight-space formulas with every matrix written out. Its
// tiles do not depend on how the training data is cut.
type denseDual struct {
	train  *linearize.Batch
	s      *gp.Sites
	chunk  int        // examples a batch of Data; 0 for all
	j      *mat.Dense // N·C×P
	prior  *mat.Dense // Σ₀
	delta  []float64  // μ₀ − θ*
	sigma  *mat.Dense // (Σ₀⁻¹ + JᵀΛJ)⁻¹
	alpha  []float64
	pseudo []float64
}

var _ gp.Dual = (*denseDual)(nil)

func (d *denseDual) Sites() *gp.Sites         { return d.s }
func (d *denseDual) Alpha() []float64         { return d.alpha }
func (d *denseDual) PseudoTargets() []float64 { return d.pseudo }
func (d *denseDual) Data() linearize.Source   { return chunked{d.train, d.chunk} }

func jacobian(b *linearize.Batch) *mat.Dense {
	var j mat.Dense
	b.JacobianTo(&j)
	return &j
}

func product(m ...mat.Matrix) *mat.Dense {
	p := mat.DenseCopyOf(m[0])
	for _, f := range m[1:] {
		var q mat.Dense
		q.Mul(p, f)
		p = &q
	}
	return p
}

func (d *denseDual) MeanTo(dst []float64, b *linearize.Batch) {
	b.MulVecTo(dst, d.delta)
	for i, f := range mat.DenseCopyOf(b.F).RawMatrix().Data {
		dst[i] += f
	}
}

func (d *denseDual) PredictTo(mean, cov *mat.Dense, x *linearize.Batch) error {
	if mean != nil {
		panic("not used by explain")
	}
	j, c := jacobian(x), x.Outputs()
	all := product(j, d.sigma, j.T())
	for t := range x.Len() {
		cov.Slice(t*c, (t+1)*c, 0, c).(*mat.Dense).Copy(all.Slice(t*c, (t+1)*c, t*c, (t+1)*c))
	}
	return nil
}

func (d *denseDual) JointTo(mean, cov *mat.Dense, x *linearize.Batch) error {
	panic("not used by explain")
}

func (d *denseDual) Cross(x *linearize.Batch) (gp.Cross, error) {
	j := jacobian(x)
	return &denseCross{d: d, left: [2]*mat.Dense{product(j, d.sigma), product(j, d.prior)}}, nil
}

type denseCross struct {
	d    *denseDual
	left [2]*mat.Dense
}

func (c *denseCross) TileTo(dst *mat.Dense, first int, train *linearize.Batch, t gp.Terms) error {
	rows, cols := dst.Dims()
	for i := range rows {
		for k := range cols {
			dst.Set(i, k, dense.Dot(c.left[t].RawRowView(i), c.d.j.RawRowView(first*c.d.train.Outputs()+k)))
		}
	}
	return nil
}

// chunked yields a batch in pieces.
type chunked struct {
	b    *linearize.Batch
	size int
}

func (c chunked) Len() int { return c.b.Len() }

func (c chunked) Batches(ctx context.Context, yield func(int, *linearize.Batch) error) error {
	if c.size == 0 {
		return yield(0, c.b)
	}
	for i := 0; i < c.b.Len(); i += c.size {
		if err := yield(i, c.b.Slice(i, min(i+c.size, c.b.Len()))); err != nil {
			return err
		}
	}
	return nil
}

func randomMatrix(rng *rand.Rand, r, c int) *mat.Dense {
	m := mat.NewDense(r, c, nil)
	for i := range m.RawMatrix().Data {
		m.RawMatrix().Data[i] = rng.NormFloat64()
	}
	return m
}

func randomBatch(rng *rand.Rand, n, c, p int) *linearize.Batch {
	j := randomMatrix(rng, n*c, p)
	full := &linearize.Full{J: j, Params: []linearize.Span{{Name: "theta", Rows: 1, Cols: p}}, C: c}
	return &linearize.Batch{X: randomMatrix(rng, n, 2), F: randomMatrix(rng, n, c), Blocks: []linearize.Block{full}, P: p}
}

// newDense returns a posterior over n random examples whose sites are random;
// some are saturated (Λ = 0), and for C > 1 some have rank one.
func newDense(rng *rand.Rand, n, c, p int) *denseDual {
	d := &denseDual{train: randomBatch(rng, n, c, p), prior: mat.NewDense(p, p, nil), delta: make([]float64, p)}
	d.j = jacobian(d.train)
	for i := range p {
		d.prior.Set(i, i, 0.2+rng.Float64())
		d.delta[i] = 0.3 * rng.NormFloat64()
	}
	d.s = &gp.Sites{F: d.train.F, Residual: randomMatrix(rng, n, c), Lambda: mat.NewDense(n*c, c, nil), Root: mat.NewDense(n*c, c, nil)}
	for i := range n {
		root := randomMatrix(rng, c, c)
		switch {
		case i%7 == 3:
			root.Zero()
		case i%5 == 1:
			root.SetCol(0, make([]float64, c))
		}
		d.s.Root.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense).Copy(root)
		d.s.Lambda.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense).Copy(product(root, root.T()))
	}
	d.solve()
	return d
}

// solve computes Σ, b and α (E5) from the sites.
func (d *denseDual) solve() {
	nc, p := d.j.Dims()
	c := d.train.Outputs()
	lambda := mat.NewDense(nc, nc, nil)
	for i := 0; i < nc; i += c {
		lambda.Slice(i, i+c, i, i+c).(*mat.Dense).Copy(d.s.Lambda.Slice(i, i+c, 0, c))
	}
	precision := product(d.j.T(), lambda, d.j)
	for i := range p {
		precision.Set(i, i, precision.At(i, i)+1/d.prior.At(i, i))
	}
	d.sigma = new(mat.Dense)
	if err := d.sigma.Inverse(precision); err != nil {
		panic(err)
	}
	m := make([]float64, nc)
	d.MeanTo(m, d.train)
	off := mat.NewVecDense(nc, nil)
	off.SubVec(mat.NewVecDense(nc, mat.DenseCopyOf(d.s.F).RawMatrix().Data), mat.NewVecDense(nc, m))
	// b = r + Λ(f − m)
	b := mat.NewVecDense(nc, nil)
	b.MulVec(lambda, off)
	b.AddVec(b, mat.NewVecDense(nc, mat.DenseCopyOf(d.s.Residual).RawMatrix().Data))
	// α = b − ΛCb
	alpha := mat.DenseCopyOf(b)
	alpha.Sub(b, product(lambda, d.j, d.sigma, d.j.T(), b))
	d.pseudo, d.alpha = b.RawVector().Data, alpha.RawMatrix().Data
}

// atMode moves the sites to the function values of the posterior mean, with
// Gaussian likelihoods that keep Λ and b: the residual becomes α.
func (d *denseDual) atMode() {
	nc, _ := d.j.Dims()
	m := make([]float64, nc)
	d.MeanTo(m, d.train)
	f := product(d.j, d.sigma, d.j.T(), mat.NewVecDense(nc, d.pseudo))
	r, c := d.train.F.Dims()
	d.s.F = mat.NewDense(r, c, nil)
	for i := range nc {
		d.s.F.RawMatrix().Data[i] = f.At(i, 0) + m[i]
	}
	d.s.Residual = mat.NewDense(r, c, append([]float64(nil), d.alpha...))
}

// sizes are the problems every test here runs on: more examples than
// parameters and fewer, one output and several.
var sizes = []struct{ n, c, p int }{{9, 1, 5}, {25, 1, 60}, {12, 3, 20}, {20, 2, 90}}

func explainers(t *testing.T, o Options, test func(t *testing.T, d *denseDual, e *Explainer, x *linearize.Batch)) {
	for seed, size := range sizes {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		d := newDense(rng, size.n, size.c, size.p)
		x := randomBatch(rng, 4, size.c, size.p)
		e, err := New(d, d, &o)
		require.NoError(t, err)
		test(t, d, e, x)
	}
}

func requireNear(t *testing.T, want, got, tolerance float64, what string, args ...any) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(want-got) > tolerance*math.Max(1, math.Abs(want)) {
		t.Fatalf("%s: got %v, want %v: differs by %g", what, got, want, got-want)
	}
}
