package main

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// scoresOf reads a table of scores by row number.
func scoresOf(t *testing.T, path, columns string) map[int]map[string]string {
	t.Helper()
	lines := testref.Must(csv.NewReader(strings.NewReader(read(t, path))).ReadAll())(t)
	require.Equal(t, columns, strings.Join(lines[0], ","))
	out := map[int]map[string]string{}
	for _, line := range lines[1:] {
		row := testref.Must(strconv.Atoi(line[0]))(t)
		out[row] = map[string]string{}
		for k, name := range lines[0] {
			out[row][name] = line[k]
		}
	}
	return out
}

func float(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err, text)
	return v
}

// The lists are the first rows of the whole table, in its order, for classes and for
// regressions, and every member is in the schema.
func TestAudit(t *testing.T) {
	for _, name := range toys {
		ref := openReference(t, name)
		table := filepath.Join(t.TempDir(), "scores.csv")
		text := ref.run(t, "audit", "--json", "--top", "5", "--csv", table)
		requireSchema(t, "audit", text)
		r := decode[auditReport](t, text)
		scores := scoresOf(t, table, "row,id,label,log_density_nats,suggested,suggested_probability,label_probability,residual_sd,entropy_nats,margin,leverage,equal_to_row")
		require.Len(t, scores, ref.n, name)
		require.Equal(t, ref.n, r.Examples)
		sum, suspects := 0.0, 0
		for _, x := range scores {
			sum += float(t, x["leverage"])
			if x["suggested"] != "" && x["suggested"] != x["label"] {
				suspects++
			}
		}
		require.InDelta(t, float64(r.Effective), sum, 1e-9*(1+sum), name)
		classes := r.Suspects != nil
		if classes {
			require.Equal(t, suspects, *r.Suspects, name)
			require.Len(t, r.Mislabelled, min(5, suspects), name)
			require.Len(t, r.Boundary, 5)
		} else {
			require.Len(t, r.Mislabelled, 5)
			require.Empty(t, r.Boundary)
		}
		above := math.Inf(-1)
		for _, x := range r.Mislabelled {
			own := scores[int(x.Index)]
			require.Equal(t, float(t, own["log_density_nats"]), float64(x.LogDensity))
			require.GreaterOrEqual(t, float64(x.LogDensity), above)
			above = float64(x.LogDensity)
			if classes {
				require.NotEqual(t, x.Label, *x.Suggested)
				require.Greater(t, *x.SuggestedProbability, *x.LabelProbability)
			} else {
				largest := slices.MaxFunc(x.Residual, func(a, b result.Float) int { return int(math.Copysign(1, math.Abs(float64(a))-math.Abs(float64(b)))) })
				require.Equal(t, float(t, own["residual_sd"]), float64(largest))
			}
			for k, s := range x.Supports {
				require.Positive(t, float64(s.Value))
				require.NotEqual(t, x.Index, s.Index)
				require.True(t, k == 0 || s.Value <= x.Supports[k-1].Value)
			}
		}
		for k, x := range r.Leverage {
			require.True(t, k == 0 || x.Leverage <= r.Leverage[k-1].Leverage)
			require.Equal(t, float(t, scores[int(x.Index)]["leverage"]), float64(x.Leverage))
		}
	}
}

