package main

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/novelty"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// likelihoodOf is the likelihood of a reference.
func likelihoodOf(t *testing.T, ref *reference) glm.Likelihood {
	t.Helper()
	switch ref.likelihood {
	case "bernoulli":
		return glm.Bernoulli{}
	case "categorical":
		return glm.Categorical{}
	case "poisson":
		return glm.Poisson{}
	}
	require.Equal(t, "gaussian", ref.likelihood)
	return testref.Must(glm.NewGaussian(ref.Scalar("sigma2")))(t)
}

// momentsOf are the mean and the covariance of the function on each line.
func momentsOf(rows []prediction) (mean, cov *mat.Dense) {
	c := len(rows[0].Mean)
	mean, cov = mat.NewDense(len(rows), c, nil), mat.NewDense(len(rows)*c, c, nil)
	for i, r := range rows {
		mean.SetRow(i, floats(r.Mean))
		for j, line := range r.Covariance {
			cov.SetRow(i*c+j, floats(line))
		}
	}
	return mean, cov
}

// After a refit the scale is the one under which the training targets are
// likeliest given the reference's moments without each row (E17), (E18), and the
// scores are those of these moments.
func TestCalibrationReference(t *testing.T) {
	for _, name := range toys {
		t.Run(name, func(t *testing.T) {
			ref, loo, lik := openReference(t, name), testref.Open(t, "selection/"+name), glm.Likelihood(nil)
			lik = likelihoodOf(t, ref)
			y := mat.NewDense(ref.n, 1, ref.Floats("y_train"))
			mean, cov := mat.NewDense(ref.n, ref.c, loo.Floats("loo_first_order_mean")), mat.NewDense(ref.n*ref.c, ref.c, loo.Floats("loo_first_order_cov"))
			want, err := score.Calibrate(t.Context(), lik, y, mean, cov, &score.CalibrateOptions{Link: predictive.ScoringLink(lik, ref.c)})
			require.NoError(t, err)
			_, sum := predicted(t, ref.run(t, "predict", "--json", "--refit"))
			got := sum.Fit.Calibration
			require.Equal(t, "loo", got.Method)
			require.Equal(t, ref.n, got.Rows)
			// The moments differ, not the search.
			require.InDelta(t, math.Log(want.Scale), math.Log(float64(got.Scale)), 1e-5)
			require.InDelta(t, math.Log(want.Temperature), math.Log(float64(got.Temperature)), 1e-5)
			require.InDelta(t, math.Log(want.NoiseScale), math.Log(float64(got.NoiseScale)), 1e-5)
			require.InDelta(t, want.NLL, float64(got.LOO.NLL), 1e-5)
			require.InDelta(t, want.StdErr, float64(got.NLLSE), 1e-4)
			network := testref.Must(score.ScoreOf(nil, lik, y, mean, nil))(t)
			require.InDelta(t, network.NLL, float64(got.Network.NLL), 1e-6)
			require.Equal(t, result.Float(network.Accuracy).Finite(), got.Network.Accuracy.Finite())
			if ref.hasClasses() {
				require.InDelta(t, network.Accuracy, float64(got.Network.Accuracy), 1e-12)
				require.InDelta(t, network.ECE, float64(got.Network.ECE), 1e-6)
			}
			scaled, mean, cov, err := want.Apply(lik, mean, cov)
			require.NoError(t, err)
			score := testref.Must(score.ScoreOf(predictive.ScoringLink(lik, ref.c), scaled, y, mean, cov))(t)
			require.Len(t, got.Surprising, 10)
			for i, at := range score.Surprising(3) {
				require.EqualValues(t, at, got.Surprising[i].Index)
				require.InDelta(t, score.LogDensity[at], float64(got.Surprising[i].LogDensity), 1e-4)
			}
		})
	}
}

