package gptest

import (
	"context"
	"math"
	"runtime"
	"sync"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A LatentCase is a posterior to be checked.
type LatentCase struct {
	Latent gp.Latent
	Kernel ntk.Kernel       // the prior that the posterior was built from
	Test   *linearize.Batch // T ≥ 4 examples
	// Tol bounds differences between two ways to the same number, relative to
	// the largest prior covariance or mean of the numbers compared: that is
	// what posterior covariances are differences of.
	Tol float64
	// AnyGraph accepts batches of other graphs with the same parameters, as a posterior over parameters does.
	AnyGraph bool
}

// Latent checks what every gp.Latent promises: destinations of any content
// and stride, sizes, a panic on examples of another model, nil destinations, agreement of slices with the whole and
// of marginals with the joint, symmetry, positive semidefiniteness, inputs
// unchanged, bit-identical results for any GOMAXPROCS and in concurrent calls,
// and context.Canceled from a cancelled context.
//
//	func TestMine(t *testing.T) {
//		kernel, train, test := problem(t) // any that Mine can be fitted to
//		post := fitMine(t, kernel, train)
//		gptest.Latent(t, gptest.LatentCase{Latent: post, Kernel: kernel, Test: test, Tol: 1e-10})
//	}
func Latent(t *testing.T, c LatentCase) {
	t.Run("Destinations", c.destinations)
	t.Run("WrongSize", c.wrongSize)
	t.Run("OtherModel", c.otherModel)
	t.Run("Nil", c.nilSkips)
	t.Run("Empty", c.empty)
	t.Run("Slices", c.slices)
	t.Run("Joint", c.joint)
	t.Run("Symmetric", c.symmetric)
	t.Run("InputsUnchanged", c.inputsUnchanged)
	t.Run("GOMAXPROCS", c.procs)
	t.Run("Concurrent", c.concurrent)
	t.Run("Cancelled", c.cancelled)
}

// A DualCase is a posterior of which also the sums over training examples are
// checked.
type DualCase struct {
	LatentCase
	Dual  gp.Dual
	Train *linearize.Batch // all examples of Data
	// SumTol bounds the difference of the two sums (E12), (E14), relative to
	// the largest sum.
	SumTol float64
	// OtherWeights says that the posterior gives training examples other weights
	// than the Λ of its sites, so that q of InfluenceTo is not compared with these.
	OtherWeights bool
	// Without, if not nil, returns the posterior of all training examples except
	// the one at this row, with the same sites for the others. The moments of
	// LeaveOneOutTo are compared with its predictions, which are the same where the
	// mean of Dual is a sum over training examples and does not come from a refit
	// of a likelihood other than the Gaussian.
	Without func(t *testing.T, row int) gp.Latent
}

// Dual checks Latent and that cross-kernels agree with the kernel, with the
// joint posterior and with any split into tiles, that the posterior terms and
// the raw terms have the same sum, that the influence of training examples is
// that of their cross-kernel with themselves, that the moments without an example
// follow from it (E17) and are bit-identical for any GOMAXPROCS and in concurrent calls, that other rows
// in the place of training examples panic where their inputs are known, and that a
// cancelled context gives context.Canceled. A gp.TrainingSet notices other rows.
//
//	func TestMine(t *testing.T) {
//		kernel, train, test := problem(t)
//		gptest.Dual(t, gptest.DualCase{
//			LatentCase: gptest.LatentCase{Kernel: kernel, Test: test, Tol: 1e-10},
//			Dual:       fitMine(t, kernel, train), Train: train, SumTol: 1e-9,
//		})
//	}
func Dual(t *testing.T, c DualCase) {
	c.Latent = c.Dual
	Latent(t, c.LatentCase)
	t.Run("Lengths", c.lengths)
	t.Run("Raw", c.raw)
	t.Run("Tiles", c.tiles)
	t.Run("CrossIsJoint", c.crossIsJoint)
	t.Run("SumsAgree", c.sumsAgree)
	t.Run("Influence", c.influence)
	t.Run("LeaveOneOut", c.leaveOneOut)
	t.Run("LeaveOneOutRows", c.leaveOneOutRows)
	t.Run("OtherRows", c.otherRows)
	t.Run("LeaveOneOutGOMAXPROCS", c.leaveOneOutProcs)
	t.Run("ConcurrentDual", c.concurrentDual)
	t.Run("Without", c.without)
	t.Run("CancelledDual", c.cancelledDual)
}

type moments struct{ mean, cov mat.Dense }

func (c LatentCase) predict(t *testing.T, x *linearize.Batch) *moments {
	t.Helper()
	var m moments
	if err := c.Latent.PredictTo(t.Context(), &m.mean, &m.cov, x); err != nil {
		t.Fatalf("PredictTo: %v", err)
	}
	return &m
}

func (c LatentCase) jointly(t *testing.T, x *linearize.Batch) *moments {
	t.Helper()
	var m moments
	if err := c.Latent.JointTo(t.Context(), &m.mean, &m.cov, x); err != nil {
		t.Fatalf("JointTo: %v", err)
	}
	return &m
}

// destinations checks that results overwrite matrices full of NaN and views with a stride.
func (c LatentCase) destinations(t *testing.T) {
	want, joint := c.predict(t, c.Test), c.jointly(t, c.Test)
	n, k := c.Test.Len(), c.Test.Outputs()
	mean, cov := poisoned(n, k), poisoned(n*k, k)
	if err := c.Latent.PredictTo(t.Context(), mean, cov, c.Test); err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "mean in a used view", mean, &want.mean)
	requireEqual(t, "covariance in a used view", cov, &want.cov)
	mean, cov = poisoned(n, k), poisoned(n*k, n*k)
	if err := c.Latent.JointTo(t.Context(), mean, cov, c.Test); err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "joint mean in a used view", mean, &joint.mean)
	requireEqual(t, "joint covariance in a used view", cov, &joint.cov)
}

