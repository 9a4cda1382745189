package gp

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
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
			f, err := factorize(t.Context(), g, r, 3)
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
					require.NoError(t, b.mulTrans(t.Context(), 2, a.RawMatrix()))
					all.Mul(rows, whole.T())
				} else {
					require.NoError(t, b.mul(t.Context(), 2, a.RawMatrix()))
					all.Mul(rows, whole)
				}
				require.True(t, mat.EqualApprox(all, a, 1e-12))
			}
		}
	}
}
