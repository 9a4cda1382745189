package prediction

import (
	"context"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/studies/command"
	"github.com/funcgp/funcgp/studies/synthetic"
	"github.com/funcgp/funcgp/studies/table"
)

// small is a study of small networks: two classes of synthetic digits, a table of three classes, a
// regression and counts. It is its own reference, without networks.
func small(t *testing.T, dir string) *study {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"classes", "real"} {
		for k, part := range []string{"train", "test"} {
			n := []int{30, 12}[k]
			list := &table.Table{Header: []string{"a", "b", "y"}}
			for i := range n {
				a, b := 3*rng.NormFloat64(), 10+rng.NormFloat64()
				y := 100 + 20*a*b/10 + 5*rng.NormFloat64()
				if name == "classes" {
					y = float64(i % 3)
					a += 2 * y
				}
				number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
				list.Rows = append(list.Rows, []string{number(a), number(b), number(y)})
			}
			require.NoError(t, list.WriteCSV(filepath.Join(dir, "reference"), name+"-"+part+".csv"))
		}
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "reference", "match"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "reference", "match", "cases.json"), []byte(`{"cases":[]}`), 0o644))
	a := training{name: "adam", optimizer: train.Adam{}, schedule: train.Constant{}, epochs: 30, batch: 8, rate: 0.01, lambda: 0.01}
	b := training{name: "sum", optimizer: train.Adam{Decay: 0.01}, schedule: train.Constant{}, epochs: 10, batch: 8, rate: 0.01, delta: 1}
	return &study{out: io.Discard, cache: filepath.Join(dir, "cache"), records: filepath.Join(dir, "records"), reference: filepath.Join(dir, "reference"), pictures: "digits:300,100", seeds: 2,
		sets: []set{
			{name: "classes", file: "classes-%s.csv", likelihood: "categorical", outputs: 3, hidden: []int{4, 4}, trainings: []training{a}},
			{name: "real", file: "real-%s.csv", likelihood: "gaussian", outputs: 1, hidden: []int{5}, trainings: []training{a}},
			{name: "counts", drawn: synthetic.Counts, likelihood: "poisson", outputs: 1, hidden: []int{4}, train: 30, test: 12, trainings: []training{a}},
			{name: "pictures", likelihood: "bernoulli", outputs: 1, hidden: []int{3}, asIs: true, train: 30, classes: []int{4, 9}, trainings: []training{b}},
		}}
}

// files are the contents of all files below dir.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	}))
	return all
}