func (c LatentCase) wrongSize(t *testing.T) {
	n, k := c.Test.Len(), c.Test.Outputs()
	for name, call := range map[string]func(){
		"mean":             func() { c.Latent.PredictTo(t.Context(), mat.NewDense(n+1, k, nil), nil, c.Test) },
		"covariance":       func() { c.Latent.PredictTo(t.Context(), nil, mat.NewDense(n*k, k+1, nil), c.Test) },
		"joint mean":       func() { c.Latent.JointTo(t.Context(), mat.NewDense(n, k+1, nil), nil, c.Test) },
		"joint covariance": func() { c.Latent.JointTo(t.Context(), nil, mat.NewDense(n*k+1, n*k, nil), c.Test) },
	} {
		requirePanic(t, name, call)
	}
	if k > 1 && !c.AnyGraph { // a posterior over parameters is one of any of their functions
		one := c.Test.Output(0)
		requirePanic(t, "inputs of one output", func() { c.Latent.PredictTo(t.Context(), new(mat.Dense), new(mat.Dense), one) })
		requirePanic(t, "joint inputs of one output", func() { c.Latent.JointTo(t.Context(), new(mat.Dense), new(mat.Dense), one) })
	}
}

// otherModel checks that examples at other parameters or of another graph are refused, where these are known.
func (c LatentCase) otherModel(t *testing.T) {
	if c.Test.Model == (linearize.ModelFingerprint{}) {
		t.Skip("the model of the examples is not known")
	}
	parameters, graph := *c.Test, *c.Test
	parameters.Model.Parameters[0]++
	graph.Model.Graph[0]++
	for what, x := range map[string]*linearize.Batch{"other parameters": &parameters, "another graph": &graph} {
		if x == &graph && c.AnyGraph {
			continue
		}
		requirePanic(t, "PredictTo of the mean with "+what, func() { c.Latent.PredictTo(t.Context(), new(mat.Dense), nil, x) })
		requirePanic(t, "PredictTo of the covariance with "+what, func() { c.Latent.PredictTo(t.Context(), nil, new(mat.Dense), x) })
		requirePanic(t, "JointTo with "+what, func() { c.Latent.JointTo(t.Context(), new(mat.Dense), new(mat.Dense), x) })
	}
}

