package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// The precision is chosen on rows of which neither the network nor the
// posterior has seen any, and that there are none is found before any pass.
func TestHeldOutRows(t *testing.T) {
	dir := t.TempDir()
	net := filepath.Join(dir, "net.onnx")
	data := []string{"--data", "digits:1000,50"}
	train := func(count string) {
		succeed(t, append([]string{"train", "--quiet", "--classes", "4,9", "--arch", "mlp:2-1", "--epochs", "1", "--lbfgs", "1", "--train-count", count, "--out", net}, data...)...)
	}
	fit := append([]string{"fit", "--verbose", "--out", filepath.Join(dir, "a.gp"), "--model", net, "--tune-prior", "--method", "nystrom", "--inducing", "10", "--train-count", "20"}, data...)
	train("190")
	r := gpexplain(t.Context(), fit...)
	require.Zero(t, r.code, r.stderr)
	// Of 200 rows the network has seen 190.
	require.Contains(t, r.stderr, "prior precision chosen on 10 rows")
	train("200")
	r = gpexplain(t.Context(), fit...)
	require.Equal(t, 1, r.code)
	require.NotContains(t, r.stderr, "inducing examples with", "found before the work")
	require.Contains(t, r.stderr, "gpexplain: --tune-prior: all 200 training rows of digits (seed 0) were trained on, none is left")
	require.True(t, strings.HasSuffix(r.stderr, "by gpexplain train --train-count 180\n"), r.stderr)
}

// A precision that is chosen gives the posterior of one that is given.
func TestTunedGradient(t *testing.T) {
	for _, method := range []string{"subset", "nystrom"} {
		args := []string{"--data", "digits:1000,50", "--train-count", "60", "--method", method, "--inducing", "20", "--json", "--out", filepath.Join(t.TempDir(), "a.gp")}
		r := decode[result.Saved](t, succeed(t, append([]string{"fit", "--tune-prior"}, args...)...))
		number := strconv.FormatFloat(float64(r.Fit.PriorPrecision), 'g', -1, 64)
		same := decode[result.Saved](t, succeed(t, append([]string{"fit", "--prior-precision", number}, args...)...))
		require.InEpsilon(t, float64(same.Fit.LogEvidence), float64(r.Fit.LogEvidence), 1e-9, method)
	}
}

// A test row without finite outputs costs the error report, and not the fit.
func TestBadTestRowOfReport(t *testing.T) {
	dir, data, model := csvModel(t)
	columns := strings.Count(strings.SplitN(read(t, data), "\n", 2)[0], ",")
	header, _, _ := strings.Cut(read(t, data), "\n")
	test := write(t, filepath.Join(dir, "test.csv"), []byte(header+"\n"+strings.Repeat("1e308,", columns)+"0\n"))
	args := []string{"--model", model, "--data", data, "--test-data", test, "--method", "nystrom", "--inducing", "2"}
	r := decode[result.Saved](t, succeed(t, append([]string{"fit", "--json", "--out", filepath.Join(dir, "a.gp")}, args...)...))
	require.Contains(t, fmt.Sprint(r.Fit.Warnings), "There is no error report, as of this: "+test+": test row 0")
	require.Nil(t, r.Fit.Approximation.ResidualMean)
}

// Through all rows (example, direction of Λ) that say anything the posterior is the exact
// one, whatever the method; --inducing counts rows, as do JSON, text and page, and a file
// answers as the fit did.
func TestInducingRows(t *testing.T) {
	x := openExported(t, "two-logits") // of two classes by softmax each example has one row
	common := []string{"--quiet", "--calibrate", "none", "--standardize", "yes", "--weight-decay", x.decay()}
	variances := func(args ...string) (v []float64) {
		for line := range strings.Lines(succeed(t, args...)) {
			if strings.Contains(line, "funcgp/predict-row/1") {
				v = append(v, float64(decode[prediction](t, line).Covariance[0][0]))
			}
		}
		return v
	}
	exact := variances(x.args("predict", common...)...)
	file, page := filepath.Join(t.TempDir(), "a.gp"), filepath.Join(t.TempDir(), "a.html")
	few := append([]string{"--method", "nystrom", "--select", "strength"}, common...)
	all := append([]string{"--inducing", strconv.Itoa(x.TrainRows)}, few...)
	text := succeed(t, x.args("fit", append([]string{"--json", "--out", file}, all...)...)...)
	requireSchema(t, "fit", text)
	r := decode[result.Saved](t, text).Fit
	require.EqualValues(t, x.TrainRows, r.Inducing)
	require.Equal(t, "strength", r.Approximation.Select)
	require.Equal(t, x.TrainRows, r.Approximation.Rows)
	fresh := variances(x.args("predict", all...)...)
	require.InDeltaSlice(t, exact, fresh, 1e-6*slices.Max(exact))
	require.Equal(t, fresh, variances(x.args("predict", "--quiet", "--calibrate", "none", "--posterior", file)...))
	few = append([]string{"--inducing", "3", "--html", page}, few...)
	succeed(t, x.args("explain", few...)...)
	require.Contains(t, read(t, page), "with 3 inducing rows (an example with a direction of its Λ)")
	require.Contains(t, succeed(t, x.args("fit", append([]string{"--out", file, "--method", "nystrom", "--select", "strength", "--inducing", "7"}, common...)...)...), "7 by strength, each an example with a direction of its Λ, of rank 7")
	require.Contains(t, refuse(t, 1, x.args("fit", append([]string{"--out", file, "--method", "nystrom", "--select", "strength", "--inducing", "100000"}, common...)...)...), "--inducing 100000: there are "+strconv.Itoa(2*x.TrainRows)+" rows (example, direction of Λ); give at most "+strconv.Itoa(2*x.TrainRows))
	require.Equal(t, "gpexplain: --select strength is for --method nystrom: a subset of the data is one of whole examples\n", refuse(t, 2, "fit", "-o", "a", "--method", "subset", "--select", "strength"))
	require.Contains(t, refuse(t, 2, "fit", "-o", "a", "--select", "strength"), "--select is for --method subset or nystrom, not exact")
}
