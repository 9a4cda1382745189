package funcgp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/testref"
)

// A linearCase is a linear network f = Wx + b on random rows, whose parameters are at the mode of its own prior.
type linearCase struct {
	x, y, f *mat.Dense
	class   []int
	lik     glm.Likelihood
	theta   []float64 // C×(D+1), the bias last
	delta   float64
}

// newLinear finds the mode of c outputs by Newton steps on the strictly concave objective.
func newLinear(t *testing.T, lik glm.Likelihood, c int, delta float64, seed uint64) *linearCase {
	t.Helper()
	const n, d = 120, 3
	rng := rand.New(rand.NewPCG(seed, 1))
	l := &linearCase{x: mat.NewDense(n, d+1, nil), y: mat.NewDense(n, 1, nil), lik: lik, theta: make([]float64, c*(d+1)), delta: delta, class: make([]int, n)}
	for i := range n {
		for j := range d {
			l.x.Set(i, j, rng.NormFloat64())
		}
		l.x.Set(i, d, 1)
		s := 1.5*l.x.At(i, 0) - l.x.At(i, 1) + .5*rng.NormFloat64()
		switch {
		case hasNoise(lik):
			l.y.Set(i, 0, s+2)
		case isSoftmax(lik):
			l.class[i] = min(c-1, max(0, int(math.Floor(s/2+float64(c)/2))))
			l.y.Set(i, 0, float64(l.class[i]))
		case hasClasses(lik):
			if s > .4 {
				l.class[i] = 1
			}
			l.y.Set(i, 0, float64(l.class[i]))
		default:
			l.y.Set(i, 0, float64(int(math.Exp(s/2))))
		}
	}
	for range 60 {
		h := l.curvature()
		var step mat.VecDense
		var chol mat.Cholesky
		require.True(t, chol.Factorize(h))
		require.NoError(t, chol.SolveVecTo(&step, mat.NewVecDense(len(l.theta), l.gradient())))
		for i := range l.theta {
			l.theta[i] += step.AtVec(i) / max(1, mat.Norm(&step, 2)) // short steps far from the mode
		}
	}
	require.Less(t, floats.Norm(l.gradient(), 2), 1e-9)
	return l
}

// pull is Jᵀr at the outputs Wx + b, which it computes.
func (l *linearCase) pull() []float64 {
	n, d := l.x.Dims()
	c := len(l.theta) / d
	l.f = mat.NewDense(n, c, nil)
	l.f.Mul(l.x, mat.NewDense(c, d, l.theta).T())
	pull, r := mat.NewDense(c, d, nil), mat.NewDense(n, c, nil)
	for i := range n {
		l.lik.Expand(r.RawRowView(i), nil, nil, l.y.RawRowView(i), l.f.RawRowView(i))
	}
	pull.Mul(r.T(), l.x)
	return pull.RawMatrix().Data
}

// curvature is Σ Λ ⊗ xxᵀ + δ.
func (l *linearCase) curvature() *mat.SymDense {
	l.pull()
	n, d := l.x.Dims()
	c := len(l.theta) / d
	h := mat.NewSymDense(c*d, nil)
	lambda := make([]float64, c*c)
	for i := range n {
		l.lik.Expand(nil, lambda, nil, l.y.RawRowView(i), l.f.RawRowView(i))
		for a := range c * d {
			for b := a; b < c*d; b++ {
				h.SetSym(a, b, h.At(a, b)+lambda[a/d*c+b/d]*l.x.At(i, a%d)*l.x.At(i, b%d))
			}
		}
	}
	for a := range c * d {
		h.SetSym(a, a, h.At(a, a)+l.delta)
	}
	return h
}

func (l *linearCase) gradient() []float64 {
	g := l.pull()
	for i, v := range l.theta {
		g[i] -= l.delta * v
	}
	return g
}

// tableOf are the data of a table.
func tableOf(t *testing.T, text string) *dataset.Data {
	t.Helper()
	path := filepath.Join(t.TempDir(), "d.csv")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return testref.Must(dataset.Open(t.Context(), path, nil))(t)
}

// problem is that of the rows under a prior precision with this origin.
func (l *linearCase) problem(t *testing.T, delta float64, from decision) *problem {
	t.Helper()
	n, d := l.x.Dims()
	var text strings.Builder
	text.WriteString("a,b,c,y\n")
	for i := range n {
		for j := range d - 1 {
			fmt.Fprintf(&text, "%v,", l.x.At(i, j))
		}
		fmt.Fprintf(&text, "%v\n", l.y.At(i, 0)+4)
	}
	data := tableOf(t, text.String())
	task := &problemTask{Likelihood: l.lik, Precision: delta, PrecisionFrom: from, NoiseFrom: fromNoise}
	if hasClasses(l.lik) {
		task.Classes = data.Classes()
	}
	if hasNoise(l.lik) {
		v := []float64{0}
		l.lik.VarianceTo(v, v)
		task.Noise = v[0]
	}
	train := testref.Must(data.Train.Select(task.Classes, 0))(t)
	return &problem{Model: &trainedModel{Meta: &metadata{}, Outputs: l.f.RawMatrix().Cols}, Task: task, Examples: &examples{Data: data, Train: train, Y: l.y}}
}

