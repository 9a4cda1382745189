package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// A frontCase is a posterior that the package at the root and the command fit, by the same words.
type frontCase struct {
	name  string
	model funcgp.Model
	data  funcgp.Data
	fit   funcgp.FitOptions
	args  []string
}

func frontCases(t *testing.T) []frontCase {
	table := func(name string) frontCase {
		e := corpus(t, name)
		c := frontCase{name: name, model: funcgp.Model{File: filepath.Join(e.dir, "model.onnx")}, data: funcgp.Data{Source: filepath.Join(e.dir, e.Train), ID: e.ID}, args: e.args()}
		if e.Test != "" {
			c.data.TestFile = filepath.Join(e.dir, e.Test)
		}
		if strings.Contains(e.Target, ",") {
			c.data.Target = e.Target
		}
		return c
	}
	return []frontCase{
		{"digits", funcgp.Model{}, funcgp.Data{TrainCount: 120}, funcgp.FitOptions{}, []string{"--train-count", "120"}},
		{"kept", funcgp.Model{}, funcgp.Data{TrainCount: 100}, funcgp.FitOptions{Method: funcgp.Method{Name: "kept", Within: .1}}, []string{"--train-count", "100", "--method", "kept", "--within", "0.1"}},
		{"nystrom", funcgp.Model{}, funcgp.Data{TrainCount: 100}, funcgp.FitOptions{Method: funcgp.Method{Name: "nystrom", Inducing: 30}}, []string{"--train-count", "100", "--method", "nystrom", "--inducing", "30"}},
		{"precision", funcgp.Model{}, funcgp.Data{TrainCount: 120}, funcgp.FitOptions{Prior: funcgp.Precision(3)}, []string{"--train-count", "120", "--prior-precision", "3"}},
		table("string-labels"),
		table("house-prices"),
		table("two-targets"),
	}
}

// TestFrontDoor checks that the package at the root answers as the command does, to the last bit: fitted,
// and opened from the file that the command wrote and that it wrote itself.
func TestFrontDoor(t *testing.T) {
	for _, c := range frontCases(t) {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "a.gp")
			succeed(t, slices.Concat([]string{"fit", "--quiet", "-o", file}, c.args)...)
			lines := strings.Split(strings.TrimSpace(succeed(t, "predict", "--posterior", file, "--json", "--quiet")), "\n")
			first := decode[prediction](t, lines[0])
			explained := decode[result.Report](t, succeed(t, "explain", "--posterior", file, "--json", "--quiet", "--index", fmt.Sprint(first.Index)))

			fitted, err := funcgp.Fit(t.Context(), c.model, c.data, &c.fit)
			require.NoError(t, err)
			own := filepath.Join(dir, "own.gp")
			require.NoError(t, fitted.Save(t.Context(), own, nil))
			for _, path := range []string{"", file, own} {
				p := fitted
				if path != "" {
					p, err = funcgp.Open(t.Context(), path, nil)
					require.NoError(t, err, path)
				}
				rows := testref.Must(p.TestRows(t.Context()))(t)
				all := testref.Must(p.Predict(t.Context(), rows))(t)
				require.Len(t, all, len(lines)-1)
				for i, got := range all {
					requireFront(t, decode[prediction](t, lines[i]), got)
				}
				one := testref.Must(p.TestRows(t.Context(), int(first.Index)))(t)
				list := testref.Must(p.Explain(t.Context(), one, nil))(t)
				require.Equal(t, asJSON(t, explained.Outputs), asJSON(t, list[0].Outputs))
				require.Equal(t, asJSON(t, explained.Prediction), asJSON(t, list[0].Prediction))
				sum := testref.Must(p.Terms(t.Context(), one, nil))(t)
				var train []int
				for i := range p.Info().Examples {
					train = append(train, testref.Must(p.TrainingRows(t.Context()))(t).Index(i))
				}
				only := testref.Must(p.Explain(t.Context(), one, &funcgp.ExplainOptions{Only: true}))(t)[0].Main()
				for _, term := range only.Contributions {
					at := slices.Index(train, int(term.Index))
					require.InDelta(t, float64(term.Value), sum.At(0, at), 1e-12*max(1, math.Abs(float64(term.Value))))
				}
				size := 0.0
				for _, v := range sum.RawRowView(0) {
					size += math.Abs(v)
				}
				require.InDelta(t, float64(only.ContributionSum), mat.Sum(sum), 1e-12*size)
				if path == "" {
					continue
				}
				require.NoError(t, p.Close())
				require.ErrorIs(t, testref.Err(p.Predict(t.Context(), one)), funcgp.ErrClosed)
				require.ErrorContains(t, testref.Err(fitted.Predict(t.Context(), one)), "another posterior")
			}
			require.NoError(t, fitted.Close())
		})
	}
}

