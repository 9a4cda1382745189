package funcgp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

// A trained is a table and a network trained on it in one of the ways to scale.
type trained struct {
	model *trainedModel
	task  *problemTask
	data  *dataset.Data
	rows  *dataset.Rows
	y     *mat.Dense
}

// trainedWith trains a small network with weight decay on columns of very different sizes, or near ones, with inputs
// scaled in a way of --standardize, and targets standardized or not; poisson is for counts.
func trainedWith(t *testing.T, seed uint64, likelihood, inputs string, targets bool) *trained {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 9))
	size, offset := [2]float64{1, 30}, [2]float64{2, -40}
	if seed%2 == 0 {
		size, offset = [2]float64{1.5, .7}, [2]float64{.5, -.3} // nearly standardized as they are
	}
	unit, middle := 1e4, 3e5
	if !targets {
		unit, middle = 1.6, .4
	}
	var text strings.Builder
	text.WriteString("a,b,y\n")
	for range 120 {
		a, b := math.Exp(.8*rng.NormFloat64())-1.4, rng.NormFloat64() // skewed, so that means are no medians
		y := a - b + .5*a*b + .3*rng.NormFloat64()
		label := fmt.Sprint(middle + unit*y)
		switch likelihood {
		case "bernoulli":
			label = fmt.Sprint(1 - math.Round(1/(1+math.Exp(99*y))))
		case "poisson", "counts by least squares":
			label = fmt.Sprint(int(rng.ExpFloat64() * math.Exp(.5+.4*math.Tanh(y))))
		}
		fmt.Fprintf(&text, "%v,%v,%s\n", offset[0]+size[0]*a, offset[1]+size[1]*b, label)
	}
	data := tableOf(t, text.String())
	task := &problemTask{Likelihood: likelihoodNamed("gaussian"), Noise: 1, NoiseFrom: fromDefault, open: true}
	var loss glm.Likelihood = testref.Must(glm.NewGaussian(.1))(t)
	switch likelihood {
	case "bernoulli":
		task, loss = &problemTask{Likelihood: glm.Bernoulli{}, Classes: []int{0, 1}}, glm.Bernoulli{}
	case "poisson":
		loss = glm.Poisson{}
	}
	rows := testref.Must(data.Train.Select(task.Classes, 0))(t)
	y := mat.NewDense(rows.Len(), 1, rows.Targets)
	x, z := rows.Matrix(), mat.DenseCopyOf(y)
	by := testref.Must(ordered(t.Context(), inputs, rows, nil))(t)
	by.Apply(x)
	if targets {
		s := testref.Must(dataset.NewScaling(y))(t)
		s.Apply(z)
	}
	net, err := network.Seeded(seed, network.Shape{2}, network.Dense{Units: 8}, network.Tanh, network.Dense{Units: 1})
	require.NoError(t, err)
	net, _, err = train.MAP(t.Context(), net, x, z, loss, &train.Options{Epochs: 100, Batch: 40, LBFGS: 400, Seed: seed})
	require.NoError(t, err)
	return &trained{&trainedModel{Name: "m", Net: net, Outputs: 1, Meta: &metadata{}}, task, data, rows, y}
}

func (m *trained) scaling(t *testing.T, f *FitOptions) (*dataScaling, string) {
	t.Helper()
	var said listener
	require.NoError(t, f.checkScaling())
	s := testref.Must(scalingOf(t.Context(), job.New(&said), f, m.model, m.task, m.data, m.rows, m.y))(t)
	return s, said.String()
}

// A listener keeps what a job says.
type listener struct {
	job.Progress
	strings.Builder
}

func (l *listener) Note(text string) { l.WriteString(text + "\n") }

func (l *listener) Alarm(w *linearize.Warning) { l.Note("warning: " + w.Error()) }

func automatic() *FitOptions { return &FitOptions{} }