// TestResumes runs the study, and again after some of its steps were lost: the record is the same.
// It has a number wherever one is meant.
func TestResumes(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	require.NoError(t, small(t, dir).run(ctx))
	first := files(t, filepath.Join(dir, "records"))
	require.Len(t, first, 2)
	for _, pattern := range []string{"answers-*/*-0/refit.json", "baselines/real-*/*.json", "nearest/counts-*.json"} {
		lost, err := filepath.Glob(filepath.Join(dir, "cache", "prediction", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, lost)
		for _, path := range lost {
			require.NoError(t, os.Remove(path))
		}
	}
	require.NoError(t, small(t, dir).run(ctx))
	for path, text := range files(t, filepath.Join(dir, "records")) {
		require.Equal(t, first[path], text)
	}
}

// TestFiguresAreThoseOfTheCommand compares the NLL of the formulas here with the command's own, for
// networks alone and for a regression's intervals.
func TestFiguresAreThoseOfTheCommand(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := small(t, dir)
	c, err := command.Build(ctx, dir)
	require.NoError(t, err)
	for i := range s.sets {
		p := &s.sets[i]
		tr := &p.trainings[0]
		r, err := p.open(ctx, s.reference, s.pictures, dir, 1)
		require.NoError(t, err)
		net, err := p.fit(ctx, tr, r.shape, r.x, r.y, 1)
		require.NoError(t, err)
		model := filepath.Join(dir, p.name+".onnx")
		require.NoError(t, command.WriteModel(model, net, command.Training{Likelihood: p.likelihood, Precision: tr.delta, Classes: p.classes, Inputs: r.inputs, Targets: r.targets}))
		// Of a regression the network alone has the noise variance that is given.
		args := append([]string{"--model", model, "--quiet", "--calibrate", "none"}, r.flags...)
		noise := 0.3
		if p.likelihood == "gaussian" {
			args = append(args, "--noise-variance", strconv.FormatFloat(noise*r.targets.Scale[0]*r.targets.Scale[0], 'g', -1, 64))
		}
		rows, sum, err := c.Predict(ctx, args)
		require.NoError(t, err)
		f, err := net.Forward(ctx, r.testX)
		require.NoError(t, err)
		alone := p.alone(r, f, noise)
		require.InEpsilon(t, float64(sum.MAPNLL), float64(alone.NLL), 1e-9, p.name)
		got := p.answered(rows, sum)
		if p.likelihood == "gaussian" {
			var y, mean, sd []float64
			for _, row := range rows {
				y, mean, sd = append(y, row.Label), append(mean, row.ObservationMean[0]), append(sd, row.ObservationSD[0])
			}
			require.InEpsilon(t, float64(sum.NLL), float64(realFigures(y, mean, sd).NLL), 1e-9)
			require.InEpsilon(t, float64(alone.RMSE), float64(got.RMSE), 0.5) // the same unit
		}
	}
}

// TestIntervals counts rows inside of intervals, of two kinds that are known by heart.
func TestIntervals(t *testing.T) {
	y, mean, sd := []float64{0, 1.644, 1.645, -4}, make([]float64, 4), []float64{1, 1, 1, 1}
	f := realFigures(y, mean, sd)
	require.EqualValues(t, 0.5, f.Coverage)
	require.InDelta(t, math.Sqrt((1.644*1.644+1.645*1.645+16)/4), float64(f.RMSE), 1e-12)
	// Poisson with the rate 4: P(y ≤ 0) = .018, P(y ≤ 1) = .092, P(y ≤ 7) = .949, P(y ≤ 8) = .979, so
	// that 5 % and 95 % are at 1 and 8.
	m := []float64{math.Log(4), math.Log(4), math.Log(4), math.Log(4)}
	require.EqualValues(t, 0.5, countFigures([]float64{0, 1, 8, 9}, []float64{4, 4, 4, 4}, make([]float64, 4), m, make([]float64, 4)).Coverage)
}

// TestMixture checks the mixture of two networks: of one and the same it is that network, and of two
// the mean of their densities.
func TestMixture(t *testing.T) {
	y := mat.NewDense(2, 1, []float64{1, 0})
	a, b := mat.NewDense(2, 1, []float64{0.5, -1}), mat.NewDense(2, 1, []float64{2, 0.3})
	p := func(f float64) float64 { return 1 / (1 + math.Exp(-f)) }
	s, r := &set{likelihood: "bernoulli"}, &split{testY: y}
	require.InDelta(t, float64(s.alone(r, a, 0).NLL), float64(s.mixed(r, []*mat.Dense{a, a}, 0).NLL), 1e-15)
	want := -(math.Log((p(0.5)+p(2))/2) + math.Log((p(1)+p(-0.3))/2)) / 2
	require.InDelta(t, want, float64(s.mixed(r, []*mat.Dense{a, b}, 0).NLL), 1e-12)

	real := &set{likelihood: "gaussian"}
	r.targets = &dataset.Scaling{Mean: []float64{10}, Scale: []float64{3}}
	got := real.mixed(r, []*mat.Dense{a, b}, 0.25)
	// Row 1 has the mean 1.25 and the variance .25 + .75², row 2 −.35 and .25 + .65².
	var w result.Float
	for i, row := range [][3]float64{{1, 1.25, 0.25 + 0.75*0.75}, {0, -0.35, 0.25 + 0.65*0.65}} {
		require.Equal(t, y.At(i, 0), row[0])
		v := 9 * row[2]
		d := 3 * (row[0] - row[1])
		w += result.Float((math.Log(2*math.Pi*v) + d*d/v) / 4)
	}
	require.InDelta(t, float64(w), float64(got.NLL), 1e-12)
}