// Regions are the sets and intervals of predict --coverage, to the last bit.
func TestFrontDoorRegions(t *testing.T) {
	for _, c := range frontCases(t)[:6] {
		if c.name == "kept" || c.name == "precision" {
			continue // as digits
		}
		t.Run(c.name, func(t *testing.T) {
			lines := strings.Split(strings.TrimSpace(succeed(t, slices.Concat([]string{"predict", "--json", "--quiet", "--coverage", "0.8"}, c.args)...)), "\n")
			p := testref.Must(funcgp.Fit(t.Context(), c.model, c.data, &c.fit))(t)
			defer p.Close()
			rows := testref.Must(p.TestRows(t.Context()))(t)
			ask := func(coverage float64) (list []funcgp.Region, err error) {
				for x, err := range p.Predictions(t.Context(), rows, &funcgp.PredictOptions{Coverage: coverage}) {
					if err != nil {
						return nil, err
					}
					list = append(list, x.Region)
				}
				return list, nil
			}
			got := testref.Must(ask(.8))(t)
			require.Len(t, got, len(lines)-1)
			for i, r := range got {
				require.Equal(t, asJSON(t, decode[prediction](t, lines[i]).Region), asJSON(t, r))
			}
			require.ErrorContains(t, testref.Err(ask(1)), "between 0 and 1")
			_, err := ask(.99999)
			require.ErrorContains(t, err, "training rows")
			require.NotContains(t, err.Error(), "--")
		})
	}
}

func requireFront(t *testing.T, want prediction, got funcgp.Prediction) {
	t.Helper()
	require.Equal(t, asJSON(t, want.Prediction), asJSON(t, got))
}

// TestFrontDoorOfManyWorkers checks of each kind of posterior that goroutines that share it get the same bits, and
// that Close waits for them.
func TestFrontDoorOfManyWorkers(t *testing.T) {
	for _, method := range []string{"exact", "kept", "parameters", "subset", "nystrom"} {
		var model funcgp.Model
		if method == "parameters" {
			model.Freeze = []string{"Dense1.weight"} // its largest matrix
		}
		p, err := funcgp.Fit(t.Context(), model, funcgp.Data{TrainCount: 60}, &funcgp.FitOptions{Method: funcgp.Method{Name: method}})
		require.NoError(t, err)
		rows := testref.Must(p.TestRows(t.Context(), 6, 24))(t)
		want := asJSON(t, testref.Must(p.Explain(t.Context(), rows, nil))(t))
		var all sync.WaitGroup
		var answers atomic.Int32
		for range 16 {
			all.Go(func() {
				for err := error(nil); ; answers.Add(1) {
					var got []funcgp.Explanation
					if got, err = p.Explain(t.Context(), rows, nil); err == funcgp.ErrClosed {
						return
					}
					if !assert.NoError(t, err) || !assert.Equal(t, want, asJSON(t, got), method) {
						return
					}
				}
			})
		}
		for answers.Load() < 16 && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, p.Close())
		all.Wait()
	}
}

