package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// loans writes a table of loans with words as labels and names of the rows, and
// trains a network on it.
func loans(t *testing.T) (dir, data, model string) {
	t.Helper()
	dir = t.TempDir()
	r := rand.New(rand.NewPCG(1, 1))
	var text strings.Builder
	text.WriteString("client,income,debt,status\n")
	for i := range 40 {
		income, debt := r.Float64()*60, r.Float64()*40
		status := "repaid"
		if debt > income/2+r.Float64()*10 {
			status = "default"
		}
		fmt.Fprintf(&text, "C-%d,%.2f,%.2f,%s\n", i, income, debt, status)
	}
	data = write(t, filepath.Join(dir, "loans.csv"), []byte(text.String()))
	model = filepath.Join(dir, "net.onnx")
	succeed(t, "train", "--data", data, "--id", "client", "--arch", "mlp:4-1", "--activation", "tanh", "--epochs", "20", "--lbfgs", "50", "--out", model)
	return dir, data, model
}

// lastLines decodes the lines of predict, and its summary.
func lastLines(t *testing.T, text string) (rows []prediction, sum predictSummary) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines[:len(lines)-1] {
		rows = append(rows, decode[prediction](t, line))
	}
	return rows, decode[predictSummary](t, lines[len(lines)-1])
}

// Words in the target column are classes, sorted, everywhere: in text, in the JSON
// beside the numbers, in tables, pages and contrasts. The model remembers them, with
// the columns of targets and names.
func TestNames(t *testing.T) {
	dir, data, model := loans(t)
	args := []string{"--model", model, "--data", data, "--test-data", data}
	r := decode[result.Report](t, succeed(t, append([]string{"explain", "--json", "--index", "3"}, args...)...))
	require.Equal(t, []string{"default", "repaid"}, r.Classes)
	require.Equal(t, "C-3", r.Input.ID)
	require.Equal(t, r.Classes[int(r.Input.Label)], r.Input.LabelName)
	require.Equal(t, r.Classes[int(r.Prediction.Class)], r.Prediction.ClassName)
	for _, c := range r.Outputs[0].Contributions {
		require.Equal(t, r.Classes[int(c.Label)], c.LabelName)
		require.Equal(t, fmt.Sprintf("C-%d", c.Index), c.ID)
	}
	text := succeed(t, append([]string{"explain", "--index", "3"}, args...)...)
	require.Contains(t, text, "C-3")
	require.Contains(t, text, "P(repaid)")

	rows, sum := lastLines(t, succeed(t, append([]string{"predict", "--json"}, args...)...))
	require.Len(t, rows, 40)
	require.Equal(t, []string{"default", "repaid"}, sum.Classes)
	require.Equal(t, "C-39", rows[39].ID)
	table := filepath.Join(dir, "p.csv")
	succeed(t, append([]string{"predict", "--quiet", "--csv", table}, args...)...)
	lines := testref.Must(csv.NewReader(strings.NewReader(read(t, table))).ReadAll())(t)
	require.Contains(t, lines[0], "probability_repaid")
	require.Equal(t, "C-0", lines[1][1])

	// A model from elsewhere says the names in its metadata, as Python writes a list.
	require.Equal(t, "default,repaid", metadataOf(t, model)["funcgp.class_names"])
	other := withMetadata(t, model, map[string]string{"funcgp.class_names": `["default", "repaid"]`, "funcgp.likelihood": "bernoulli"})
	again := decode[result.Report](t, succeed(t, "explain", "--json", "--quiet", "--prior-precision", "1", "--index", "3", "--model", other, "--id", "client", "--data", data, "--test-data", data, "--standardize", "yes"))
	require.Equal(t, r.Outputs[0].Network, again.Outputs[0].Network)
	require.Equal(t, r.Classes, again.Classes)

	// Contradictions are errors, whichever flag makes them.
	for _, flag := range []string{"--classes", "--class-names"} {
		require.Contains(t, refuse(t, 1, append([]string{"explain", flag, "repaid,default"}, args...)...),
			flag+" repaid,default contradicts "+model+", whose outputs are by its metadata for the classes default,repaid; leave "+flag+" out")
	}
	require.Contains(t, refuse(t, 1, append([]string{"explain", "--classes", "repaid,late"}, args...)...), "--classes: late is not a class of "+data)
	require.Contains(t, refuse(t, 1, "explain", "--model", model, "--data", data, "--test-data", data, "--target", "income"), "loans.csv:2: column 4 (status): \"default\" is not a number")
}

