package gp

import (
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
)

// The two triangles of the buffer do not touch: building and factoring B
// leaves K as it was, to the last bit.
func TestGramKeepsBothTriangles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []int{1, 2, 3, 20, 40} {
		for _, examples := range []int{1, 2, 5, 140/c + 1} { // three tiles and a rest
			n := examples * c
			g, k := newGram(n), mat.NewDense(n, n, nil)
			j := mat.NewDense(n, n+2, nil)
			j.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, j)
			k.Mul(j, j.T())
			root := mat.NewDense(n, c, nil)
			root.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, root)
			for i := range n {
				for j := range i + 1 {
					g.data[i*(n+1)+j] = k.At(i, j)
				}
			}
			r := newBlockDiag(root)
			testref.Procs(t, 3)
			f, err := factorize(t.Context(), g, r)
			require.NoError(t, err)
			require.Zero(t, f.jitter)

			// B = I + RᵀKR (E4), and UᵀU = B
			whole := mat.NewDense(n, n, nil)
			for i := range n {
				for j := range c {
					whole.Set(i, i/c*c+j, root.At(i, j))
				}
			}
			var b, u, utu mat.Dense
			b.Mul(whole.T(), k)
			b.Mul(&b, whole)
			u.ReuseAs(n, n)
			for i := range n {
				b.Set(i, i, b.At(i, i)+1)
				for j := i; j < n; j++ {
					u.Set(i, j, f.u.Data[i*f.u.Stride+j])
				}
			}
			utu.Mul(u.T(), &u)
			require.True(t, mat.EqualApprox(&utu, &b, 1e-11*mat.Max(&b)), "C = %d, N = %d", c, examples)
			for i := range n {
				for j := range i + 1 {
					require.Equal(t, k.At(i, j), g.data[i*(n+1)+j])
				}
			}
		}
	}
}

func TestBlockDiag(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, c := range []int{1, 3, 17, 40} { // 17 is more than the scratch on the stack, 40 are multiplied as matrices
		for _, diagonal := range []bool{false, true} {
			const n = 4
			m, whole := mat.NewDense(n*c, c, nil), mat.NewDense(n*c, n*c, nil)
			for i := range n * c {
				for j := range c {
					if !diagonal || i%c == j {
						v := rng.NormFloat64()
						m.Set(i, j, v)
						whole.Set(i, i/c*c+j, v)
					}
				}
			}
			b := newBlockDiag(m)
			require.Equal(t, diagonal || c == 1, b.diag != nil)
			const first, blocks = 1, 2
			part := whole.Slice(first*c, (first+blocks)*c, first*c, (first+blocks)*c)
			x := make([]float64, blocks*c)
			for i := range x {
				x[i] = rng.NormFloat64()
			}
			var want, wantT mat.VecDense
			want.MulVec(part.T(), mat.NewVecDense(len(x), x))
			wantT.MulVec(part, mat.NewVecDense(len(x), x))
			got, gotT := append([]float64(nil), x...), append([]float64(nil), x...)
			b.mulRow(got, first)
			b.mulTransRow(gotT, first)
			require.InDeltaSlice(t, want.RawVector().Data, got, 1e-13)
			require.InDeltaSlice(t, wantT.RawVector().Data, gotT, 1e-13)
			rows := mat.NewDense(131, n*c, nil)
			rows.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, rows)
			for _, trans := range []bool{false, true} {
				a, all := mat.DenseCopyOf(rows), new(mat.Dense)
				if trans {
					require.NoError(t, b.mulTrans(t.Context(), a.RawMatrix()))
					all.Mul(rows, whole.T())
				} else {
					require.NoError(t, b.mul(t.Context(), a.RawMatrix()))
					all.Mul(rows, whole)
				}
				require.True(t, mat.EqualApprox(all, a, 1e-12))
			}
		}
	}
}

