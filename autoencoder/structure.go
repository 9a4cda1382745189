package autoencoder

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Pixels linearizes some pixels of the reconstructions of the rows of x, as outputs in
// this order. A pixel that does not exist panics.
func (a *Autoencoder) Pixels(ctx context.Context, x *mat.Dense, pixels []int) (*linearize.Batch, error) {
	_, d := x.Dims()
	for _, k := range pixels {
		if k < 0 || k >= d {
			panic("autoencoder: there is no such pixel")
		}
	}
	return a.some(ctx, x, a.latent, pixels)
}

// Codes linearizes the codes of the rows of x.
func (a *Autoencoder) Codes(ctx context.Context, x *mat.Dense) (*linearize.Batch, error) {
	return a.some(ctx, x, 0, dense.Range(a.latent))
}

// some linearizes the elements at the places first + k of codes and reconstructions.
func (a *Autoencoder) some(ctx context.Context, x *mat.Dense, first int, places []int) (*linearize.Batch, error) {
	_, c, _ := a.joint.Dims()
	n := dense.Count(x)
	w := mat.NewDense(n*len(places), c, nil)
	for i := range n {
		for k, at := range places {
			w.Set(i*len(places)+k, first+at, 1)
		}
	}
	return a.joint.LinearizeCombined(ctx, x, w)
}

// FitStructure returns a posterior over the weights whose precision has another structure
// than a diagonal, such as weightspace.KFAC, for trained parameters and the rows of x.
// It takes D backward passes for each row and 16·N·D² bytes, so that it is for small
// pictures or few rows. The prior is N(0, I/δ). o.Curvature is not used.
func FitStructure(ctx context.Context, a *Autoencoder, structure weightspace.Structure, x *mat.Dense, o *FitOptions) (weightspace.Weights, error) {
	n, d := x.Dims()
	s, prior, err := a.sites(ctx, x, nil, o)
	if err != nil {
		return nil, err
	}
	src := linearize.NewSource(a.net, n, linearize.Tile(d), func(lo, hi int) (*mat.Dense, error) { return dense.Slice(x, lo, hi), nil })
	return weightspace.FitStructure(ctx, structure, src, s, prior, a.net.Theta(), nil)
}

// LatentCov returns the covariance of the codes of the rows of x under a posterior of
// FitStructure, N·L×L. It takes D backward passes for each row.
func (a *Autoencoder) LatentCov(ctx context.Context, post weightspace.Weights, x *mat.Dense) (*mat.Dense, error) {
	n, d := x.Dims()
	_, c, _ := a.joint.Dims()
	if a.latent > d {
		return nil, fmt.Errorf("autoencoder: a code of %d numbers is larger than the %d pixels", a.latent, d)
	}
	// The posterior is one of D outputs: those after the code are zero.
	w := mat.NewDense(n*d, c, nil)
	for i := range n {
		for k := range a.latent {
			w.Set(i*d+k, k, 1)
		}
	}
	b, err := a.joint.LinearizeCombined(ctx, x, w)
	if err != nil {
		return nil, err
	}
	var cov mat.Dense
	if err := post.PredictTo(ctx, nil, &cov, b); err != nil {
		return nil, err
	}
	out := mat.NewDense(n*a.latent, a.latent, nil)
	for i := range n {
		dense.Slice(out, i*a.latent, (i+1)*a.latent).Copy(cov.Slice(i*d, i*d+a.latent, 0, a.latent))
	}
	return out, nil
}

// FunctionSpace returns the exact posterior over some pixels of the reconstructions of the
// rows of x as functions, to check the others by: its N·C function values, with C pixels,
// have the kernel of the linearized network with the prior N(0, I/δ). o.Curvature is not
// used.
func FunctionSpace(ctx context.Context, a *Autoencoder, x *mat.Dense, pixels []int, o *FitOptions) (*gp.Exact, error) {
	s, prior, err := a.sites(ctx, x, pixels, o)
	if err != nil {
		return nil, err
	}
	b, err := a.Pixels(ctx, x, pixels)
	if err != nil {
		return nil, err
	}
	return gp.Fit(ctx, ntk.New(prior, a.net.Theta(), nil), b, s, nil)
}

// sites returns the Gaussian sites of some pixels of the rows of x, nil for all, and the
// prior.
func (a *Autoencoder) sites(ctx context.Context, x *mat.Dense, pixels []int, o *FitOptions) (*gp.Sites, ntk.Prior, error) {
	opt, err := o.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	n, d := x.Dims()
	if pixels == nil {
		pixels = dense.Range(d)
	}
	err = gp.CheckMemory("the sites of all pixels", gp.TrainingExamples, n, 0, func(n int) int64 { return 16 * int64(n) * int64(len(pixels)) * int64(len(pixels)) })
	if err != nil {
		return nil, nil, err
	}
	f, err := a.net.Forward(ctx, x)
	if err != nil {
		return nil, nil, fmt.Errorf("autoencoder: %w", err)
	}
	lik, err := glm.NewGaussian(opt.Noise)
	if err != nil {
		return nil, nil, err
	}
	prior, err := ntk.NewIsotropic(opt.Prior, nil)
	if err != nil {
		return nil, nil, err
	}
	s, err := gp.NewSites(columns(x, pixels), columns(f, pixels), lik)
	return s, prior, err
}

// columns returns some columns of m.
func columns(m *mat.Dense, at []int) *mat.Dense {
	n, _ := m.Dims()
	out := mat.NewDense(n, len(at), nil)
	for i := range n {
		for k, j := range at {
			out.Set(i, k, m.At(i, j))
		}
	}
	return out
}