// Without metadata the outputs are the words in sorted order, and --class-names or
// --classes give another, which exchanges the classes of every output.
func TestClassNames(t *testing.T) {
	_, data, model := loans(t)
	bare := withMetadata(t, model, nil)
	explained := func(args ...string) result.Report {
		return decode[result.Report](t, succeed(t, append([]string{"explain", "--json", "--quiet", "--model", bare, "--id", "client", "--data", data, "--test-data", data, "--index", "3", "--standardize", "yes"}, args...)...))
	}
	sorted := explained()
	require.Equal(t, []string{"default", "repaid"}, sorted.Classes)
	for _, args := range [][]string{{"--class-names", "repaid,default"}, {"--classes", "repaid,default"}, {"--classes", "repaid,default", "--class-names", "repaid,default"}} {
		r := explained(append(args, "--force")...)
		require.Equal(t, []string{"repaid", "default"}, r.Classes)
		require.Equal(t, sorted.Outputs[0].Network, r.Outputs[0].Network)
		require.Equal(t, sorted.Prediction.MAPProbability, r.Prediction.MAPProbability)
		require.NotEqual(t, sorted.Prediction.ClassName, r.Prediction.ClassName)
		require.Equal(t, sorted.Input.LabelName, r.Input.LabelName)
	}
	bad := func(args ...string) string {
		return refuse(t, 1, append([]string{"explain", "--model", bare, "--id", "client", "--data", data, "--test-data", data}, args...)...)
	}
	require.Contains(t, bad("--class-names", "repaid,late"), "--class-names repaid,late: "+data+" has rows of the class default too; name it")
	require.Contains(t, bad("--class-names", "repaid,default", "--classes", "default,repaid"), "are different classes; give one of them")
	require.Contains(t, bad("--classes", "0,1"), "--classes: 0 is not a class of "+data+", which are default,repaid")
	require.Contains(t, bad("--class-names", "a,b,c"), "has rows of the class default too")

	// Numbers as labels get their names from the flag, in the order of --classes.
	small := func(args ...string) []string {
		return append([]string{"explain", "--json", "--data", "digits:400,100", "--train-count", "60", "--index", "24"}, args...)
	}
	r := decode[result.Report](t, succeed(t, small("--class-names", "four,nine")...))
	require.Equal(t, []string{"four", "nine"}, r.Classes)
	require.Equal(t, "nine", r.Input.LabelName)
	require.EqualValues(t, 9, r.Input.Label)
	require.Contains(t, refuse(t, 1, small("--class-names", "a,b,c")...), "3 names of classes (a,b,c), but the built-in network tells 2 apart")
	for _, args := range [][]string{{"--class-names", "a"}, {"--class-names", "a,a"}, {"--class-names", "a,,b"}, {"--class-names", "a,\"b"}, {"--classes", "a,b"},
		{"--classes", "4,9", "--class-names", "a,b,c"}, {"--contrast", "a,b"}} {
		refuse(t, 2, small(args...)...)
	}
}

