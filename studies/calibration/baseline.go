package calibration

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/linearize/network"
)

// forward returns the outputs of a network, some rows at a time.
func forward(ctx context.Context, net *network.Network, x *mat.Dense) (*mat.Dense, error) {
	n, d := x.Dims()
	_, c, _ := net.Dims()
	f := mat.NewDense(n, c, nil)
	const rows = 500
	for lo := 0; lo < n; lo += rows {
		hi := min(lo+rows, n)
		part, err := net.Forward(ctx, x.Slice(lo, hi, 0, d).(*mat.Dense))
		if err != nil {
			return nil, err
		}
		f.Slice(lo, hi, 0, c).(*mat.Dense).Copy(part)
	}
	return f, nil
}

// baselines are what the posteriors are compared with: the network alone, at a
// temperature, and the mean of several.
func (p *problem) baselines(ctx context.Context, nets []*network.Network, r *outcome) (*score.Score, error) {
	var outputs []*mat.Dense
	for _, net := range nets {
		f, err := forward(ctx, net, p.test.x)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, f)
	}
	alone, err := score.ScoreOf(nil, p.lik, p.test.y, outputs[0], nil)
	if err != nil {
		return nil, err
	}
	r.Network = scoreOf(alone)
	f, err := forward(ctx, nets[0], p.train.x)
	if err != nil {
		return nil, err
	}
	s, err := score.ScoreOf(nil, p.lik, p.train.y, f, nil)
	if err != nil {
		return nil, err
	}
	r.Training = scoreOf(s)
	if p.valid.len() > 0 {
		held, err := forward(ctx, nets[0], p.valid.x)
		if err != nil {
			return nil, err
		}
		if r.Tempered, err = p.temper(held, outputs[0]); err != nil {
			return nil, err
		}
	}
	if len(nets) > 1 {
		r.Mean, err = p.mean(outputs)
	}
	return alone, err
}

// at returns the likelihood and the outputs at a temperature.
func (p *problem) at(t float64, f *mat.Dense) (glm.Likelihood, *mat.Dense, error) {
	if g, ok := p.lik.(*glm.Gaussian); ok {
		scaled, err := g.ScaleNoise(t)
		return scaled, f, err
	}
	var cool mat.Dense
	cool.Scale(1/t, f)
	return p.lik, &cool, nil
}

// temper chooses the temperature on held-out rows and scores the test rows.
func (p *problem) temper(held, test *mat.Dense) (*tempered, error) {
	var failed error
	nll := func(logT float64) float64 {
		lik, f, err := p.at(math.Exp(logT), held)
		if err == nil {
			var s *score.Score
			if s, err = score.ScoreOf(nil, lik, p.valid.y, f, nil); err == nil {
				return s.NLL
			}
		}
		failed = err
		return math.NaN()
	}
	t := math.Exp(golden(nll, math.Log(.05), math.Log(20)))
	if failed != nil {
		return nil, failed
	}
	lik, f, err := p.at(t, test)
	if err != nil {
		return nil, err
	}
	s, err := score.ScoreOf(nil, lik, p.test.y, f, nil)
	if err != nil {
		return nil, err
	}
	return &tempered{Rows: p.valid.len(), Temperature: result.Float(t), rowScore: scoreOf(s)}, nil
}

// golden returns the minimum of a function with one minimum in [lo, hi], to 1e-4.
func golden(f func(float64) float64, lo, hi float64) float64 {
	ratio := (math.Sqrt(5) - 1) / 2
	a, b := hi-ratio*(hi-lo), lo+ratio*(hi-lo)
	fa, fb := f(a), f(b)
	for hi-lo > 1e-4 {
		if fa < fb {
			hi, b, fb = b, a, fa
			a = hi - ratio*(hi-lo)
			fa = f(a)
		} else {
			lo, a, fa = a, b, fb
			b = lo + ratio*(hi-lo)
			fb = f(b)
		}
	}
	return (lo + hi) / 2
}

// mean scores the mixture of the predictives of networks with these outputs.
func (p *problem) mean(outputs []*mat.Dense) (*ensemble, error) {
	n, c := outputs[0].Dims()
	k := float64(len(outputs))
	logp, response := make([]float64, n), mat.NewDense(n, c, nil)
	each, g := make([]float64, len(outputs)), make([]float64, c)
	for i := range n {
		for j, f := range outputs {
			each[j] = p.lik.LogProb(p.test.y.RawRowView(i), f.RawRowView(i))
			p.lik.MeanTo(g, f.RawRowView(i))
			floats.AddScaled(response.RawRowView(i), 1/k, g)
		}
		logp[i] = floats.LogSumExp(each) - math.Log(k)
	}
	mean, se := moments(logp)
	s := rowScore{NLL: result.Float(-mean), StdErr: result.Float(se), ECE: result.Undefined(), Accuracy: result.Undefined(), RMSE: result.Undefined()}
	if prob, l := score.ClassProbabilities(p.lik, p.test.y, response); prob != nil {
		s.ECE, s.Accuracy = result.Float(score.ECE(prob, l)), result.Float(score.Accuracy(prob, l))
	} else {
		var d mat.Dense
		d.Sub(response, p.test.y)
		s.RMSE = result.Float(mat.Norm(&d, 2) / math.Sqrt(float64(n*c)))
	}
	return &ensemble{Networks: len(outputs), rowScore: s}, nil
}

// moments returns the mean of numbers and its standard error.
func moments(v []float64) (mean, se float64) {
	n := float64(len(v))
	for _, x := range v {
		mean += x / n
	}
	for _, x := range v {
		se += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(se / (n - 1) / n)
}
