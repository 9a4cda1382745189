package gptest

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// A ModelCase is a model to be checked.
type ModelCase struct {
	Model linearize.Model
	X     *mat.Dense // N ≥ 4 inputs, N×D
	// Theta is the model's θ*, and At returns the model at other parameters.
	// Both are needed to compare the Jacobian with differences of the outputs.
	Theta []float64
	At    func(theta []float64) (linearize.Model, error)
	// Tol bounds the difference between the Jacobian and difference quotients,
	// relative to the largest entry of the Jacobian. 0 means 1e-6. Inputs at a
	// kink of the model, as a ReLU has one, are to be avoided.
	Tol float64
}

// rowTol bounds the difference between an example by itself and the same
// example among others, relative to the largest number: sums of a few thousand
// terms in any order.
const rowTol = 1e-12

// maxColumns is the number of parameters up to which each of them is moved;
// of more, 40 random directions are taken.
const maxColumns = 200

// Model checks what a linearize.Model promises:
//
//   - Dims agrees with the batches of Linearize, whose blocks name each
//     parameter once;
//   - the Jacobian is the derivative of the outputs in θ, by differences (where
//     the case has Theta and At);
//   - an example has the same outputs and Jacobian by itself as among others;
//   - Slice, Output, MulVecTo, MulTransVecTo and each block's TileTo agree with
//     JacobianTo;
//   - x stays as it is, two calls give the same bits for any GOMAXPROCS, and
//     linearize.NewSource yields what Linearize does;
//   - an input that is NaN, and one of another width, is an error;
//   - the sums of a linearize.CombinedModel are sums of the outputs.
//
// For example
//
//	func TestOscillator(t *testing.T) {
//		x := mat.NewDense(5, 1, []float64{-2, -.5, .1, 1, 3})
//		gptest.Model(t, gptest.ModelCase{
//			Model: oscillator{theta}, X: x, Theta: theta,
//			At: func(theta []float64) (linearize.Model, error) { return oscillator{theta}, nil },
//		})
//	}
func Model(t *testing.T, c ModelCase) {
	t.Helper()
	if c.Tol == 0 {
		c.Tol = 1e-6
	}
	if c.X == nil {
		t.Fatal("the case needs inputs")
	}
	if n, _ := c.X.Dims(); n < 4 {
		t.Fatalf("the case has %d inputs, the suite needs 4", n)
	}
	m := modelCase{ModelCase: c, whole: c.linearize(t, c.X)}
	if !t.Run("Dims", m.dims) {
		return // the Jacobian has no agreed columns
	}
	m.jacobian = jacobianOf(m.whole)
	t.Run("Jacobian", m.differences)
	t.Run("Rows", m.rows)
	t.Run("Views", m.views)
	t.Run("Products", m.products)
	t.Run("InputsUnchanged", m.inputsUnchanged)
	t.Run("GOMAXPROCS", m.procs)
	t.Run("Source", m.source)
	t.Run("BadInput", m.badInput)
	t.Run("Combined", m.combined)
}

type modelCase struct {
	ModelCase
	whole    *linearize.Batch // at all of X
	jacobian *mat.Dense
}

// linearize works on a copy of x, which a broken model may change.
func (c ModelCase) linearize(t *testing.T, x mat.Matrix) *linearize.Batch {
	t.Helper()
	b, err := c.Model.Linearize(t.Context(), mat.DenseCopyOf(x))
	if err != nil {
		t.Fatalf("Linearize: %v", err)
	}
	return b
}

func jacobianOf(b *linearize.Batch) *mat.Dense {
	j := new(mat.Dense)
	b.JacobianTo(j)
	return j
}

// requireBatch compares outputs and Jacobians.
func (c modelCase) requireBatch(t *testing.T, what string, got *linearize.Batch, f, jacobian mat.Matrix) {
	t.Helper()
	requireWithin(t, what+": outputs", got.F, f, rowTol*largest(c.whole.F))
	requireWithin(t, what+": Jacobian", jacobianOf(got), jacobian, rowTol*largest(c.jacobian))
}