// By all rows as inducing examples, and by conjugate gradients from a sample, the
// scale is that of the exact posterior.
func TestCalibrationByMethod(t *testing.T) {
	testref.Long(t, "takes many whole commands; run without -short")
	for _, name := range []string{"two-moons", "categorical"} {
		ref := openReference(t, name)
		_, exact := predicted(t, ref.run(t, "predict", "--json", "--refit"))
		for _, way := range [][]string{{"--method", "parameters"}, {"--method", "nystrom", "--inducing", strconv.Itoa(ref.n)}, {"--method", "subset", "--inducing", strconv.Itoa(ref.n)}} {
			lines := strings.Split(strings.TrimSpace(ref.run(t, "predict", append([]string{"--json", "--refit"}, way...)...)), "\n")
			got := decode[predictSummary](t, lines[len(lines)-1]).Fit.Calibration
			require.Equal(t, exact.Fit.Calibration.Rows, got.Rows)
			require.InDelta(t, math.Log(float64(exact.Fit.Calibration.Scale)), math.Log(float64(got.Scale)), 1e-5, way)
			require.InDelta(t, math.Log(float64(exact.Fit.Calibration.Temperature)), math.Log(float64(got.Temperature)), 1e-5, way)
			require.InDelta(t, float64(exact.Fit.Calibration.LOO.NLL), float64(got.LOO.NLL), 1e-5, way)
		}
	}
}

// Probabilities and what a regression says of an observation use the scaled
// covariance. Means, the covariance that is shown and the sums of explain do not
// change, and --calibrate none predicts from the covariance as it is.
func TestCalibrateChangesProbabilitiesOnly(t *testing.T) {
	for _, name := range toys {
		t.Run(name, func(t *testing.T) {
			ref := openReference(t, name)
			lik, link := likelihoodOf(t, ref), predictive.DefaultLink(likelihoodOf(t, ref), ref.c)
			calibrated, sum := predicted(t, ref.run(t, "predict", "--json"))
			raw, rawSum := predicted(t, ref.run(t, "predict", "--json", "--calibrate", "none"))
			require.Nil(t, rawSum.Fit.Calibration)
			require.Equal(t, sum.MAPNLL, rawSum.MAPNLL)
			if ref.hasClasses() && ref.c == 1 {
				require.Equal(t, sum.Accuracy, rawSum.Accuracy) // of several, the largest probability may be another
			}
			check := func(rows []prediction, k *score.Calibration) {
				mean, cov := momentsOf(rows)
				scaled, mean, cov, err := k.Apply(lik, mean, cov)
				require.NoError(t, err)
				var response mat.Dense
				require.NoError(t, link.PredictTo(&response, nil, scaled, mean, cov))
				for i, r := range rows {
					if !ref.hasClasses() {
						require.InEpsilon(t, response.At(i, 0), float64(r.ObservationMean[0]), 1e-9)
						sd := math.Sqrt(cov.At(i, 0))
						require.InDelta(t, sd, float64(r.FunctionSD[0]), 1e-12*sd)
						if ref.likelihood == "gaussian" {
							// s·cov + t·σ²
							require.InEpsilon(t, math.Sqrt(cov.At(i, 0)+k.NoiseScale*ref.Scalar("sigma2")), float64(r.ObservationSD[0]), 1e-12)
						}
						continue
					}
					p := r.Probability[max(0, len(r.Probability)-ref.c):]
					for j := range ref.c {
						require.InDelta(t, response.At(i, j), float64(p[j]), 1e-12)
					}
				}
			}
			k := sum.Fit.Calibration
			check(calibrated, &score.Calibration{Scale: float64(k.Scale), Temperature: float64(k.Temperature), NoiseScale: float64(k.NoiseScale), RateKept: name == "poisson"})
			check(raw, &score.Calibration{Scale: 1, NoiseScale: 1})
			require.NotEqual(t, sum.NLL, rawSum.NLL)
			for i := range raw {
				require.Equal(t, raw[i].Mean, calibrated[i].Mean)
				require.Equal(t, raw[i].Covariance, calibrated[i].Covariance)
				require.Equal(t, asJSON(t, raw[i].Novelty), asJSON(t, calibrated[i].Novelty), "which does not depend on the calibration")
			}
			one := decode[result.Report](t, ref.run(t, "explain", "--json"))
			bare := decode[result.Report](t, ref.run(t, "explain", "--json", "--calibrate", "none"))
			// As text, since NaN is not itself: subtotals of a regression have no label.
			text := func(o []result.Output) string {
				b := testref.Must(json.Marshal(o))(t)
				return string(b)
			}
			require.Equal(t, text(bare.Outputs), text(one.Outputs))
			require.Equal(t, bare.Prediction.Mean, one.Prediction.Mean)
			require.Equal(t, bare.Prediction.Covariance, one.Prediction.Covariance)
			require.Nil(t, bare.Fit.Calibration)
		})
	}
}

