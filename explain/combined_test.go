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
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// combining is dense with a Cross that takes sums of outputs.
type combining struct {
	*testkit.Dual
	data linearize.Source // nil: that of dense
}

func (d combining) Data() linearize.Source {
	if d.data != nil {
		return d.data
	}
	return d.Dual.Data()
}

func (d combining) Cross(ctx context.Context, x *linearize.Batch) (gp.Cross, error) {
	q, err := d.Dual.Cross(ctx, x)
	return combiningCross{q.(*testkit.DenseCross)}, err
}

type combiningCross struct{ *testkit.DenseCross }

func (c combiningCross) CombinedTo(_ context.Context, dst *mat.Dense, train *linearize.Batch, t gp.Terms) error {
	j := testkit.Jacobian(train)
	rows, _ := c.Left[t].Dims()
	cols, _ := j.Dims()
	if dst.IsEmpty() {
		dst.ReuseAs(rows, cols)
	}
	for i := range rows {
		for k := range cols {
			dst.Set(i, k, dense.Dot(c.Left[t].RawRowView(i), j.RawRowView(k)))
		}
	}
	return nil
}

func (c combiningCross) TileTo(context.Context, *mat.Dense, int, *linearize.Batch, gp.Terms) error {
	panic("sums of outputs were to be used")
}

// gathering is a source that gives single examples and counts them.
type gathering struct {
	testkit.Chunked
	gathered *int
}

func (g gathering) Gather(ctx context.Context, rows []int) (*linearize.Batch, error) {
	*g.gathered += len(rows)
	return g.B.Gather(ctx, rows)
}

// Terms by sums of outputs are those from the covariance with every output,
// and do not depend on tiles, batches and processors.
func TestCombinedIsPlain(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 7))
	d := testkit.NewDual(rng, 60, 3, 20)
	x := testkit.RandomBatch(rng, 3, 3, 20)
	for _, o := range []Options{{Top: 4}, {Top: 3, Sides: true, Terms: gp.RawTerms, Targets: []Target{Contrast(2, 0), Single(1)}}, {Top: 60}} {
		plain := testref.Must(New(d, d, &o))(t)
		want := testref.Must(plain.Explain(t.Context(), x))(t)
		var first [][]Explanation
		for _, tile := range []int{0, 1, 7, 1000} {
			for _, chunk := range []int{0, 1, 4} {
				testref.Procs(t, 1+tile%3)
				o.tile, d.Chunk = tile, chunk
				e := testref.Must(New(combining{Dual: d}, d, &o))(t)
				got := testref.Must(e.Explain(t.Context(), x))(t)
				requireNearly(t, want, got)
				if first == nil {
					first = got
				}
				requireSame(t, first, got)
			}
		}
	}
}

// requireNearly compares two explanations that were computed in two ways.
func requireNearly(t *testing.T, want, got [][]Explanation) {
	t.Helper()
	for row := range want {
		for k, a := range want[row] {
			b := got[row][k]
			testkit.RequireNear(t, a.Sum, b.Sum, tight, "sum")
			testkit.RequireNear(t, a.RawSum, b.RawSum, tight, "raw sum")
			testkit.RequireNear(t, a.Cancellation, b.Cancellation, tight, "cancellation")
			for _, lists := range [][2][]Term{{a.Terms, b.Terms}, {a.For, b.For}, {a.Against, b.Against}} {
				require.Len(t, lists[1], len(lists[0]))
				for i, p := range lists[0] {
					q := lists[1][i]
					require.Equal(t, p.Index, q.Index)
					testkit.RequireNear(t, p.Value, q.Value, tight, "value")
					testkit.RequireNear(t, p.Raw, q.Raw, tight, "raw")
					testkit.RequireNear(t, p.Similarity, q.Similarity, tight, "similarity")
					testkit.RequireNear(t, p.Removal, q.Removal, tight, "removal")
				}
			}
		}
	}
}

// What is to be known of a few examples is found by looking at these alone,
// where the data can give them.
func TestListedAreGathered(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 7))
	d := testkit.NewDual(rng, 90, 3, 20)
	x := testkit.RandomBatch(rng, 1, 3, 20)
	plain := testref.Must(New(d, d, &Options{Top: 2}))(t)
	want := testref.Must(plain.Explain(t.Context(), x))(t)
	gathered := 0
	e, err := New(combining{d, gathering{testkit.Chunked{B: d.Train, Size: 8}, &gathered}}, d, &Options{Top: 2})
	require.NoError(t, err)
	got := testref.Must(e.Explain(t.Context(), x))(t)
	requireNearly(t, want, got)
	require.Positive(t, gathered)
	require.LessOrEqual(t, gathered, 6) // two of each output
}

// projected says of each example that it has a tenth of its covariance, and
// weighs half of what its site says.
type projected struct{ *testkit.Dual }

func (d projected) InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, x *linearize.Batch) error {
	if err := d.PredictTo(ctx, nil, h, x); err != nil {
		return err
	}
	h.Scale(0.1, h)
	c := x.Outputs()
	for j, i := range rows {
		var root mat.Dense
		root.Scale(math.Sqrt(0.5), d.At.Root.Slice(i*c, (i+1)*c, 0, c))
		gp.RemovalFrom(q.RawRowView(j), h.Slice(j*c, (j+1)*c, 0, c), &root, nil, d.At.Residual.RawRowView(i))
	}
	return nil
}

// The posterior decides on the covariance of a training
// example with itself, and on its weight.
func TestOwnCovarianceAndWeight(t *testing.T) {
	explainers(t, Options{}, func(t *testing.T, d *testkit.Dual, _ *Explainer, x *linearize.Batch) {
		o := &Options{Top: 3, All: true}
		e := testref.Must(New(projected{d}, d, o))(t)
		got := testref.Must(e.Explain(t.Context(), x))(t)
		c := e.c
		cross := testkit.Product(testkit.Jacobian(x), d.Sigma, d.J.T())
		plain := every(t, d, x)
		for i := range e.n {
			h := mat.NewDense(c, c, nil)
			require.NoError(t, d.PredictTo(t.Context(), nil, h, d.Train.Slice(i, i+1)))
			// (I − Λh)⁻¹r with Λ/2 and h/10
			m := testkit.Product(d.At.Lambda.Slice(i*c, (i+1)*c, 0, c), h)
			m.Scale(-0.05, m)
			for k := range c {
				m.Set(k, k, m.At(k, k)+1)
			}
			var step mat.Dense
			require.NoError(t, step.Solve(m, d.At.Residual.Slice(i, i+1, 0, c).T()))
			for row := range got {
				for k := range c {
					removal := -testkit.Product(cross.Slice(row*c+k, row*c+k+1, i*c, (i+1)*c), &step).At(0, 0)
					testkit.RequireNear(t, removal, got[row][k].All.Removal[i], 1e-8, "removal")
					testkit.RequireNear(t, plain[row][k].All.Similarity[i]/math.Sqrt(0.1), got[row][k].All.Similarity[i], tight, "similarity")
				}
			}
		}
	})
}
