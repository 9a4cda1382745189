package funcgp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

// Of networks that were trained with inputs scaled in each of the usual ways, the answers are those of that way, or a
// warning says that they may be others.
func TestGuessOfScaling(t *testing.T) {
	found := 0
	for seed := range uint64(4) {
		for _, w := range tableWays {
			if w.name == "255" {
				continue // for numbers up to that alone
			}
			for _, likelihood := range []string{"bernoulli", "gaussian"} {
				standardized := likelihood == "gaussian" && seed%2 == 1
				m := trainedWith(t, seed, likelihood, w.name, standardized)
				s, said := m.scaling(t, automatic())
				require.True(t, strings.HasPrefix(said[strings.Index(said, "guessed"):], "guessed inputs "), said)
				require.True(t, s.InputsFrom.By == byGuess)
				truth, guessed := m.answers(t, testref.Must(ordered(t.Context(), w.name, m.rows, nil))(t), m.scaled(t, standardized)), m.answers(t, s.Inputs, s.Targets)
				if differ(truth, guessed) {
					require.Contains(t, said, "warning: It is not sure how the network was trained", "seed %d, %s, %s", seed, likelihood, w.name)
					continue
				}
				found++
			}
		}
	}
	require.GreaterOrEqual(t, found, 46, "of 48")
}

// scaled is how trainedWith scales the targets.
func (m *trained) scaled(t *testing.T, standardized bool) *dataset.Scaling {
	t.Helper()
	if !standardized {
		return nil
	}
	return testref.Must(dataset.NewScaling(m.y))(t)
}

// answers are those of the training rows with inputs and targets scaled so.
func (m *trained) answers(t *testing.T, inputs, targets *dataset.Scaling) *candidate {
	t.Helper()
	c := testref.Must(compareOn(t.Context(), m.model, m.task, m.rows, m.y))(t)
	a := &candidate{inputs: inputs, targets: targets, likelihood: m.task.Likelihood}
	require.NoError(t, c.fit(t.Context(), []*candidate{a}))
	return a
}

// A line that is the optimum of inputs scaled by training and test rows together is answered for by the training rows alone, with a
// warning whose flags say how it was; the optimum of inputs scaled by the training rows is answered for without one.
func TestGuessOfScalerOfAllRows(t *testing.T) {
	const n, of = 200, 260
	rng := rand.New(rand.NewPCG(5, 5))
	x, y := make([]float64, of), make([]float64, of)
	var parts [2]strings.Builder
	for i := range x {
		if i == 0 || i == n {
			parts[i/n].WriteString("x,y\n")
		}
		x[i] = 2 + 3*rng.NormFloat64() + float64(i/n)
		y[i] = 2*x[i] + .5*rng.NormFloat64()
		fmt.Fprintf(&parts[i/n], "%v,%v\n", x[i], y[i])
	}
	given := FitOptions{TargetMean: Numbers{Values: []float64{0}}, TargetSD: Numbers{Values: []float64{1}}}
	for _, seen := range []int{n, of} {
		data := tableOf(t, parts[0].String())
		data.Test = tableOf(t, parts[1].String()).Train
		rows := testref.Must(data.Train.Select(nil, 0))(t)
		mean, sd := stat.PopMeanStdDev(x[:seen], nil)
		bias, slope := stat.LinearRegression(x[:n], y[:n], nil, false)
		net := testref.Must(network.Sequential(network.Shape{1}, network.Dense{Units: 1}))(t)
		net = testref.Must(net.WithTheta([]float64{slope * sd, bias + slope*mean}))(t)
		m := &trained{&trainedModel{Name: "m", Net: net, Outputs: 1, Meta: &metadata{}}, &problemTask{Likelihood: likelihoodNamed("gaussian"), Noise: 1}, data, rows, mat.NewDense(n, 1, rows.Targets)}
		s, said := m.scaling(t, &given)
		require.InDeltaSlice(t, testref.Must(rows.Scaling(t.Context()))(t).Mean, s.Inputs.Mean, 1e-12)
		if seen == n {
			require.NotContains(t, said, "warning")
			continue
		}
		require.Contains(t, said, "with inputs standardized by training and test rows")
		require.Contains(t, said, fmt.Sprintf("or FitOptions.InputMean %.6g, FitOptions.InputSD %.6g for the other", mean, sd))
	}
}