// The novelty is a detector's of the posterior of the refit, whatever the calibration and whatever
// the targets; beside it stands for classes the entropy of the predictive under the covariance as it is.
func TestNovelty(t *testing.T) {
	for _, name := range []string{"two-moons", "snelson", "poisson"} {
		ref := openReference(t, name)
		rows, _ := predicted(t, ref.run(t, "predict", "--json", "--refit"))
		raw, _ := predicted(t, ref.run(t, "predict", "--json", "--refit", "--calibrate", "none"))
		novel, training := novelties(t, ref)
		largest := 0.0
		for i, r := range rows {
			if name == "two-moons" {
				p := float64(raw[i].Probability[1])
				require.InDelta(t, -p*math.Log(p)-(1-p)*math.Log1p(-p), float64(r.Novelty.Entropy), 1e-9)
			} else { // without classes
				require.False(t, r.Novelty.Entropy.Finite(), name)
			}
			require.InDelta(t, novel[i], float64(r.Novelty.Score), 1e-9, name)
			// Two rows whose scores differ by rounding may change places.
			require.InDelta(t, score.Rank(training, novel[i]), float64(r.Novelty.Rank), 1.5/float64(ref.n), name)
			require.Equal(t, asJSON(t, raw[i].Novelty), asJSON(t, r.Novelty))
			largest = max(largest, float64(r.Novelty.Rank))
		}
		require.Greater(t, largest, 0.5, name)
		text := ref.run(t, "explain", "--refit", "--calibrate", "none")
		require.Regexp(t, `This row is farther from the training data than (any training row|[0-9.]+ % of the training rows are) from the others \(novelty [0-9.]+ nats\)\.`, strings.Join(strings.Fields(text), " "))
	}
	// Of a posterior over the parameters it is not known, and of draws neither.
	for _, how := range [][]string{{"--structure", "kfac"}, {"--predictive", "bnn"}} {
		rows, _ := predicted(t, openReference(t, "two-moons").run(t, "predict", append([]string{"--json"}, how...)...))
		require.False(t, rows[0].Novelty.Score.Finite() || rows[0].Novelty.Rank.Finite(), how)
		require.True(t, rows[0].Novelty.Entropy.Finite(), how)
	}
}

