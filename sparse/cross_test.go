package sparse_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// noMul is a kernel that does nothing but what every kernel does.
type noMul struct{ ntk.Kernel }

// mulOnly multiplies, but does not prepare to.
type mulOnly struct {
	ntk.Kernel
	ntk.MulToer
}

// The cross-kernel with sums of the outputs of examples is the sums of that
// with the examples, whatever the kernel can do, under scaled variances too.
func TestCombinedCross(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		rng := rand.New(rand.NewPCG(4, 4))
		w := mat.NewDense(2*q.N, q.C, nil)
		w.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, w)
		for _, k := range []ntk.Kernel{q.Kernel, noMul{q.Kernel}, mulOnly{q.Kernel, q.Kernel}} {
			for _, o := range []*sparse.Options{linear(), {}} {
				p := testref.Must(sparse.Fit(t.Context(), k, q.Train, q.Sites(t), q.some(t), o))(t)
				if o.Mean == gp.Network {
					scaled := testref.Must(p.At(t.Context(), 0.3))(t)
					p = testref.Must(scaled.WithData(t.Context(), q.Train, q.Sites(t)))(t)
				}
				requireCombined(t, q, p, w)
			}
		}
	})
}

func requireCombined(t *testing.T, q *problem, p *sparse.Posterior, w *mat.Dense) {
	t.Helper()
	cross := testref.Must(p.Cross(t.Context(), q.Test))(t)
	for _, terms := range []gp.Terms{gp.PosteriorTerms, gp.RawTerms} {
		whole := crossOf(t, p, q.Test, q.Train, q.N, terms)
		want := mat.NewDense(q.T*q.C, 2*q.N, nil)
		for i := range q.N {
			want.Slice(0, q.T*q.C, 2*i, 2*i+2).(*mat.Dense).Mul(
				whole.Slice(0, q.T*q.C, i*q.C, (i+1)*q.C), w.Slice(2*i, 2*i+2, 0, q.C).T())
		}
		err := linearize.Combine(q.Train, w).Batches(t.Context(), func(_ int, b *linearize.Batch) error {
			var got mat.Dense
			require.NoError(t, cross.(gp.CombinedCross).CombinedTo(t.Context(), &got, b, terms))
			// K_ZZ of a condition up to 1e4
			requireClose(t, "sums", &got, want, 1e-10)
			return nil
		})
		require.NoError(t, err)
	}
}

// threeOutputs is a Gaussian problem whose terms are found by sums of outputs.
func threeOutputs(t *testing.T) *problem {
	t.Helper()
	lik, err := glm.NewGaussianMatrix(mat.NewSymDense(3, []float64{0.3, 0.1, 0, 0.1, 0.2, 0.05, 0, 0.05, 0.4}))
	require.NoError(t, err)
	return newProblem("gaussian-three", 9, 20, 3, lik, 1)
}

func explained(t *testing.T, d gp.Dual, k explain.PriorMean, x *linearize.Batch, o *explain.Options) [][]explain.Explanation {
	t.Helper()
	e := testref.Must(explain.New(d, k, o))(t)
	return testref.Must(e.Explain(t.Context(), x))(t)
}

// Explanations are the same whether terms are found by sums of outputs or from
// the covariance with every output, and however the data come.
func TestExplainedBySums(t *testing.T) {
	for _, q := range []*problem{problems(t)[5], threeOutputs(t)} {
		for _, data := range []linearize.Source{q.Train, testkit.InTiles(q.Train, 7), linearize.Rebatch(q.Train, 3)} {
			p, err := sparse.Refit(t.Context(), q.Kernel, data, q.Targets(), q.some(t), nil)
			require.NoError(t, err)
			o := explain.Options{Top: 4, Sides: true, Targets: []explain.Target{explain.Single(1), explain.Contrast(2, 0)}}
			got := explained(t, p, q.Kernel, q.Test, &o)
			o.All = true
			want := explained(t, p, q.Kernel, q.Test, &o)
			for i := range want {
				for c := range want[i] {
					requireSameExplanation(t, got[i][c], want[i][c])
				}
			}
		}
	}
}