// Contrasts name classes, and for several targets columns.
func TestContrastByName(t *testing.T) {
	dir := t.TempDir()
	var kinds, targets strings.Builder
	kinds.WriteString("a;b;kind\n")
	targets.WriteString("a,b,east,north\n")
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 30 {
		k := i % 3
		fmt.Fprintf(&kinds, "%s\n", strings.ReplaceAll(fmt.Sprintf("%.2f;%.2f;%s", float64(k)+r.Float64(), r.Float64()-float64(k), []string{"rose", "iris", "\"aster, wild\""}[k]), ".", ","))
		fmt.Fprintf(&targets, "%d,%d,%d,%.1f\n", i%5, i%7, i%3, float64(i%4)/2)
	}
	data, model := write(t, filepath.Join(dir, "kinds.csv"), []byte(kinds.String())), filepath.Join(dir, "kinds.onnx")
	succeed(t, "train", "--data", data, "--arch", "mlp:4-3", "--activation", "tanh", "--epochs", "10", "--lbfgs", "20", "--out", model)
	args := []string{"explain", "--json", "--quiet", "--model", model, "--data", data, "--test-data", data}
	got := decode[result.Report](t, succeed(t, append(args, "--contrast", `rose,"aster, wild"`)...))
	require.Equal(t, []string{"aster, wild", "iris", "rose"}, got.Classes)
	last := got.Outputs[len(got.Outputs)-1]
	require.Equal(t, &result.Contrasted{Plus: 2, Minus: 0}, last.Contrast)
	require.InDelta(t, float64(got.Outputs[2].Network-got.Outputs[0].Network), float64(last.Network), 1e-12)
	require.Contains(t, refuse(t, 1, append(args, "--contrast", "rose,tulip")...), `tulip is not one of the classes "aster, wild",iris,rose`)

	data, model = write(t, filepath.Join(dir, "targets.csv"), []byte(targets.String())), filepath.Join(dir, "targets.onnx")
	succeed(t, "train", "--data", data, "--target", "north,east", "--arch", "mlp:4-2", "--activation", "tanh", "--epochs", "10", "--lbfgs", "20", "--out", model)
	require.Contains(t, refuse(t, 1, "predict", "--model", model, "--data", data, "--test-data", data, "--coverage", "0.8"), "several targets; leave it out, or take one target at a time")
	args = []string{"explain", "--json", "--quiet", "--index", "4", "--model", model, "--data", data, "--test-data", data}
	got = decode[result.Report](t, succeed(t, append(args, "--contrast", "east,north")...))
	require.Equal(t, &result.Contrasted{Plus: 1, Minus: 0}, got.Outputs[2].Contrast)
	require.Equal(t, []result.Float{0, 1}, got.Input.Targets, "north, then east, as the model was trained")
	require.Nil(t, got.Classes)
	require.Contains(t, refuse(t, 1, append(args, "--contrast", "east,south")...), "there is no output south")
	require.Contains(t, refuse(t, 1, append(args, "--target", "east")...), "an input has 3 numbers")
}

// Whole numbers with more than two values are no labels for a single output, unless
// somebody names classes.
func TestWholeNumbersAreARegression(t *testing.T) {
	dir := t.TempDir()
	data := write(t, filepath.Join(dir, "house.csv"), []byte("rooms,price\n1,90\n2,130\n3,210\n4,240\n5,330\n2,140\n"))
	model := filepath.Join(dir, "house.onnx")
	succeed(t, "train", "--data", data, "--arch", "mlp:3-1", "--activation", "tanh", "--epochs", "0", "--lbfgs", "50", "--quiet", "--out", model)
	require.Equal(t, "gaussian", metadataOf(t, model)["funcgp.likelihood"])
	bare := withMetadata(t, model, nil)
	r := decode[result.Report](t, succeed(t, "explain", "--json", "--quiet", "--model", bare, "--data", data, "--test-data", data, "--standardize", "yes"))
	require.Nil(t, r.Prediction.Probability)
	require.NotEmpty(t, r.Prediction.ObservationMean)
	r = decode[result.Report](t, succeed(t, "explain", "--json", "--quiet", "--model", bare, "--data", data, "--test-data", data, "--standardize", "yes", "--classes", "130,140"))
	require.Len(t, r.Prediction.Probability, 2)
}