// Flags go before the metadata, and these before what the network fits. Nothing is said then.
func TestScalingPrecedence(t *testing.T) {
	m := trainedWith(t, 1, "gaussian", "yes", true)
	byRows := testref.Must(m.rows.Scaling(t.Context()))(t)
	meta := &metadata{Scaling: &dataset.Scaling{Mean: []float64{1}, Scale: []float64{2}}, Targets: &dataset.Scaling{Mean: []float64{3}, Scale: []float64{4}}}
	five, six := Numbers{Values: []float64{5}}, Numbers{Values: []float64{6}}
	for _, c := range []struct {
		name            string
		meta            *metadata
		flags           FitOptions
		inputs, targets *dataset.Scaling
		from            decision
	}{
		{"metadata", meta, FitOptions{Standardize: "auto"}, meta.Scaling, meta.Targets, fromMetadata},
		{"metadata without targets", &metadata{Scaling: meta.Scaling}, FitOptions{Standardize: "auto"}, meta.Scaling, nil, fromMetadata},
		{"no", meta, FitOptions{Standardize: "no"}, nil, nil, decision{byOption, "from {standardize=no}"}},
		{"yes", meta, FitOptions{Standardize: "yes"}, byRows, meta.Targets, decision{byOption, "from {standardize=yes}"}},
		{"numbers", meta, FitOptions{Standardize: "auto", InputMean: five, TargetSD: six}, &dataset.Scaling{Mean: []float64{5}, Scale: []float64{1}}, &dataset.Scaling{Mean: []float64{0}, Scale: []float64{6}}, decision{byOption, "from {input-mean}"}},
		{"no and a target", meta, FitOptions{Standardize: "no", TargetSD: six}, nil, &dataset.Scaling{Mean: []float64{0}, Scale: []float64{6}}, decision{byOption, "from {standardize=no}"}},
		{"a saved posterior", &metadata{saved: &dataScaling{Inputs: byRows, InputsFrom: savedOrigin("x"), TargetsFrom: savedOrigin("y")}}, FitOptions{Standardize: "auto"}, byRows, nil, savedOrigin("x")},
	} {
		m.model.Meta = c.meta
		s, said := m.scaling(t, &c.flags)
		require.Equal(t, c.inputs, s.Inputs, c.name)
		require.Equal(t, c.targets, s.Targets, c.name)
		require.Equal(t, c.from, s.InputsFrom, c.name)
		require.Empty(t, said, c.name)
	}
	// An untrained network: inputs of tables are standardized.
	m.model = &trainedModel{Meta: &metadata{}, Outputs: 1}
	s, said := m.scaling(t, automatic())
	require.Equal(t, byRows, s.Inputs)
	require.Nil(t, s.Targets)
	require.Empty(t, said)
}

// A saved scaling is the same when it is read.
func TestScalingSaved(t *testing.T) {
	s := &dataScaling{Inputs: &dataset.Scaling{Mean: []float64{1, .1}, Scale: []float64{3, 1e-9}}, Targets: &dataset.Scaling{Mean: []float64{-7}, Scale: []float64{1. / 3}}, InputsFrom: savedOrigin("a"), TargetsFrom: savedOrigin("b")}
	h := s.Saved()
	back := testref.Must(h.scaling())(t)
	require.Equal(t, s, back)
	none := (&dataScaling{InputsFrom: savedOrigin("a"), TargetsFrom: savedOrigin("b")}).Saved()
	back = testref.Must(none.scaling())(t)
	require.Equal(t, &dataScaling{InputsFrom: savedOrigin("a"), TargetsFrom: savedOrigin("b")}, back)
	require.Error(t, testref.Err((&savedScaling{Inputs: "1;-1"}).scaling()))
}

// The noise variance of one target is in its own squared units, that of several in those of the network.
func TestScalingNoise(t *testing.T) {
	s := &dataScaling{Targets: &dataset.Scaling{Mean: []float64{7, 8}, Scale: []float64{10, 100}}}
	require.Equal(t, 1.0, s.noiseUnit(2))
	task := &problemTask{Likelihood: likelihoodNamed("gaussian")}
	require.NoError(t, s.setNoise(task, .5, 2))
	cov := make([]float64, 4)
	task.Likelihood.(*glm.Gaussian).NoiseTo(cov, 2)
	require.InDeltaSlice(t, []float64{50, 0, 0, 5000}, cov, 1e-12)
	f, y := mat.NewDense(1, 2, []float64{17, 108}), mat.NewDense(1, 2, []float64{7, 308})
	require.InDelta(t, (1.+4)/2, s.meanSquare(f, y), 1e-12)
	one := &dataScaling{Targets: &dataset.Scaling{Mean: []float64{7}, Scale: []float64{10}}}
	require.Equal(t, 100.0, one.noiseUnit(1))
	require.NoError(t, one.setNoise(task, 50, 1))
	task.Likelihood.(*glm.Gaussian).NoiseTo(cov[:1], 1)
	require.Equal(t, 50.0, cov[0])
	require.Equal(t, 4.0, one.meanSquare(mat.NewDense(1, 1, []float64{3}), mat.NewDense(1, 1, []float64{5})))
	require.Equal(t, 1.0, (*dataScaling)(nil).noiseUnit(1))
}
