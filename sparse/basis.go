package sparse

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/internal/vector"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A basis computes the features φ(x) = Gᵀk_Z(x) with GGᵀ = K_ZZ⁻¹, so that
// Q = ΦᵀΦ. Where K_ZZ has a good Cholesky factor L, G = L⁻ᵀ is not formed; where
// K_ZZ is singular to working precision, G has fewer columns than rows.
type basis struct {
	k     ntk.Kernel
	z     *Inducing
	c     int               // outputs of the data
	per   int               // rows of K_ZZ of an inducing element: c, or 1 for pairs
	l     blas64.Triangular // lower Cholesky factor of K_ZZ; empty where g is set
	g     blas64.General    // G, a row for each row of K_ZZ and rank columns; empty where l is set
	known *knownFeatures    // the features of the inducing elements, where g is set
	trace float64           // tr K_ZZ

	// Prepared examples belong to all posteriors with the same prefixOf.
	prefixOf *Inducing // z is a prefix of these inducing elements; see Leading
	ratio    float64   // prior variances of this basis over those of the fitted basis; see At
}

const (
	// smallPivot bounds the pivots of K_ZZ relative to the largest. With a
	// smaller one, K_ZZ is factored again with pivoting, which finds its rank.
	smallPivot = 1e-11
	// dropPivot is the pivot, relative to the largest, below which the rest of
	// K_ZZ is rounding (E13).
	dropPivot = 1e-15
)

// gram returns K_ZZ with both triangles filled.
func (b *basis) gram(ctx context.Context, o *Options) (blas64.Symmetric, error) {
	m, per := b.z.Len(), b.per
	n := m * per
	a := blas64.General{Rows: n, Cols: n, Stride: n, Data: make([]float64, n*n)}
	step := linearize.Tile(per)
	for p := range par.Tiles(m, step) {
		if err := ctx.Err(); err != nil {
			return blas64.Symmetric{}, err
		}
		lo, hi := par.Bounds(p, m, step)
		rows := b.z.Batch.Slice(lo, hi)
		panel := dense.Rows(a, lo*per, hi*per)
		if lo > 0 {
			left := dense.Cols(panel, 0, lo*per)
			if err := ntk.BlockContextTo(ctx, b.k, dense.View(left), rows, b.z.Batch.Slice(0, lo)); err != nil {
				return blas64.Symmetric{}, err
			}
			dense.TransposeTo(dense.Cols(dense.Rows(a, 0, lo*per), lo*per, hi*per), left)
		}
		if err := ntk.BlockContextTo(ctx, b.k, dense.View(dense.Cols(panel, lo*per, hi*per)), rows, rows); err != nil {
			return blas64.Symmetric{}, err
		}
		if err := sites.NotFiniteRows("kernel of inducing examples", dense.View(dense.Cols(panel, 0, hi*per)), lo, per); err != nil {
			return blas64.Symmetric{}, err
		}
		o.Show(StageInducing, hi, m)
	}
	return blas64.Symmetric{Uplo: blas.Lower, N: n, Stride: n, Data: a.Data}, nil
}

// factorPivoted sets G where K_ZZ is singular. Pivoted Cholesky gives
// K_ZZ = T Tᵀ, where T has as many columns as K_ZZ has rank. With T = Q R,
// G = T(TᵀT)⁻¹ = Q R⁻ᵀ. This G writes a function as a sum over Z with the smallest
// possible weights, which keeps rounding small in extrapolation.
func (b *basis) factorPivoted(ctx context.Context, a blas64.Symmetric, largest float64) error {
	n := a.N
	piv := make([]int, n)
	// Pᵀ K_ZZ P = T Tᵀ
	_, rank, err := dense.PstrfContext(ctx, a, piv, dropPivot*largest)
	if err != nil || rank == 0 {
		return err
	}
	t := dense.New(n, rank)
	for i, to := range piv {
		copy(t.Data[to*rank:(to+1)*rank], a.Data[i*a.Stride:][:min(i+1, rank)])
	}
	b.known = newKnownFeatures(b.z, dense.In(append([]float64(nil), t.Data...), n, rank))
	tau, work := make([]float64, rank), make([]float64, 1)
	lapack64.Geqrf(t, tau, work, -1)
	work = make([]float64, int(work[0]))
	lapack64.Geqrf(t, tau, work, len(work))
	if err := ctx.Err(); err != nil {
		return err
	}
	r := blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: rank, Stride: rank, Data: make([]float64, rank*rank)}
	for i := range rank {
		copy(r.Data[i*rank+i:(i+1)*rank], t.Data[i*rank+i:])
	}
	lapack64.Orgqr(t, tau, work, len(work))
	b.g = t
	// G Rᵀ = Q
	return dense.TrsmContext(ctx, blas.Right, blas.Trans, 1, r, t)
}

// rank returns the number of features.
func (b *basis) rank() int {
	if b.g.Rows > 0 {
		return b.g.Cols
	}
	return b.l.N
}

// rows returns the number of rows of K_ZZ.
func (b *basis) rows() int { return b.z.Len() * b.per }

