package problem

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
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

// A trained is a table and a network trained on it in one of the ways to scale.
type trained struct {
	model *Model
	task  *Task
	data  *dataset.Data
	rows  *dataset.Subset
	y     *mat.Dense
}

// trainedWith trains a small network with weight decay on columns of very different sizes, or near ones, with inputs
// and targets standardized or not.
func trainedWith(t *testing.T, seed uint64, likelihood string, inputs, targets bool) *trained {
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
		a, b := rng.NormFloat64(), rng.NormFloat64()
		y := a - b + .5*a*b + .3*rng.NormFloat64()
		label := fmt.Sprint(middle + unit*y)
		if likelihood != "gaussian" {
			label = "0"
			if y > 0 {
				label = "1"
			}
		}
		fmt.Fprintf(&text, "%v,%v,%s\n", offset[0]+size[0]*a, offset[1]+size[1]*b, label)
	}
	data := tableOf(t, text.String())
	task := &Task{Likelihood: LikelihoodNamed(likelihood), Noise: 1}
	if likelihood != "gaussian" {
		task.Classes = []int{0, 1}
	}
	rows := testref.Must(data.Train.Select(&dataset.SelectOptions{Classes: task.Classes}))(t)
	y := mat.NewDense(rows.Len(), 1, rows.Targets)
	x, z := rows.Matrix(), mat.DenseCopyOf(y)
	if inputs {
		s := testref.Must(rows.Scaling(t.Context()))(t)
		s.Apply(x)
	}
	if targets {
		s := testref.Must(dataset.NewScaling(y))(t)
		s.Apply(z)
	}
	net, err := network.Seeded(seed, network.Shape{2}, network.Dense{Units: 8}, network.Tanh, network.Dense{Units: 1})
	require.NoError(t, err)
	loss := task.Likelihood
	if likelihood == "gaussian" {
		loss = testref.Must(glm.NewGaussian(.1))(t)
	}
	net, _, err = train.MAP(t.Context(), net, x, z, loss, &train.Options{Epochs: 100, Batch: 40, LBFGS: 400, Seed: seed})
	require.NoError(t, err)
	return &trained{&Model{Name: "m", Net: net, Outputs: 1, Meta: &Metadata{}}, task, data, rows, y}
}