func (c modelCase) dims(t *testing.T) {
	d, outputs, p := c.Model.Dims()
	n, width := c.X.Dims()
	if d != width {
		t.Errorf("Dims says %d inputs, X has %d", d, width)
	}
	if got := c.whole; got.Len() != n || got.Outputs() != outputs || got.P != p {
		t.Errorf("the batch has %d examples, %d outputs and %d parameters, want %d, %d and %d", got.Len(), got.Outputs(), got.P, n, outputs, p)
	}
	if x := c.whole.X; x != nil && !mat.Equal(x, c.X) {
		t.Error("X of the batch is not the inputs")
	}
	if c.Theta != nil && len(c.Theta) != p {
		t.Errorf("Theta has %d numbers, Dims says %d parameters", len(c.Theta), p)
	}
	var spans []linearize.Span
	for _, b := range c.whole.Blocks {
		spans = append(spans, b.Spans()...)
	}
	requirePartition(t, spans, p)
	requireFinite(t, "output", mat.DenseCopyOf(c.whole.F).RawMatrix().Data)
	requireFinite(t, "entry of the Jacobian", jacobianOf(c.whole).RawMatrix().Data)
}

// differences compares J v with differences of the outputs at θ* ± h v, for unit vectors v or
// random ones.
func (c modelCase) differences(t *testing.T) {
	if c.At == nil || c.Theta == nil {
		t.Skip("the case has no Theta or no At")
	}
	n, outputs, p := c.whole.Len(), c.whole.Outputs(), c.whole.P
	rng := rand.New(rand.NewPCG(5, 6))
	count := p
	if p > maxColumns {
		count = 40
	}
	for k := range count {
		v := make([]float64, p)
		if p > maxColumns {
			for i := range v {
				v[i] = rng.NormFloat64() / math.Sqrt(float64(p))
			}
		} else {
			v[k] = 1
		}
		var want mat.VecDense
		want.MulVec(c.jacobian, mat.NewVecDense(p, v))
		// The fourth-order central difference of the outputs along v, at a step that balances h⁴ against
		// the rounding of the outputs.
		t.Helper()
		const h = 1e-3
		at := func(step float64) []float64 {
			theta := slices.Clone(c.Theta)
			for i := range theta {
				theta[i] += step * v[i]
			}
			m, err := c.At(theta)
			if err != nil {
				t.Fatalf("At: %v", err)
			}
			b, err := m.Linearize(t.Context(), mat.DenseCopyOf(c.X))
			if err != nil {
				t.Fatalf("Linearize at other parameters: %v", err)
			}
			return mat.DenseCopyOf(b.F).RawMatrix().Data
		}
		plus, minus, plus2, minus2 := at(h), at(-h), at(2*h), at(-2*h)
		for i := range plus {
			plus[i] = (8*(plus[i]-minus[i]) - (plus2[i] - minus2[i])) / (12 * h)
		}
		got := mat.NewVecDense(n*outputs, plus)
		requireWithin(t, "difference quotient of the outputs", got, &want, c.Tol*largest(c.jacobian))
	}
}

// rows: one by one, and in another grouping.
func (c modelCase) rows(t *testing.T) {
	n, d := c.X.Dims()
	outputs := c.whole.Outputs()
	cuts := [][2]int{{0, 3}, {1, n}}
	for i := range n {
		cuts = append(cuts, [2]int{i, i + 1})
	}
	for _, r := range cuts {
		b := c.linearize(t, c.X.Slice(r[0], r[1], 0, d))
		c.requireBatch(t, "some of the inputs alone", b, c.whole.F.Slice(r[0], r[1], 0, outputs), c.rowsOf(r[0], r[1]))
	}
}

func (c modelCase) rowsOf(lo, hi int) mat.Matrix {
	outputs := c.whole.Outputs()
	return c.jacobian.Slice(lo*outputs, hi*outputs, 0, c.whole.P)
}

func (c modelCase) views(t *testing.T) {
	n, outputs := c.whole.Len(), c.whole.Outputs()
	for _, r := range [][2]int{{0, 1}, {1, n}, {n - 1, n}} {
		c.requireBatch(t, "Slice", c.whole.Slice(r[0], r[1]), c.whole.F.Slice(r[0], r[1], 0, outputs), c.rowsOf(r[0], r[1]))
	}
	for o := range outputs {
		want := mat.NewDense(n, c.whole.P, nil)
		for i := range n {
			want.SetRow(i, c.jacobian.RawRowView(i*outputs+o))
		}
		c.requireBatch(t, "Output", c.whole.Output(o), c.whole.F.Slice(0, n, o, o+1), want)
		c.requireBatch(t, "Slice of Output", c.whole.Output(o).Slice(1, n), c.whole.F.Slice(1, n, o, o+1), want.Slice(1, n, 0, c.whole.P))
	}
}