// scaled returns the basis under the prior variances times factor.
func (b *basis) scaled(factor float64) *basis {
	s := *b
	s.k, s.trace, s.ratio = scale(b.k, factor), factor*b.trace, factor*b.ratio
	s.l.Data, s.g.Data = times(math.Sqrt(factor), b.l.Data), times(1/math.Sqrt(factor), b.g.Data)
	if b.known != nil {
		o := *b.known
		o.phi.Data = times(math.Sqrt(factor), o.phi.Data)
		s.known = &o
	}
	return &s
}

func times(f float64, v []float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = f * x
	}
	return out
}

// solve returns the features φ of the examples of p, given k_Z in k, one row for
// each output. The result is in the memory of k or of phi. It fails with
// ctx.Err() only.
func (b *basis) solve(ctx context.Context, p chunk, k, phi blas64.General) (blas64.General, error) {
	if b.g.Rows == 0 {
		// φᵀ = k L⁻ᵀ
		return k, dense.TrsmContext(ctx, blas.Right, blas.Trans, 1, b.l, k)
	}
	err := dense.GemmContext(ctx, blas.NoTrans, blas.NoTrans, 1, k, b.g, 0, phi)
	if err == nil {
		b.known.set(phi, p)
	}
	return phi, err
}

// weights returns wGᵀ, which turns weights w of features into weights of the
// rows of k_Z: wφ(x) = (wGᵀ)k_Z(x). w has one row for each function. It may
// overwrite w. It fails with ctx.Err() only.
func (b *basis) weights(ctx context.Context, w blas64.General) (blas64.General, error) {
	if b.g.Rows == 0 {
		return w, dense.TrsmContext(ctx, blas.Right, blas.NoTrans, 1, b.l, w)
	}
	out := dense.New(w.Rows, b.rows())
	return out, dense.GemmContext(ctx, blas.NoTrans, blas.Trans, 1, w, b.g, 0, out)
}

// A knownFeatures holds the features of the inducing elements, taken from the
// factor of K_ZZ. Where K_ZZ is singular to working precision, Gᵀk_Z amplifies the
// rounding of k_Z, so these features replace Gᵀk_Z for examples that are inducing
// ones. With M = N this keeps the posterior equal to the exact one. An example is
// recognized by its inputs and outputs.
type knownFeatures struct {
	c     int        // outputs of the data
	u     *mat.Dense // the directions of pairs; nil for examples
	x, f  *mat.Dense // inputs and outputs
	phi   blas64.General
	index map[uint64][]int // elements by the hash of their inputs
}

// newKnownFeatures returns nil where the batch of z has no inputs.
func newKnownFeatures(z *Inducing, phi blas64.General) *knownFeatures {
	x, f := z.Batch.X, z.Batch.F
	if x == nil {
		return nil
	}
	o := &knownFeatures{c: z.outputs(), u: z.Directions, x: x, f: f, phi: phi, index: make(map[uint64][]int, z.Len())}
	for i := range z.Len() {
		h := vector.Hash(x.RawRowView(i))
		o.index[h] = append(o.index[h], i)
	}
	return o
}

// set overwrites the features in phi of those examples of p that are inducing
// ones.
func (o *knownFeatures) set(phi blas64.General, p chunk) {
	if o == nil || p.x.X == nil {
		return
	}
	for i := range p.x.Len() {
		row := p.x.X.RawRowView(i)
		for _, z := range o.index[vector.Hash(row)] {
			if !slices.Equal(row, o.x.RawRowView(z)) {
				continue
			}
			set := false
			if p.sums != nil {
				set = o.setSum(dense.Row(phi, i), z, p.sums.RawRowView(i), p.x.F.At(i, 0))
			} else {
				set = o.setFrom(phi, i, z, p.x.F.RawRowView(i))
			}
			if set {
				break
			}
		}
	}
}

// setSum overwrites the features phi of the sum Σ_a w_a f_a, whose value is f, with those
// of the inducing element z where z has the outputs of that sum.
func (o *knownFeatures) setSum(phi []float64, z int, w []float64, f float64) bool {
	lo, n := z*o.c, o.c
	if o.u != nil {
		if !slices.Equal(w, o.u.RawRowView(z)) {
			return false
		}
		w, lo, n = []float64{1}, z, 1
	}
	if !floats.EqualApprox([]float64{f}, []float64{floats.Dot(w, o.f.RawRowView(z))}, sameOutput) {
		return false
	}
	clear(phi)
	for a := range n {
		floats.AddScaled(phi, w[a], o.phi.Data[(lo+a)*o.phi.Stride:][:len(phi)])
	}
	return true
}

// setFrom overwrites the features of example i of a batch with those of the
// inducing example z. It returns false, and does nothing, where z is a pair or the
// outputs f of the example differ from the element's.
func (o *knownFeatures) setFrom(phi blas64.General, i, z int, f []float64) bool {
	if o.u != nil || !floats.EqualApprox(f, o.f.RawRowView(z), sameOutput) {
		return false
	}
	for a := range o.c {
		copy(phi.Data[(i*o.c+a)*phi.Stride:][:phi.Cols], o.phi.Data[(z*o.c+a)*o.phi.Stride:])
	}
	return true
}

// sameOutput is the relative difference of two outputs below which they are the
// same but for rounding.
const sameOutput = 1e-9