// A file of an older version does not tell novelty, and says what it said otherwise. One whose
// sections say what cannot be is refused.
func TestNoveltyOfFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.gp")
	succeed(t, small("fit", "--quiet", "-o", file)...)
	// with returns a file whose sections are those that change returns.
	with := func(name string, change func(section string, data []byte) []byte) string {
		f := testref.Must(store.Open(file, savedKind, savedVersion))(t)
		defer f.Close()
		path := filepath.Join(dir, name)
		require.NoError(t, store.Write(path, savedKind, savedVersion, func(w *store.Writer) error {
			for _, section := range f.Sections() {
				data, err := f.Bytes(section)
				if err != nil {
					return err
				}
				if data = change(section, data); data != nil {
					w.Bytes(section, data)
				}
			}
			return nil
		}))
		return path
	}
	ask := func(path string) []string {
		return []string{"predict", "--json", "--data", "digits:400,100", "--posterior", path}
	}
	older := with("older.gp", func(section string, data []byte) []byte {
		if strings.HasPrefix(section, "novelty.") {
			return nil
		}
		return data
	})
	rows, _ := predicted(t, succeed(t, ask(file)...))
	old, _ := predicted(t, succeed(t, ask(older)...))
	for i := range rows {
		require.True(t, rows[i].Novelty.Score.Finite() && rows[i].Novelty.Rank.Finite())
		rows[i].Novelty.Score, rows[i].Novelty.Rank = result.Undefined(), result.Undefined()
		require.Equal(t, asJSON(t, rows[i]), asJSON(t, old[i]))
	}
	for what, change := range map[string]func(about map[string]any){
		"no rows":          func(about map[string]any) { about["Rows"] = []int{} },
		"rows twice":       func(about map[string]any) { about["Rows"] = make([]int, len(about["Rows"].([]any))) },
		"rows far out":     func(about map[string]any) { about["Rows"].([]any)[59] = 1 << 40 },
		"other columns":    func(about map[string]any) { about["Columns"] = 783 },
		"many columns":     func(about map[string]any) { about["Columns"] = 1 << 60 },
		"two distances":    func(about map[string]any) { about["Tails"] = []int{60, 60} },
		"another route":    func(about map[string]any) { about["Route"] = map[string]any{"Reused": true} },
		"no route":         func(about map[string]any) { about["Route"] = map[string]any{} },
		"a later version":  func(about map[string]any) { about["Version"] = 3 },
		"negative columns": func(about map[string]any) { about["Columns"] = -1 },
	} {
		path := with("hostile.gp", func(section string, data []byte) []byte {
			if section != "novelty.about" {
				return data
			}
			var about map[string]any
			require.NoError(t, json.Unmarshal(data, &about))
			change(about)
			data = testref.Must(json.Marshal(about))(t)
			return data
		})
		r := gpexplain(t.Context(), ask(path)...)
		require.Equal(t, 1, r.code, what)
		requireOneLine(t, r.stderr)
		require.Contains(t, r.stderr, path, what)
	}
	for section, number := range map[string]float64{"novelty.noise": -1, "novelty.scale": 0, "novelty.mean": math.NaN(), "novelty.distance1": math.NaN()} {
		path := with("hostile.gp", func(of string, data []byte) []byte {
			if of == section {
				data = bytes.Clone(data)
				binary.LittleEndian.PutUint64(data, math.Float64bits(number))
			}
			return data
		})
		r := gpexplain(t.Context(), ask(path)...)
		require.Equal(t, 1, r.code, section)
		requireOneLine(t, r.stderr)
	}
}

// novelties are the scores of the test rows of a reference, and of the training rows without
// themselves, in ascending order, by a detector of the training examples.
func novelties(t *testing.T, ref *reference) (score, training []float64) {
	t.Helper()
	net := testref.Must(network.ReadONNX(bytes.NewReader(ref.Model(t)), nil))(t)
	train := testref.Must(net.Linearize(t.Context(), ref.Matrix("x_train")))(t)
	test := testref.Must(net.Linearize(t.Context(), ref.Matrix("x_test")))(t)
	prior := testref.Must(ntk.NewIsotropic(ref.Scalar("delta"), nil))(t)
	kernel := ntk.New(prior, net.Theta())
	sites := testref.Must(gp.NewSites(gp.NewTargets(mat.NewDense(ref.n, 1, ref.Floats("y_train")), likelihoodOf(t, ref)), train.F))(t)
	post := testref.Must(gp.Fit(t.Context(), kernel, train, sites, nil))(t)
	d := testref.Must(novelty.Fit(t.Context(), kernel, post, &novelty.Options{Standardize: true}))(t)
	score = make([]float64, test.Len())
	require.NoError(t, d.ScoreTo(t.Context(), score, test))
	return score, d.Training()
}