// Rows of one's own are predicted without targets from any kind of file, as the same
// rows are with them.
func TestInputs(t *testing.T) {
	dir, data, model := loans(t)
	args := []string{"--model", model, "--data", data}
	want, _ := lastLines(t, succeed(t, append([]string{"predict", "--json", "--test-data", data, "--index", "3,5-7"}, args...)...))
	require.Len(t, want, 4)
	text := strings.Split(read(t, data), "\n")
	own := write(t, filepath.Join(dir, "own.csv"), []byte("debt;client;income\n"+columnsOf(text[4], ";")+columnsOf(text[6], ";")+columnsOf(text[7], ";")+columnsOf(text[8], ";")))
	for _, in := range [][]string{{"--input", own}, {"--input", own, "--quiet"}} {
		got, sum := lastLines(t, succeed(t, append(append([]string{"predict", "--json"}, args...), in...)...))
		require.Len(t, got, 4)
		require.False(t, sum.NLL.Finite() || sum.Accuracy.Finite())
		for i, r := range got {
			require.EqualValues(t, i, r.Index)
			require.False(t, r.Label.Finite())
			require.Equal(t, want[i].Probability, r.Probability)
			require.Equal(t, want[i].ID, r.ID)
		}
	}
	// The same rows as test data without the target column.
	unlabelled := write(t, filepath.Join(dir, "test.csv"), []byte(strings.ReplaceAll(read(t, own), ";", ",")))
	got, sum := lastLines(t, succeed(t, append([]string{"predict", "--json", "--coverage", "0.9", "--test-data", unlabelled}, args...)...))
	require.Len(t, got, 4)
	require.Equal(t, want[2].Probability, got[2].Probability)
	require.NotNil(t, got[0].Set)
	require.False(t, sum.Coverage.Measured.Finite())
	require.Contains(t, gpexplain(t.Context(), append([]string{"predict", "--test-data", unlabelled}, args...)...).stderr, "No label is known")
	// Explanations: one object or page for each row, and one table of all terms.
	page, terms := filepath.Join(dir, "page.html"), filepath.Join(dir, "terms.csv")
	lines := strings.Split(strings.TrimSpace(succeed(t, append([]string{"explain", "--json", "--top", "2", "--html", page, "--csv", terms, "--input", own}, args...)...)), "\n")
	require.Len(t, lines, 4)
	for i, line := range lines {
		r := decode[result.Report](t, line)
		require.EqualValues(t, i, r.Input.Index)
		require.Equal(t, "file", r.Input.Split)
		require.Equal(t, want[i].ID, r.Input.ID)
		require.FileExists(t, filepath.Join(dir, fmt.Sprintf("page-%d.html", i)))
	}
	require.NoFileExists(t, page)
	table := testref.Must(csv.NewReader(strings.NewReader(read(t, terms))).ReadAll())(t)
	require.Len(t, table, 1+4*2)
	require.Equal(t, "row,id,output,against,train_row,train_id,label,value,raw,similarity,removal,influence,sd,networks_sd,networks_se,distinguishable", strings.Join(table[0], ","))
	first := decode[result.Report](t, lines[0])
	require.Equal(t, []string{"0", "C-3", "repaid", "", fmt.Sprint(first.Outputs[0].Contributions[0].Index), first.Outputs[0].Contributions[0].ID, first.Outputs[0].Contributions[0].LabelName}, table[1][:7])
	require.Equal(t, number(first.Outputs[0].Contributions[0].Value), table[1][7])

	require.Contains(t, refuse(t, 2, append([]string{"explain", "--index", "1-"}, args...)...), `--index "1-" must list rows`)
	require.Contains(t, refuse(t, 2, append([]string{"explain", "--all", "--index", "1"}, args...)...), "--index and --all exclude each other")
	require.Contains(t, refuse(t, 1, append([]string{"explain", "--index", "1,1", "--test-data", data}, args...)...), "row 1 of "+data+": is listed twice")
	require.Equal(t, 40, strings.Count(succeed(t, append([]string{"explain", "--json", "--all", "--test-data", data}, args...)...), "\n"))
}

// columnsOf reorders a line client,income,debt,status as debt, client and income.
func columnsOf(line, comma string) string {
	f := strings.Split(line, ",")
	return strings.Join([]string{f[2], f[0], f[1]}, comma) + "\n"
}

// A folder of pictures of any size is a table of rows named by their files.
func TestPictureFolder(t *testing.T) {
	dir := t.TempDir()
	d := dataset.Digits(0, 0, 100)
	for i, name := range []string{"b.png", "a.png"} {
		row := []int{24, 6}[i]
		img := image.NewGray(image.Rect(0, 0, 28, 28))
		img.Pix = d.Test.Image(row)
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, img))
		write(t, filepath.Join(dir, name), b.Bytes())
	}
	want, _ := lastLines(t, succeed(t, small("predict", "--json", "--index", "6,24")...))
	got, _ := lastLines(t, succeed(t, small("predict", "--json", "--input", dir)...))
	require.Len(t, got, 2)
	for i := range got {
		require.Equal(t, want[i].Probability, got[i].Probability)
		require.Equal(t, []string{"a.png", "b.png"}[i], got[i].ID)
	}
}

