package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
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

// joined is a text without the breaks of its lines.
func joined(text string) string { return strings.Join(strings.Fields(text), " ") }

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
	requireSchema(t, "audit", succeed(t, append([]string{"audit", "--json", "--model", model}, args...)...))
	require.Contains(t, joined(text), "regression of the labels")
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
	r := decode[result.Acquisition](t, text)
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
		r := decode[result.Acquisition](t, text)
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
