package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/testref"
)

// predicted splits the output of predict --json into rows and summary.
func predicted(t *testing.T, text string) ([]prediction, predictSummary) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	var rows []prediction
	for _, line := range lines[:len(lines)-1] {
		requireSchema(t, "predict-row", line+"\n")
		rows = append(rows, decode[prediction](t, line))
	}
	last := lines[len(lines)-1]
	requireSchema(t, "predict-summary", last+"\n")
	return rows, decode[predictSummary](t, last)
}

func TestPredictLines(t *testing.T) {
	rows, sum := predicted(t, succeed(t, small("predict", "--json")...))
	require.Len(t, rows, 20, "ten of each digit in a hundred")
	right, nll, mapNLL := 0.0, 0.0, 0.0
	for i, r := range rows {
		if i > 0 {
			require.Greater(t, r.Index, rows[i-1].Index, "in the order of the file")
		}
		require.Contains(t, []result.Float{4, 9}, r.Label)
		y := 0
		if r.Label == 9 {
			y = 1
		}
		if r.Class == r.Label {
			right++
		}
		nll -= math.Log(float64(r.Probability[y]))
		mapNLL -= math.Log(float64(r.MAPProbability[y]))
		require.Len(t, r.Mean, 1)
	}
	n := float64(len(rows))
	require.InDelta(t, right/n, float64(sum.Accuracy), 1e-15)
	// The log predictive is integrated in the log domain, the probability not.
	require.InDelta(t, nll/n, float64(sum.NLL), 1e-9)
	require.InDelta(t, mapNLL/n, float64(sum.MAPNLL), 1e-12)
	require.GreaterOrEqual(t, float64(sum.ECE), 0.0)
	require.LessOrEqual(t, float64(sum.ECE), 1.0)
	require.Equal(t, "stated", sum.Fit.Match.Used, "the built-in network was trained on other data")
}

// Without --json: rows on standard output, the summary on standard error.
func TestPredictText(t *testing.T) {
	withJSON := gpexplain(t.Context(), small("predict", "--json")...)
	r := gpexplain(t.Context(), small("predict")...)
	require.Zero(t, r.code)
	require.True(t, strings.HasPrefix(withJSON.stdout, r.stdout))
	require.Equal(t, 1, strings.Count(strings.TrimPrefix(withJSON.stdout, r.stdout), "\n"))
	number := `[01]\.\d{4}( ± 0\.\d{4})?`
	line := ` +` + number + ` +` + number + ` +` + number + `\n`
	require.Regexp(t, `^20 test rows +network alone +calibrated +expected by leave-one-out\n  accuracy`+line+`  NLL`+line+`  ECE`+line, r.stderr)
	require.Equal(t, r.stdout, succeed(t, small("predict", "--quiet")...), "--quiet is silent")
	require.Empty(t, withJSON.stderr)
}

func TestPredictRows(t *testing.T) {
	index := write(t, filepath.Join(t.TempDir(), "rows.txt"), []byte("29\n6\n# a note\n\n24\n"))
	rows, _ := predicted(t, succeed(t, small("predict", "--json", "--test-index", index)...))
	require.Len(t, rows, 3)
	require.Equal(t, []result.Index{29, 6, 24}, []result.Index{rows[0].Index, rows[1].Index, rows[2].Index}, "the order of the file")
	one, _ := predicted(t, succeed(t, small("predict", "--json", "--index", "6")...))
	require.Len(t, one, 1)
	// A row's prediction does not depend on the others of its tile; the size of
	// the product changes the order of sums.
	require.InEpsilon(t, float64(rows[1].Covariance[0][0]), float64(one[0].Covariance[0][0]), 1e-9)
	require.InEpsilon(t, float64(rows[1].Mean[0]), float64(one[0].Mean[0]), 1e-12)
}

func TestPredictReference(t *testing.T) {
	for _, name := range toys {
		t.Run(name, func(t *testing.T) {
			ref := openReference(t, name)
			ref.writeTest(t, ref.Matrix("x_test").RawMatrix().Rows)
			check := func(refit bool, mean, cov, evidence string) {
				args := []string{"--json"}
				if refit {
					args = append(args, "--refit")
				}
				rows, sum := predicted(t, ref.run(t, "predict", args...))
				var m, v []float64
				for _, r := range rows {
					m = append(m, floats(r.Mean)...)
					require.Len(t, r.Covariance, ref.c)
					for _, line := range r.Covariance {
						v = append(v, floats(line)...)
					}
				}
				closeTo(t, m, ref.Floats(mean), 1e-7, mean)
				closeTo(t, v, ref.Floats(cov), 1e-7, cov)
				require.InEpsilon(t, ref.Scalar(evidence), float64(sum.Fit.LogEvidence), 1e-8)
				require.Equal(t, refit, sum.Fit.Refit)
			}
			check(false, "f_test", "refit_cov_test", "refit_log_evidence")
			check(true, "refit_mean_test", "refit_cov_test", "refit_log_evidence")
		})
	}
}