// warnings are those of the preflight.
func (l *linearCase) warnings(t *testing.T, delta float64, from decision) []error {
	t.Helper()
	l.pull() // the outputs at θ*
	p := l.problem(t, delta, from)
	r, warnings, err := p.Preflight(t.Context(), &atTheta{F: l.f})
	require.NoError(t, err)
	require.Equal(t, len(warnings) > 0, r.Verdict == "warning")
	return warnings
}

func gaussian(t *testing.T, noise float64) glm.Likelihood {
	t.Helper()
	return testref.Must(glm.NewGaussian(noise))(t)
}

// cases are modes of every likelihood, from a prior that shrinks nearly everything to one that hardly binds.
func cases(t *testing.T) map[string]*linearCase {
	all := map[string]*linearCase{}
	for _, delta := range []float64{.05, 1, 200} {
		for name, l := range map[string]struct {
			lik glm.Likelihood
			c   int
		}{"gaussian": {gaussian(t, .25), 1}, "bernoulli": {glm.Bernoulli{}, 1}, "categorical": {glm.Categorical{}, 3}, "poisson": {glm.Poisson{}, 1}} {
			all[fmt.Sprintf("%s %g", name, delta)] = newLinear(t, l.lik, l.c, delta, 3)
		}
	}
	return all
}

// A network at its mode raises no alarm, whatever the prior.
func TestPreflightOfModes(t *testing.T) {
	for name, l := range cases(t) {
		if hasNoise(l.lik) && l.delta == 200 {
			continue // shrunk so far that the squared error is many times the noise
		}
		require.Empty(t, l.warnings(t, l.delta, fromPrecision), name)
	}
}

// Labels in another order are told, with the order that is right.
func TestPreflightFindsOrder(t *testing.T) {
	for want, l := range map[string]*linearCase{"5,4": newLinear(t, glm.Bernoulli{}, 1, 1, 5), "5,6,4": newLinear(t, glm.Categorical{}, 3, .1, 5)} {
		l.pull() // the outputs for the labels as they were
		p := l.problem(t, l.delta, fromPrecision)
		k := len(p.Task.Classes)
		for i, c := range p.Examples.Train.Class {
			// Output j now stands for the label of class j + 1.
			p.Examples.Train.Class[i] = (c + 1) % k
			p.Examples.Y.Set(i, 0, float64((c+1)%k))
		}
		_, warnings, err := p.Preflight(t.Context(), &atTheta{F: l.f})
		require.NoError(t, err)
		require.Len(t, warnings, 1)
		require.ErrorContains(t, warnings[0], "the network's outputs are those of the classes in another order")
		require.ErrorContains(t, warnings[0], "Give Data.Classes "+want)
	}
}

// Networks that know nothing of the labels, right ones, and those that are wrong on some classes alone are not of
// another order, however few or many rows there are; one with a class that no row has is.
func TestOrderOf(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 7))
	constantOf := func(label []int, k int) (nll float64) {
		count := make([]float64, k)
		for _, y := range label {
			count[y]++
		}
		for _, c := range count {
			if c > 0 {
				nll -= c / float64(len(label)) * math.Log(c/float64(len(label)))
			}
		}
		return nll
	}
	found := func(f *mat.Dense, label []int, k int) []int {
		logp := make([][]float64, len(label))
		for i := range logp {
			logp[i] = logProbabilities(f.RawRowView(i))
		}
		order, _ := orderOf(confusionOf(f, label, k), logp, label, []int{10, 11, 12, 13, 14}[:k], constantOf(label, k))
		return order
	}
	for range 4000 {
		k, n, scale := 2+rng.IntN(4), 2+rng.IntN(60), 4*rng.Float64()
		f, label := mat.NewDense(n, k, nil), make([]int, n)
		for i := range n {
			label[i] = rng.IntN(k)
			for j := range k {
				f.Set(i, j, scale*rng.NormFloat64())
			}
		}
		require.Nil(t, found(f, label, k), "outputs without the labels")
		for i, y := range label {
			f.Set(i, y, f.At(i, y)+2*scale)
		}
		require.Nil(t, found(f, label, k), "outputs of the labels")
		for i, y := range label {
			f.Set(i, y, f.At(i, y)-2*scale)
			f.Set(i, y/2, f.At(i, y/2)+2*scale) // pairs of classes as one
		}
		require.Nil(t, found(f, label, k), "outputs of pairs of labels")
	}
	f, label := mat.NewDense(40, 4, nil), make([]int, 40)
	for i := range label {
		label[i] = i % 3
		f.Set(i, []int{1, 3, 0}[label[i]], 3)
	}
	require.Equal(t, []int{12, 10, 13, 11}, found(f, label, 4))
}