func (c LatentCase) nilSkips(t *testing.T) {
	want, joint := c.predict(t, c.Test), c.jointly(t, c.Test)
	var mean, cov, jmean, jcov mat.Dense
	for _, err := range []error{
		c.Latent.PredictTo(t.Context(), &mean, nil, c.Test), c.Latent.PredictTo(t.Context(), nil, &cov, c.Test),
		c.Latent.JointTo(t.Context(), &jmean, nil, c.Test), c.Latent.JointTo(t.Context(), nil, &jcov, c.Test),
		c.Latent.PredictTo(t.Context(), nil, nil, c.Test), c.Latent.JointTo(t.Context(), nil, nil, c.Test),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	requireEqual(t, "mean alone", &mean, &want.mean)
	requireEqual(t, "covariance alone", &cov, &want.cov)
	requireEqual(t, "joint mean alone", &jmean, &joint.mean)
	requireEqual(t, "joint covariance alone", &jcov, &joint.cov)
}

func (c LatentCase) empty(t *testing.T) {
	var mean, cov mat.Dense
	if err := c.Latent.PredictTo(t.Context(), &mean, &cov, c.Test.Slice(1, 1)); err != nil || !mean.IsEmpty() || !cov.IsEmpty() {
		t.Errorf("no examples: error %v, mean empty %v, covariance empty %v", err, mean.IsEmpty(), cov.IsEmpty())
	}
	if err := c.Latent.JointTo(t.Context(), &mean, &cov, c.Test.Slice(1, 1)); err != nil || !mean.IsEmpty() || !cov.IsEmpty() {
		t.Errorf("no examples jointly: error %v, mean empty %v, covariance empty %v", err, mean.IsEmpty(), cov.IsEmpty())
	}
}

func (c LatentCase) slices(t *testing.T) {
	n, k := c.Test.Len(), c.Test.Outputs()
	want := c.predict(t, c.Test)
	for _, r := range [][2]int{{0, 1}, {1, n}, {n - 1, n}, {1, 3}} {
		got := c.predict(t, c.Test.Slice(r[0], r[1]))
		c.requireClose(t, "mean of a slice", &got.mean, want.mean.Slice(r[0], r[1], 0, k))
		c.requireClose(t, "covariance of a slice", &got.cov, want.cov.Slice(r[0]*k, r[1]*k, 0, k))
	}
}

func (c LatentCase) joint(t *testing.T) {
	n, k := c.Test.Len(), c.Test.Outputs()
	want, got := c.predict(t, c.Test), c.jointly(t, c.Test)
	c.requireClose(t, "joint mean", &got.mean, &want.mean)
	for i := range n {
		at := i * k
		c.requireClose(t, "diagonal block of the joint covariance",
			got.cov.Slice(at, at+k, at, at+k), want.cov.Slice(at, at+k, 0, k))
	}
}

func (c LatentCase) symmetric(t *testing.T) {
	n, k := c.Test.Len(), c.Test.Outputs()
	joint, marginal := c.jointly(t, c.Test), c.predict(t, c.Test)
	requireCovariance(t, "joint covariance", &joint.cov, c.Tol*c.scale())
	for i := range n {
		requireCovariance(t, "covariance", marginal.cov.Slice(i*k, (i+1)*k, 0, k), c.Tol*c.scale())
	}
}

func (c LatentCase) inputsUnchanged(t *testing.T) {
	before := snapshot(c.Test)
	c.predict(t, c.Test)
	c.jointly(t, c.Test)
	requireEqual(t, "inputs", snapshot(c.Test), before)
}

func (c LatentCase) procs(t *testing.T) {
	old := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(old)
	want, joint := c.predict(t, c.Test), c.jointly(t, c.Test)
	for _, p := range []int{2, 5} {
		runtime.GOMAXPROCS(p)
		got, gotJoint := c.predict(t, c.Test), c.jointly(t, c.Test)
		requireEqual(t, "mean", &got.mean, &want.mean)
		requireEqual(t, "covariance", &got.cov, &want.cov)
		requireEqual(t, "joint mean", &gotJoint.mean, &joint.mean)
		requireEqual(t, "joint covariance", &gotJoint.cov, &joint.cov)
	}
}

func (c LatentCase) concurrent(t *testing.T) {
	want := c.predict(t, c.Test)
	var wg sync.WaitGroup
	got := make([]moments, 16)
	for i := range got {
		wg.Go(func() {
			if err := c.Latent.PredictTo(t.Context(), &got[i].mean, &got[i].cov, c.Test); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range got {
		requireEqual(t, "mean", &got[i].mean, &want.mean)
		requireEqual(t, "covariance", &got[i].cov, &want.cov)
	}
}

func (c DualCase) lengths(t *testing.T) {
	n, k := c.Train.Len(), c.Train.Outputs()
	if got := c.Dual.Data().Len(); got != n {
		t.Errorf("Data has %d examples, want %d", got, n)
	}
	seen := 0
	err := c.Dual.Data().Batches(context.Background(), func(first int, b *linearize.Batch) error {
		if first != seen {
			t.Errorf("a batch starts at %d, want %d", first, seen)
		}
		seen += b.Len()
		return nil
	})
	if err != nil || seen != n {
		t.Errorf("Data yielded %d examples, want %d; error %v", seen, n, err)
	}
	if len(c.Dual.Alpha()) != n*k || len(c.Dual.PseudoTargets()) != n*k {
		t.Errorf("dual vectors have lengths %d and %d, want %d", len(c.Dual.Alpha()), len(c.Dual.PseudoTargets()), n*k)
	}
	s := c.Dual.Sites()
	for _, m := range []struct {
		what       string
		m          *mat.Dense
		rows, cols int
	}{{"F", s.F, n, k}, {"Residual", s.Residual, n, k}, {"Lambda", s.Lambda, n * k, k}, {"Root", s.Root, n * k, k}} {
		if r, cols := m.m.Dims(); r != m.rows || cols != m.cols {
			t.Errorf("sites' %s is %d×%d, want %d×%d", m.what, r, cols, m.rows, m.cols)
		}
	}
}

// crossOf returns all columns, by tiles of the given number of examples.
func (c DualCase) crossOf(t *testing.T, x *linearize.Batch, size int, terms gp.Terms) *mat.Dense {
	t.Helper()
	q, err := c.Dual.Cross(t.Context(), x)
	if err != nil {
		t.Fatalf("Cross: %v", err)
	}
	n, k := c.Train.Len(), c.Train.Outputs()
	rows := x.Len() * k
	out := mat.NewDense(rows, n*k, nil)
	for lo := 0; lo < n; lo += size {
		hi := min(lo+size, n)
		tile := poisoned(rows, (hi-lo)*k)
		if err := q.TileTo(t.Context(), tile, lo, c.Train.Slice(lo, hi), terms); err != nil {
			t.Fatalf("TileTo: %v", err)
		}
		out.Slice(0, rows, lo*k, hi*k).(*mat.Dense).Copy(tile)
	}
	return out
}

func (c DualCase) raw(t *testing.T) {
	n, k := c.Train.Len(), c.Train.Outputs()
	want := mat.NewDense(c.Test.Len()*k, n*k, nil)
	c.Kernel.BlockTo(want, c.Test, c.Train)
	c.requireClose(t, "raw cross-kernel", c.crossOf(t, c.Test, n, gp.RawTerms), want)
}

func (c DualCase) tiles(t *testing.T) {
	n := c.Train.Len()
	for _, terms := range []gp.Terms{gp.PosteriorTerms, gp.RawTerms} {
		want := c.crossOf(t, c.Test, n, terms)
		for _, size := range []int{1, 3, n - 1} {
			c.requireClose(t, "cross-kernel in tiles", c.crossOf(t, c.Test, size, terms), want)
		}
		one := c.crossOf(t, c.Test.Slice(2, 3), n, terms)
		k := c.Test.Outputs()
		c.requireClose(t, "cross-kernel of one row", one, want.Slice(2*k, 3*k, 0, n*k))
	}
	q, err := c.Dual.Cross(t.Context(), c.Test)
	if err != nil {
		t.Fatal(err)
	}
	requirePanic(t, "a tile of a wrong size", func() { q.TileTo(t.Context(), mat.NewDense(1, 1, nil), 0, c.Train.Slice(0, 2), gp.PosteriorTerms) })
	requirePanic(t, "a tile past the end", func() { q.TileTo(t.Context(), new(mat.Dense), n-1, c.Train.Slice(0, 2), gp.PosteriorTerms) })
}

func (c DualCase) crossIsJoint(t *testing.T) {
	n, k := c.Train.Len(), c.Train.Outputs()
	joint := c.jointly(t, c.Train)
	lo, hi := 1, min(n, 5)
	got := c.crossOf(t, c.Train.Slice(lo, hi), n, gp.PosteriorTerms)
	prior := mat.NewDense(n*k, k, nil)
	c.Kernel.DiagTo(prior, c.Train)
	requireWithin(t, "C(x, train) against the joint covariance", got, joint.cov.Slice(lo*k, hi*k, 0, n*k), c.Tol*largest(prior))
}

// sumsAgree checks that K_*n α and C_*n b are the prediction less the prior mean (E12, E14).
func (c DualCase) sumsAgree(t *testing.T) {
	n := c.Train.Len()
	var raw, post mat.VecDense
	raw.MulVec(c.crossOf(t, c.Test, n, gp.RawTerms), mat.NewVecDense(len(c.Dual.Alpha()), c.Dual.Alpha()))
	post.MulVec(c.crossOf(t, c.Test, n, gp.PosteriorTerms), mat.NewVecDense(len(c.Dual.PseudoTargets()), c.Dual.PseudoTargets()))
	requireWithin(t, "Σ C b against Σ κ α", &post, &raw, c.SumTol*largest(&raw))
}

// influence: h is C(x_i,x_i), q solves (I − Λ_i h_i) q = r_i, and both are the
// same for any choice of rows.
func (c DualCase) influence(t *testing.T) {
	n, k := c.Train.Len(), c.Train.Outputs()
	h, q := poisoned(n*k, k), poisoned(n, k)
	if err := c.Dual.InfluenceTo(t.Context(), h, q, c.allRows(), c.Train); err != nil {
		t.Fatalf("InfluenceTo: %v", err)
	}
	prior := mat.NewDense(n*k, k, nil)
	c.Kernel.DiagTo(prior, c.Train)
	cross, s := c.crossOf(t, c.Train, n, gp.PosteriorTerms), c.Dual.Sites()
	f := new(mat.Dense)
	if err := c.Latent.PredictTo(t.Context(), f, nil, c.Train); err != nil {
		t.Fatalf("PredictTo: %v", err)
	}
	residual := c.residual(f)
	for i := range n {
		lo, hi := i*k, (i+1)*k
		own := h.Slice(lo, hi, 0, k)
		requireWithin(t, "h against C(x_i, x_i)", own, cross.Slice(lo, hi, lo, hi), c.Tol*largest(prior))
		if c.OtherWeights {
			continue
		}
		var left, hq mat.VecDense
		row := mat.NewVecDense(k, mat.Row(nil, i, q))
		hq.MulVec(own, row)
		left.MulVec(s.Lambda.Slice(lo, hi, 0, k), &hq)
		left.SubVec(row, &left)
		requireWithin(t, "(I − Λh)q against r", &left, residual.RowView(i), c.SumTol*math.Max(1, largest(row)))
	}
	few := []int{1, n - 1}
	some := c.gather(t, few)
	var h2, q2 mat.Dense
	if err := c.Dual.InfluenceTo(t.Context(), &h2, &q2, few, some); err != nil {
		t.Fatalf("InfluenceTo: %v", err)
	}
	for j, i := range few {
		requireWithin(t, "h of some rows", h2.Slice(j*k, (j+1)*k, 0, k), h.Slice(i*k, (i+1)*k, 0, k), c.Tol*largest(prior))
		requireWithin(t, "q of some rows", q2.RowView(j), q.RowView(i), c.SumTol*math.Max(1, largest(q)))
	}
	requirePanic(t, "rows and examples of another number", func() {
		c.Dual.InfluenceTo(t.Context(), new(mat.Dense), new(mat.Dense), few, c.Train)
	})
}

// requireClose compares relative to the largest entry of want and of the
// prior covariance of the test examples.
func (c LatentCase) requireClose(t *testing.T, what string, got, want mat.Matrix) {
	t.Helper()
	requireWithin(t, what, got, want, c.Tol*math.Max(c.scale(), largest(want)))
}

// scale returns the largest prior covariance of one test example's outputs.
func (c LatentCase) scale() float64 {
	prior := mat.NewDense(c.Test.Len()*c.Test.Outputs(), c.Test.Outputs(), nil)
	c.Kernel.DiagTo(prior, c.Test)
	return largest(prior)
}

// requireCovariance fails where cov is not symmetric or has an eigenvalue
// below −tol.
func requireCovariance(t *testing.T, what string, cov mat.Matrix, tol float64) {
	t.Helper()
	n, _ := cov.Dims()
	sym := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			if cov.At(i, j) != cov.At(j, i) {
				t.Fatalf("%s is not symmetric at (%d, %d): %v and %v", what, i, j, cov.At(i, j), cov.At(j, i))
			}
			sym.SetSym(i, j, cov.At(i, j))
		}
	}
	var eig mat.EigenSym
	if !eig.Factorize(sym, false) {
		t.Fatalf("%s has no eigenvalues", what)
	}
	if v := eig.Values(nil)[0]; v < -tol {
		t.Fatalf("%s has the eigenvalue %v, tolerance %v", what, v, tol)
	}
}

// requireWithin fails where an entry differs by more than tol.
func requireWithin(t *testing.T, what string, got, want mat.Matrix, tol float64) {
	t.Helper()
	r, c := want.Dims()
	if gr, gc := got.Dims(); gr != r || gc != c {
		t.Fatalf("%s is %d×%d, want %d×%d", what, gr, gc, r, c)
	}
	for i := range r {
		for j := range c {
			if d := math.Abs(got.At(i, j) - want.At(i, j)); !(d <= tol) {
				t.Fatalf("%s: entry (%d, %d) is %v, want %v; off by %.3g, tolerance %.3g", what, i, j, got.At(i, j), want.At(i, j), d, tol)
			}
		}
	}
}

// requireEqual compares bit for bit.
func requireEqual(t *testing.T, what string, got, want mat.Matrix) {
	t.Helper()
	requireWithin(t, what, got, want, 0)
}

func requirePanic(t *testing.T, what string, call func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	call()
}

// poisoned returns an r×c view into a larger matrix, full of NaN.
func poisoned(r, c int) *mat.Dense {
	m := mat.NewDense(r, c+3, nil)
	for i := range r {
		for j := range c + 3 {
			m.Set(i, j, math.NaN())
		}
	}
	return m.Slice(0, r, 1, c+1).(*mat.Dense)
}

func largest(m mat.Matrix) float64 {
	r, c := m.Dims()
	v := 0.0
	for i := range r {
		for j := range c {
			v = math.Max(v, math.Abs(m.At(i, j)))
		}
	}
	return v
}

// snapshot copies what a batch says: F and J side by side, stacked.
func snapshot(b *linearize.Batch) *mat.Dense {
	n, c := b.Len(), b.Outputs()
	var j mat.Dense
	b.JacobianTo(&j)
	out := mat.NewDense(n*c, b.P+1, nil)
	for i := range n * c {
		copy(out.RawRowView(i), j.RawRowView(i))
		out.Set(i, b.P, b.F.At(i/c, i%c))
	}
	return out
}