// With all examples inducing, and by conjugate gradients, predictions are the
// exact ones.
func TestPredictReferenceByMethod(t *testing.T) {
	testref.Long(t, "takes many whole commands; run without -short")
	for _, name := range toys {
		for _, method := range []string{"subset", "nystrom", "parameters"} {
			ref := openReference(t, name)
			args := []string{"--json", "--method", method, "--calibrate", "none"}
			if ref.c > 1 {
				ref.writeTest(t, 4)
			}
			if method != "parameters" {
				args = append(args, "--inducing", strconv.Itoa(ref.n))
			}
			for _, refit := range []bool{false, true} {
				mean, cov := "f_test", "refit_cov_test"
				if refit {
					mean, args = "refit_mean_test", append(args, "--refit")
				}
				lines := strings.Split(strings.TrimSpace(ref.run(t, "predict", args...)), "\n")
				var m, v []float64
				for _, line := range lines[:len(lines)-1] {
					r := decode[prediction](t, line)
					m = append(m, floats(r.Mean)...)
					for _, row := range r.Covariance {
						v = append(v, floats(row)...)
					}
				}
				// K of snelson is numerically singular: 1e-6 is asked of its mean.
				closeTo(t, m, ref.Floats(mean)[:len(m)], 1e-6, name+" "+method+" "+mean)
				closeTo(t, v, ref.Floats(cov)[:len(v)], 1e-6, name+" "+method+" "+cov)
			}
		}
	}
}

// Probabilities have no meaning in a regression: null, as are accuracy and ECE.
func TestPredictRegression(t *testing.T) {
	for _, name := range []string{"snelson", "poisson"} {
		ref := openReference(t, name)
		text := ref.run(t, "predict", "--json", "--index", "0")
		require.Contains(t, text, `"class":null,"probability":null,"probability_sd":null,"map_probability":null,"mean":[`)
		require.Contains(t, text, `"accuracy":null,"nll":`)
		require.Contains(t, text, `"ece":null`)
		require.Contains(t, ref.run(t, "explain", "--json", "--top", "1"), `"prediction":{"class":null,"probability":null,"probability_sd":null,"map_probability":null,"mean":[`)
	}
}

func TestPredictLinks(t *testing.T) {
	testref.Long(t, "takes many whole commands; run without -short")
	sums := func(ref *reference, args ...string) predictSummary {
		rows, sum := predicted(t, ref.run(t, "predict", append([]string{"--json", "--calibrate", "none"}, args...)...))
		for _, r := range rows {
			total := 0.0
			for _, p := range r.Probability {
				total += float64(p)
			}
			require.InDelta(t, 1, total, 1e-9)
			require.Len(t, r.Probability, max(2, ref.c))
		}
		return sum
	}
	moons, four := openReference(t, "two-moons"), openReference(t, "categorical")
	four.writeTest(t, 5)
	require.Equal(t, sums(moons, "--link", "exact").NLL, sums(moons).NLL, "the default of one output")
	for _, ref := range []*reference{moons, four} {
		byDefault, qmc := sums(ref).NLL, sums(ref, "--link", "qmc").NLL
		if ref == four {
			require.Equal(t, qmc, byDefault, "the default of several")
		}
		sums(ref, "--link", "probit")
		sums(ref, "--link", "bridge")
		// 1000 draws: the standard error of a log probability near 1 is some
		// percent.
		require.InEpsilon(t, float64(byDefault), float64(sums(ref, "--link", "mc").NLL), 0.15)
		seeded := sums(ref, "--link", "mc", "--samples", "50", "--seed", "3").NLL
		require.Equal(t, seeded, sums(ref, "--link", "mc", "--samples", "50", "--seed", "3").NLL)
		require.NotEqual(t, seeded, sums(ref, "--link", "mc", "--samples", "50", "--seed", "4").NLL)
	}
}

