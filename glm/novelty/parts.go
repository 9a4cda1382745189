package novelty

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
)

// Parts has the numbers from which a detector computes scores, so that another program can compute them. They must not
// be changed.
type Parts struct {
	Function *gp.Reduction // the posterior whose covariance at an input is v
	Inputs   *InputParts   // nil without the distances of inputs
	Tails    []TailOfRows  // one for each distance, in their order
	Training []float64     // scores of the training rows, ascending
}

// InputParts has what the distances of an input x, D numbers, are computed from: z = (x − Mean)/Scale.
type InputParts struct {
	Mean, Scale []float64  // D
	Z           *mat.Dense // z of the n training rows, n×D
	Norm        []float64  // n, the lengths of the rows of Z
	// The squared Mahalanobis distance of z from the mean is q = |zᵀHalf|² where Ridge is 0, and
	// q = (zᵀz − |zᵀZᵀHalf|²)/Ridge otherwise.
	Half  *mat.Dense
	Ridge float64
	// The squared distances of z from the training rows are q + Own − 2p, with p = zᵀHalf HalfᵀZᵀ where Ridge is 0, and
	// p = zᵀZᵀHalf Halfᵀ otherwise. The least of them counts. Where Own is nil, the distance from the mean counts.
	Own []float64 // n
}

// TailOfRows is the distribution of a distance over the training rows. Below From it is the empirical distribution of
// Sorted. The share Share of the rows is at From and beyond; their excess over From is exponential with mean Mean.
type TailOfRows struct {
	Sorted            []float64 // ascending
	From, Share, Mean float64
}

// Parts returns the parts of d.
func (d *Detector) Parts(ctx context.Context) (*Parts, error) {
	r, err := d.variance.posterior().Reduction(ctx, false)
	if err != nil {
		return nil, err
	}
	p := &Parts{Function: r, Training: d.training}
	for _, t := range d.tails {
		p.Tails = append(p.Tails, TailOfRows{Sorted: t.sorted, From: t.from, Share: t.share, Mean: t.mean})
	}
	if in := d.inputs; in != nil {
		half := dense.New(in.u.N, in.u.N)
		for i := range in.u.N {
			half.Data[i*half.Stride+i] = 1
		}
		if err := dense.TrsmContext(ctx, blas.Right, blas.NoTrans, 1, in.u, half); err != nil {
			return nil, err
		}
		p.Inputs = &InputParts{Mean: in.mean, Scale: in.scale, Z: dense.View(in.z), Norm: in.norm, Half: dense.View(half), Own: in.own}
		if in.z.Rows < in.z.Cols {
			p.Inputs.Ridge = in.ridge
		}
	}
	return p, nil
}