// However near to an optimum, no way is taken with which a network loses more than a constant where with another it loses less.
func TestGuessNeverLosesMoreThanAConstant(t *testing.T) {
	const n = 60
	rng, against := rand.New(rand.NewPCG(7, 7)), 0
	for range 400 {
		var text strings.Builder
		text.WriteString("x,y\n")
		center := 4 * rng.NormFloat64()
		for range n {
			x := center + 2*rng.NormFloat64()
			fmt.Fprintf(&text, "%v,%v\n", x, x-center+rng.NormFloat64())
		}
		data := tableOf(t, text.String())
		rows := testref.Must(data.Train.Select(nil, 0))(t)
		net := testref.Must(network.Sequential(network.Shape{1}, network.Dense{Units: 1}))(t)
		net = testref.Must(net.WithTheta([]float64{rng.NormFloat64(), 2 * rng.NormFloat64()}))(t)
		m := &trained{&trainedModel{Name: "m", Net: net, Outputs: 1, Meta: &metadata{}}, &problemTask{Likelihood: likelihoodNamed("gaussian"), Noise: 1}, data, rows, mat.NewDense(n, 1, rows.Targets)}
		all := testref.Must(inputWays(t.Context(), rows, nil))(t)
		for _, a := range all {
			a.likelihood = m.task.Likelihood
		}
		c := testref.Must(compareOn(t.Context(), m.model, m.task, rows, m.y))(t)
		g := testref.Must(c.choose(t.Context(), all))(t)
		// By the criterion alone another would have been taken.
		score := func(a *candidate) float64 {
			require.NoError(t, c.strain(t.Context(), a))
			return lossWeight*math.Log(a.loss+numberLoss) + math.Log(min(a.strain, mostStrain)+strainFloor)
		}
		for _, a := range all {
			require.True(t, g.best.loss < 1 || !(a.loss < 1))
			if g.best.loss < 1 && !(a.loss < 1) && score(a) < score(g.best) {
				against++
			}
		}
	}
	require.Positive(t, against)
}

// Counts that a network was trained on by the Poisson loss are read as such, and by least squares as real numbers; what is given is
// not looked for.
func TestGuessOfCounts(t *testing.T) {
	for seed := range uint64(6) {
		for likelihood, want := range map[string]string{"poisson": "poisson", "counts by least squares": "gaussian"} {
			m := trainedWith(t, seed, likelihood, "yes", false)
			_, said := m.scaling(t, automatic())
			require.Equal(t, want, m.task.Likelihood.Name(), "seed %d: %s", seed, said)
			other := map[string]string{"poisson": "gaussian", "gaussian": "poisson"}[want]
			require.NotContains(t, said, "Likelihood "+other+" for the other", "seed %d", seed)
			require.Equal(t, want == "poisson", strings.Contains(said, "guessed inputs standardized by the training rows and outputs that are logarithms of rates of counts:"))

			m = trainedWith(t, seed, likelihood, "yes", false)
			m.task.NoiseFrom = fromNoise // which only real numbers have
			m.scaling(t, automatic())
			require.Equal(t, "gaussian", m.task.Likelihood.Name())
		}
	}
}

