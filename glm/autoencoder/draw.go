package autoencoder

import (
	"cmp"
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// DrawOptions say how networks are drawn. Zero means the default.
type DrawOptions struct {
	Samples int    // drawn networks; 0 means 100
	Keep    int    // reconstructions to return beside their moments, of the first draws
	Seed    uint64 // of the draws

	// Progress, if not nil, is told of each drawn network.
	Progress func(done, total int)
}

func (o *DrawOptions) withDefaults() (opt DrawOptions) {
	if o != nil {
		opt = *o
	}
	opt.Samples = cmp.Or(opt.Samples, 100)
	if opt.Samples < 0 || opt.Keep < 0 {
		panic("autoencoder: a negative number of draws")
	}
	return opt
}

// Drawn is what networks drawn from a posterior make of some rows.
type Drawn struct {
	Mean, SD  *mat.Dense   // of the reconstructions over the draws, N×D
	Latent    *mat.Dense   // mean of the codes, N×L
	LatentCov *mat.Dense   // their covariance, N·L×L, a block for each row
	Errors    []float64    // mean over the draws of ‖x − f‖², of each row
	Samples   []*mat.Dense // reconstructions by the first draws, each N×D
}

// Theta writes the parameters of draw s of this seed, P numbers, to dst.
func (p *Posterior) Theta(dst []float64, seed uint64, s int) {
	p.theta(dst, make([]float64, len(dst)), normals(seed, drawNoise, uint64(s)))
}

func (p *Posterior) theta(dst, scratch []float64, eps noise) {
	drawTo(dst, scratch, p.a.net.Theta(), p.h, p.prior, eps)
}

// Draw runs networks drawn from the posterior on the rows of x, N×D. Means and variances
// are over the draws, with their number as the divisor.
func (p *Posterior) Draw(ctx context.Context, x *mat.Dense, o *DrawOptions) (*Drawn, error) {
	opt := o.withDefaults()
	return p.draws(ctx, x, &opt, func(s int) noise { return normals(opt.Seed, drawNoise, uint64(s)) })
}

// draws is Draw with given noise for each draw.
func (p *Posterior) draws(ctx context.Context, x *mat.Dense, o *DrawOptions, eps func(s int) noise) (*Drawn, error) {
	n, d := x.Dims()
	l, theta := p.a.latent, make([]float64, len(p.h))
	out := &Drawn{Mean: mat.NewDense(n, d, nil), SD: mat.NewDense(n, d, nil), Latent: mat.NewDense(n, l, nil), LatentCov: mat.NewDense(n*l, l, nil), Errors: make([]float64, n)}
	scratch := make([]float64, len(theta))
	for s := range o.Samples {
		p.theta(theta, scratch, eps(s))
		net, err := p.a.joint.WithTheta(theta)
		if err != nil {
			return nil, err
		}
		both, err := net.Forward(ctx, x)
		if err != nil {
			return nil, err
		}
		z, f := p.a.split(both)
		dense.EachRow(0, x.RawMatrix(), func(i int, row []float64) {
			// Take row i of draw s into the sums: the means, and the sums of squares about them [Welford 1962].
			z := z.RawRowView(i)
			f := f.RawRowView(i)
			k := float64(s + 1)
			addMoments(out.Mean.RawRowView(i), out.SD.RawRowView(i), f, k)
			l := len(z)
			code, before := out.Latent.RawRowView(i), make([]float64, l)
			for j, v := range z {
				before[j] = v - code[j]
				code[j] += before[j] / k
			}
			for j := range l {
				for m, v := range z {
					out.LatentCov.Set(i*l+j, m, out.LatentCov.At(i*l+j, m)+before[j]*(v-code[m]))
				}
			}
			e := floats.Distance(row, f, 2)
			out.Errors[i] += (e*e - out.Errors[i]) / k
		})
		if s < o.Keep {
			out.Samples = append(out.Samples, mat.DenseCopyOf(f))
		}
		if o.Progress != nil {
			o.Progress(s+1, o.Samples)
		}
	}
	toSD(out.SD, o.Samples)
	out.LatentCov.Scale(1/float64(o.Samples), out.LatentCov)
	return out, nil
}

// addMoments takes draw k, counted from 1, into the means and the sums of squares about them.
func addMoments(mean, square, f []float64, k float64) {
	for j, v := range f {
		delta := v - mean[j]
		mean[j] += delta / k
		square[j] += delta * (v - mean[j])
	}
}

// toSD makes standard deviations of sums of squares over the draws.
func toSD(m *mat.Dense, samples int) {
	sd := m.RawMatrix().Data
	for i, v := range sd {
		sd[i] = math.Sqrt(max(v, 0) / float64(samples))
	}
}