// A saved posterior gives the same audit, and other methods audit what they can leave out.
func TestAuditOfOtherPosteriors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.gp")
	want := decode[auditReport](t, succeed(t, small("audit", "--json")...))
	succeed(t, small("fit", "--refit", "--quiet", "-o", file)...)
	got := decode[auditReport](t, succeed(t, "audit", "--json", "--data", "digits:400,100", "--posterior", file))
	require.Equal(t, len(want.Mislabelled), len(got.Mislabelled))
	for k := range want.Mislabelled {
		require.Equal(t, want.Mislabelled[k].Index, got.Mislabelled[k].Index)
		require.InDelta(t, float64(want.Mislabelled[k].LogDensity), float64(got.Mislabelled[k].LogDensity), 1e-6)
	}
	for _, method := range [][]string{{"--method", "nystrom", "--inducing", "20"}, {"--method", "subset", "--inducing", "20"}, {"--method", "parameters"}, {"--within", "0.05"}} {
		text := succeed(t, small("audit", append(method, "--json", "--calibrate", "none")...)...)
		requireSchema(t, "audit", text)
		r := decode[auditReport](t, text)
		if method[1] == "subset" { // of the other rows it knows nothing
			require.Equal(t, 20, r.Examples)
			require.Equal(t, want.Mislabelled, r.Mislabelled)
			require.EqualValues(t, 20, linearize.FindWarning(r.Fit.Warnings, "rows-sampled").Value)
		} else {
			require.Equal(t, 60, r.Examples)
		}
	}
}

// joined is a text without the breaks of its lines.
func joined(text string) string { return strings.Join(strings.Fields(text), " ") }

// Labels are judged by a regression of them, which is the same for every posterior, and counts by the posterior.
func TestAuditByLabels(t *testing.T) {
	for _, name := range toys {
		ref := openReference(t, name)
		r := decode[auditReport](t, ref.run(t, "audit", "--json", "--top", "7"))
		if name == "poisson" {
			require.Equal(t, "posterior", r.By)
			require.Nil(t, r.Noise)
			continue
		}
		require.Equal(t, "labels", r.By)
		require.Positive(t, float64(*r.Noise))
		require.Equal(t, ref.n, r.Examples)
		other := decode[auditReport](t, ref.run(t, "audit", "--json", "--top", "7", "--at", "stated"))
		require.Equal(t, r.Mislabelled, other.Mislabelled)
	}
	require.Contains(t, joined(succeed(t, small("audit")...)), "regression of the labels")
}

// Every score is named with its unit and sign in text, and a row that occurs twice with two
// labels heads the duplicates, in a table whose words may hold anything.
func TestAuditText(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("name,x,z,kind\n")
	for i := range 30 {
		kind := []string{"<b>low</b>", "high"}[i%2]
		if i == 10 {
			kind = "high" // wrong
		}
		b.WriteString("r" + strconv.Itoa(i) + "<script>alert(1)</script>," + strconv.Itoa(i%2*4+i%3) + "." + strconv.Itoa(i) + "," + strconv.Itoa(i%5) + "," + kind + "\n")
	}
	b.WriteString("twin,4.1,1,<b>low</b>\n") // row 1 with the other label
	data := write(t, filepath.Join(dir, "d.csv"), []byte(strings.Replace(b.String(), "5.1,1,high", "4.1,1,high", 1)))
	model, page, table := filepath.Join(dir, "n.onnx"), filepath.Join(dir, "p.html"), filepath.Join(dir, "s.csv")
	test := write(t, filepath.Join(dir, "t.csv"), []byte("name,x,z,kind\na,1,1,high\n"))
	args := []string{"--data", data, "--test-data", test, "--id", "name"}
	succeed(t, append([]string{"train", "--arch", "mlp:4-1", "--epochs", "0", "--lbfgs", "2000", "--prior-precision", "0.5", "--out", model}, args...)...)
	text := succeed(t, append([]string{"audit", "--model", model, "--html", page, "--csv", table}, args...)...)
	for _, want := range []string{"Likely mislabelled", "in nats", "no unit", "Near a boundary", "High leverage", "Duplicates", "DIFFERENT", "10 r10<script>", "the network on its training rows: "} {
		require.Contains(t, joined(text), want)
	}
	html := testref.Must(os.ReadFile(page))(t)
	require.NotContains(t, string(html), "<script>alert")
	require.NotContains(t, string(html), "<b>low</b>")
	require.Contains(t, string(html), "&lt;script&gt;")
	require.Contains(t, string(html), "in nats")
	require.NotRegexp(t, `(src|href)="(http|//)`, string(html))
	scores := scoresOf(t, table, "row,id,label,log_density_nats,suggested,suggested_probability,label_probability,residual_sd,entropy_nats,margin,leverage,equal_to_row")
	require.Equal(t, "1", scores[30]["equal_to_row"])
	require.Equal(t, "twin", scores[30]["id"])
	require.Equal(t, "<b>low</b>", scores[10]["suggested"], "the wrong label is found")
}