// TestBundle checks that a bundle answers as before where model and data are gone, by the package at the root
// and by the command, and that one of a network and rows in memory does.
func TestBundle(t *testing.T) {
	dir := t.TempDir()
	for _, c := range frontCases(t)[4:] {
		move := func(path string) string {
			to := filepath.Join(dir, c.name, filepath.Base(path))
			require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
			require.NoError(t, os.WriteFile(to, []byte(read(t, path)), 0o644))
			return to
		}
		input := move(c.data.TestFile)
		c.model.File, c.data.Source, c.data.TestFile = move(c.model.File), move(c.data.Source), ""
		file := filepath.Join(dir, c.name+".gp")
		args := []string{"--model", c.model.File, "--data", c.data.Source}
		for _, f := range [][2]string{{"--target", c.data.Target}, {"--id", c.data.ID}} {
			if f[1] != "" {
				args = append(args, f[:]...)
			}
		}
		want := succeed(t, slices.Concat([]string{"predict", "--json", "--quiet", "--input", input}, args)...)
		succeed(t, slices.Concat([]string{"fit", "--quiet", "--bundle", "-o", file}, args)...)
		require.NoError(t, os.Remove(c.model.File))
		require.NoError(t, os.Remove(c.data.Source))
		require.Equal(t, firstLine(want), firstLine(succeed(t, "predict", "--json", "--quiet", "--input", input, "--posterior", file)))
		require.NotContains(t, read(t, file), dir)
		p := testref.Must(funcgp.Open(t.Context(), file, nil))(t)
		again := filepath.Join(dir, "again.gp")
		require.NoError(t, p.Save(t.Context(), again, nil))
		require.NoError(t, p.Close())
		require.Equal(t, firstLine(want), firstLine(succeed(t, "predict", "--json", "--quiet", "--input", input, "--posterior", again)))
	}
}

// TestBundleWithoutInputs checks that a bundle with the inputs of the inducing rows alone predicts as one with all,
// where the data are gone, and explains where they are given.
func TestBundleWithoutInputs(t *testing.T) {
	for _, c := range frontCases(t) {
		if c.data.Source == "" || c.fit.Method.Name != "" {
			continue
		}
		c.fit.Method = funcgp.Method{Name: "nystrom", Inducing: 12}
		p := testref.Must(funcgp.Fit(t.Context(), c.model, c.data, &c.fit))(t)
		all, fewer, again := filepath.Join(t.TempDir(), "all.gp"), filepath.Join(t.TempDir(), "fewer.gp"), filepath.Join(t.TempDir(), "again.gp")
		require.ErrorContains(t, p.Save(t.Context(), fewer, &funcgp.SaveOptions{WithoutInputs: true}), "Bundle")
		require.NoError(t, p.Save(t.Context(), all, &funcgp.SaveOptions{Bundle: true}))
		require.NoError(t, p.Save(t.Context(), fewer, &funcgp.SaveOptions{Bundle: true, WithoutInputs: true}))
		q := testref.Must(funcgp.Open(t.Context(), fewer, nil))(t)
		require.ErrorContains(t, q.Save(t.Context(), again, nil), "copy that file")
		q = testref.Must(funcgp.Open(t.Context(), fewer, &funcgp.OpenOptions{Data: funcgp.Data{Source: c.data.Source}}))(t)
		require.NoError(t, q.Save(t.Context(), again, nil))
		var want []funcgp.Prediction
		for _, path := range []string{all, fewer, again} {
			q := testref.Must(funcgp.Open(t.Context(), path, nil))(t)
			rows := testref.Must(q.ReadCSV(t.Context(), strings.NewReader(read(t, c.data.TestFile))))(t)
			got := testref.Must(q.Predict(t.Context(), rows))(t)
			_, err := q.Explain(t.Context(), rows.Slice(0, 1), nil)
			if want == nil {
				require.NoError(t, err)
				want = got
				continue
			}
			for i := range got { // all is the same but what needs the training inputs
				require.False(t, got[i].Novelty.Score.Finite() || got[i].Novelty.Rank.Finite())
				got[i].Novelty.Score, got[i].Novelty.Rank = want[i].Novelty.Score, want[i].Novelty.Rank
			}
			require.Equal(t, asJSON(t, want), asJSON(t, got))
			require.ErrorContains(t, err, "the inputs of this training row were left out of the file")
			require.ErrorContains(t, err, "Data.Source")
		}
		q = testref.Must(funcgp.Open(t.Context(), fewer, &funcgp.OpenOptions{Data: funcgp.Data{Source: c.data.Source}}))(t)
		rows := testref.Must(q.ReadCSV(t.Context(), strings.NewReader(read(t, c.data.TestFile))))(t)
		require.NoError(t, testref.Err(q.Explain(t.Context(), rows.Slice(0, 1), nil)))
	}
	require.Contains(t, refuse(t, 2, "fit", "--bundle", "--without-inputs", "-o", "a.gp"), "predicts from all its training inputs")
}

