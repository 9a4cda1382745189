package cg

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dense"
)

// A features is Φ, N·C×rank, with Q = ΦΦᵀ ⪯ K. It is a partial Cholesky factor of
// K whose pivots are examples. They are drawn a block at a time, each with
// probability proportional to its part of tr Rᵀ(K−Q)R (Chen, Epperly, Tropp,
// Webber 2024, "Randomly pivoted Cholesky"). It grows as the sites change.
type features struct {
	d       *data
	rng     *rand.Rand
	phi     blas64.General // Φ, with memory for most columns
	most    int            // largest rank
	rest    []float64      // the C×C blocks of K − Q
	used    []bool         // examples that are pivots
	largest float64        // on the diagonal of K
}

func newFeatures(d *data, diag []float64, most int, seed uint64) *features {
	f := &features{d: d, rng: rand.New(rand.NewPCG(seed, featuresStream)), most: most, rest: slices.Clone(diag), used: make([]bool, d.n)}
	f.phi = blas64.General{Rows: d.n * d.c, Stride: max(1, most), Data: make([]float64, d.n*d.c*most)}
	for i := range d.n * d.c {
		f.largest = math.Max(f.largest, diag[i*d.c+i%d.c])
	}
	return f
}

// left returns tr Λ_i(k_ii − q_ii) of each example and the sum: tr Rᵀ(K−Q)R.
func (f *features) left(lambda []float64) (each []float64, sum float64) {
	cc := f.d.c * f.d.c
	each = make([]float64, f.d.n)
	for i := range each {
		each[i] = math.Max(0, floats.Dot(lambda[i*cc:(i+1)*cc], f.rest[i*cc:(i+1)*cc]))
		sum += each[i]
	}
	return each, sum
}

// featuresStream is the stream of random numbers that pivots are drawn from.
const featuresStream = 3

// enough is the tr Rᵀ(K−Q)R at which no features are added any more. The
// eigenvalues of the preconditioned matrix are then between 1 and 2.
const enough = 1

// grow adds features until they explain tr RᵀKR up to enough, until there are as
// many as there may be, or until a block of examples adds none.
func (f *features) grow(ctx context.Context, lambda []float64, o *Options) error {
	for f.phi.Cols+f.d.c <= f.most {
		each, sum := f.left(lambda)
		if sum <= enough {
			return nil
		}
		// Draw up to n examples that are no pivots yet, without replacement, with probability proportional
		// to w. They are those with the largest log w_i + g_i, where the g_i are independent Gumbel
		// numbers.
		n := max(1, min(f.block(), f.most-f.phi.Cols)/f.d.c)
		type candidate struct {
			key float64
			row int
		}
		var all []candidate
		for i, v := range each {
			g := -math.Log(f.rng.ExpFloat64())
			if v > 0 && !f.used[i] {
				all = append(all, candidate{math.Log(v) + g, i})
			}
		}
		slices.SortFunc(all, func(a, b candidate) int { return cmp.Or(cmp.Compare(b.key, a.key), a.row-b.row) })
		pivots := make([]int, min(n, len(all)))
		for i := range pivots {
			pivots[i] = all[i].row
		}
		slices.Sort(pivots)
		if len(pivots) == 0 {
			return nil
		}
		before := f.phi.Cols
		if err := f.add(ctx, pivots); err != nil {
			return err
		}
		if f.phi.Cols == before {
			return nil
		}
		o.Progress(StagePreconditioner, f.phi.Cols, f.most)
	}
	return nil
}

// block returns how many features are made at once. Small blocks choose better,
// because the examples of one block are drawn independently of one another, but
// where the examples are not in memory each block takes a pass over them.
func (f *features) block() int {
	if f.d.pass != nil {
		return max(mostBlock, f.most/8)
	}
	return mostBlock
}

// smallFeature is the pivot, relative to the largest diagonal entry of K,
// below which a feature is left out, because rounding would make Q exceed K.
const smallFeature = 1e-11

// add adds the features of the examples at pivots.
func (f *features) add(ctx context.Context, pivots []int) error {
	z, err := f.d.gather(ctx, pivots)
	if err != nil {
		return err
	}
	c := f.d.c
	// (K − Q)_nS
	g := dense.New(f.phi.Rows, len(pivots)*c)
	if err := f.d.crossTo(ctx, g, z); err != nil {
		return err
	}
	if f.phi.Cols > 0 {
		s := dense.New(g.Cols, f.phi.Cols)
		f.rowsTo(s, f.phi, pivots)
		if err := dense.GemmContext(ctx, blas.NoTrans, blas.Trans, -1, f.phi, s, 1, g); err != nil {
			return err
		}
	}
	// Pᵀ (K − Q)_SS P = L Lᵀ
	h := dense.New(g.Cols, g.Cols)
	f.rowsTo(h, g, pivots)
	piv := make([]int, h.Rows)
	l, rank, err := dense.PstrfContext(ctx, blas64.Symmetric{Uplo: blas.Lower, N: h.Rows, Stride: h.Stride, Data: h.Data}, piv, smallFeature*f.largest)
	if err != nil {
		return err
	}
	for _, i := range pivots {
		f.used[i] = true
	}
	if rank = min(rank, f.most-f.phi.Cols); rank == 0 {
		return nil
	}
	l.N = rank
	return f.append(ctx, g, piv[:rank], l)
}

// rowsTo copies the rows of some examples.
func (f *features) rowsTo(dst, src blas64.General, examples []int) {
	c := f.d.c
	for i, e := range examples {
		dense.Copy(dense.Rows(dst, i*c, (i+1)*c), dense.Rows(src, e*c, (e+1)*c))
	}
}

// append appends the columns piv of g, times L⁻ᵀ, to Φ and subtracts their
// products from rest.
func (f *features) append(ctx context.Context, g blas64.General, piv []int, l blas64.Triangular) error {
	c, at := f.d.c, f.phi.Cols
	f.phi.Cols += len(piv)
	fresh := dense.Cols(f.phi, at, f.phi.Cols)
	for i := range g.Rows {
		from, to := dense.Row(g, i), dense.Row(fresh, i)
		for j, p := range piv {
			to[j] = from[p]
		}
	}
	if err := dense.TrsmContext(ctx, blas.Right, blas.Trans, 1, l, fresh); err != nil {
		return err
	}
	eachTile(f.d.n, func(lo, hi int) {
		for i := lo * c; i < hi*c; i++ {
			row, first := dense.Row(fresh, i), i/c*c
			for a := range c {
				f.rest[i*c+a] -= floats.Dot(row, dense.Row(fresh, first+a))
			}
		}
	})
	return nil
}