// The summary says through what the posterior sees the data.
func TestPredictSaysItsMethod(t *testing.T) {
	for method, want := range map[string]string{
		"nystrom": "The posterior is a Nyström approximation with 20 inducing examples. They leave", "subset": "The posterior is exact for a subset of 20 examples.",
	} {
		r := gpexplain(t.Context(), small("predict", "--method", method, "--inducing", "20")...)
		require.Zero(t, r.code, r.stderr)
		require.Contains(t, strings.Join(strings.Fields(r.stderr), " "), want)
	}
}

// own asks for a file of the user's.
func own(t *testing.T, path string, args ...string) result.Report {
	t.Helper()
	return decode[result.Report](t, succeed(t, small("explain", append([]string{"--json", "--input", path}, args...)...)...))
}

// A test digit, saved as a file, gets the explanation of its row, whichever
// way it is drawn.
func TestOwnInput(t *testing.T) {
	dir := t.TempDir()
	pix := dataset.Digits(0, 0, 100).Test.Image(24)
	light, dark := image.NewGray(image.Rect(0, 0, 28, 28)), image.NewGray(image.Rect(0, 0, 28, 28))
	var row strings.Builder
	for i, p := range pix {
		light.SetGray(i%28, i/28, color.Gray{Y: p})
		dark.SetGray(i%28, i/28, color.Gray{Y: 255 - p})
		row.WriteString(strconv.Itoa(int(p)))
		row.WriteByte(",\n"[i/783])
	}
	encode := func(name string, m image.Image) string {
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, m))
		return write(t, filepath.Join(dir, name), b.Bytes())
	}
	paper := encode("paper.png", dark)
	want := decode[result.Report](t, succeed(t, small("explain", "--json", "--index", "24")...))
	for name, got := range map[string]result.Report{
		"light on dark": own(t, encode("black.png", light)),
		"inverted":      own(t, paper, "--invert"),
		"csv":           own(t, write(t, filepath.Join(dir, "row.csv"), []byte(row.String()))),
	} {
		require.Equal(t, want.Outputs, got.Outputs, name)
		require.Equal(t, "file", got.Input.Split, name)
		require.EqualValues(t, -1, got.Input.Index, name)
		require.False(t, got.Input.Label.Finite(), name)
		require.Equal(t, fmt.Sprint(want.Fit.Warnings), fmt.Sprint(got.Fit.Warnings), name)
	}
	// Dark ink on paper is noticed and said, here and in the JSON, unless forbidden.
	got := own(t, paper, "--quiet")
	require.Equal(t, want.Outputs, got.Outputs)
	require.Equal(t, fmt.Sprint(want.Fit.Warnings), fmt.Sprint(got.Fit.Warnings))
	note := paper + ": inverted, since its border has grey level 255, that of the training pictures 0"
	require.Equal(t, []string{note}, got.Input.Notes)
	require.Equal(t, note+"\n", gpexplain(t.Context(), small("explain", "--json", "--input", paper)...).stderr)
	got = own(t, paper, "--invert=no", "--quiet")
	require.NotEqual(t, want.Outputs, got.Outputs)
	require.Contains(t, got.Input.Notes[0], "not inverted, as asked, though its border has grey level 255")
	require.Contains(t, succeed(t, small("explain", "--quiet", "--json", "--input", paper)...), `"input":{"split":"file","index":null,"label":null,"file":"`)
}

// Features of a file of the user's are scaled like the training rows, and
// found by the names of its header.
func TestOwnFeatures(t *testing.T) {
	dir := t.TempDir()
	data := write(t, filepath.Join(dir, "data.csv"), []byte("a,b,y\n1,10,0\n2,30,1\n3,20,0\n4,60,1\n5,50,1\n6,40,0\n"))
	model := filepath.Join(dir, "net.onnx")
	succeed(t, "train", "--data", data, "--arch", "mlp:3-1", "--activation", "tanh", "--epochs", "0", "--lbfgs", "20", "--out", model)
	explained := func(args ...string) result.Report {
		return decode[result.Report](t, succeed(t, append([]string{"explain", "--json", "--model", model, "--data", data}, args...)...))
	}
	want := explained("--test-data", data, "--index", "3")
	plain := write(t, filepath.Join(dir, "own.csv"), []byte("4,60\n"))
	named := write(t, filepath.Join(dir, "named.csv"), []byte("b,more,a\n60,7,4\n"))
	require.Equal(t, want.Outputs, explained("--input", plain).Outputs)
	require.Equal(t, want.Outputs, explained("--input", named).Outputs)
}