// TestFrontDoorInMemory fits a network and rows in memory, and opens the bundle.
func TestFrontDoorInMemory(t *testing.T) {
	net, err := network.Seeded(1, network.Shape{2}, network.Dense{Units: 5}, network.Tanh, network.Dense{Units: 1})
	require.NoError(t, err)
	x, y := mat.NewDense(30, 2, nil), mat.NewDense(30, 1, nil)
	for i := range 30 {
		x.SetRow(i, []float64{float64(i % 5), float64(i) / 10})
		y.Set(i, 0, float64(i)/7+float64(i%3))
	}
	p, err := funcgp.Fit(t.Context(), funcgp.Model{Network: net}, funcgp.Data{X: x, Y: y, Columns: []string{"a", "b"}}, &funcgp.FitOptions{Likelihood: "gaussian", Standardize: "no", Prior: funcgp.Precision(1)})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "a.gp")
	require.ErrorContains(t, p.Save(t.Context(), file, nil), "Bundle")
	require.NoError(t, p.Save(t.Context(), file, &funcgp.SaveOptions{Bundle: true}))
	again := testref.Must(funcgp.Open(t.Context(), file, nil))(t)
	var got []string
	for _, q := range []*funcgp.Posterior{p, again} {
		rows := testref.Must(q.Records(t.Context(), []map[string]float64{{"b": 2, "a": 1}}))(t)
		list := testref.Must(q.Explain(t.Context(), rows, nil))(t)
		_, err := q.Records(t.Context(), []map[string]float64{{"a": 1, "b": 2, "c": 3}})
		require.ErrorContains(t, err, `"c", which is no column`)
		got = append(got, fmt.Sprintf("%v %v %v", list[0].Prediction.Mean, list[0].Prediction.ObservationSD, asJSON(t, list[0].Outputs)))
	}
	require.Equal(t, got[0], got[1])
}

// TestFrontDoorReads checks rows of one's own by table, matrix and record: one answer.
func TestFrontDoorReads(t *testing.T) {
	c := frontCases(t)[4] // string-labels
	p := testref.Must(funcgp.Fit(t.Context(), c.model, c.data, &c.fit))(t)
	defer p.Close()
	f := testref.Must(os.Open(c.data.Source))(t)
	defer f.Close()
	rows := testref.Must(p.ReadCSV(t.Context(), f))(t)
	list := testref.Must(p.Predict(t.Context(), rows))(t)
	require.EqualValues(t, 0, list[0].Index)
	require.NotEmpty(t, list[0].ClassName)
	_, err := p.Records(t.Context(), []map[string]float64{{"petal": 1}})
	require.ErrorContains(t, err, "has no number for column")
}

