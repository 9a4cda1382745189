package novelty

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

const (
	// shrinkage is λ in the Mahalanobis distance, relative to the mean diagonal of ZᵀZ.
	shrinkage = 1e-3
	// leastDeviation is the least scale of a column relative to its range, so that a column that is nearly constant
	// does not outweigh all others.
	leastDeviation = .1
	inputTile      = 512 // rows whose distances are computed at once
)

// An inputs holds the inputs of n sampled training examples and computes distances from them. Row i of z is z_i =
// (x_i − mean)/scale, column by column.
type inputs struct {
	mean, scale []float64      // D
	z           blas64.General // n×D
	norm        []float64      // ‖z_i‖
	ridge       float64        // λ
	// u is the Cholesky factor of the smaller of S = ZᵀZ + λI, D×D, and ZZᵀ + λI, n×n.
	u blas64.Triangular
	// own holds z_iᵀS⁻¹z_i. It is nil where the Mahalanobis distance is that from the mean, as in files of version 1.
	own []float64
}

// newInputs takes the rows of x, n×D, and overwrites them with z. Without standardize all scales are 1. It returns
// nil where the products of the inputs overflow.
func newInputs(ctx context.Context, x blas64.General, standardize bool) (*inputs, error) {
	in := &inputs{z: x, mean: make([]float64, x.Cols), scale: slices.Repeat([]float64{1}, x.Cols)}
	for i := range x.Rows {
		floats.Add(in.mean, dense.Row(x, i))
	}
	floats.Scale(1/float64(x.Rows), in.mean)
	if standardize {
		// The scale of a column is its standard deviation, or a tenth of its range if that is larger. A constant
		// column gets the mean scale of the others.
		sum, varying := 0.0, 0.0
		for j := range in.scale {
			column := make([]float64, x.Rows)
			for i := range column {
				column[i] = x.Data[i*x.Stride+j]
			}
			width := floats.Max(column) - floats.Min(column)
			floats.AddConst(-in.mean[j], column)
			in.scale[j] = max(floats.Norm(column, 2)/math.Sqrt(float64(x.Rows)), leastDeviation*width)
			if width == 0 {
				in.scale[j] = 0
				continue
			}
			sum, varying = sum+in.scale[j], varying+1
		}
		for j := range in.scale {
			switch {
			case in.scale[j] == 0 && varying > 0:
				in.scale[j] = sum / varying
			case in.scale[j] == 0:
				in.scale[j] = 1
			}
		}
	}
	for i := range x.Rows {
		in.standardize(dense.Row(x, i))
	}
	if ok, err := in.factor(ctx); err != nil || !ok {
		return nil, err
	}
	return in, in.measure(ctx)
}

// read reads the inputs of src at the positions rows, which ascend, into z. ok is false where src has no inputs, or
// inputs with another number of columns.
func (in *inputs) read(ctx context.Context, src linearize.Source, rows []int) (ok bool, err error) {
	ok = true
	take := func(first int, x *mat.Dense) {
		if ok = ok && x != nil && x.RawMatrix().Cols == in.z.Cols; !ok {
			return
		}
		at, _ := slices.BinarySearch(rows, first)
		for ; at < len(rows) && rows[at] < first+x.RawMatrix().Rows; at++ {
			copy(dense.Row(in.z, at), x.RawRowView(rows[at]-first))
			in.standardize(dense.Row(in.z, at))
		}
	}
	s, only := src.(linearize.InputSource)
	if !only {
		err = src.Batches(ctx, func(first int, b *linearize.Batch) error {
			take(first, b.X)
			return nil
		})
		return ok, err
	}
	next := 0
	err = s.Inputs(ctx, func(x *mat.Dense, _ linearize.ModelFingerprint) error {
		if take(next, x); x != nil {
			next += x.RawMatrix().Rows
		}
		return nil
	})
	return ok, err
}