func (m *trained) scaling(t *testing.T, f *ScalingFlags) (*Scaling, string) {
	t.Helper()
	var said listener
	require.NoError(t, f.check())
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

func automatic() *ScalingFlags { return &ScalingFlags{Standardize: "auto"} }

// Auto finds how a network was trained, and says so; also where the other way is close.
func TestScalingByFit(t *testing.T) {
	for seed := range uint64(6) {
		for _, inputs := range []bool{false, true} {
			m := trainedWith(t, seed, "bernoulli", inputs, false)
			s, said := m.scaling(t, automatic())
			require.Equal(t, inputs, s.Inputs != nil, "seed %d: %s", seed, said)
			require.Nil(t, s.Targets)
			require.Contains(t, said, "--standardize auto chose inputs ")
			require.Contains(t, string(s.InputsFrom), "chosen by --standardize auto")
			for _, targets := range []bool{false, true} {
				m := trainedWith(t, seed, "gaussian", inputs, targets)
				s, said := m.scaling(t, automatic())
				require.Equal(t, [2]bool{inputs, targets}, [2]bool{s.Inputs != nil, s.Targets != nil}, "seed %d: %s", seed, said)
			}
		}
	}
}

// nearlyStandardized is a network f = mean + sd·z on rows whose targets have mean .03, the given deviation, and the
// correlation .93 with z, so that targets as they are and standardized ones fit nearly alike.
func nearlyStandardized(t *testing.T, deviation, mean, sd float64) *trained {
	t.Helper()
	const n, correlation = 400, .93
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
	floats.AddScaled(e, -floats.Dot(e, z)/n, z)
	standardize(e)
	var text strings.Builder
	text.WriteString("z,y\n")
	for i := range z {
		fmt.Fprintf(&text, "%v,%v\n", z[i], .03+deviation*(correlation*z[i]+math.Sqrt(1-correlation*correlation)*e[i]))
	}
	data := tableOf(t, text.String())
	rows := testref.Must(data.Train.Select(nil))(t)
	net := testref.Must(network.Sequential(network.Shape{1}, network.Dense{Units: 1}))(t)
	net = testref.Must(net.WithTheta([]float64{sd, mean}))(t)
	task := &Task{Likelihood: LikelihoodNamed("gaussian"), Noise: 1}
	return &trained{&Model{Name: "m", Net: net, Outputs: 1, Meta: &Metadata{}}, task, data, rows, mat.NewDense(n, 1, rows.Targets)}
}

// Where two ways to scale the targets fit nearly alike, the outputs' mean and deviation decide and not which error is
// smaller, and a warning names both and the flags that settle it.
func TestScalingOfNearTargets(t *testing.T) {
	zero, one := numbersFlag{name: "input-mean", Text: "0"}, numbersFlag{name: "input-sd", Text: "1"}
	for _, c := range []struct {
		name                string
		deviation, mean, sd float64
		standardized        bool
		losses              [2]string // of the way that is right, and of the other
		predictions         string
		moved, factor       string
	}{
		// 2 − 2·.93 against 1 − 2·.93/1.05 + 1/1.05² + (.03/1.05)²
		{"standardized", 1.05, 0, 1, true, [2]string{"14 %", "13.6 %"}, "mean 0.03 and deviation 1.05, otherwise", "0.0555", "0.952381"},
		// The other has the deviation .95² and the mean .03·1.95: 1 − 2·.93·.95 + .95² + .03²
		{"as they are", .95, .03, .95, false, [2]string{"14 %", "13.6 %"}, "mean 0.03 and deviation 0.95, otherwise 0.0585 and 0.9025", "0.0583", "0.95"},
	} {
		m := nearlyStandardized(t, c.deviation, c.mean, c.sd)
		s, said := m.scaling(t, &ScalingFlags{Standardize: "auto", InputMean: zero, InputSD: one})
		require.Equal(t, c.standardized, s.Targets != nil, "%s: %s", c.name, said)
		taken, other := "targets as they are", "standardized targets"
		flags := "Give --target-mean 0 --target-sd 1 to keep what is taken, or --target-mean 0.03 --target-sd 0.95 for the other"
		if c.standardized {
			taken, other = other, taken
			flags = "Give --target-mean 0.03 --target-sd 1.05 to keep what is taken, or --target-mean 0 --target-sd 1 for the other"
		}
		require.Contains(t, said, "--standardize auto chose "+taken)
		require.Contains(t, said, "predictions have "+c.predictions)
		require.Contains(t, said, fmt.Sprintf("warning: It is not sure how targets were scaled in training: with %s, which is taken, the network loses %s of what a constant loses on its training rows, and with %s %s.",
			taken, c.losses[0], other, c.losses[1]))
		require.Contains(t, said, "move predictions by "+c.moved+" of a deviation of the targets (RMS over the training rows) and multiply their deviations by "+c.factor)
		require.Contains(t, said, flags)

		_, said = m.scaling(t, &ScalingFlags{Standardize: "auto", InputMean: zero, InputSD: one, TargetMean: numbersFlag{name: "target-mean", Text: "0.03"}, TargetSD: numbersFlag{name: "target-sd", Text: "1"}})
		require.Empty(t, said)
	}
	// Targets of another size are told apart without a doubt.
	m := nearlyStandardized(t, 3, 0, 1)
	s, said := m.scaling(t, &ScalingFlags{Standardize: "auto", InputMean: zero, InputSD: one})
	require.NotNil(t, s.Targets)
	require.NotContains(t, said, "warning")
}

// Misfits by hand: two targets, whose outputs lie on a line with them.
func TestSpread(t *testing.T) {
	y := mat.NewDense(4, 2, []float64{1, 10, 2, 30, 3, 10, 4, 30}) // means 2.5 and 20, deviations √1.25 and 10
	scaled := testref.Must(dataset.NewScaling(y))(t)
	f := mat.DenseCopyOf(y)
	scaled.Apply(f)
	s, raw := spreadOf(scaled, f, y), spreadOf(nil, f, y)
	require.InDelta(t, 0, s.misfit(), 1e-12)
	require.InDeltaSlice(t, []float64{2.5, 20}, s.mean, 1e-12)
	// Means off by 2.5/√1.25 and 2 deviations, deviations by the factors √1.25 and 10.
	sd := math.Sqrt(1.25)
	require.InDelta(t, (2.5/sd+2+math.Log(sd)+math.Log(10))/2, raw.misfit(), 1e-12)
	rms, factor := s.moved(&raw)
	require.InDeltaSlice(t, []float64{1 / sd, .1}, factor, 1e-12)
	// Row by row the predictions are y and f.
	var want float64
	for i := range 4 {
		for j, size := range []float64{sd, 10} {
			d := (y.At(i, j) - f.At(i, j)) / size
			want += d * d / 8
		}
	}
	require.InDelta(t, math.Sqrt(want), rms, 1e-12)
	require.Contains(t, s.words(&raw), "means and deviations of the targets, with a misfit of ")

	// With a correlation of .8, a deviation between .8 and 1 of that of the targets fits.
	z, e := []float64{1, -1, 1, -1}, []float64{1, 1, -1, -1}
	for share, misfit := range map[float64]float64{.9: 0, 1: 0, .8: 0, 1.5: math.Log(1.5), .4: math.Log(2)} {
		f, y := mat.NewDense(4, 1, nil), mat.NewDense(4, 1, nil)
		for i := range z {
			f.Set(i, 0, share*z[i])
			y.Set(i, 0, .8*z[i]+.6*e[i])
		}
		one := spreadOf(nil, f, y)
		require.InDelta(t, misfit, one.misfit(), 1e-12, share)
	}
	require.Zero(t, (&spread{}).misfit())
	constant := spreadOf(nil, mat.NewDense(4, 2, nil), y)
	require.Equal(t, math.Inf(1), constant.misfit())
}

// Flags go before the metadata, and these before what the network fits. Nothing is said then.
func TestScalingPrecedence(t *testing.T) {
	m := trainedWith(t, 1, "gaussian", true, true)
	byRows := testref.Must(m.rows.Scaling(t.Context()))(t)
	meta := &Metadata{Scaling: &dataset.Scaling{Mean: []float64{1}, Scale: []float64{2}}, Targets: &dataset.Scaling{Mean: []float64{3}, Scale: []float64{4}}}
	five, six := numbersFlag{name: "input-mean", Text: "5"}, numbersFlag{name: "target-sd", Text: "6"}
	for _, c := range []struct {
		name            string
		meta            *Metadata
		flags           ScalingFlags
		inputs, targets *dataset.Scaling
		from            Origin
	}{
		{"metadata", meta, ScalingFlags{Standardize: "auto"}, meta.Scaling, meta.Targets, fromMetadata},
		{"metadata without targets", &Metadata{Scaling: meta.Scaling}, ScalingFlags{Standardize: "auto"}, meta.Scaling, nil, fromMetadata},
		{"no", meta, ScalingFlags{Standardize: "no"}, nil, nil, "from --standardize no"},
		{"yes", meta, ScalingFlags{Standardize: "yes"}, byRows, meta.Targets, "from --standardize yes"},
		{"numbers", meta, ScalingFlags{Standardize: "auto", InputMean: five, TargetSD: six}, &dataset.Scaling{Mean: []float64{5}, Scale: []float64{1}}, &dataset.Scaling{Mean: []float64{0}, Scale: []float64{6}}, "from --input-mean"},
		{"no and a target", meta, ScalingFlags{Standardize: "no", TargetSD: six}, nil, &dataset.Scaling{Mean: []float64{0}, Scale: []float64{6}}, "from --standardize no"},
		{"a saved posterior", &Metadata{saved: &Scaling{Inputs: byRows, InputsFrom: "x", TargetsFrom: "y"}}, ScalingFlags{Standardize: "auto"}, byRows, nil, "x"},
	} {
		m.model.Meta = c.meta
		s, said := m.scaling(t, &c.flags)
		require.Equal(t, c.inputs, s.Inputs, c.name)
		require.Equal(t, c.targets, s.Targets, c.name)
		require.Equal(t, c.from, s.InputsFrom, c.name)
		require.Empty(t, said, c.name)
	}
	// An untrained network: inputs of tables are standardized.
	m.model = &Model{Meta: &Metadata{}, Outputs: 1}
	s, said := m.scaling(t, automatic())
	require.Equal(t, byRows, s.Inputs)
	require.Nil(t, s.Targets)
	require.Empty(t, said)
}

// A saved scaling is the same when it is read.
func TestScalingSaved(t *testing.T) {
	s := &Scaling{Inputs: &dataset.Scaling{Mean: []float64{1, .1}, Scale: []float64{3, 1e-9}}, Targets: &dataset.Scaling{Mean: []float64{-7}, Scale: []float64{1. / 3}}, InputsFrom: "a", TargetsFrom: "b"}
	h := s.Saved()
	back := testref.Must(h.scaling())(t)
	require.Equal(t, s, back)
	none := (&Scaling{InputsFrom: "a", TargetsFrom: "b"}).Saved()
	back = testref.Must(none.scaling())(t)
	require.Equal(t, &Scaling{InputsFrom: "a", TargetsFrom: "b"}, back)
	require.Error(t, testref.Err((&SavedScaling{Inputs: "1;-1"}).scaling()))
}

// The noise variance of one target is in its own squared units, that of several in those of the network.
func TestScalingNoise(t *testing.T) {
	s := &Scaling{Targets: &dataset.Scaling{Mean: []float64{7, 8}, Scale: []float64{10, 100}}}
	require.Equal(t, 1.0, s.noiseUnit(2))
	task := &Task{Likelihood: LikelihoodNamed("gaussian")}
	require.NoError(t, s.setNoise(task, .5, 2))
	cov := make([]float64, 4)
	task.Likelihood.(*glm.Gaussian).NoiseTo(cov, 2)
	require.InDeltaSlice(t, []float64{50, 0, 0, 5000}, cov, 1e-12)
	f, y := mat.NewDense(1, 2, []float64{17, 108}), mat.NewDense(1, 2, []float64{7, 308})
	require.InDelta(t, (1.+4)/2, s.meanSquare(f, y), 1e-12)
	one := &Scaling{Targets: &dataset.Scaling{Mean: []float64{7}, Scale: []float64{10}}}
	require.Equal(t, 100.0, one.noiseUnit(1))
	require.NoError(t, one.setNoise(task, 50, 1))
	task.Likelihood.(*glm.Gaussian).NoiseTo(cov[:1], 1)
	require.Equal(t, 50.0, cov[0])
	require.Equal(t, 4.0, one.meanSquare(mat.NewDense(1, 1, []float64{3}), mat.NewDense(1, 1, []float64{5})))
	require.Equal(t, 1.0, (*Scaling)(nil).noiseUnit(1))
}