// TestFrontDoorChanges checks that a program and the command say the same of other training rows.
func TestFrontDoorChanges(t *testing.T) {
	p := testref.Must(funcgp.Fit(t.Context(), funcgp.Model{}, funcgp.Data{TrainCount: 120}, nil))(t)
	defer p.Close()
	rows := testref.Must(p.TestRows(t.Context(), 6))(t)
	said := func(args ...string) result.Report {
		return decode[result.Report](t, succeed(t, append([]string{"explain", "--json", "--quiet", "--train-count", "120", "--index", "6"}, args...)...))
	}
	without := testref.Must(p.Without(t.Context(), rows, 172, 4))(t)
	want := said("--without", "172,4").Without
	require.Equal(t, want.Mean, without[0].Mean)
	require.Equal(t, want.Probability, without[0].Probability)
	require.Equal(t, want.Class, without[0].Class)
	plain := testref.Must(p.Predict(t.Context(), rows))(t)
	same := testref.Must(p.Without(t.Context(), rows))(t)
	require.Equal(t, asJSON(t, plain), asJSON(t, same))
	for _, bad := range [][]int{{1, 1}, {999999}} {
		require.ErrorContains(t, testref.Err(p.Without(t.Context(), rows, bad...)), "funcgp: Without")
	}

	flips := testref.Must(p.SmallestFlip(t.Context(), rows, 60, 0))(t)
	smallest := said("--smallest-flip", "--flip-most", "60").SmallestFlip
	require.Equal(t, *smallest, flips[0])
	info := p.Info()
	require.Equal(t, "exact", info.Method)
	require.Equal(t, 120, info.Examples)
	require.Equal(t, []int{1, 28, 28}, info.InputShape)
	fit := said().Fit
	require.Equal(t, []result.Float{fit.PriorPrecision, fit.LogEvidence}, []result.Float{info.PriorPrecision, info.LogEvidence})
}

// TestFrontDoorInfluence checks that influence is that of the command, whichever posterior answers.
func TestFrontDoorInfluence(t *testing.T) {
	p := testref.Must(funcgp.Fit(t.Context(), funcgp.Model{}, funcgp.Data{TrainCount: 60}, nil))(t)
	defer p.Close()
	rows := testref.Must(p.TestRows(t.Context(), 6))(t)
	ask := func(o funcgp.ExplainOptions) *funcgp.Output {
		list := testref.Must(p.Explain(t.Context(), rows, &o))(t)
		return list[0].Main()
	}
	plain := ask(funcgp.ExplainOptions{})
	require.Equal(t, []string{"9", "4"}, []string{plain.Name, plain.Other})
	require.NotContains(t, asJSON(t, plain), "influence")
	command := decode[result.Report](t, succeed(t, "explain", "--json", "--influence", "--train-count", "60", "--index", "6")).Outputs[0].Contributions
	file := filepath.Join(t.TempDir(), "a.gp")
	require.NoError(t, p.Save(t.Context(), file, nil))
	saved := decode[result.Report](t, succeed(t, "explain", "--json", "--influence", "--posterior", file, "--index", "6")).Outputs[0].Contributions
	for i, x := range ask(funcgp.ExplainOptions{Influence: true}).Contributions {
		require.Equal(t, *command[i].Influence, *x.Influence)
		require.InDelta(t, float64(*x.Influence), float64(*saved[i].Influence), 1e-6)
	}
	for want, o := range map[string]funcgp.ExplainOptions{"given together": {For: "4"}, "ExplainOptions.Top -1": {Top: -1}, "which already weighs its two classes": {For: "4", Against: "9"}} {
		require.ErrorContains(t, testref.Err(p.Explain(t.Context(), rows, &o)), want)
	}
}

// TestFrontDoorJSON checks that the JSON of answers has the members of the command's, with the same numbers.
func TestFrontDoorJSON(t *testing.T) {
	for _, c := range frontCases(t) {
		if c.name != "digits" && c.name != "house-prices" {
			continue
		}
		p := testref.Must(funcgp.Fit(t.Context(), c.model, c.data, &c.fit))(t)
		rows := testref.Must(p.TestRows(t.Context()))(t)
		list := testref.Must(p.Predict(t.Context(), rows))(t)
		requireFront(t, decode[prediction](t, firstLine(succeed(t, append([]string{"predict", "--json", "--quiet"}, c.args...)...))), list[0])
		// The others write themselves too, with null for NaN.
		require.Contains(t, asJSON(t, p.Info()), `"method":"exact"`)
		audited := testref.Must(p.Audit(t.Context(), 1))(t)
		require.Contains(t, asJSON(t, audited), `"log_density":`)
		require.Equal(t, `[{"interval":[null,2]},{"set":[]}]`, asJSON(t, []funcgp.Region{{Interval: []result.Float{result.Float(math.Inf(-1)), 2}}, {Set: []result.Float{}}}))
		require.NoError(t, p.Close())
	}
}