// Predictions of the built-in network on digits are not worse for the calibration
// than those of the network alone, which the covariance as it is would be.
func TestCalibratedDigits(t *testing.T) {
	_, sum := predicted(t, succeed(t, "predict", "--json"))
	_, raw := predicted(t, succeed(t, "predict", "--json", "--calibrate", "none"))
	require.LessOrEqual(t, float64(sum.NLL), float64(sum.MAPNLL)+.002)
	require.Greater(t, float64(raw.NLL), float64(raw.MAPNLL)+.02)
	k := sum.Fit.Calibration
	require.Less(t, float64(k.Scale), 0.3)
	require.Equal(t, 1500, k.Rows)
	// What leave-one-out expects is what the test rows show.
	require.InDelta(t, float64(k.LOO.NLL), float64(sum.NLL), 2*float64(k.NLLSE))

	// The network is at its mode, so the answers stay at the precision of its training, with a part of its rows too.
	require.InDelta(t, 0, math.Log(float64(sum.Fit.Match.Precision)/10), .02)
	_, part := predicted(t, succeed(t, "predict", "--json", "--train-count", "500", "--index", "24"))
	for _, f := range []result.Fit{sum.Fit, part.Fit} {
		require.Equal(t, "stated", f.Match.Used)
		require.EqualValues(t, 10, f.PriorPrecision)
	}
}

// validFile splits the test rows of a reference from validation rows with targets
// of their own.
func validFile(t *testing.T, ref *reference) string {
	t.Helper()
	x := ref.Matrix("x_train")
	y := ref.Floats("y_train")
	n, _ := x.Dims()
	var rows []int
	for i := 0; i < n; i += 3 {
		rows = append(rows, i)
	}
	part, targets := mat.NewDense(len(rows), x.RawMatrix().Cols, nil), make([]float64, len(rows))
	for i, r := range rows {
		part.SetRow(i, x.RawRowView(r))
		targets[i] = y[(r+1)%n]
	}
	return write(t, filepath.Join(t.TempDir(), "valid.csv"), table(part, targets))
}

// With --calibrate heldout the scale is the one under which the validation rows are
// likeliest, and the novelty of training rows is still by leave-one-out.
func TestCalibrateHeldOut(t *testing.T) {
	testref.Long(t, "takes many whole commands; run without -short")
	for _, name := range []string{"two-moons", "snelson", "categorical"} {
		ref := openReference(t, name)
		valid, lik := validFile(t, ref), likelihoodOf(t, ref)
		args := []string{"predict", "--json", "--model", ref.args[1], "--data", ref.train}
		rows, _ := predicted(t, succeed(t, append(args, "--test-data", valid, "--calibrate", "none")...))
		mean, cov := momentsOf(rows)
		y := mat.NewDense(len(rows), 1, nil)
		for i, r := range rows {
			y.Set(i, 0, float64(r.Label))
		}
		want, err := score.Calibrate(t.Context(), lik, y, mean, cov, &score.CalibrateOptions{Link: predictive.ScoringLink(lik, ref.c)})
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(succeed(t, append(args, "--test-data", ref.test, "--valid-data", valid, "--calibrate", "heldout")...)), "\n")
		got := decode[predictSummary](t, lines[len(lines)-1]).Fit.Calibration
		require.Equal(t, "heldout", got.Method)
		require.Equal(t, len(rows), got.Rows)
		require.InDelta(t, math.Log(want.Scale), math.Log(float64(got.Scale)), 1e-5, name)
		require.InDelta(t, math.Log(want.Temperature), math.Log(float64(got.Temperature)), 1e-5, name)
		require.InDelta(t, want.NLL, float64(got.HeldOut.NLL), 1e-5)
		require.NotEqual(t, got.HeldOut.NLL, got.LOO.NLL)
		rank := decode[prediction](t, lines[0]).Novelty.Rank
		loo, _ := predicted(t, succeed(t, append(args, "--test-data", ref.test)...))
		require.Equal(t, loo[0].Novelty.Rank, rank)
		require.Contains(t, lines[len(lines)-1], `"heldout":{"nll":`)
	}
}

