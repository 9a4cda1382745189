package explain_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// normals is r×c draws.
func normals(rng *rand.Rand, r, c int) *mat.Dense {
	m := mat.NewDense(r, c, nil)
	m.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, m)
	return m
}

// wide is n examples with more parameters than outputs.
func wide(rng *rand.Rand, n, c, p int) *linearize.Batch {
	return &linearize.Batch{F: normals(rng, n, c), P: p, Blocks: []linearize.Block{
		&linearize.Full{J: normals(rng, n*c, p), C: c, Params: []linearize.Span{{Name: "all", Rows: 1, Cols: p}}}}}
}

// Removal is what leaving the example out and fitting again does, exactly so
// for a Gaussian, also where every example fixes the function where it lies:
// the leverage here is 1 − 1e-4 to 1 − 1e-12. Similarity stays a correlation.
func TestRemovalAtFullLeverage(t *testing.T) {
	for _, c := range []int{1, 2} {
		for _, delta := range []float64{1e-2, 1e-5, 1e-8, 1e-10} {
			rng := rand.New(rand.NewPCG(uint64(c), 5))
			const n, p = 24, 120
			x, test := wide(rng, n, c, p), wide(rng, 3, c, p)
			y := normals(rng, n, c)
			lik, err := glm.NewGaussian(1)
			require.NoError(t, err)
			prior, err := ntk.NewIsotropic(delta, nil)
			require.NoError(t, err)
			k := ntk.New(prior, make([]float64, p), nil)
			post, err := gp.Refit(t.Context(), k, x, y, lik, nil)
			require.NoError(t, err)
			var before mat.Dense
			require.NoError(t, post.PredictTo(t.Context(), &before, nil, test))
			var targets []explain.Target
			for l := range c {
				targets = append(targets, explain.Single(l))
			}
			e, err := explain.New(post, k, &explain.Options{All: true, Targets: targets})
			require.NoError(t, err)
			rows, err := e.Explain(t.Context(), test)
			require.NoError(t, err)
			var got, want []float64
			for i := range n {
				without, yWithout := leaveOut(t, x, y, i)
				left, err := gp.Refit(t.Context(), k, without, yWithout, lik, nil)
				require.NoError(t, err)
				var after mat.Dense
				require.NoError(t, left.PredictTo(t.Context(), &after, nil, test))
				for r := range rows {
					for l := range c {
						got = append(got, rows[r][l].All.Removal[i])
						want = append(want, after.At(r, l)-before.At(r, l))
						require.LessOrEqual(t, math.Abs(rows[r][l].All.Similarity[i]), 1.0)
					}
				}
			}
			testref.RequireClose(t, got, want, 1e-10, "removal") // the refits' own rounding
		}
	}
}

// leaveOut is the data without example i.
func leaveOut(t *testing.T, x *linearize.Batch, y *mat.Dense, i int) (*linearize.Batch, *mat.Dense) {
	t.Helper()
	var rows []int
	for k := range x.Len() {
		if k != i {
			rows = append(rows, k)
		}
	}
	b, err := linearize.Gather(context.Background(), x, rows)
	require.NoError(t, err)
	_, c := y.Dims()
	left := mat.NewDense(len(rows), c, nil)
	for at, k := range rows {
		left.SetRow(at, y.RawRowView(k))
	}
	return b, left
}

// plain finds the removal of an example from its covariance alone.
type plain struct {
	gp.Dual
	k ntk.Kernel
}

func (p plain) InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, x *linearize.Batch) error {
	if err := p.PredictTo(ctx, nil, h, x); err != nil {
		return err
	}
	prior, c := mat.NewDense(x.Len(), x.Outputs(), nil), x.Outputs()
	p.k.DiagTo(prior, x)
	block := func(m *mat.Dense, i int) mat.Matrix { return m.Slice(i*c, (i+1)*c, 0, c) }
	for j, i := range rows {
		gp.RemovalFrom(q.RawRowView(j), block(h, j), block(p.Sites().Root, i), block(prior, j), p.Sites().Residual.RawRowView(i))
	}
	return nil
}

// A posterior that gives h alone has no removal where I − RᵀhR is rounding, and
// the same one elsewhere.
func TestRemovalIsUndefinedWhereItIsLost(t *testing.T) {
	for delta, defined := range map[float64]bool{1e-2: true, 1e-9: false} {
		rng := rand.New(rand.NewPCG(1, 5))
		x, test := wide(rng, 24, 1, 120), wide(rng, 3, 1, 120)
		lik, err := glm.NewGaussian(1)
		require.NoError(t, err)
		prior, err := ntk.NewIsotropic(delta, nil)
		require.NoError(t, err)
		k := ntk.New(prior, make([]float64, 120), nil)
		post, err := gp.Refit(t.Context(), k, x, normals(rng, 24, 1), lik, nil)
		require.NoError(t, err)
		var removal [2][]float64
		for i, d := range []gp.Dual{post, plain{post, k}} {
			e, err := explain.New(d, k, &explain.Options{All: true})
			require.NoError(t, err)
			rows, err := e.Explain(t.Context(), test)
			require.NoError(t, err)
			removal[i] = rows[0][0].All.Removal
		}
		for _, v := range removal[0] {
			require.False(t, math.IsNaN(v))
		}
		if defined {
			testref.RequireClose(t, removal[1], removal[0], 1e-7, "removal from h")
			continue
		}
		for _, v := range removal[1] {
			require.True(t, math.IsNaN(v), "δ = %g: %v", delta, v)
		}
	}
}