// The batch of acquire and its ranking, from a table of rows without labels and from the
// rest of the data.
func TestAcquire(t *testing.T) {
	table := filepath.Join(t.TempDir(), "scores.csv")
	text := succeed(t, small("acquire", "--pool", "digits:400,100", "--batch", "4", "--top", "3", "--json", "--csv", table)...)
	requireSchema(t, "acquire", text)
	r := decode[acquireReport](t, text)
	scores := scoresOf(t, table, "row,id,predicted,information_nats,gain_nats,batch,batch_gain_nats")
	require.Len(t, scores, r.Pool)
	trained := decode[result.ImportanceReport](t, succeed(t, small("importances", "--json", "--top", "60")...))
	for _, x := range trained.Importances {
		require.NotContains(t, scores, int(x.Index), "a training row is no candidate")
	}
	require.Len(t, r.Ranking, 3)
	require.Len(t, r.Batch, 4)
	for k, x := range r.Batch {
		require.Equal(t, strconv.Itoa(k+1), scores[int(x.Index)]["batch"])
		require.Equal(t, float(t, scores[int(x.Index)]["batch_gain_nats"]), float64(x.Gain))
		require.LessOrEqual(t, float64(x.Gain), float(t, scores[int(x.Index)]["gain_nats"])+1e-12)
		require.True(t, k == 0 || x.Total > r.Batch[k-1].Total)
	}
	for _, x := range scores {
		require.LessOrEqual(t, float(t, x["information_nats"]), float64(r.Ranking[0].Information))
		require.GreaterOrEqual(t, float(t, x["information_nats"]), 0.0)
	}
	require.Contains(t, succeed(t, small("acquire", "--pool", "digits:400,100", "--batch", "2")...), "The batch")

	for _, name := range toys {
		ref := openReference(t, name)
		text := ref.run(t, "acquire", "--json", "--pool", ref.test, "--batch", "2")
		requireSchema(t, "acquire", text)
		r := decode[acquireReport](t, text)
		for _, x := range r.Ranking {
			if name == "snelson" {
				require.Equal(t, x.Gain, x.Information)
			}
		}
	}
}

// A pool that cannot be ranked is one line that says why.
func TestAcquireErrors(t *testing.T) {
	ref := openReference(t, toys[0])
	dir := t.TempDir()
	run := func(pool string, more ...string) string {
		return refuse(t, 1, slices.Concat([]string{"acquire", "--pool", pool}, ref.args, more)...)
	}
	require.Contains(t, run(ref.test, "--batch", "100000"), "give at most that many")
	header, _, _ := strings.Cut(read(t, ref.test), "\n")
	require.NotEmpty(t, run(write(t, filepath.Join(dir, "empty.csv"), []byte(header+"\n"))))
	other := run(write(t, filepath.Join(dir, "other.csv"), []byte("a,b\n1,2\n")))
	require.Contains(t, other, "other.csv")
	require.Contains(t, run("digits:100,10"), "shape")
	require.Contains(t, run(filepath.Join(dir, "missing.csv")), "missing.csv")
	require.Contains(t, refuse(t, 1, "acquire", "--data", "digits:100,20", "--pool", "digits:100,20", "--train-index", write(t, filepath.Join(dir, "all.txt"), allFoursAndNines(t))), "no row that the posterior is not trained on")
}

// allFoursAndNines are the training rows of the built-in model's classes.
func allFoursAndNines(t *testing.T) []byte {
	r := decode[result.ImportanceReport](t, succeed(t, "importances", "--json", "--data", "digits:100,20", "--top", "1000"))
	var b strings.Builder
	for _, x := range r.Importances {
		b.WriteString(strconv.Itoa(int(x.Index)) + "\n")
	}
	return []byte(b.String())
}