// Rows that the network was trained on are never held out.
func TestCalibrateHeldOutDigits(t *testing.T) {
	// Of the fours and nines among 20000 digits the built-in network has seen 1500.
	d := testref.Must(dataset.Open(t.Context(), "digits", nil))(t)
	all := testref.Must(d.Train.Select([]int{4, 9}, 0))(t)
	_, sum := linesOf[prediction](t, succeed(t, "predict", "--json", "--index", "6", "--train-count", "100", "--calibrate", "heldout"))
	require.Equal(t, all.Len()-1500, sum.Fit.Calibration.Rows)
	require.Equal(t, "heldout", sum.Fit.Calibration.Method)
	line := refuse(t, 1, "explain", "--data", "digits:400,100", "--calibrate", "heldout")
	require.Equal(t, "gpexplain: --calibrate heldout: all 80 training rows of digits (seed 0) were trained on, none is left to calibrate on; train it on fewer rows, by gpexplain train --train-count 72\n", line)
	dir, data, model := csvModel(t)
	require.Contains(t, refuse(t, 1, "fit", "--out", filepath.Join(dir, "a.gp"), "--model", model, "--data", data, "--calibrate", "heldout"), "none is left to calibrate on; give --valid-data FILE, or train it on fewer rows, by gpexplain train")
}

func TestCalibrateUsage(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.gp")
	succeed(t, small("fit", "--quiet", "-o", file)...)
	csv := write(t, filepath.Join(dir, "a.csv"), []byte("a,y\n1,0\n2,1\n"))
	for _, c := range []struct {
		want string
		args []string
	}{
		{`--calibrate "x" must be loo, heldout or none`, []string{"predict", "--calibrate", "x"}},
		{`--calibrate "x" must be loo, heldout or none`, []string{"fit", "-o", file, "--calibrate", "x"}},
		{"--calibrate is empty", []string{"explain", "--calibrate="}},
		{"--split and --valid-data exclude each other", []string{"predict", "--data", csv, "--split", "0", "--valid-data", csv}},
		{"--valid-data is for a CSV file, not --data mnist", []string{"predict", "--data", "mnist", "--valid-data", csv}},
		{"--valid-data is empty", []string{"predict", "--valid-data="}},
		{"--csv is empty", []string{"predict", "--csv="}},
		{"--html and --csv both name", []string{"predict", "--html", file, "--csv", file}},
		{"--valid-data and --csv both name", []string{"predict", "--data", "b.csv", "--valid-data", csv, "--csv", csv}},
	} {
		require.Contains(t, refuse(t, 2, c.args...), c.want)
	}
	require.Contains(t, refuse(t, 2, "predict", "--valid-data", csv), "a target, split, test or validation file was asked for; they need data from a .csv or .npz file")
}

// A saved posterior has its calibration, and --calibrate none leaves it out; a file
// without one predicts from the covariance as it is.
func TestSavedCalibration(t *testing.T) {
	ref := openReference(t, "two-moons")
	valid := validFile(t, ref)
	for _, way := range []string{"loo", "heldout", "none"} {
		file := filepath.Join(t.TempDir(), "a.gp")
		fitted := decode[result.Saved](t, ref.run(t, "fit", "--json", "-o", file, "--valid-data", valid, "--calibrate", way))
		want := ref.run(t, "predict", "--json", "--valid-data", valid, "--calibrate", way)
		require.Equal(t, withoutTimings(t, want), withoutTimings(t, ref.run(t, "predict", "--json", "--posterior", file)), way)
		_, sum := linesOf[prediction](t, want)
		require.Equal(t, fitted.Fit.Calibration, sum.Fit.Calibration)
		bare, _ := linesOf[prediction](t, ref.run(t, "predict", "--json", "--calibrate", "none"))
		got, sum := linesOf[prediction](t, ref.run(t, "predict", "--json", "--posterior", file, "--calibrate", "none"))
		require.Nil(t, sum.Fit.Calibration)
		for i := range bare {
			require.Equal(t, asJSON(t, bare[i].Novelty), asJSON(t, got[i].Novelty), "the file knows the training rows")
			require.Equal(t, bare[i].Probability, got[i].Probability)
			require.Equal(t, bare[i].Mean, got[i].Mean)
		}
		// The page has the rows left out as well.
		page := func(args ...string) string {
			html := filepath.Join(t.TempDir(), "page.html")
			ref.run(t, "predict", append([]string{"--quiet", "--html", html}, args...)...)
			text, _, _ := strings.Cut(read(t, html), "<footer>")
			return regexp.MustCompile(`(?m)^.*>(Command|File of the data|Made)<.*\n`).ReplaceAllString(text, "")
		}
		require.Equal(t, page("--valid-data", valid, "--calibrate", way), page("--posterior", file), way)
	}
}