// nearlyStandardized is a line of standardized z for n targets with mean .03, a deviation and the correlation .93: the best one for
// targets as they are with share 0, for standardized ones with share 1, or between.
func nearlyStandardized(t *testing.T, n int, deviation, share float64) *trained {
	t.Helper()
	const correlation = .93
	rng := rand.New(rand.NewPCG(3, 3))
	z, e := make([]float64, n), make([]float64, n)
	for i := range z {
		z[i], e[i] = rng.NormFloat64(), rng.NormFloat64()
	}
	standardize := func(v []float64) {
		middle, size := stat.PopMeanStdDev(v, nil)
		floats.AddConst(-middle, v)
		floats.Scale(1/size, v)
	}
	standardize(z)
	standardize(e)
	floats.AddScaled(e, -floats.Dot(e, z)/float64(n), z)
	standardize(e)
	var text strings.Builder
	text.WriteString("z,y\n")
	for i := range z {
		fmt.Fprintf(&text, "%v,%v\n", z[i], .03+deviation*(correlation*z[i]+math.Sqrt(1-correlation*correlation)*e[i]))
	}
	data := tableOf(t, text.String())
	rows := testref.Must(data.Train.Select(nil, 0))(t)
	net := testref.Must(network.Sequential(network.Shape{1}, network.Dense{Units: 1}))(t)
	net = testref.Must(net.WithTheta([]float64{correlation * (share + (1-share)*deviation), .03 * (1 - share)}))(t)
	task := &problemTask{Likelihood: likelihoodNamed("gaussian"), Noise: 1}
	return &trained{&trainedModel{Name: "m", Net: net, Outputs: 1, Meta: &metadata{}}, task, data, rows, mat.NewDense(n, 1, rows.Targets)}
}

// Targets that are nearly standardized are told apart by the optimum of a training that came to its end. After another a warning names
// both ways with flags that settle it; and where both give the same answers, nothing is to be warned of.
func TestGuessOfNearTargets(t *testing.T) {
	given := FitOptions{InputMean: Numbers{Values: []float64{0}}, InputSD: Numbers{Values: []float64{1}}}
	for _, n := range []int{100, 4000} {
		for share, standardized := range map[float64]bool{0: false, 1: true} {
			m := nearlyStandardized(t, n, 1.05, share)
			s, said := m.scaling(t, &given)
			require.Equal(t, standardized, s.Targets != nil, said)
			require.NotContains(t, said, "warning")
		}
	}
	var m *trained
	said := ""
	for share := .3; !strings.Contains(said, "warning") && share < .7; share += .01 {
		m = nearlyStandardized(t, 400, 1.05, share)
		_, said = m.scaling(t, &given)
	}
	require.Contains(t, said, "warning: It is not sure how the network was trained: with ")
	require.Regexp(t, "Give FitOptions.TargetMean 0, FitOptions.TargetSD 1 to keep what is taken, or FitOptions.TargetMean 0.03, FitOptions.TargetSD 1.05[0-9]* for the other.|"+
		"Give FitOptions.TargetMean 0.03, FitOptions.TargetSD 1.05 to keep what is taken, or FitOptions.TargetMean 0, FitOptions.TargetSD 1 for the other.", said)
	settled := given
	settled.TargetMean, settled.TargetSD = Numbers{Values: []float64{.03}}, Numbers{Values: []float64{1.05}}
	_, said = m.scaling(t, &settled)
	require.Empty(t, said)

	same := nearlyStandardized(t, 400, 1, 1)
	same.y.Apply(func(_, _ int, v float64) float64 { return v - .03 }, same.y)
	_, said = same.scaling(t, &given)
	require.NotContains(t, said, "warning")
}

// A remedy is one that was carried out: a network that gets its inputs otherwise than in its training is given the flags of that, under
// which it fits, and one that gets them as in its training is given none.
func TestOtherInputs(t *testing.T) {
	for seed := range uint64(3) {
		for _, w := range []string{"yes", "robust", "signed"} {
			m := trainedWith(t, seed, "gaussian", w, true)
			flags := automatic()
			flags.Standardize = w
			s, _ := m.scaling(t, flags)
			cause, give := m.problem(t, s).OtherInputs(t.Context(), m.outputs(t, s))
			require.Empty(t, give, "%s %s", w, cause)

			flags.Standardize = "no"
			flags.TargetMean, flags.TargetSD = Numbers{Values: s.Targets.Mean[:1]}, Numbers{Values: s.Targets.Scale[:1]}
			wrong, _ := m.scaling(t, flags)
			_, give = m.problem(t, wrong).OtherInputs(t.Context(), m.outputs(t, wrong))
			require.Contains(t, giveText(give).In(option.Flags), "Give --standardize "+w, "seed %d", seed)
		}
	}
}