// Targets on another scale are told, with the mean and the deviation of the targets that standardize them.
func TestPreflightFindsTargetScale(t *testing.T) {
	l := newLinear(t, gaussian(t, .25), 1, 1, 7)
	l.pull()
	p := l.problem(t, 1, fromPrecision)
	y := mat.Col(nil, 0, p.Examples.Y)
	mean, sd := stat.PopMeanStdDev(y, nil)
	f := mat.DenseCopyOf(l.f)
	f.Apply(func(_, _ int, v float64) float64 { return (v - mean) / sd }, f)
	_, warnings, err := p.Preflight(t.Context(), &atTheta{F: f})
	require.NoError(t, err)
	require.NotEmpty(t, warnings)
	require.ErrorContains(t, warnings[0], fmt.Sprintf("it was trained on scaled targets. Give FitOptions.TargetMean %.6g, FitOptions.TargetSD %.6g", mean, sd))
	// Outputs of the right mean but a tenth of the size.
	f.Apply(func(i, _ int, _ float64) float64 { return mean + (l.f.At(i, 0)-mean)/10 }, f)
	_, warnings, err = p.Preflight(t.Context(), &atTheta{F: f})
	require.NoError(t, err)
	require.ErrorContains(t, warnings[0], "follow the targets on another scale")
}

// A network that is surer than it is right on its own rows is not at a mode under any prior: outputs four times too
// large. On other rows it may be.
func TestPreflightOfSureNetwork(t *testing.T) {
	l := newLinear(t, glm.Bernoulli{}, 1, 1, 9)
	l.pull()
	p := l.problem(t, 1, fromPrecision)
	f := mat.DenseCopyOf(l.f)
	f.Scale(12, f)
	at := &atTheta{F: f}
	_, warnings, err := p.Preflight(t.Context(), at)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.ErrorContains(t, warnings[0], "surer than right")
	p.Model.Meta.Rows, p.Model.Meta.Data = "1-3", "other"
	_, warnings, err = p.Preflight(t.Context(), at)
	require.NoError(t, err)
	require.Empty(t, warnings)
}

// The mean excess of −log p over the entropy, and the best constant, from their definitions.
func TestPreflightScores(t *testing.T) {
	l := newLinear(t, glm.Categorical{}, 3, .1, 2)
	l.pull()
	p := l.problem(t, .1, fromPrecision)
	look := &look{problem: p, at: &atTheta{F: l.f}}
	look.score()
	n := len(l.class)
	nll, entropy, rf, counts := 0.0, 0.0, 0.0, make([]float64, 3)
	for i, y := range l.class {
		prob, r := make([]float64, 3), make([]float64, 3)
		l.lik.MeanTo(prob, l.f.RawRowView(i))
		l.lik.Expand(r, nil, nil, l.y.RawRowView(i), l.f.RawRowView(i))
		nll -= math.Log(prob[y]) / float64(n)
		counts[y]++
		for k, q := range prob {
			entropy -= q * math.Log(q) / float64(n)
			rf += r[k] * l.f.At(i, k) / float64(n)
		}
	}
	require.InDelta(t, nll, look.nll, 1e-12)
	require.InDelta(t, nll-entropy, look.excess, 1e-12)
	require.InDelta(t, -rf, look.excess, 1e-12, "−log p − H = −rᵀf")
	constant := 0.0
	for _, c := range counts {
		constant -= c / float64(n) * math.Log(c/float64(n))
	}
	require.InDelta(t, constant, look.constant, 1e-12)
	require.Negative(t, look.excess, "at a mode")
	require.True(t, slices.IsSorted([]float64{0, look.accuracy, 1}))
}

// Outputs that are what the likelihood makes of logits or of logarithms of rates are told by their values; those of a
// mode are not taken for such.
func TestPreflightOfProbabilities(t *testing.T) {
	sigmoid := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	for name, c := range map[string]struct {
		lik  glm.Likelihood
		c    int
		of   func(f []float64) // in place
		says string
	}{
		"sigmoid":    {glm.Bernoulli{}, 1, func(f []float64) { f[0] = sigmoid(f[0]) }, "log(p/(1−p)) at its end"},
		"logsigmoid": {glm.Bernoulli{}, 1, func(f []float64) { f[0] = math.Log(sigmoid(f[0])) }, "look like logarithms of probabilities"},
		"softmax": {glm.Categorical{}, 3, func(f []float64) {
			sum := floats.LogSumExp(f)
			for j := range f {
				f[j] = math.Exp(f[j] - sum)
			}
		}, "1 in sum"},
		"sigmoids": {glm.Categorical{}, 3, func(f []float64) {
			for j := range f {
				f[j] = sigmoid(f[j])
			}
		}, "probabilities p of a label each"},
		"rate": {glm.Poisson{}, 1, func(f []float64) { f[0] = math.Exp(f[0]) }, "look like rates"},
	} {
		l := newLinear(t, c.lik, c.c, 1, 3)
		l.pull()
		p := l.problem(t, 1, fromPrecision)
		f := mat.DenseCopyOf(l.f)
		n, _ := f.Dims()
		for i := range n {
			c.of(f.RawRowView(i))
		}
		_, warnings, err := p.Preflight(t.Context(), &atTheta{F: f})
		require.NoError(t, err)
		require.NotEmpty(t, warnings, name)
		require.ErrorContains(t, warnings[0], c.says, name)
		require.NotContains(t, fmt.Sprint(warnings), "--input-mean", name)
	}
}