// A saved posterior needs no flags where model and data are where they were, from any
// folder, and says what is missing or has changed.
func TestPosteriorRemembers(t *testing.T) {
	dir, data, model := loans(t)
	file := filepath.Join(dir, "a.gp")
	test := write(t, filepath.Join(dir, "test.csv"), []byte("client,income,debt,status\nT-1,10,30,default\n"))
	t.Chdir(dir)
	succeed(t, "fit", "--quiet", "--model", "net.onnx", "--data", "loans.csv", "--test-data", "test.csv", "-o", "a.gp")
	want := succeed(t, "predict", "--quiet", "--model", model, "--data", data, "--test-data", test, "--posterior", file)
	require.Contains(t, want, `"T-1"`)
	t.Chdir(t.TempDir())
	require.Equal(t, want, succeed(t, "predict", "--quiet", "--posterior", file))
	// What is given is not remembered: other test rows, with the same model and data.
	got, _ := lastLines(t, succeed(t, "predict", "--json", "--posterior", file, "--test-data", data, "--index", "3"))
	require.Equal(t, "C-3", got[0].ID)
	contrast := refuse(t, 1, "explain", "--posterior", file, "--contrast", "default,repaid")
	require.Contains(t, contrast, "one output, which already weighs its two classes")

	moved := filepath.Join(dir, "moved.onnx")
	require.NoError(t, os.Rename(model, moved))
	require.Contains(t, refuse(t, 1, "predict", "--posterior", file), "a.gp: it was fitted with "+model+", which is not there (file does not exist); give --model")
	require.Equal(t, want, succeed(t, "predict", "--quiet", "--posterior", file, "--model", moved))
	require.NoError(t, os.Rename(moved, model))
	write(t, test, []byte("client,income,debt,status\nT-1,10,31,default\n"))
	require.Contains(t, refuse(t, 1, "predict", "--posterior", file), test+" has changed since it was fitted (SHA-256 ")
}

// With the training inputs in the file, the data may be gone: rows of one's own are
// predicted and explained as before.
func TestPosteriorWithoutData(t *testing.T) {
	dir, data, model := loans(t)
	file, own := filepath.Join(dir, "a.gp"), write(t, filepath.Join(dir, "own.csv"), []byte("income,debt\n30,20\n"))
	succeed(t, "fit", "--quiet", "--with-inputs", "--model", model, "--data", data, "-o", file)
	args := []string{"explain", "--json", "--posterior", file, "--input", own}
	want := decode[result.Report](t, succeed(t, args...))
	require.NoError(t, os.Remove(data))
	got := decode[result.Report](t, succeed(t, args...))
	require.Equal(t, want.Outputs, got.Outputs)
	require.Equal(t, want.Prediction, got.Prediction)
	require.Equal(t, []string{"default", "repaid"}, got.Classes)
	require.Contains(t, refuse(t, 1, "explain", "--posterior", file), "there are no test rows")
}

// metadataOf returns the metadata of a model.
func metadataOf(t *testing.T, model string) map[string]string {
	t.Helper()
	return readNetwork(t, model).Metadata()
}

func readNetwork(t *testing.T, path string) *network.Network {
	t.Helper()
	return testref.Must(network.ReadONNX(strings.NewReader(read(t, path)), nil))(t)
}

// withMetadata returns the model in another file, with other metadata.
func withMetadata(t *testing.T, model string, kv map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, readNetwork(t, model).WithMetadata(kv).WriteONNX(&b))
	return write(t, filepath.Join(t.TempDir(), "other.onnx"), b.Bytes())
}

// Pictures in colour from NumPy's arrays, with words and names of rows, are trained on,
// explained and shown in colour; one channel of real numbers too.
func TestNumPyPictures(t *testing.T) {
	dir := t.TempDir()
	for shape, channels := range map[string]int{"(12, 3, 4, 4)": 3, "(12, 2, 4, 4)": 2, "(12, 4, 4)": 1} {
		header := func(kind, shape string) string {
			text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", kind, shape)
			return "\x93NUMPY\x01\x00" + string([]byte{byte(len(text)), 0}) + text
		}
		x, y := []byte(header("|u1", shape)), []byte(header("|S3", "(12,)"))
		for i := range 12 * channels * 16 {
			x = append(x, byte(i*i%251))
		}
		for i := range 12 {
			y = append(y, []string{"cat", "dog"}[i%2]...)
		}
		data, model, page := write(t, filepath.Join(dir, "x.npy"), x), filepath.Join(dir, "net.onnx"), filepath.Join(dir, "p.html")
		write(t, filepath.Join(dir, "y.npy"), y)
		succeed(t, "train", "--quiet", "--data", data, "--arch", "mlp:3-1", "--epochs", "5", "--lbfgs", "5", "--out", model)
		r := decode[result.Report](t, succeed(t, "explain", "--quiet", "--json", "--model", model, "--data", data, "--test-data", data, "--index", "1", "--html", page))
		require.Equal(t, []string{"cat", "dog"}, r.Classes)
		require.Equal(t, "dog", r.Input.LabelName)
		require.Contains(t, read(t, page), "data:image/png")
		rows, _ := lastLines(t, succeed(t, "predict", "--quiet", "--json", "--model", model, "--data", data, "--input", data))
		require.Len(t, rows, 12)
		require.InDelta(t, float64(r.Outputs[0].Network), float64(rows[1].Mean[0]), 1e-12)
	}
}
