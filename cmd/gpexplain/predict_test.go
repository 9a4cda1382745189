package main

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
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
		for _, method := range []string{"subset", "nystrom", "fitc", "cg"} {
			ref := openReference(t, name)
			args := []string{"--json", "--method", method, "--calibrate", "none"}
			if method != "cg" {
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
		rows, sum := predicted(t, ref.run(t, "predict", append([]string{"--json"}, args...)...))
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
		"fitc": "The posterior is a FITC approximation with 20 inducing examples. They leave",
	} {
		r := gpexplain(t.Context(), small("predict", "--method", method, "--inducing", "20")...)
		require.Zero(t, r.code, r.stderr)
		require.Contains(t, strings.Join(strings.Fields(r.stderr), " "), want)
	}
}
