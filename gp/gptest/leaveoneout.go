package gptest

import (
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
)

// leftOut returns the moments of the training examples at these rows without
// themselves.
func (c DualCase) leftOut(t *testing.T, rows []int) *moments {
	t.Helper()
	var m moments
	if err := c.Dual.LeaveOneOutTo(t.Context(), &m.mean, &m.cov, rows, c.gather(t, rows)); err != nil {
		t.Fatalf("LeaveOneOutTo: %v", err)
	}
	return &m
}

func (c DualCase) gather(t *testing.T, rows []int) *linearize.Batch {
	t.Helper()
	b, err := c.Train.Gather(t.Context(), rows)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// allRows returns the rows of all training examples.
func (c DualCase) allRows() []int {
	rows := make([]int, c.Train.Len())
	for i := range rows {
		rows[i] = i
	}
	return rows
}

// leaveOneOut checks that mean_−i = f − cov_−i r and (I − hΛ) cov_−i = h with what PredictTo
// and InfluenceTo say (E17), and cov_−i r = hq for the residual r of q.
func (c DualCase) leaveOneOut(t *testing.T) {
	n, k := c.Train.Len(), c.Train.Outputs()
	m := c.leftOut(t, c.allRows())
	f := new(mat.Dense)
	if err := c.Latent.PredictTo(t.Context(), f, nil, c.Train); err != nil {
		t.Fatalf("PredictTo: %v", err)
	}
	residual := c.residual(f)
	var h, q mat.Dense
	if err := c.Dual.InfluenceTo(t.Context(), &h, &q, c.allRows(), c.Train); err != nil {
		t.Fatalf("InfluenceTo: %v", err)
	}
	prior := mat.NewDense(n*k, k, nil)
	c.Kernel.DiagTo(prior, c.Train)
	for i := range n {
		cov, own := m.cov.Slice(i*k, (i+1)*k, 0, k), h.Slice(i*k, (i+1)*k, 0, k)
		requireCovariance(t, "covariance without the example", cov, c.Tol*largest(prior))
		var mean, step mat.VecDense
		step.MulVec(cov, residual.RowView(i))
		mean.SubVec(f.RowView(i), &step)
		requireWithin(t, "mean without the example against f − cov·r", m.mean.RowView(i), &mean, c.SumTol*math.Max(largest(f), largest(&step)))
		if c.OtherWeights {
			continue
		}
		lambda := c.Dual.Sites().Lambda.Slice(i*k, (i+1)*k, 0, k)
		var left mat.Dense
		left.Product(own, lambda, cov)
		left.Sub(cov, &left)
		requireWithin(t, "(I − hΛ)·cov against h", &left, own, c.SumTol*math.Max(largest(prior), largest(cov)))
		var hq mat.VecDense
		hq.MulVec(own, q.RowView(i))
		requireWithin(t, "h·q of InfluenceTo against cov·r", &hq, &step, c.SumTol*math.Max(largest(f), largest(&step)))
	}
}

// residual returns what steps that leave out an example start from, where f is what
// PredictTo gives at the training examples: the residual of the sites, or α where f
// is a sum over training examples.
func (c DualCase) residual(f *mat.Dense) *mat.Dense {
	if mat.Equal(f, c.Train.F) {
		return c.Dual.Sites().Residual
	}
	n, k := f.Dims()
	return mat.NewDense(n, k, append([]float64(nil), c.Dual.Alpha()...))
}

// leaveOneOutRows checks that some rows have the moments that they have among all, that a nil destination is
// skipped, that a used view is overwritten, and that rows and examples must be equally many.
func (c DualCase) leaveOneOutRows(t *testing.T) {
	n, k := c.Train.Len(), c.Train.Outputs()
	all, few := c.leftOut(t, c.allRows()), []int{0, 2, n - 1}
	some, x := c.leftOut(t, few), c.gather(t, few)
	for j, i := range few {
		c.requireClose(t, "mean of some rows", some.mean.RowView(j), all.mean.RowView(i))
		c.requireClose(t, "covariance of some rows", some.cov.Slice(j*k, (j+1)*k, 0, k), all.cov.Slice(i*k, (i+1)*k, 0, k))
	}
	var mean, cov mat.Dense
	used, usedCov := poisoned(len(few), k), poisoned(len(few)*k, k)
	for _, err := range []error{
		c.Dual.LeaveOneOutTo(t.Context(), &mean, nil, few, x), c.Dual.LeaveOneOutTo(t.Context(), nil, &cov, few, x),
		c.Dual.LeaveOneOutTo(t.Context(), used, usedCov, few, x), c.Dual.LeaveOneOutTo(t.Context(), nil, nil, few, x),
	} {
		if err != nil {
			t.Fatalf("LeaveOneOutTo: %v", err)
		}
	}
	requireEqual(t, "mean alone", &mean, &some.mean)
	requireEqual(t, "covariance alone", &cov, &some.cov)
	requireEqual(t, "mean in a used view", used, &some.mean)
	requireEqual(t, "covariance in a used view", usedCov, &some.cov)
	var none moments
	if err := c.Dual.LeaveOneOutTo(t.Context(), &none.mean, &none.cov, nil, c.Train.Slice(1, 1)); err != nil || !none.mean.IsEmpty() || !none.cov.IsEmpty() {
		t.Errorf("no rows: error %v, mean empty %v, covariance empty %v", err, none.mean.IsEmpty(), none.cov.IsEmpty())
	}
	requirePanic(t, "rows and examples of another number", func() {
		c.Dual.LeaveOneOutTo(t.Context(), new(mat.Dense), new(mat.Dense), few, c.Train)
	})
	requirePanic(t, "a mean of a wrong size", func() { c.Dual.LeaveOneOutTo(t.Context(), mat.NewDense(1, k, nil), nil, few, x) })
	requirePanic(t, "a covariance of a wrong size", func() { c.Dual.LeaveOneOutTo(t.Context(), nil, mat.NewDense(1, k, nil), few, x) })
}

// otherRows checks that no method takes other examples for training examples.
func (c DualCase) otherRows(t *testing.T) {
	if c.Train.X == nil {
		t.Skip("the inputs of the examples are not known")
	}
	n := c.Train.Len()
	rows, x := []int{1, n - 1}, c.gather(t, []int{0, n - 1})
	requirePanic(t, "LeaveOneOutTo of other rows", func() { c.Dual.LeaveOneOutTo(t.Context(), new(mat.Dense), new(mat.Dense), rows, x) })
	requirePanic(t, "InfluenceTo of other rows", func() { c.Dual.InfluenceTo(t.Context(), new(mat.Dense), new(mat.Dense), rows, x) })
	q, err := c.Dual.Cross(t.Context(), c.Test)
	if err != nil {
		t.Fatal(err)
	}
	for _, terms := range []gp.Terms{gp.PosteriorTerms, gp.RawTerms} {
		requirePanic(t, "a tile of other rows", func() { q.TileTo(t.Context(), new(mat.Dense), n-2, x, terms) })
	}
}

func (c DualCase) leaveOneOutProcs(t *testing.T) {
	old := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(old)
	want := c.leftOut(t, c.allRows())
	for _, p := range []int{2, 5} {
		runtime.GOMAXPROCS(p)
		got := c.leftOut(t, c.allRows())
		requireEqual(t, "mean without the example", &got.mean, &want.mean)
		requireEqual(t, "covariance without the example", &got.cov, &want.cov)
	}
}

// concurrentDual checks that goroutines which share the posterior get the bits that a single one gets.
func (c DualCase) concurrentDual(t *testing.T) {
	type answers struct {
		moments
		h, q, cross mat.Dense
	}
	ask := func(a *answers) error {
		rows := c.allRows()
		q, err := c.Dual.Cross(t.Context(), c.Test)
		if err != nil {
			return err
		}
		return errors.Join(c.Dual.LeaveOneOutTo(t.Context(), &a.mean, &a.cov, rows, c.Train), c.Dual.InfluenceTo(t.Context(), &a.h, &a.q, rows, c.Train),
			q.TileTo(t.Context(), &a.cross, 0, c.Train, gp.PosteriorTerms))
	}
	var want answers
	if err := ask(&want); err != nil {
		t.Fatal(err)
	}
	got := make([]answers, 16)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			if err := ask(&got[i]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range got {
		g := &got[i]
		for what, m := range map[string][2]*mat.Dense{"mean without the example": {&g.mean, &want.mean}, "covariance without the example": {&g.cov, &want.cov},
			"h": {&g.h, &want.h}, "q": {&g.q, &want.q}, "cross-kernel": {&g.cross, &want.cross}} {
			requireEqual(t, what, m[0], m[1])
		}
	}
}

// without compares with the posterior that does not know the example.
func (c DualCase) without(t *testing.T) {
	if c.Without == nil {
		t.Skip("the case has no posterior without an example")
	}
	all, k := c.leftOut(t, c.allRows()), c.Train.Outputs()
	for i := range c.Train.Len() {
		got := LatentCase{Latent: c.Without(t, i)}.predict(t, c.Train.Slice(i, i+1))
		c.requireClose(t, "mean against the posterior without the example", all.mean.Slice(i, i+1, 0, k), &got.mean)
		c.requireClose(t, "covariance against the posterior without the example", all.cov.Slice(i*k, (i+1)*k, 0, k), &got.cov)
	}
}
