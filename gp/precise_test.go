package gp_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
)

// precision is the number of bits of the numbers that results are compared with.
const precision = 400

// A precise is a matrix of numbers with so many bits.
type precise [][]*big.Float

func newPrecise(r, c int) precise {
	p := make(precise, r)
	for i := range p {
		p[i] = make([]*big.Float, c)
		for j := range p[i] {
			p[i][j] = new(big.Float).SetPrec(precision)
		}
	}
	return p
}

func preciseOf(m mat.Matrix) precise {
	r, c := m.Dims()
	p := newPrecise(r, c)
	for i := range r {
		for j := range c {
			p[i][j].SetFloat64(m.At(i, j))
		}
	}
	return p
}

func (p precise) transposed() precise {
	q := newPrecise(len(p[0]), len(p))
	for i := range p {
		for j := range p[i] {
			q[j][i] = p[i][j]
		}
	}
	return q
}

func (p precise) times(q precise) precise {
	out := newPrecise(len(p), len(q[0]))
	for i := range out {
		for j := range out[i] {
			for k := range q {
				out[i][j].Add(out[i][j], new(big.Float).SetPrec(precision).Mul(p[i][k], q[k][j]))
			}
		}
	}
	return out
}

func (p precise) minus(q precise) precise {
	out := newPrecise(len(p), len(p[0]))
	for i := range out {
		for j := range out[i] {
			out[i][j].Sub(p[i][j], q[i][j])
		}
	}
	return out
}

// solve returns p⁻¹q by elimination; p is positive definite and both are
// overwritten.
func (p precise) solve(q precise) precise {
	row := func(to, from []*big.Float, f *big.Float) {
		for j := range to {
			to[j].Sub(to[j], new(big.Float).SetPrec(precision).Mul(f, from[j]))
		}
	}
	for i := range p {
		for k := range p {
			if k != i {
				f := new(big.Float).SetPrec(precision).Quo(p[k][i], p[i][i])
				row(p[k], p[i], f)
				row(q[k], q[i], f)
			}
		}
	}
	for i := range p {
		for j := range q[i] {
			q[i][j].Quo(q[i][j], p[i][i])
		}
	}
	return q
}

func (p precise) dense() *mat.Dense {
	m := mat.NewDense(len(p), len(p[0]), nil)
	for i := range p {
		for j := range p[i] {
			v, _ := p[i][j].Float64()
			m.Set(i, j, v)
		}
	}
	return m
}

// without returns κ_ii − K_i,−i R (I + RᵀKR)⁻¹ Rᵀ K_−i,i over the other examples, which
// has no example's own site in it.
func without(k *mat.Dense, root *mat.Dense, i, c int) precise {
	n, _ := k.Dims()
	var others []int
	for j := range n {
		if j/c != i {
			others = append(others, j)
		}
	}
	kk, r := mat.NewDense(n-c, n-c, nil), mat.NewDense(n-c, n-c, nil)
	cross := mat.NewDense(n-c, c, nil)
	for a, ja := range others {
		for b, jb := range others {
			kk.Set(a, b, k.At(ja, jb))
			if ja/c == jb/c {
				r.Set(a, b, root.At(ja, jb%c))
			}
		}
		for b := range c {
			cross.Set(a, b, k.At(ja, i*c+b))
		}
	}
	big := preciseOf(r)
	inner := big.transposed().times(preciseOf(kk)).times(big)
	for a := range inner {
		inner[a][a].Add(inner[a][a], newPrecise(1, 1)[0][0].SetInt64(1))
	}
	v := big.transposed().times(preciseOf(cross))
	own := preciseOf(k.Slice(i*c, (i+1)*c, i*c, (i+1)*c))
	return own.minus(v.transposed().times(inner.solve(big.transposed().times(preciseOf(cross)))))
}

