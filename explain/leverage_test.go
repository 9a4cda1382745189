package explain_test

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
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
			lik := testref.Must(glm.NewGaussian(1))(t)
			prior := testref.Must(ntk.NewIsotropic(delta, nil))(t)
			k := ntk.New(prior, make([]float64, p))
			post := testref.Must(gp.Refit(t.Context(), k, x, gp.NewTargets(y, lik), nil))(t)
			var before mat.Dense
			require.NoError(t, post.PredictTo(t.Context(), &before, nil, test))
			var targets []explain.Target
			for l := range c {
				targets = append(targets, explain.Single(l))
			}
			e := testref.Must(explain.New(post, k, &explain.Options{All: true, Targets: targets}))(t)
			rows := testref.Must(e.Explain(t.Context(), test))(t)
			var got, want []float64
			for i := range n {
				without, yWithout := leaveOut(t, x, y, i)
				left := testref.Must(gp.Refit(t.Context(), k, without, gp.NewTargets(yWithout, lik), nil))(t)
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

// Where a network divides by a norm that is nearly zero (RMSNorm of hidden units of 1e-2 to 1e-4),
// kernels are 1e8 times the noise and leverages within 1e-6 of 1, and rounding of the kernel alone
// moves removals. They are within 1e-8 of the largest, against 400-bit numbers, or the refit has
// warned.
func TestRemovalIsWithinItsPromiseOrWarned(t *testing.T) {
	base := testref.Must(network.ReadONNXFile(t.Context(), "../testdata/parameters/rms-norm.onnx", nil))(t)
	const n, tests, c, noise = 24, 3, 2, .001
	lik := testref.Must(glm.NewGaussian(noise))(t)
	prior := testref.Must(ntk.NewIsotropic(.01, nil))(t)
	within, warned := 0, 0
	for _, small := range []float64{1, 1e-2, 1e-3, 1e-4} {
		theta := slices.Clone(base.Theta())
		floats.Scale(small, theta[:4*12+12]) // the layer before the norm
		net := testref.Must(base.WithTheta(theta))(t)
		rng := rand.New(rand.NewPCG(1, 5))
		x := testref.Must(net.Linearize(t.Context(), normals(rng, n, 4)))(t)
		test := testref.Must(net.Linearize(t.Context(), normals(rng, tests, 4)))(t)
		y, k := normals(rng, n, c), ntk.New(prior, theta)
		post := testref.Must(gp.Refit(t.Context(), k, x, gp.NewTargets(y, lik), nil))(t)
		e := testref.Must(explain.New(post, k, &explain.Options{All: true}))(t)
		rows := testref.Must(e.Explain(t.Context(), test))(t)
		want := preciseRemovals(k, x, test, y, noise)
		largest, off := 0.0, 0.0
		for r := range tests {
			for l := range c {
				for i := range n {
					largest = max(largest, math.Abs(want.At(r*c+l, i)))
					off = max(off, math.Abs(rows[r][l].All.Removal[i]-want.At(r*c+l, i)))
				}
			}
		}
		if len(post.Warnings()) > 0 {
			warned++
			continue
		}
		within++
		require.LessOrEqual(t, off, 1e-8*largest, "hidden units times %v", small)
	}
	require.Positive(t, within)
	require.Positive(t, warned)
}

// preciseRemovals returns −K_*n S_·i (S_ii)⁻¹ α_i, S = (K + σ²I)⁻¹ and α = S(y − m), of examples of
// two outputs, T·2×n, by numbers of 400 bits.
func preciseRemovals(k ntk.Kernel, x, test *linearize.Batch, y *mat.Dense, noise float64) *mat.Dense {
	n, rows := 2*x.Len(), 2*test.Len()
	var kernel, cross mat.Dense
	kernel.ReuseAs(n, n)
	cross.ReuseAs(rows, n)
	k.BlockTo(&kernel, x, x)
	k.BlockTo(&cross, test, x)
	mean := make([]float64, n)
	k.MeanTo(mean, x)
	number := func(v float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(v) }
	times := func(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(400).Mul(a, b) }
	less := func(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(400).Sub(a, b) }
	over := func(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(400).Quo(a, b) }
	// [K + σ²I, I, y − m] by elimination is [I, S, α].
	s := make([][]*big.Float, n)
	for i := range s {
		s[i] = make([]*big.Float, 2*n+1)
		for j := range n {
			s[i][j], s[i][n+j] = number(kernel.At(i, j)), number(0)
		}
		s[i][i].Add(s[i][i], number(noise))
		s[i][n+i] = number(1)
		s[i][2*n] = less(number(y.At(i/2, i%2)), number(mean[i]))
	}
	for i := range s {
		for j := 2 * n; j >= i; j-- {
			s[i][j] = over(s[i][j], s[i][i])
		}
		for q := range s {
			if q != i {
				for j := 2 * n; j >= i; j-- {
					s[q][j] = less(s[q][j], times(s[q][i], s[i][j]))
				}
			}
		}
	}
	out := mat.NewDense(rows, x.Len(), nil)
	for i := range x.Len() {
		p, q := 2*i, 2*i+1
		a, b, d := s[p][n+p], s[p][n+q], s[q][n+q]
		det := less(times(a, d), times(b, b))
		u := over(less(times(d, s[p][2*n]), times(b, s[q][2*n])), det)
		v := over(less(times(a, s[q][2*n]), times(b, s[p][2*n])), det)
		for r := range rows {
			sum := number(0)
			for j := range n {
				sum = less(sum, times(number(cross.At(r, j)), new(big.Float).SetPrec(400).Add(times(s[j][n+p], u), times(s[j][n+q], v))))
			}
			value, _ := sum.Float64()
			out.Set(r, i, value)
		}
	}
	return out
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
	b := testref.Must(linearize.Gather(context.Background(), x, rows))(t)
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
		lik := testref.Must(glm.NewGaussian(1))(t)
		prior := testref.Must(ntk.NewIsotropic(delta, nil))(t)
		k := ntk.New(prior, make([]float64, 120))
		post := testref.Must(gp.Refit(t.Context(), k, x, gp.NewTargets(normals(rng, 24, 1), lik), nil))(t)
		var removal [2][]float64
		for i, d := range []gp.Dual{post, plain{post, k}} {
			e := testref.Must(explain.New(d, k, &explain.Options{All: true}))(t)
			rows := testref.Must(e.Explain(t.Context(), test))(t)
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
