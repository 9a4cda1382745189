package prediction

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/internal/logsum"
	"github.com/funcgp/funcgp/internal/minimize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/studies/command"
)

// figures are those of predictions of the test rows, in the unit of the data; NaN where they mean
// nothing.
type figures struct {
	NLL      result.Float // mean of −log p
	RMSE     result.Float // of a regression or counts
	Accuracy result.Float // of classes
	ECE      result.Float // of classes, 15 bins
	Coverage result.Float // of central 90 % intervals, of a regression or counts
}

func none() figures {
	nan := result.Undefined()
	return figures{nan, nan, nan, nan, nan}
}

// level is that of the intervals.
const level = 0.9

// classFigures are those of log densities and probabilities of classes.
func classFigures(logp []float64, prob *mat.Dense, labels []int) figures {
	f := none()
	f.NLL, f.Accuracy, f.ECE = result.Float(score.NLL(logp)), result.Float(score.Accuracy(prob, labels)), result.Float(score.ECE(prob, labels))
	return f
}

// realFigures are those of normal distributions with these means and deviations.
func realFigures(y, mean, sd []float64) figures {
	f := none()
	logp, square, inside := 0.0, 0.0, 0
	z := math.Sqrt2 * math.Erfinv(level)
	for i := range y {
		d := y[i] - mean[i]
		logp += -0.5*math.Log(2*math.Pi*sd[i]*sd[i]) - d*d/(2*sd[i]*sd[i])
		square += d * d
		if math.Abs(d) <= z*sd[i] {
			inside++
		}
	}
	n := float64(len(y))
	f.NLL, f.RMSE, f.Coverage = result.Float(-logp/n), result.Float(math.Sqrt(square/n)), result.Float(float64(inside)/n)
	return f
}

// countFigures are those of rates, log densities and the posterior of the log rate: its mean m and
// variance v.
func countFigures(y, rate, logp, m, v []float64) figures {
	f := none()
	square, inside := 0.0, 0
	for i := range y {
		square += (y[i] - rate[i]) * (y[i] - rate[i])
		lo := glm.Poisson{}.PredictiveQuantile(0, (1-level)/2, m[i], v[i])
		if hi := (glm.Poisson{}).PredictiveQuantile(0, (1+level)/2, m[i], v[i]); lo <= y[i] && y[i] <= hi {
			inside++
		}
	}
	n := float64(len(y))
	f.NLL, f.RMSE, f.Coverage = result.Float(score.NLL(logp)), result.Float(math.Sqrt(square/n)), result.Float(float64(inside)/n)
	return f
}

// units returns targets or outputs of a regression in the unit of the data.
func (r *split) units(v *mat.Dense) []float64 {
	out := mat.Col(nil, 0, v)
	if r.targets != nil {
		for i := range out {
			out[i] = out[i]*r.targets.Scale[0] + r.targets.Mean[0]
		}
	}
	return out
}

// alone are the figures of outputs of a network by themselves: g⁻¹(f), and of a regression with
// the noise variance σ², in the unit of the network's outputs.
func (s *set) alone(r *split, f *mat.Dense, noise float64) figures {
	n, _ := f.Dims()
	lik := s.lik()
	switch s.likelihood {
	case "gaussian":
		sd := make([]float64, n)
		for i := range sd {
			sd[i] = math.Sqrt(noise) * r.targets.Scale[0]
		}
		return realFigures(r.units(r.testY), r.units(f), sd)
	case "poisson":
		rate, logp := make([]float64, n), make([]float64, n)
		for i := range n {
			rate[i], logp[i] = math.Exp(f.At(i, 0)), lik.LogProb(r.testY.RawRowView(i), f.RawRowView(i))
		}
		return countFigures(mat.Col(nil, 0, r.testY), rate, logp, mat.Col(nil, 0, f), make([]float64, n))
	}
	response, logp := mat.DenseCopyOf(f), make([]float64, n)
	for i := range n {
		lik.MeanTo(response.RawRowView(i), f.RawRowView(i))
		logp[i] = lik.LogProb(r.testY.RawRowView(i), f.RawRowView(i))
	}
	prob, labels := score.ClassProbabilities(lik, r.testY, response)
	return classFigures(logp, prob, labels)
}

// meanSquare is the mean of (y − f)².
func meanSquare(y, f *mat.Dense) float64 {
	n, _ := y.Dims()
	sum := 0.0
	for i := range n {
		sum += (y.At(i, 0) - f.At(i, 0)) * (y.At(i, 0) - f.At(i, 0))
	}
	return sum / float64(n)
}

// noise is σ² of a network on rows: its mean of squares. It is 0 where there is none.
func (s *set) noise(ctx context.Context, net *network.Network, x, y *mat.Dense) (float64, error) {
	if s.likelihood != "gaussian" {
		return 0, nil
	}
	f, err := net.Forward(ctx, x)
	if err != nil {
		return 0, err
	}
	return meanSquare(y, f), nil
}

// mostTemperature bounds τ of a held-out fifth: rows that are all told apart would make it infinite.
const mostTemperature = 3