func (c modelCase) products(t *testing.T) {
	rows, p := c.jacobian.Dims()
	v, u := make([]float64, p), make([]float64, rows)
	for i := range v {
		v[i] = math.Sin(float64(i + 1))
	}
	for i := range u {
		u[i] = math.Cos(float64(i + 1))
	}
	got, want := nans(rows), new(mat.VecDense)
	c.whole.MulVecTo(got, v)
	want.MulVec(c.jacobian, mat.NewVecDense(p, v))
	requireWithin(t, "J v", mat.NewVecDense(rows, got), want, rowTol*float64(p)*largest(c.jacobian))
	got, want = nans(p), new(mat.VecDense)
	c.whole.MulTransVecTo(got, u)
	want.MulVec(c.jacobian.T(), mat.NewVecDense(rows, u))
	requireWithin(t, "Jᵀ u", mat.NewVecDense(p, got), want, rowTol*float64(rows)*largest(c.jacobian))
	for _, b := range c.whole.Blocks {
		if linearize.Width(b) == 0 {
			continue
		}
		tile, at := poisoned(rows, linearize.Width(b)), 0
		b.TileTo(tile)
		for _, s := range b.Spans() {
			if s.Len() == 0 {
				continue
			}
			requireWithin(t, "tile of "+s.Name, tile.Slice(0, rows, at, at+s.Len()),
				c.jacobian.Slice(0, rows, s.Offset, s.Offset+s.Len()), rowTol*largest(c.jacobian))
			at += s.Len()
		}
	}
}

func (c modelCase) inputsUnchanged(t *testing.T) {
	x := mat.DenseCopyOf(c.X)
	b, err := c.Model.Linearize(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	jacobianOf(b)
	requireEqual(t, "x", x, c.X)
}

func (c modelCase) procs(t *testing.T) {
	old := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(old)
	for _, p := range []int{old, 1, 3} {
		runtime.GOMAXPROCS(p)
		b := c.linearize(t, c.X)
		requireEqual(t, "outputs", b.F, c.whole.F)
		requireEqual(t, "Jacobian", jacobianOf(b), c.jacobian)
	}
}

func (c modelCase) source(t *testing.T) {
	n, d := c.X.Dims()
	src := linearize.NewSource(c.Model, n, 3, func(lo, hi int) (*mat.Dense, error) {
		return mat.DenseCopyOf(c.X.Slice(lo, hi, 0, d)), nil
	})
	seen := 0
	err := src.Batches(t.Context(), func(first int, b *linearize.Batch) error {
		lo, hi := first, first+b.Len()
		c.requireBatch(t, "a source's batch", b, c.whole.F.Slice(lo, hi, 0, c.whole.Outputs()), c.rowsOf(lo, hi))
		seen += b.Len()
		return nil
	})
	if err != nil || seen != n {
		t.Errorf("a source gave %d of %d examples, error %v", seen, n, err)
	}
}

func (c modelCase) badInput(t *testing.T) {
	n, d := c.X.Dims()
	bad := mat.DenseCopyOf(c.X)
	bad.Set(n/2, d-1, math.NaN())
	if _, err := c.Model.Linearize(t.Context(), bad); err == nil {
		t.Error("an input that is NaN gives no error")
	}
	if _, err := c.Model.Linearize(t.Context(), mat.NewDense(2, d+1, nil)); err == nil {
		t.Error("inputs of another width give no error")
	}
}

// combined: two random sums of the outputs of each example.
func (c modelCase) combined(t *testing.T) {
	m, ok := c.Model.(linearize.CombinedModel)
	if !ok {
		t.Skip("the model has no LinearizeCombined")
	}
	const k = 2
	n, outputs, p := c.whole.Len(), c.whole.Outputs(), c.whole.P
	rng := rand.New(rand.NewPCG(7, 8))
	w := mat.NewDense(n*k, outputs, nil)
	w.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, w)
	got, err := m.LinearizeCombined(t.Context(), c.X, w)
	if err != nil {
		t.Fatalf("LinearizeCombined: %v", err)
	}
	f, j := mat.NewDense(n, k, nil), mat.NewDense(n*k, p, nil)
	for i := range n {
		of := w.Slice(i*k, (i+1)*k, 0, outputs)
		f.Slice(i, i+1, 0, k).(*mat.Dense).Mul(c.whole.F.Slice(i, i+1, 0, outputs), of.T())
		j.Slice(i*k, (i+1)*k, 0, p).(*mat.Dense).Mul(of, c.rowsOf(i, i+1))
	}
	requireWithin(t, "sums of outputs", got.F, f, rowTol*largest(w)*float64(outputs)*largest(c.whole.F))
	requireWithin(t, "Jacobian of sums of outputs", jacobianOf(got), j, rowTol*largest(w)*float64(outputs)*largest(c.jacobian))
}