// Moments without an example keep their digits, to the rounding of the prior
// covariance, where sites say nothing, where an example fixes the function alone, and
// where both meet in one example.
func TestLeaveOneOutKeepsItsDigits(t *testing.T) {
	for name, scale := range map[string]func(rng *rand.Rand, i, j int) float64{
		"tiny noise":       func(*rand.Rand, int, int) float64 { return 1e6 },
		"tiniest noise":    func(*rand.Rand, int, int) float64 { return 1e10 },
		"nearly saturated": func(*rand.Rand, int, int) float64 { return 1e-9 },
		"underflowing":     func(*rand.Rand, int, int) float64 { return 1e-170 },
		"one is sharp":     func(_ *rand.Rand, i, _ int) float64 { return math.Pow(10, float64(8*max(0, 1-i))) },
		"one says nothing": func(_ *rand.Rand, i, _ int) float64 { return float64(min(1, i)) * 1e3 },
		"all scales":       func(rng *rand.Rand, _, _ int) float64 { return math.Pow(10, 14*rng.Float64()-9) },
		"directions":       func(_ *rand.Rand, _, j int) float64 { return math.Pow(10, 6-6*float64(j)) },
	} {
		for _, c := range []int{1, 3} {
			t.Run(name, func(t *testing.T) {
				const n = 8
				k, x, _ := given(n, c)
				rng := rand.New(rand.NewPCG(5, uint64(c)))
				root := random(rng, n*c, c, 1)
				s := &gp.Sites{F: x.F, Residual: random(rng, n, c, 1), Root: root, Lambda: mat.NewDense(n*c, c, nil)}
				for i := range n {
					r := root.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense)
					for j := range c {
						f := scale(rng, i, j)
						for a := range c {
							r.Set(a, j, f*r.At(a, j))
						}
					}
					s.Lambda.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense).Mul(r, r.T())
				}
				e := testref.Must(gp.Fit(t.Context(), k, x, s, nil))(t)
				var mean, cov mat.Dense
				require.NoError(t, e.LeaveOneOutTo(t.Context(), &mean, &cov, dense.Range(n), x))
				q := make([]float64, n*c)
				require.NoError(t, testkit.RemovalTo(t.Context(), e, q))
				for i := range n {
					want := without(k.k, root, i, c)
					at := want.dense()
					requireClose(t, "covariance", cov.Slice(i*c, (i+1)*c, 0, c), at, 1e-12)
					r := preciseOf(s.Residual.Slice(i, i+1, 0, c)).transposed()
					step := want.times(r)
					requireClose(t, "mean", mean.RowView(i), preciseOf(x.F.Slice(i, i+1, 0, c)).transposed().minus(step).dense(), 1e-12)
					// (I − Λh)⁻¹r = r + Λ cov_−i r
					big := preciseOf(root.Slice(i*c, (i+1)*c, 0, c))
					more := big.times(big.transposed()).times(step)
					for j := range more {
						more[j][0].Add(more[j][0], r[j][0])
					}
					requireClose(t, "q", vec(q[i*c:(i+1)*c]), more.dense(), 1e-11)
				}
			})
		}
	}
}

// A variance that rounding made negative is zero with its row and column, and
// one that is more negative names its example and output.
func TestSettleVariances(t *testing.T) {
	cov := mat.NewDense(4, 4, []float64{
		1, 2, 3, 4,
		2, -1e-13, 5, 6,
		3, 5, 7, 8,
		4, 6, 8, 9})
	prior := []float64{1, 1, 10, 10}
	require.NoError(t, gp.SettleVariances(cov, prior, 1e-12, 5, 2))
	require.Equal(t, []float64{1, 0, 3, 4, 0, 0, 0, 0, 3, 0, 7, 8, 4, 0, 8, 9}, cov.RawMatrix().Data)
	cov.Set(3, 3, -1e-10)
	negative := testref.As[*gp.NegativeVarianceError](t, gp.SettleVariances(cov, prior, 1e-12, 5, 2))
	require.Equal(t, gp.NegativeVarianceError{Row: 6, Output: 1, Variance: -1e-10, Prior: 10}, *negative)
	cov.Set(2, 2, math.NaN())
	bad := testref.As[*gp.NotFiniteError](t, gp.SettleVariances(cov, prior, 1e-12, 5, 2))
	require.Equal(t, [2]int{6, 0}, [2]int{bad.Row, bad.Output})
}