// standardize replaces a row x by (x − mean)/scale.
func (in *inputs) standardize(x []float64) {
	floats.Sub(x, in.mean)
	floats.Div(x, in.scale)
}

// factor computes norm, ridge and u from z. ok is false where a product overflows.
func (in *inputs) factor(ctx context.Context) (ok bool, err error) {
	n, d := in.z.Rows, in.z.Cols
	in.norm = make([]float64, n)
	trace := 0.0
	for i := range in.norm {
		in.norm[i] = floats.Norm(dense.Row(in.z, i), 2)
		trace += in.norm[i] * in.norm[i]
	}
	if math.IsInf(trace, 0) || math.IsNaN(trace) {
		return false, nil
	}
	if in.ridge = shrinkage * trace / float64(d); in.ridge == 0 {
		in.ridge = 1
	}
	side, t := d, blas.Trans
	if n < d {
		side, t = n, blas.NoTrans
	}
	s := blas64.Symmetric{Uplo: blas.Upper, N: side, Stride: side, Data: make([]float64, side*side)}
	if err := dense.SyrkContext(ctx, t, 1, in.z, 0, s); err != nil {
		return false, err
	}
	for i := range side {
		s.Data[i*side+i] += in.ridge
	}
	// The matrix is positive definite: its condition number is at most N·D/shrinkage.
	in.u, ok, err = dense.PotrfContext(ctx, s)
	return ok, err
}

// measure computes own.
func (in *inputs) measure(ctx context.Context) error {
	n := in.z.Rows
	in.own = make([]float64, n)
	var half blas64.General
	for tile := range par.Tiles(n, inputTile) {
		lo, hi := par.Bounds(tile, n, inputTile)
		half = dense.In(half.Data, hi-lo, in.u.N)
		if n < in.z.Cols {
			clear(half.Data)
			for i := range hi - lo {
				half.Data[i*half.Stride+lo+i] = 1
			}
		} else {
			dense.Copy(half, dense.Rows(in.z, lo, hi))
		}
		if err := dense.TrsmContext(ctx, blas.Right, blas.NoTrans, 1, in.u, half); err != nil {
			return err
		}
		for i := range hi - lo {
			row := dense.Row(half, i)
			if in.own[lo+i] = floats.Dot(row, row); n < in.z.Cols {
				// ZS⁻¹Zᵀ = I − λ(ZZᵀ + λI)⁻¹
				in.own[lo+i] = 1 - in.ridge*in.own[lo+i]
			}
		}
	}
	return nil
}