// linesOf splits lines of JSON from the summary.
func linesOf[T any](t *testing.T, text string) ([]T, predictSummary) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var rows []T
	for _, line := range lines[:len(lines)-1] {
		rows = append(rows, decode[T](t, line))
	}
	return rows, decode[predictSummary](t, lines[len(lines)-1])
}

// An optimum at the end of the scales that are tried is a warning, in the file too.
func TestCalibrationEdge(t *testing.T) {
	ref := openReference(t, "snelson")
	file := filepath.Join(t.TempDir(), "a.gp")
	// With a million times the noise, no scale of either is small enough.
	args := []string{"--noise-variance", "1e6", "--prior-precision", "1e6", "--quiet"}
	fitted := decode[result.Saved](t, ref.run(t, "fit", append([]string{"--json", "-o", file}, args...)...))
	warnings := fmt.Sprint(fitted.Fit.Warnings)
	require.Contains(t, warnings, "The best scale of the noise variance is 0.0001, the smallest that is tried")
	_, sum := predicted(t, ref.run(t, "predict", "--json", "--posterior", file))
	require.Equal(t, warnings, fmt.Sprint(sum.Fit.Warnings))
	_, sum = predicted(t, ref.run(t, "predict", "--json", "--posterior", file, "--calibrate", "none"))
	require.Nil(t, linearize.FindWarning(sum.Fit.Warnings, "scale-edge"))
	require.NotContains(t, ref.run(t, "importances", "--json", "--posterior", file), "calibration")
}

// The same to the last bit for any number of workers.
func TestCalibrationWorkers(t *testing.T) {
	for _, name := range []string{"categorical", "snelson"} {
		ref := openReference(t, name)
		for _, method := range []string{"exact", "nystrom"} {
			one := ref.run(t, "predict", "--json", "--method", method, "--workers", "1")
			require.Equal(t, withoutTimings(t, one), withoutTimings(t, ref.run(t, "predict", "--json", "--method", method, "--workers", "3")))
		}
	}
}

// The table of --csv has the numbers of the lines, and the page what it is about.
func TestPredictFiles(t *testing.T) {
	for _, name := range []string{"two-moons", "categorical", "snelson"} {
		ref := openReference(t, name)
		dir := t.TempDir()
		html, table := filepath.Join(dir, "page.html"), filepath.Join(dir, "rows.csv")
		rows, sum := predicted(t, ref.run(t, "predict", "--json", "--html", html, "--csv", table))
		records := testref.Must(csv.NewReader(strings.NewReader(read(t, table))).ReadAll())(t)
		require.Len(t, records, len(rows)+1)
		column := func(name string) int {
			at := slices.Index(records[0], name)
			require.GreaterOrEqual(t, at, 0, "%s in %v", name, records[0])
			return at
		}
		number := func(i int, name string) result.Float {
			v := testref.Must(strconv.ParseFloat(records[i+1][column(name)], 64))(t)
			return result.Float(v)
		}
		for i, r := range rows {
			require.EqualValues(t, r.Index, number(i, "index"))
			require.Equal(t, r.Novelty.Score, number(i, "novelty"))
			require.Equal(t, r.Novelty.Rank, number(i, "novelty_rank"))
			if name == "snelson" {
				require.Equal(t, r.ObservationSD[0], number(i, "observation_sd"))
				require.Equal(t, r.FunctionSD[0], number(i, "function_sd"))
				require.Equal(t, r.Mean[0], number(i, "mean"))
				continue
			}
			require.Equal(t, r.Probability[1], number(i, "probability_1"))
			require.Equal(t, r.MAPProbability[1], number(i, "map_probability_1"))
		}
		page := read(t, html)
		require.Contains(t, page, "</html>")
		require.Contains(t, page, "network alone")
		require.Contains(t, page, strconv.FormatFloat(float64(sum.NLL), 'f', 4, 64))
		require.Len(t, listing(t, dir), 2)
	}
}