// problem is that of the network with rows scaled so.
func (m *trained) problem(t *testing.T, s *dataScaling) *problem {
	t.Helper()
	return &problem{Model: m.model.Trained(testref.Must(s.Rescaled(m.model.Net))(t)), Task: m.task, Examples: &examples{Data: m.data, Train: m.rows, Y: m.y, Scaling: s}}
}

func (m *trained) outputs(t *testing.T, s *dataScaling) *mat.Dense {
	t.Helper()
	x := m.rows.Matrix()
	s.Inputs.Apply(x)
	return testref.Must(testref.Must(s.Rescaled(m.model.Net))(t).Forward(t.Context(), x))(t)
}

// The strain is that of the Jacobian, row by row.
func TestStrain(t *testing.T) {
	dense := []network.Layer{network.Dense{Units: 5}, network.Tanh}
	// The Jacobian of the second convolution has factors of 4 positions, fewer than its channels.
	convolutions := []network.Layer{network.Conv2D{Filters: 3, Kernel: 3}, network.Tanh, network.Conv2D{Filters: 16, Kernel: 3}, network.Tanh, network.Flatten{}}
	for _, at := range []struct {
		lik    glm.Likelihood
		shape  network.Shape
		layers []network.Layer
	}{{glm.Categorical{}, network.Shape{2}, dense}, {gaussian(t, .5), network.Shape{2}, dense}, {glm.Poisson{}, network.Shape{2}, dense},
		{glm.Categorical{}, network.Shape{2, 6, 6}, convolutions}} {
		lik := at.lik
		rng := rand.New(rand.NewPCG(2, 5))
		const n = 30
		c := 3
		if !hasClasses(lik) {
			c = 1
		}
		net := testref.Must(network.Seeded(4, at.shape, append(at.layers[:len(at.layers):len(at.layers)], network.Dense{Units: c})...))(t)
		if len(at.shape) > 1 {
			require.Equal(t, "Conv", net.Describe().Params[2].Block)
		}
		d, _, _ := net.Dims()
		x, y := mat.NewDense(n, d, nil), mat.NewDense(n, 1, nil)
		for i := range n {
			for j := range d {
				x.Set(i, j, rng.NormFloat64())
			}
			y.Set(i, 0, float64(rng.IntN(3)))
		}
		a := &candidate{likelihood: lik}
		compared := &comparison{model: &trainedModel{Net: net, Outputs: c}, x: x, y: y}
		require.NoError(t, compared.strain(t.Context(), a))

		f, theta := testref.Must(net.Forward(t.Context(), x))(t), net.Theta()
		sum, rows := make([]float64, len(theta)), make([][]float64, n)
		for i := range n {
			r, g := make([]float64, c), make([]float64, len(theta))
			lik.Expand(r, nil, nil, y.RawRowView(i), f.RawRowView(i))
			require.NoError(t, net.VJP(t.Context(), g, x.Slice(i, i+1, 0, d).(*mat.Dense), mat.NewDense(1, c, r)))
			rows[i] = g
			floats.Add(sum, g)
		}
		decay := max(0, floats.Dot(sum, theta)/floats.Dot(theta, theta))
		want := 0.0
		for _, p := range net.Params() {
			top, bottom := 0.0, 0.0
			for k := p.Offset; k < p.Offset+p.Len(); k++ {
				top += math.Pow(sum[k]-decay*theta[k], 2)
				for i := range n {
					bottom += rows[i][k] * rows[i][k]
				}
			}
			want += top / bottom / float64(len(net.Params()))
		}
		require.InEpsilon(t, want, a.strain, 1e-10, lik.Name())
	}
}

