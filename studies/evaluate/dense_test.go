package evaluate_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/studies/evaluate"
)

// columns returns some columns of m.
func columns(m *mat.Dense, index []int) *mat.Dense {
	r, _ := m.Dims()
	to := mat.NewDense(r, len(index), nil)
	for k, at := range index {
		to.SetCol(k, mat.Col(nil, at, m))
	}
	return to
}

// jacobianAt returns one element of a Jacobian.
func jacobianAt(to func(*mat.Dense), i, j int) float64 {
	var m mat.Dense
	to(&m)
	return m.At(i, j)
}

// kroneckerBasis returns, for a dense layer with a bias, U_G ⊗ U_A over its parameters, and
// where these lie in θ. The factors are sums over the rows of the problem.
func kroneckerBasis(t *testing.T, p *evaluate.Problem, block linearize.Block, s *gp.Sites) (*mat.Dense, []int) {
	t.Helper()
	o := block.(*linearize.Outer)
	n, in := o.A.Dims()
	_, out := o.G.Dims()
	a, g := mat.NewSymDense(in+1, nil), mat.NewSymDense(out, nil)
	for i := range n {
		row := mat.NewVecDense(in+1, append(mat.Row(nil, i, o.A), 1))
		a.SymRankOne(a, 1, row)
		for k := range o.C {
			mixed := mat.NewVecDense(out, nil)
			for c := range o.C {
				mixed.AddScaledVec(mixed, s.Root.At(i*o.C+c, k), o.G.RowView(i*o.C+c))
			}
			g.SymRankOne(g, 1, mixed)
		}
	}
	var ua, ug, basis mat.Dense
	for m, to := range map[*mat.SymDense]*mat.Dense{a: &ua, g: &ug} {
		var e mat.EigenSym
		require.True(t, e.Factorize(m, true))
		e.VectorsTo(to)
	}
	basis.Kronecker(&ug, &ua)
	var index []int
	require.False(t, o.Weight.Transposed)
	for i := range out {
		for j := range in {
			index = append(index, o.Weight.Offset+i*in+j)
		}
		index = append(index, o.Bias.Offset+i)
	}
	return &basis, index
}