// An example that fixes the function alone has no first-order removal.
func TestRemovalUndefined(t *testing.T) {
	one := func(v float64) *mat.Dense { return mat.NewDense(1, 1, []float64{v}) }
	q := []float64{0}
	RemovalFrom(q, one(4), one(0.5), nil, []float64{1})
	require.True(t, math.IsNaN(q[0]), "1 − RᵀhR = 0")
	// The same 1 − RᵀhR = 1e-7 has digits left of a small prior covariance and
	// none of a large one.
	h := one((1 - 1e-7) * 4)
	RemovalFrom(q, h, one(0.5), one(8), []float64{1})
	require.InEpsilon(t, 1e7, q[0], 1e-6)
	RemovalFrom(q, h, one(0.5), one(8e3), []float64{1})
	require.True(t, math.IsNaN(q[0]), "RᵀκR = 2000")
}

// The moments without an example are undefined where its removal is, and otherwise
// exact.
func TestLeaveOneOutFrom(t *testing.T) {
	one := func(v float64) *mat.Dense { return mat.NewDense(1, 1, []float64{v}) }
	mean, cov := []float64{0}, one(0)
	LeaveOneOutFrom(mean, cov, one(4), one(0.5), nil, []float64{3}, []float64{1})
	require.True(t, math.IsNaN(mean[0]) && math.IsNaN(cov.At(0, 0)), "1 − RᵀhR = 0")
	// h = (1/v + Λ)⁻¹ of a variance v = 2 without the example and Λ = 0.25.
	LeaveOneOutFrom(mean, cov, one(1/(0.5+0.25)), one(0.5), one(9), []float64{3}, []float64{0.7})
	require.InDelta(t, 2, cov.At(0, 0), 1e-14)
	require.InDelta(t, 3-2*0.7, mean[0], 1e-14)
	LeaveOneOutFrom(mean, nil, one(1/(0.5+0.25)), one(0.5), nil, []float64{3}, []float64{0.7})
	require.InDelta(t, 3-2*0.7, mean[0], 1e-14, "a nil covariance is skipped")
	LeaveOneOutFrom(nil, cov, one(5), one(0), nil, []float64{3}, []float64{0})
	require.Equal(t, 5.0, cov.At(0, 0), "a saturated site")
}

func TestBytes(t *testing.T) {
	// 3000·3001 numbers, and 9 vectors of 3000.
	require.Equal(t, int64(8*3000*3001+8*9*3000), Bytes(3000, 1))
	require.Equal(t, int64(math.MaxInt64), Bytes(math.MaxInt64, 2))
	last := int64(0)
	for n := range 50 {
		require.Greater(t, Bytes(n+1, 3), last)
		last = Bytes(n+1, 3)
	}
}

func TestMemoryBudget(t *testing.T) {
	require.Equal(t, int64(7), MemoryBudget(7))
	require.Positive(t, MemoryBudget(0))
}

func TestCheckMemory(t *testing.T) {
	need := func(n int) int64 { return int64(n) * 10 }
	require.NoError(t, CheckMemory("it", TestExamples, 7, 70, need))
	err := CheckMemory("it", TestExamples, 1<<40, 79, need)
	require.Equal(t, &MemoryError{Op: "it", Needed: 10 << 40, Available: 79, Largest: 7, Unit: TestExamples}, err)
	require.EqualError(t, err, "it takes 10.0 TiB of memory and 79 B may be used; at most 7 test examples fit; use fewer, or raise the memory limit")
	require.Zero(t, CheckMemory("it", TestExamples, 5, 9, need).(*MemoryError).Largest)
}

// What is garbage does not count against a plan: it is given back before one is refused.
func TestCheckMemoryWithoutGarbage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const size = 64 << 20
	released := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapReleased
	}
	garbage := make([]byte, size)
	garbage[0] = 1
	runtime.KeepAlive(garbage)
	before := released()
	require.Error(t, CheckMemory("it", TestExamples, 1, 0, func(int) int64 { return math.MaxInt64 }))
	require.GreaterOrEqual(t, released(), before+size/2)
}