// A network with a BatchNormalization knows the moments of its inputs: the record is 0 with the inputs whose moments it has, and as the
// definition says with others.
func TestRecord(t *testing.T) {
	net := testref.Must(network.Seeded(4, network.Shape{2}, network.Dense{Units: 3}, network.BatchNorm{Momentum: 1}, network.ReLU, network.Dense{Units: 2}))(t)
	rng := rand.New(rand.NewPCG(2, 5))
	x, y := mat.NewDense(200, 2, nil), mat.NewDense(200, 1, nil)
	for i := range 200 {
		x.SetRow(i, []float64{3 + rng.NormFloat64(), rng.ExpFloat64()})
		y.Set(i, 0, float64(i%2))
	}
	net, _, err := train.MAP(t.Context(), net, x, y, glm.Categorical{}, &train.Options{Epochs: 60, Batch: 200, LBFGS: -1, Seed: 1})
	require.NoError(t, err)
	c := &comparison{model: &trainedModel{Net: net, Outputs: 2}}
	record := func(x *mat.Dense) float64 { return testref.Must(c.record(t.Context(), x))(t) }
	s := net.RunningStatistics()
	require.Len(t, s, 1)
	by := &dataset.Scaling{Mean: []float64{1, -1}, Scale: []float64{2, .5}}
	other := mat.DenseCopyOf(x)
	by.Apply(other)
	code, _, err := net.WithCode(s[0].Tensor)
	require.NoError(t, err)
	h := testref.Must(code.Forward(t.Context(), other))(t)
	want := 0.0
	for j := range 3 {
		mean, variance := stat.PopMeanVariance(mat.Col(nil, j, h), nil)
		said := s[0].Variance[j] + momentsZero
		variance += momentsZero
		want += (math.Pow(mean-s[0].Mean[j], 2)/math.Min(variance, said) + math.Pow(math.Log(variance/said), 2)) / 3
	}
	require.InEpsilon(t, want, record(other), 1e-10)
	require.Less(t, record(x), record(other)/100)

	plain := testref.Must(network.Seeded(4, network.Shape{2}, network.Dense{Units: 2}))(t)
	require.Equal(t, -1., testref.Must((&comparison{model: &trainedModel{Net: plain, Outputs: 2}}).record(t.Context(), x))(t))
}

// Losses as a share of that of the best constant: 0 of perfect outputs, 1 of the constant, and of counts the deviance.
func TestLossShare(t *testing.T) {
	y := mat.NewDense(4, 1, []float64{0, 1, 2, 5})
	share := func(lik glm.Likelihood, f ...float64) float64 { return lossShare(lik, y, mat.NewDense(4, 1, f)) }
	require.InDelta(t, 0, share(gaussian(t, 1), 0, 1, 2, 5), 1e-12)
	require.InDelta(t, 1, share(gaussian(t, 1), 2, 2, 2, 2), 1e-12)
	require.InDelta(t, 1, share(glm.Poisson{}, math.Log(2), math.Log(2), math.Log(2), math.Log(2)), 1e-12)
	require.InDelta(t, 0, share(glm.Poisson{}, -30, 0, math.Log(2), math.Log(5)), 1e-6)
	deviance := func(mu ...float64) (d float64) {
		for i, m := range mu {
			if v := y.At(i, 0); v > 0 {
				d += v * math.Log(v/m)
			}
			d -= y.At(i, 0) - m
		}
		return d
	}
	require.InDelta(t, deviance(1, 2, 3, 4)/deviance(2, 2, 2, 2), share(glm.Poisson{}, 0, math.Log(2), math.Log(3), math.Log(4)), 1e-7)
}
