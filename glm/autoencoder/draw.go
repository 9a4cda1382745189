package autoencoder

import (
	"cmp"
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// DrawOptions are options of Draw and Impute. A zero field has its default.
type DrawOptions struct {
	Samples int // drawn networks; 0 means 100 for Draw and 10 for Impute
	Keep    int // for Draw: number of draws, from the first, whose reconstructions are returned
	// Rounds, for Impute, is the number of times that each sample goes through its network. The known pixels are put
	// back after each round. 0 means 10, after which digits no longer change. One round leaves much of the noise.
	Rounds int
	Seed   uint64 // seed of the random numbers
	// Progress, if not nil, is called after each drawn network, or each pass of all rows through a network.
	Progress func(done, total int)
}

func (o *DrawOptions) withDefaults(samples int) (opt DrawOptions) {
	if o != nil {
		opt = *o
	}
	opt.Samples, opt.Rounds = cmp.Or(opt.Samples, samples), cmp.Or(opt.Rounds, 10)
	if opt.Samples < 0 || opt.Keep < 0 || opt.Rounds < 0 {
		panic("autoencoder: a negative number of draws or rounds")
	}
	if opt.Progress == nil {
		opt.Progress = func(int, int) {}
	}
	return opt
}

// Drawn has the moments of the outputs of drawn networks for N rows.
type Drawn struct {
	Mean, SD  *mat.Dense   // of the reconstructions over the draws, N×D
	Latent    *mat.Dense   // mean of the codes, N×L
	LatentCov *mat.Dense   // covariance of the codes, N·L×L, one L×L block for each row
	Errors    []float64    // ‖x − f‖² of each row, averaged over the draws
	Samples   []*mat.Dense // reconstructions by the first draws, each N×D
}

// Theta writes the parameters of draw number s with the given seed to dst, P numbers.
func (p *Posterior) Theta(dst []float64, seed uint64, s int) {
	p.theta(dst, make([]float64, len(dst)), normals(seed, drawNoise, uint64(s)))
}

func (p *Posterior) theta(dst, scratch []float64, eps noise) {
	drawTo(dst, scratch, p.a.net.Theta(), p.h, p.prior, eps)
}

// Draw draws networks from the posterior and runs each on the rows of x, N×D. Means and variances divide by the
// number of draws.
func (p *Posterior) Draw(ctx context.Context, x *mat.Dense, o *DrawOptions) (*Drawn, error) {
	opt := o.withDefaults(100)
	return p.draws(ctx, x, &opt, func(s int) noise { return normals(opt.Seed, drawNoise, uint64(s)) })
}

// draws is Draw with the noise eps(s) for draw s.
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
		dense.EachRow(x.RawMatrix(), func(i int, row []float64) {
			// Add row i of draw s to the running means and to the sums of squares about them [Welford 1962].
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
		o.Progress(s+1, o.Samples)
	}
	toSD(out.SD, o.Samples)
	out.LatentCov.Scale(1/float64(o.Samples), out.LatentCov)
	return out, nil
}

// addMoments adds draw k, counted from 1, to the means and to the sums of squares about the means.
func addMoments(mean, square, f []float64, k float64) {
	for j, v := range f {
		delta := v - mean[j]
		mean[j] += delta / k
		square[j] += delta * (v - mean[j])
	}
}

// toSD turns the sums of squares of samples draws into standard deviations.
func toSD(m *mat.Dense, samples int) {
	sd := m.RawMatrix().Data
	for i, v := range sd {
		sd[i] = math.Sqrt(max(v, 0) / float64(samples))
	}
}