func requireSameExplanation(t *testing.T, got, want explain.Explanation) {
	t.Helper()
	total := 0.0
	for i := range want.All.Value {
		total += math.Abs(want.All.Value[i]) + math.Abs(want.All.Raw[i])
	}
	near := func(what string, a, b float64) {
		t.Helper()
		require.InDelta(t, b, a, 1e-11*(1+total), what)
	}
	near("sum", got.Sum, want.Sum)
	near("raw sum", got.RawSum, want.RawSum)
	require.InEpsilon(t, want.Cancellation, got.Cancellation, 1e-8)
	for _, lists := range [][2][]explain.Term{{got.Terms, want.Terms}, {got.For, want.For}, {got.Against, want.Against}} {
		require.Len(t, lists[0], len(lists[1]))
		for i, b := range lists[1] {
			a := lists[0][i]
			require.Equal(t, b.Index, a.Index)
			near("value", a.Value, b.Value)
			near("raw", a.Raw, b.Raw)
			near("removal", a.Removal, b.Removal)
			near("similarity", a.Similarity, b.Similarity)
		}
	}
}

// (E15) at the mode of a Gaussian likelihood removal is what taking an example
// out of the posterior does to its mean, also where the example weighs less
// than its site says.
func TestRemovalIsRemove(t *testing.T) {
	for _, q := range []*problem{problems(t)[0], problems(t)[1], threeOutputs(t)} {
		t.Run(q.Name, func(t *testing.T) {
			p := q.refit(t, q.some(t), nil)
			var before mat.Dense
			require.NoError(t, p.PredictTo(t.Context(), &before, nil, q.Test))
			rows := explained(t, p, q.Kernel, q.Test, &explain.Options{Top: q.N})
			for i := range q.N {
				less := q.without(t, p, i)
				var after mat.Dense
				require.NoError(t, less.PredictTo(t.Context(), &after, nil, q.Test))
				for row := range q.T {
					for c := range q.C {
						// the mode is found to 1e-12, and the posterior's A' has a condition up to 1e4
						require.InDelta(t, after.At(row, c)-before.At(row, c), termOf(t, rows[row][c].Terms, i).Removal, 1e-9)
					}
				}
			}
		})
	}
}

func termOf(t *testing.T, terms []explain.Term, i int) explain.Term {
	t.Helper()
	for _, x := range terms {
		if x.Index == i {
			return x
		}
	}
	t.Fatalf("example %d is not listed", i)
	return explain.Term{}
}

// Similarity is a correlation: at most 1, and with all examples inducing that
// of the exact posterior, as removal is.
func TestSimilarityIsCorrelation(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		o := &explain.Options{Top: q.N}
		exact := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
		want := explained(t, exact, q.Kernel, q.Test, o)
		some := explained(t, q.refit(t, q.some(t), nil), q.Kernel, q.Test, o)
		all := explained(t, q.refit(t, q.all(t), nil), q.Kernel, q.Test, o)
		for row := range want {
			for c := range want[row] {
				for _, x := range want[row][c].Terms {
					s := termOf(t, some[row][c].Terms, x.Index).Similarity
					require.LessOrEqual(t, math.Abs(s), 1+1e-12)
					y := termOf(t, all[row][c].Terms, x.Index)
					require.InDelta(t, x.Similarity, y.Similarity, 1e-6)
					require.InDelta(t, x.Removal, y.Removal, 1e-6*(1+math.Abs(x.Removal)))
				}
			}
		}
	})
}

