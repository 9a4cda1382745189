package lae

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/autoencoder"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/studies/reproduce"
)

// dropout is the ratio of the source's released settings, and members the size of its ensemble.
const dropout, members = 0.2, 5

// baselinesStep judges what the source compares with: an autoencoder whose dropout goes on in use, and an ensemble of
// autoencoders.
func (s *study) baselinesStep(ctx context.Context, progress reproduce.Progress) (any, error) {
	p, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	a, err := s.plain(ctx, p, 0, dropout)
	if err != nil {
		return nil, err
	}
	rng, masked := rand.New(rand.NewPCG(1, 0xd209)), make([][]float64, s.samples)
	for i := range masked {
		masked[i] = withoutUnits(a.Network(), dropout, rng)
	}
	var ensemble [][]float64
	for seed := range uint64(members) {
		progress(int(seed)+1, members+1)
		one, err := s.plain(ctx, p, seed, 0)
		if err != nil {
			return nil, err
		}
		ensemble = append(ensemble, one.Network().Theta())
	}
	var out []judged
	for _, v := range []struct {
		name   string
		thetas [][]float64
	}{{"Monte Carlo dropout", masked}, {fmt.Sprintf("ensemble of %d", members), ensemble}} {
		var scores [3]*autoencoder.Scores
		for i, x := range []*mat.Dense{dense.Slice(p.train, 0, min(typicalRows, s.train)), p.test, p.others} {
			d, err := moments(ctx, a, v.thetas, x)
			if err != nil {
				return nil, err
			}
			typical := 0.0
			if i > 0 {
				typical = scores[0].Typical()
			}
			scores[i] = d.Scores(1, typical)
		}
		j := judge(v.name, scores[1], scores[2])
		j.Error = result.Float(math.NaN())
		out = append(out, *j)
	}
	return out, nil
}

// plain trains an autoencoder alone, with dropout behind each activation where it is not 0.
func (s *study) plain(ctx context.Context, p *pictures, seed uint64, ratio float64) (*autoencoder.Autoencoder, error) {
	layers, err := autoencoder.Layers(elements(p.shape), s.widths, network.Tanh)
	if err != nil {
		return nil, err
	}
	for i := len(layers) - 1; i >= 0 && ratio > 0; i-- {
		if layers[i] == network.Layer(network.Tanh) {
			layers = slices.Insert(layers, i+1, network.Layer(network.Dropout{Ratio: ratio}))
		}
	}
	net, err := network.Seeded(seed, p.shape, layers...)
	if err != nil {
		return nil, err
	}
	lik, err := glm.NewGaussian(1)
	if err != nil {
		return nil, err
	}
	if net, _, err = train.MAP(ctx, net, p.train, p.train, lik, &train.Options{Batch: batch, Epochs: s.epochs, LearningRate: 1e-3, LBFGS: -1, Seed: seed,
		Validation: &train.Validation{X: p.valid, Y: p.valid, Patience: 8}}); err != nil {
		return nil, err
	}
	return autoencoder.New(net, "")
}

// withoutUnits returns the parameters of a network of dense layers in which units that dropout follows are missing with
// a probability of ratio, and the weights of the others are divided by 1 − ratio. Dropout follows each layer but the
// code, the narrowest.
func withoutUnits(net *network.Network, ratio float64, rng *rand.Rand) []float64 {
	theta, params, code := net.Theta(), net.Params(), math.MaxInt
	for _, q := range params {
		code = min(code, q.Shape[0])
	}
	first := true
	for _, q := range params {
		if !strings.HasSuffix(q.Name, ".weight") || first || q.Shape[1] == code {
			first = false
			continue
		}
		out, in := q.Shape[0], q.Shape[1]
		for j := range in {
			scale := 1 / (1 - ratio)
			if rng.Float64() < ratio {
				scale = 0
			}
			for i := range out {
				theta[q.Offset+i*in+j] *= scale
			}
		}
	}
	return theta
}

// moments returns the moments of the outputs of networks with these parameters.
func moments(ctx context.Context, a *autoencoder.Autoencoder, thetas [][]float64, x *mat.Dense) (*autoencoder.Drawn, error) {
	var z, f, z2, f2 *mat.Dense // sums, and sums of squares
	n, _ := x.Dims()
	d := &autoencoder.Drawn{Errors: make([]float64, n)}
	for _, theta := range thetas {
		one, err := a.WithTheta(theta)
		if err != nil {
			return nil, err
		}
		code, out, err := one.Encode(ctx, x)
		if err != nil {
			return nil, err
		}
		floats.AddScaled(d.Errors, 1/float64(len(thetas)), autoencoder.SquaredErrors(x, out))
		add(&z, &z2, code)
		add(&f, &f2, out)
	}
	k := float64(len(thetas))
	_, l := z.Dims()
	d.Mean, d.SD, d.Latent, d.LatentCov = f, f2, z, mat.NewDense(n*l, l, nil)
	for _, m := range []*mat.Dense{z, z2, f, f2} {
		m.Scale(1/k, m)
	}
	d.SD.Apply(func(i, j int, v float64) float64 { return math.Sqrt(max(v-f.At(i, j)*f.At(i, j), 0)) }, d.SD)
	for i := range n {
		for j := range l {
			d.LatentCov.Set(i*l+j, j, z2.At(i, j)-z.At(i, j)*z.At(i, j))
		}
	}
	return d, nil
}

// add adds x and its squares to sums that begin with nil.
func add(sum, squares **mat.Dense, x *mat.Dense) {
	if *sum == nil {
		r, c := x.Dims()
		*sum, *squares = mat.NewDense(r, c, nil), mat.NewDense(r, c, nil)
	}
	(*sum).Add(*sum, x)
	var s mat.Dense
	s.MulElem(x, x)
	(*squares).Add(*squares, &s)
}

// judge tells foreign rows by the scores of test rows and of foreign ones.
func judge(name string, test, others *autoencoder.Scores) *judged {
	auroc := func(of func(*autoencoder.Scores) []float64) result.Float {
		return result.Float(score.AUROC(of(test), of(others)))
	}
	j := &judged{Variant: name,
		OutputSD:   auroc(func(s *autoencoder.Scores) []float64 { return s.OutputSD }),
		LatentSD:   auroc(func(s *autoencoder.Scores) []float64 { return s.LatentSD }),
		Likelihood: auroc(func(s *autoencoder.Scores) []float64 { return s.NegLogLikelihood }),
		Typicality: auroc(func(s *autoencoder.Scores) []float64 { return s.Typicality })}
	for i, to := range []*[3]result.Float{&j.TestMeans, &j.OthersMeans} {
		x := []*autoencoder.Scores{test, others}[i]
		for k, list := range [][]float64{x.OutputSD, x.LatentSD, x.NegLogLikelihood} {
			to[k] = result.Float(floats.Sum(list) / float64(len(list)))
		}
	}
	return j
}
