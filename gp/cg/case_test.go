package cg

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A testCase is a system with everything dense beside it.
type testCase struct {
	*system
	features *features
	x        *linearize.Batch
	lambda   []float64
	j, k, b  *mat.Dense // J, K, B
}

// newTestCase has n examples with c outputs, every kind of block, R of full C×C
// blocks of which some are singular, and up to rank features.
func newTestCase(t *testing.T, n, c, rank int) *testCase {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, uint64(c)))
	x := gptest.RandomBatch(rng, n, c, gptest.RandomLayers(rng)...)
	variance := make([]float64, x.P)
	for i := range variance {
		variance[i] = 1 / float64(1+i)
	}
	prior := testref.Must(ntk.NewDiagonal(variance, nil))(t)
	o := (&Options{Rank: rank, Seed: 3}).withDefaults()
	data, start, plan, err := newData(t.Context(), ntk.New(prior, make([]float64, x.P)), x, &o)
	require.NoError(t, err)
	root := make([]float64, n*c*c)
	for i := range root {
		if i/(c*c)%3 > 0 || i%c == 0 { // a third has rank one
			root[i] = rng.NormFloat64()
		}
	}
	s := &testCase{x: x, lambda: make([]float64, n*c*c)}
	for i := range n {
		r := mat.NewDense(c, c, root[i*c*c:(i+1)*c*c])
		mat.NewDense(c, c, s.lambda[i*c*c:(i+1)*c*c]).Mul(r, r.T())
	}
	s.features = newFeatures(data, start.diag, plan.rank, o.Seed)
	require.NoError(t, s.features.grow(t.Context(), s.lambda, &o))
	blocks := newSiteBlocks(root, c)
	pre := testref.Must(newPreconditioner(t.Context(), blocks, s.features.phi))(t)
	s.system = &system{data: data, root: blocks, pre: pre, o: &o}
	s.j, s.k = new(mat.Dense), mat.NewDense(n*c, n*c, nil)
	x.JacobianTo(s.j)
	data.k.BlockTo(s.k, x, x)
	s.b = s.plusIdentity(s.k)
	return s
}

// eachTestCase has features for some, all and none of the rows.
func eachTestCase(t *testing.T, do func(t *testing.T, s *testCase)) {
	for _, size := range [][3]int{{30, 1, 7}, {20, 3, 12}, {9, 4, 36}, {15, 2, -1}} {
		do(t, newTestCase(t, size[0], size[1], size[2]))
	}
}

// plusIdentity returns I + RᵀkR.
func (s *testCase) plusIdentity(k mat.Matrix) *mat.Dense {
	n, _ := k.Dims()
	c := s.root.c
	r := mat.NewDense(n, n, nil)
	for i := range n {
		for a := range c {
			r.Set(i, i/c*c+a, s.root.blocks[i*c+a])
		}
	}
	var out mat.Dense
	out.Product(r.T(), k, r)
	out.Add(&out, unit(n))
	return &out
}

// q is ΦΦᵀ.
func (s *testCase) q() *mat.Dense {
	phi := mat.DenseCopyOf(dense.View(s.features.phi))
	var q mat.Dense
	q.Mul(phi, phi.T())
	return &q
}

// matrixOf returns the n×n matrix by which f multiplies.
func matrixOf(t *testing.T, n int, f func(ctx context.Context, dst, v blas64.General) error) *mat.Dense {
	t.Helper()
	dst := dense.New(n, n)
	require.NoError(t, f(t.Context(), dst, unit(n).RawMatrix()))
	return dense.View(dst)
}

func unit(n int) *mat.Dense {
	m := mat.NewDense(n, n, nil)
	for i := range n {
		m.Set(i, i, 1)
	}
	return m
}

// requireNear compares in the largest sum of a row, relative to want's.
func requireNear(t *testing.T, what string, got, want mat.Matrix, tol float64) {
	t.Helper()
	var d mat.Dense
	d.Sub(got, want)
	require.LessOrEqual(t, mat.Norm(&d, math.Inf(1)), tol*mat.Norm(want, math.Inf(1)), what)
}

// eigen returns the eigenvalues of the symmetric part, ascending, and the
// vectors.
func eigen(t *testing.T, m mat.Matrix) ([]float64, *mat.Dense) {
	t.Helper()
	n, _ := m.Dims()
	sym := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			sym.SetSym(i, j, (m.At(i, j)+m.At(j, i))/2)
		}
	}
	var eig mat.EigenSym
	require.True(t, eig.Factorize(sym, true))
	var v mat.Dense
	eig.VectorsTo(&v)
	return eig.Values(nil), &v
}