// BenchmarkExplain is one row of LeNet-5 explained over examples that are
// linearized as they pass by.
func BenchmarkExplain(b *testing.B) {
	const n, m, c = 1000, 20, 10
	net, err := network.Sequential(network.Shape{1, 28, 28},
		network.Conv2D{Filters: 6, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Conv2D{Filters: 16, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Flatten{}, network.Dense{Units: 120}, network.ReLU, network.Dense{Units: 84}, network.ReLU, network.Dense{Units: c})
	require.NoError(b, err)
	rng := rand.New(rand.NewPCG(1, 2))
	x, y := mat.NewDense(n+1, 784, nil), mat.NewDense(n, 1, nil)
	x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
	y.Apply(func(_, _ int, _ float64) float64 { return float64(rng.IntN(c)) }, y)
	load := func(lo, hi int) (*mat.Dense, error) { return x.Slice(lo, hi, 0, 784).(*mat.Dense), nil }
	data := linearize.NewSource(net, n, 250, load)
	f := testref.Must(net.Forward(b.Context(), x))(b)
	sites := testref.Must(gp.NewSites(gp.NewTargets(y, glm.Categorical{}), f.Slice(0, n, 0, c).(*mat.Dense)))(b)
	prior := testref.Must(ntk.NewIsotropic(1, nil))(b)
	k := ntk.New(prior, net.Theta())
	z := testref.Must(sparse.Select(b.Context(), sparse.Uniform{}, k, data, m, nil))(b)
	p := testref.Must(sparse.Fit(b.Context(), k, data, sites, z, nil))(b)
	test := testref.Must(net.Linearize(b.Context(), x.Slice(n, n+1, 0, 784).(*mat.Dense)))(b)
	e := testref.Must(explain.New(p, k, nil))(b)
	b.Run(fmt.Sprintf("N=%d/M=%d/C=%d/P=%d", n, m, c, test.P), func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, testref.Err(e.Explain(b.Context(), test)))
		}
	})
}

// A Source may yield one batch again and again with other examples in it: the
// terms are those of what it holds.
func TestCrossOfReusedBatch(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		for _, z := range []*sparse.Inducing{q.some(t), q.inducing(t, 3, 1, 3, 2)} { // of full rank, and not
			p := q.fit(t, z, linear())
			for _, terms := range []gp.Terms{gp.PosteriorTerms, gp.RawTerms} {
				want := crossOf(t, p, q.Test, q.Train, 5, terms)
				cross := testref.Must(p.Cross(t.Context(), q.Test))(t)
				var reused linearize.Batch
				for first := 0; first < q.N; first += 5 {
					reused = *linearize.Concat(q.Train.Slice(first, first+5))
					var got mat.Dense
					require.NoError(t, cross.TileTo(t.Context(), &got, first, &reused, terms))
					requireClose(t, "tile", &got, want.Slice(0, q.T*q.C, first*q.C, (first+5)*q.C), 1e-12)
				}
			}
		}
	})
}

// multiplied counts the products with a kernel's right side.
type multiplied struct {
	ntk.Kernel
	ntk.MulToer
	n *int
}

func (k multiplied) MulTo(dst *mat.Dense, a, b *linearize.Batch, v *mat.Dense) {
	*k.n++
	k.MulToer.MulTo(dst, a, b, v)
}

// Both kinds of terms of a batch, or of a copy of it, take one product; a batch
// that differs in one number takes another.
func TestCrossMultipliesOnce(t *testing.T) {
	q, n := problems(t)[5], 0
	p, err := sparse.Fit(t.Context(), multiplied{q.Kernel, q.Kernel, &n}, q.Train, q.Sites(t), q.some(t), nil)
	require.NoError(t, err)
	cross := testref.Must(p.Cross(t.Context(), q.Test))(t)
	tile := func(b *linearize.Batch, terms gp.Terms, want int) {
		t.Helper()
		n = 0
		require.NoError(t, cross.TileTo(t.Context(), new(mat.Dense), 0, b, terms))
		require.Equal(t, want, n)
	}
	tile(q.Train, gp.PosteriorTerms, 1)
	tile(q.Train, gp.RawTerms, 0)
	other := linearize.Concat(q.Train)
	tile(other, gp.PosteriorTerms, 0)
	other.F.Set(3, 1, other.F.At(3, 1)+1e-9)
	tile(other, gp.RawTerms, 1)
	tile(q.Train, gp.RawTerms, 1)
}

// The kernel between the posterior Jacobian of x and another Jacobian is the joint covariance, also where K_ZZ is singular.
func TestJacobian(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		z := q.some(t)
		for _, z := range []*sparse.Inducing{z, q.inducing(t, append(append([]int(nil), z.Rows...), z.Rows[0])...)} {
			p := q.fit(t, z, linear())
			var want, got mat.Dense
			require.NoError(t, p.JointTo(t.Context(), nil, &want, q.Test))
			q.Kernel.BlockTo(&got, testref.Must(p.Solver.Jacobian(t.Context(), q.Test))(t), q.Test)
			requireClose(t, "covariance", &got, &want, 1e-9)
		}
	})
}