// heldOut are the figures of a network that is trained on four fifths of the rows. The last fifth
// chooses the temperature of its classes, or σ² of a regression; for counts it chooses nothing.
func (s *set) heldOut(ctx context.Context, how *training, r *split, seed uint64) (figures, error) {
	n, _ := r.x.Dims()
	order := rand.New(rand.NewPCG(seed, 0xf1f78)).Perm(n)
	out := order[:n/5]
	in := order[n/5:]
	net, err := s.fit(ctx, how, r.shape, pick(r.x, in), pick(r.y, in), seed)
	if err != nil {
		return none(), err
	}
	y := pick(r.y, out)
	f, err := net.Forward(ctx, pick(r.x, out))
	if err != nil {
		return none(), err
	}
	test, err := net.Forward(ctx, r.testX)
	if err != nil {
		return none(), err
	}
	switch s.likelihood {
	case "gaussian":
		return s.alone(r, test, meanSquare(y, f)), nil
	case "poisson":
		return s.alone(r, test, 0), nil
	}
	t, err := temperature(ctx, s.lik(), y, f)
	if err != nil {
		return none(), err
	}
	test.Scale(t, test)
	return s.alone(r, test, 0), nil
}

// temperature is the τ under which the classes y are likeliest by the outputs τf.
func temperature(ctx context.Context, lik glm.Likelihood, y, f *mat.Dense) (float64, error) {
	rows, _ := f.Dims()
	best, err := minimize.Search(ctx, minimize.Grid(-6, math.Log(mostTemperature), 15), 1e-3, minimize.Each(func(_ context.Context, t float64) (float64, error) {
		var g mat.Dense
		g.Scale(math.Exp(t), f)
		sum := 0.0
		for i := range rows {
			sum -= lik.LogProb(y.RawRowView(i), g.RawRowView(i))
		}
		return sum, nil
	}))
	return math.Exp(best.X), err
}

// pick returns the given rows of m.
func pick(m *mat.Dense, rows []int) *mat.Dense {
	_, c := m.Dims()
	to := mat.NewDense(len(rows), c, nil)
	for i, at := range rows {
		to.SetRow(i, m.RawRowView(at))
	}
	return to
}

// members is the number of networks of an ensemble.
const members = 5

// ensemble are the figures of the equal mixture of what networks of other seeds predict alone. Of
// a regression it is the normal distribution with the mixture's mean and variance, where each
// network has its mean of squares on the training rows as σ².
func (s *set) ensemble(ctx context.Context, t *training, r *split, seed uint64) (figures, error) {
	var outputs []*mat.Dense
	noise := 0.0
	for k := range members {
		net, err := s.fit(ctx, t, r.shape, r.x, r.y, 100*(seed+1)+uint64(k))
		if err != nil {
			return none(), err
		}
		f, err := net.Forward(ctx, r.testX)
		if err != nil {
			return none(), err
		}
		own, err := s.noise(ctx, net, r.x, r.y)
		if err != nil {
			return none(), err
		}
		noise += own / members
		outputs = append(outputs, f)
	}
	return s.mixed(r, outputs, noise), nil
}

// mixed are the figures of a mixture.
func (s *set) mixed(r *split, outputs []*mat.Dense, noise float64) figures {
	n, c := outputs[0].Dims()
	lik := s.lik()
	mean, variance, logp := mat.NewDense(n, c, nil), make([]float64, n), make([]float64, n)
	response, one := mat.NewDense(n, c, nil), make([]float64, c)
	for i := range n {
		density := logsum.New()
		square := 0.0
		for _, f := range outputs {
			row := f.RawRowView(i)
			density.Add(lik.LogProb(r.testY.RawRowView(i), row))
			lik.MeanTo(one, row)
			for k := range c {
				mean.Set(i, k, mean.At(i, k)+row[k]/float64(len(outputs)))
				response.Set(i, k, response.At(i, k)+one[k]/float64(len(outputs)))
			}
			square += row[0] * row[0] / float64(len(outputs))
		}
		logp[i] = density.Value() - math.Log(float64(len(outputs)))
		variance[i] = math.Max(0, square-mean.At(i, 0)*mean.At(i, 0))
	}
	switch s.likelihood {
	case "gaussian":
		sd := make([]float64, n)
		for i := range sd {
			sd[i] = math.Sqrt(noise+variance[i]) * r.targets.Scale[0]
		}
		return realFigures(r.units(r.testY), r.units(mean), sd)
	case "poisson":
		return countFigures(mat.Col(nil, 0, r.testY), mat.Col(nil, 0, response), logp, mat.Col(nil, 0, mean), variance)
	}
	prob, labels := score.ClassProbabilities(lik, r.testY, response)
	return classFigures(logp, prob, labels)
}

// answered are the figures of what gpexplain predict says.
func (s *set) answered(rows []command.Row, sum *command.Summary) figures {
	f := none()
	var y, mean, sd, rate, m, v []float64
	for _, r := range rows {
		y = append(y, r.Label)
		if s.likelihood == "gaussian" {
			mean, sd = append(mean, r.ObservationMean[0]), append(sd, r.ObservationSD[0])
		}
		if s.likelihood == "poisson" {
			scale := 1.0
			if k := sum.Fit.Calibration; k != nil {
				scale = float64(k.Scale)
			}
			// E exp f = exp(m + v/2)
			variance := scale * r.Covariance[0][0]
			rate, m, v = append(rate, r.ObservationMean[0]), append(m, math.Log(r.ObservationMean[0])-variance/2), append(v, variance)
		}
	}
	switch s.likelihood {
	case "gaussian":
		f = realFigures(y, mean, sd)
	case "poisson":
		f = countFigures(y, rate, make([]float64, len(y)), m, v)
	}
	f.NLL, f.Accuracy, f.ECE = sum.NLL, sum.Accuracy, sum.ECE
	return f
}