// A file of an older version, which knows no temperature, has none.
func TestSavedCalibrationWithoutTemperature(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.gp")
	succeed(t, small("fit", "--quiet", "-o", file)...)
	with := func(change func(k map[string]any)) string {
		path := remade(t, file, func(h map[string]any) { change(h["fit"].(map[string]any)["calibration"].(map[string]any)) }, nil)
		return withoutTimings(t, succeed(t, "predict", "--json", "--data", "digits:400,100", "--posterior", path))
	}
	want := with(func(k map[string]any) { k["temperature"] = 1 })
	require.Contains(t, want, `"temperature":1,`)
	require.Equal(t, want, with(func(k map[string]any) { delete(k, "temperature") }))
	require.Equal(t, want, with(func(k map[string]any) { k["temperature"] = 0 }))
	require.NotEqual(t, want, with(func(k map[string]any) { k["temperature"] = 0.5 }))
}

// Counts are expected at the rate of the mean, and by a file of an older version, whose calibration
// does not keep it, at that times e^{s·v/2}.
func TestSavedCalibrationOfCounts(t *testing.T) {
	ref, file := openReference(t, "poisson"), filepath.Join(t.TempDir(), "a.gp")
	ref.run(t, "fit", "--quiet", "-o", file)
	for _, kept := range []bool{true, false} {
		path := file
		if !kept {
			path = remade(t, file, func(h map[string]any) {
				require.Equal(t, true, h["rate_kept"])
				delete(h, "rate_kept")
			}, nil)
		}
		rows, sum := predicted(t, ref.run(t, "predict", "--json", "--posterior", path))
		for i, r := range rows {
			m, v := float64(r.Mean[0]), float64(sum.Fit.Calibration.Scale)*float64(r.Covariance[0][0])
			if kept {
				m -= v / 2
			}
			rate := math.Exp(m + v/2)
			require.InEpsilon(t, rate, float64(r.ObservationMean[0]), 1e-9)
			require.InEpsilon(t, math.Sqrt(rate+rate*rate*math.Expm1(v)), float64(r.ObservationSD[0]), 1e-9)
			if i < 5 {
				ends := regexp.MustCompile(`([0-9.]+) to ([0-9.]+) with probability 95 %`).FindStringSubmatch(ref.run(t, "explain", "--posterior", path, "--index", strconv.Itoa(i)))
				require.Len(t, ends, 3)
				for k, level := range []float64{0.025, 0.975} {
					end := testref.Must(strconv.ParseFloat(ends[1+k], 64))(t)
					require.Equal(t, glm.Poisson{}.PredictiveQuantile(0, level, m, v), end)
				}
			}
		}
	}
}

// A file with a calibration that cannot be used is refused in one line that names
// it.
func TestHostileCalibration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.gp")
	succeed(t, small("fit", "--quiet", "-o", file)...)
	for field, values := range map[string][]any{"scale": {0, -1, nil, "1"}, "noise_scale": {0, nil}, "temperature": {-1, 1.5, nil}, "loo": {nil}, "method": {"heldout", 1}} {
		for _, value := range values {
			path := remade(t, file, func(h map[string]any) { h["fit"].(map[string]any)["calibration"].(map[string]any)[field] = value }, nil)
			r := gpexplain(t.Context(), "predict", "--json", "--data", "digits:400,100", "--posterior", path)
			require.Equal(t, 1, r.code, "%s %v", field, value)
			requireOneLine(t, r.stderr)
			require.Contains(t, r.stderr, path)
		}
	}
}
