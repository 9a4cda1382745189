// Package nearest finds the prior precision at which the mode of the linearized model (E9) is
// nearest to the network on its training rows: the second candidate for the match (E21).
package nearest

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// A Mode is the mode of the linearized model at one precision.
type Mode struct {
	Precision float64 // δ
	LogLik    float64 // ℓ(f̂) of the training rows
	// Distance is rms(f̂ − f)/rms f over the training rows. Of several outputs of a softmax
	// it takes the logits less their mean over classes.
	Distance float64
}

// The precisions that are looked at, the first and the last one, and how finely the logarithm
// of the nearest one is found.
const (
	highest, lowest = 1e4, 1e-5
	tolerance       = 0.1
)

// Find returns the mode of the network that is nearest to it, and all that were looked at. It
// goes from the highest precision down by decades until the distance has grown over two of
// them, and then by golden section. y has the targets of the rows x as lik takes them.
func Find(ctx context.Context, net *network.Network, x, y *mat.Dense, lik glm.Likelihood) (Mode, []Mode, error) {
	b, err := net.Linearize(ctx, x)
	if err != nil {
		return Mode{}, nil, err
	}
	s := &search{net: net, b: b, y: y, lik: lik}
	best, rises := 0, 0
	for t := math.Log(highest); t > math.Log(lowest)-1e-9 && rises < 2; t -= math.Ln10 {
		m, err := s.at(ctx, t)
		if err != nil {
			return Mode{}, nil, err
		}
		if m.Distance < s.modes[best].Distance {
			best = len(s.modes) - 1
		}
		rises = len(s.modes) - 1 - best
	}
	// Golden section within a decade on both sides of the best one.
	const golden = 0.6180339887498949
	at := math.Log(s.modes[best].Precision)
	lo, hi := at-math.Ln10, at+math.Ln10
	left, right := hi-golden*(hi-lo), lo+golden*(hi-lo)
	l, err := s.at(ctx, left)
	if err != nil {
		return Mode{}, nil, err
	}
	r, err := s.at(ctx, right)
	for err == nil && hi-lo > tolerance {
		if l.Distance < r.Distance {
			hi, right, r = right, left, l
			left = hi - golden*(hi-lo)
			l, err = s.at(ctx, left)
		} else {
			lo, left, l = left, right, r
			right = lo + golden*(hi-lo)
			r, err = s.at(ctx, right)
		}
	}
	if err != nil {
		return Mode{}, nil, err
	}
	nearest := s.modes[0]
	for _, m := range s.modes {
		if m.Distance < nearest.Distance {
			nearest = m
		}
	}
	return nearest, s.modes, nil
}

// A search holds the posterior of the precision that was looked at last.
type search struct {
	net   *network.Network
	b     *linearize.Batch
	y     *mat.Dense
	lik   glm.Likelihood
	post  *gp.Exact
	modes []Mode
}

// at returns the mode at the precision exp(t).
func (s *search) at(ctx context.Context, t float64) (Mode, error) {
	m := Mode{Precision: math.Exp(t)}
	prior, err := ntk.NewIsotropic(m.Precision, nil)
	if err != nil {
		return m, err
	}
	kernel := ntk.New(prior, s.net.Theta())
	if s.post == nil {
		s.post, err = gp.Refit(ctx, kernel, s.b, gp.NewTargets(s.y, s.lik), nil)
	} else {
		s.post, err = s.post.Rescale(ctx, kernel, s.modes[len(s.modes)-1].Precision/m.Precision, gp.NewTargets(s.y, s.lik))
	}
	if err != nil {
		return m, err
	}
	f, err := s.post.TrainingMean(ctx)
	if err != nil {
		return m, err
	}
	n, c := s.b.F.Dims()
	mode := mat.NewDense(n, c, f)
	m.LogLik, m.Distance = s.post.Sites().LogLik, Distance(mode, s.b.F, s.lik)
	s.modes = append(s.modes, m)
	return m, nil
}

// Distance returns rms(g − f)/rms f, both N×C, as in Mode.
func Distance(g, f *mat.Dense, lik glm.Likelihood) float64 {
	n, c := f.Dims()
	centre := func(row []float64) []float64 {
		out := append([]float64(nil), row...)
		if _, several := lik.(glm.Categorical); several {
			mean := 0.0
			for _, v := range row {
				mean += v / float64(c)
			}
			for i := range out {
				out[i] -= mean
			}
		}
		return out
	}
	apart, size := 0.0, 0.0
	for i := range n {
		a, b := centre(g.RawRowView(i)), centre(f.RawRowView(i))
		for k := range a {
			apart += (a[k] - b[k]) * (a[k] - b[k])
			size += b[k] * b[k]
		}
	}
	return math.Sqrt(apart / size)
}