// distancesTo writes two distances of each row of x, T×D, from the nearest training example: the Mahalanobis distance,
// whose square is (z − z_i)ᵀS⁻¹(z − z_i), and the length √(2 − 2 cos) of the chord between their directions. Each has
// a nearest example of its own.
//
// With own = true it ignores x and writes the distances of each training example, in order, from all others. S is then
// without the example itself; the mean and the scales still include it.
func (in *inputs) distancesTo(ctx context.Context, mahalanobis, angle []float64, x *mat.Dense, own bool) error {
	for i := range angle {
		angle[i] = -1 // the largest cosine so far
		mahalanobis[i] = math.Inf(1)
	}
	var z, products, inner blas64.General
	for tile := range par.Tiles(len(angle), inputTile) {
		lo, hi := par.Bounds(tile, len(angle), inputTile)
		x := dense.Slice(x, lo, hi)
		t, n, first := hi-lo, in.z.Rows, 0
		if own && n >= in.z.Cols {
			first = lo // the products with earlier rows are those of earlier tiles
		}
		z = dense.In(z.Data, t, in.z.Cols)
		norm := make([]float64, t)
		if own {
			copy(norm, in.norm[lo:hi])
			dense.Copy(z, dense.Rows(in.z, lo, hi))
		}
		for i := range t {
			if !own {
				copy(dense.Row(z, i), x.RawRowView(i))
				in.standardize(dense.Row(z, i))
				norm[i] = floats.Norm(dense.Row(z, i), 2)
			}
		}
		products = dense.In(products.Data, t, n-first) // z Zᵀ
		if err := dense.GemmContext(ctx, blas.NoTrans, blas.Trans, 1, z, dense.Rows(in.z, first, n), 0, products); err != nil {
			return err
		}
		for i := range t {
			nearest := angle[lo+i]
			for j, p := range dense.Row(products, i) {
				j += first
				if length := norm[i] * in.norm[j]; (!own || j != lo+i) && length > 0 {
					cos := p / length
					nearest = max(nearest, cos)
					if own {
						angle[j] = max(angle[j], cos)
					}
				}
			}
			angle[lo+i] = nearest
		}
		half := z
		if n < in.z.Cols {
			half = products
		}
		if err := dense.TrsmContext(ctx, blas.Right, blas.NoTrans, 1, in.u, half); err != nil {
			return err
		}
		q := make([]float64, t) // zᵀS⁻¹z
		for i := range q {
			row := dense.Row(half, i)
			if q[i] = floats.Dot(row, row); n < in.z.Cols {
				// zᵀ(ZᵀZ + λI)⁻¹z = (zᵀz − zᵀZᵀ(ZZᵀ + λI)⁻¹Zz)/λ
				q[i] = max(0, norm[i]*norm[i]-q[i]) / in.ridge
			}
		}
		if in.own == nil {
			for i := range q {
				mahalanobis[lo+i] = math.Sqrt(q[i])
			}
			continue
		}
		// z S⁻¹Zᵀ. With fewer rows than columns it is zZᵀ(ZZᵀ + λI)⁻¹.
		if err := dense.TrsmContext(ctx, blas.Right, blas.Trans, 1, in.u, half); err != nil {
			return err
		}
		inner = half
		if n >= in.z.Cols {
			inner = dense.In(products.Data, t, n-first)
			if err := dense.GemmContext(ctx, blas.NoTrans, blas.Trans, 1, half, dense.Rows(in.z, first, n), 0, inner); err != nil {
				return err
			}
		}
		if own {
			in.leaveOut(mahalanobis, inner, lo, first, n >= in.z.Cols)
			continue
		}
		for i := range q {
			for j, p := range dense.Row(inner, i) {
				if square := q[i] + in.own[j] - 2*p; square < mahalanobis[lo+i] {
					mahalanobis[lo+i] = square
				}
			}
			mahalanobis[lo+i] = math.Sqrt(max(0, mahalanobis[lo+i]))
		}
	}
	for i, cos := range angle {
		angle[i] = math.Sqrt(max(0, 2-2*cos))
		if own {
			mahalanobis[i] = math.Sqrt(max(0, mahalanobis[i]))
		}
	}
	if own && len(mahalanobis) == 1 {
		mahalanobis[0] = 0 // there is no other example
	}
	return nil
}

// leaveOut updates squares, for each training example the least squared Mahalanobis distance from another one so far. S
// is computed without the example itself. Entry (i, j) of inner is z_kᵀS⁻¹z_l for the examples k = lo+i and l = first+j.
// It updates the distances of k, and with both = true also those of l.
func (in *inputs) leaveOut(squares []float64, inner blas64.General, lo, first int, both bool) {
	// Without row i, S is S − c·z_i z_iᵀ with c = N/(N−1), and u = z_i − z_j has
	// uᵀS⁻¹u + c(z_iᵀS⁻¹u)²/(1 − c·z_iᵀS⁻¹z_i)
	c := float64(len(squares)) / float64(len(squares)-1)
	without := func(i, j int, p float64) {
		off := in.own[i] - p
		if square := in.own[i] + in.own[j] - 2*p + c*off*off/(1-c*in.own[i]); square < squares[i] {
			squares[i] = square
		}
	}
	for i := range inner.Rows {
		for j, p := range dense.Row(inner, i) {
			if j += first; j == lo+i {
				continue
			}
			without(lo+i, j, p)
			if both {
				without(j, lo+i, p)
			}
		}
	}
}
