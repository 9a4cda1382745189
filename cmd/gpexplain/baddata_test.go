package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
)

// idx is a file of unsigned bytes as MNIST's are.
func idx(data []byte, dims ...int) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
	}
	return append(b, data...)
}

// idxFiles are digits as a directory of IDX files.
func idxFiles(train, test int) map[string][]byte {
	d := dataset.Digits(0, train, test)
	files := map[string][]byte{}
	for prefix, s := range map[string]*dataset.Rows{"train": d.Train, "t10k": d.Test} {
		var pix, labels []byte
		for i := range s.Len() {
			pix, labels = append(pix, s.Image(i)...), append(labels, byte(s.Labels[i]))
		}
		files[prefix+"-images-idx3-ubyte"] = idx(pix, s.Len(), 28, 28)
		files[prefix+"-labels-idx1-ubyte"] = idx(labels, s.Len())
	}
	return files
}

func directory(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		write(t, filepath.Join(dir, name), content)
	}
	return dir
}

// A directory of IDX files, plain or gz, gives what the digits give.
func TestIDX(t *testing.T) {
	files := idxFiles(400, 100)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	require.NoError(t, testref.Err(w.Write(files["train-images-idx3-ubyte"])))
	require.NoError(t, w.Close())
	delete(files, "train-images-idx3-ubyte")
	files["train-images-idx3-ubyte.gz"] = zipped.Bytes()
	want := decode[result.Report](t, succeed(t, small("explain", "--json")...))
	got := decode[result.Report](t, succeed(t, "explain", "--json", "--data", directory(t, files), "--train-count", "60"))
	require.Equal(t, want.Outputs, got.Outputs)
	require.Equal(t, want.Input, got.Input)
}

func TestBadIDX(t *testing.T) {
	change := func(name string, content []byte) map[string][]byte {
		files := idxFiles(100, 50)
		if files[name] = content; content == nil {
			delete(files, name)
		}
		return files
	}
	good := idxFiles(100, 50)
	const images, labels = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
	for name, x := range map[string]struct {
		files map[string][]byte
		says  string
	}{
		"no files":       {map[string][]byte{"notes.txt": []byte("hello")}, "IDX"},
		"no labels":      {change(labels, nil), labels},
		"empty":          {change(images, []byte{}), images},
		"truncated":      {change(images, good[images][:5000]), images},
		"cut in header":  {change(images, good[images][:9]), images},
		"huge":           {change(images, idx(nil, 1<<31-1, 1<<31-1, 1<<31-1)), images},
		"wrong magic":    {change(images, []byte("\x89PNG and so on, for long enough to look like a header")), images},
		"other counts":   {change(labels, idx(make([]byte, 99), 99)), "99"},
		"other shape":    {change(images, idx(make([]byte, 100*30*30), 100, 30, 30)), "30"},
		"labels missing": {change(labels, idx(bytes.Repeat([]byte{7}, 100), 100)), "no train row has a class in 4,9"},
	} {
		t.Run(name, func(t *testing.T) {
			line := refuse(t, 1, "explain", "--data", directory(t, x.files))
			require.Contains(t, line, x.says)
			require.Contains(t, line, "; ", "a remedy")
		})
	}
}

// csvModel trains a small model on a table of two classes.
func csvModel(t *testing.T) (dir, data, model string) {
	t.Helper()
	dir = t.TempDir()
	data = write(t, filepath.Join(dir, "data.csv"), []byte("a,b,y\n1,10,0\n2,30,1\n3,20,0\n4,60,1\n5,50,1\n6,40,0\n"))
	model = filepath.Join(dir, "net.onnx")
	succeed(t, "train", "--data", data, "--arch", "mlp:3-1", "--activation", "tanh", "--epochs", "0", "--lbfgs", "5", "--out", model)
	return dir, data, model
}

func TestBadCSV(t *testing.T) {
	dir, good, model := csvModel(t)
	for name, x := range map[string]struct{ content, says string }{
		"empty":            {"", "empty"},
		"no rows":          {"a,b,y\n", "no rows"},
		"no header":        {"1,2,0\n3,4,1\n", "column names"},
		"NaN":              {"a,b,y\n1,2,0\n3,NaN,1\n", ":3: column 2 (b)"},
		"infinite":         {"a,b,y\n1,2,0\n3,inf,1\n", ":3: column 2 (b)"},
		"missing value":    {"a,b,y\n1,,0\n3,4,1\n", ":2: column 2 (b)"},
		"word":             {"a,b,y\n1,two,0\n3,4,1\n", "is not a number"},
		"short row":        {"a,b,y\n1,0\n3,4,1\n", ":2"},
		"open quote":       {"a,b,y\n1,\"2,0\n", "bad.csv"},
		"one column":       {"a\n1\n", "one column"},
		"too few features": {"a,y\n1,0\n2,1\n", "an input has 1 numbers"},
		"three classes":    {"a,b,y\n1,2,0\n3,4,1\n5,6,2\n", `1 of the 3 train rows are of no class`},
		"real targets":     {"a,b,y\n1,2,0.5\n3,4,1\n", "not all integers"},
		"absent class":     {"a,b,y\n1,2,0\n3,4,0\n", "class 1 is not in the data"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "bad.csv"), []byte(x.content))
			args := []string{"explain", "--model", model, "--data", path, "--test-data", path}
			if name == "three classes" { // of which the model has two
				succeed(t, append(args, "--classes", "0,1")...)
			}
			line := refuse(t, 1, args...)
			require.Contains(t, line, x.says)
			require.Contains(t, line, path)
			require.Contains(t, line, "; ", "a remedy")
		})
	}
	for name, x := range map[string]struct {
		says string
		args []string
	}{
		"no test rows":   {"give --test-data", []string{}},
		"no splits file": {"data.splits.csv", []string{"--split", "0"}},
		"no test file":   {"none.csv", []string{"--test-data", filepath.Join(dir, "none.csv")}},
		"no column":      {`no column "z"`, []string{"--target", "z"}},
		"wrong classes":  {"7", []string{"--classes", "0,7", "--test-data", good}},
		"three classes":  {"--classes 0,1,2 contradicts", []string{"--classes", "0,1,2", "--test-data", good}},
		"categorical":    {"give --likelihood bernoulli", []string{"--likelihood", "categorical", "--test-data", good}},
		"noise":          {"--noise-variance is for the gaussian", []string{"--noise-variance", "2", "--test-data", good}},
	} {
		t.Run(name, func(t *testing.T) {
			line := refuse(t, 1, append([]string{"explain", "--model", model, "--data", good}, x.args...)...)
			require.Contains(t, line, x.says)
			require.Contains(t, line, "; ", "a remedy")
		})
	}
	require.Equal(t, []string{"data.csv", "net.onnx"}, listing(t, dir))
}

func TestBadSplit(t *testing.T) {
	for name, x := range map[string]struct{ content, says string }{
		"header":   {"a,b,c\n", "split,row,part"},
		"no split": {"split,row,part\n1,0,train\n", "no split 0"},
		"past end": {"split,row,part\n0,6,train\n", "row 6 is past the end"},
		"twice":    {"split,row,part\n0,1,train\n0,1,test\n", "twice"},
		"part":     {"split,row,part\n0,1,holdout\n", "not a part"},
		"no train": {"split,row,part\n0,1,test\n", "no training rows"},
	} {
		dir, data, model := csvModel(t)
		path := write(t, filepath.Join(dir, "data.splits.csv"), []byte(x.content))
		line := refuse(t, 1, "explain", "--model", model, "--data", data, "--split", "0")
		require.Contains(t, line, x.says, name)
		require.Contains(t, line, path, name)
	}
}

// A target that its likelihood cannot have.
func TestBadTargets(t *testing.T) {
	dir := t.TempDir()
	data := write(t, filepath.Join(dir, "counts.csv"), []byte("a,y\n1,2\n2,-1\n3,0\n"))
	line := refuse(t, 1, "train", "--data", data, "--likelihood", "poisson", "--arch", "mlp:2-1", "--out", filepath.Join(dir, "net.onnx"))
	require.Contains(t, line, data+": row 1: ")
	require.Contains(t, line, "; ", "a remedy")
	require.Len(t, listing(t, dir), 1)
}

// Rows are those of the original file: of --index, index files and output.
func TestBadRows(t *testing.T) {
	dir := t.TempDir()
	index := func(content string) string { return write(t, filepath.Join(dir, "rows.txt"), []byte(content)) }
	for _, x := range []struct {
		says string
		args []string
	}{
		{"row 0 of digits (seed 0): has label 6, which is not one of the classes 4,9", []string{"--index", "0"}},
		{"row 100 of digits (seed 0): is past the end: the test rows are 0 to 99", []string{"--index", "100"}},
		{"61 train rows asked for, but there are 60", []string{"--data", "digits:300,100", "--train-count", "61"}},
		{"rows.txt", []string{"--train-index", index("4\n4\n")}},
	} {
		args := append([]string{"explain", "--data", "digits:400,100"}, x.args...)
		require.Contains(t, refuse(t, 1, args...), x.says)
	}
	for content, says := range map[string]string{
		"":              "no row numbers",
		"# only notes":  "no row numbers",
		"4\nfive\n":     "rows.txt:2",
		"4\n-1\n":       "rows.txt:2",
		"1.5\n":         "rows.txt:1",
		"1\n8\n1\n":     "row 1 of digits (seed 0): is listed twice",
		"1\n0\n":        "is not one of the classes 4,9",
		"1\n400\n":      "past the end",
		"1\n\x00\n":     "rows.txt:2",
		"9999999999999": "past the end",
	} {
		line := refuse(t, 1, "explain", "--data", "digits:400,100", "--train-index", index(content))
		require.Contains(t, line, says, content)
		require.Contains(t, line, "rows.txt")
		line = refuse(t, 1, "predict", "--data", "digits:400,100", "--train-count", "9", "--test-index", index(strings.ReplaceAll(content, "1\n", "6\n")))
		require.Contains(t, line, "rows.txt", content)
	}
	require.Contains(t, refuse(t, 1, "predict", "--test-index", dir), dir)
	require.Contains(t, refuse(t, 1, "predict", "--test-index", filepath.Join(dir, "none")), "none")
}

func TestBadData(t *testing.T) {
	dir := t.TempDir()
	for _, data := range []string{filepath.Join(dir, "none"), dir, write(t, filepath.Join(dir, "data.txt"), nil), "/dev/null"} {
		require.Contains(t, refuse(t, 1, "explain", "--data", data), data)
	}
	require.Contains(t, refuse(t, 1, "explain", "--data", "digits:0"), "train rows")
	require.Contains(t, refuse(t, 1, "explain", "--data", "digits:100,0"), "test rows")
	require.Contains(t, refuse(t, 1, "explain", "--classes", "4,77", "--train-count", "9"), "--classes 4,77 contradicts the built-in network, whose outputs are by its metadata for the classes 4,9; leave --classes out")
	require.Contains(t, refuse(t, 1, "explain", "--model", untold(t), "--classes", "4,77", "--train-count", "9"), "class 77 is not in the data")
	require.Contains(t, refuse(t, 1, "explain", "--contrast", "4,9", "--train-count", "9"), "one output")
	require.Contains(t, refuse(t, 1, "predict", "--link", "exact", "--likelihood", "poisson", "--data", dir), dir)
	require.Contains(t, refuse(t, 1, "train", "--data", "digits:100", "--arch", "mlp:8-7", "--out", filepath.Join(dir, "x.onnx")), "10 classes")
	require.Contains(t, refuse(t, 1, "train", "--data", "digits:100", "--classes", "4,9", "--arch", "mlp:8-3", "--out", filepath.Join(dir, "x.onnx")), "2 classes")
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	row := strings.TrimSuffix(strings.Repeat("0,", 784), ",")
	for name, content := range map[string]string{
		"empty.csv":   "",
		"short.csv":   "1,2,3\n",
		"two.csv":     row + "\n" + row + ",7\n",
		"nan.csv":     strings.Replace(row, "0", "NaN", 1) + "\n",
		"grey.csv":    strings.Replace(row, "0", "256", 1) + "\n",
		"header.png":  "\x89PNG\r\n\x1a\n",
		"claims.png":  "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x00\x00\x00\x00\x00\x00\x00\x00",
		"jpeg.png":    "\xff\xd8\xff\xe0 and so on",
		"binary.data": "\x00\x01\x02\x03",
	} {
		path := write(t, filepath.Join(dir, name), []byte(content))
		line := refuse(t, 1, small("explain", "--input", path)...)
		require.Contains(t, line, path)
		require.Contains(t, line, "; ", "a remedy")
	}
	require.Contains(t, refuse(t, 1, small("explain", "--input", filepath.Join(dir, "none.png"))...), "none.png")
	require.Contains(t, refuse(t, 1, small("explain", "--input", dir)...), dir)
}

// Numbers too large for the kernel are found where they are.
func TestHugeInput(t *testing.T) {
	dir, data, model := csvModel(t)
	huge := write(t, filepath.Join(dir, "huge.csv"), []byte("a,b\n1e308,-1e308\n"))
	line := refuse(t, 1, "explain", "--model", model, "--data", data, "--test-data", data, "--input", huge)
	require.Contains(t, line, huge+": its input a is 1e+308, too large to compute with; correct it")

	test := write(t, filepath.Join(dir, "test.csv"), []byte("a,b,y\n1,10,0\n1e308,-1e308,1\n"))
	r := gpexplain(t.Context(), "predict", "--model", model, "--data", data, "--test-data", test)
	require.Equal(t, 1, r.code)
	requireOneLine(t, r.stderr)
	require.Contains(t, r.stderr, test+": test row 1: its input a is 1e+308, too large to compute with")
}

// Rows whose labels are no class of the model are counted and named: few are left out with a
// warning, and more are an error. A label is the same in whichever normal form of Unicode, and
// one class is none to tell from another.
func TestLabelsOfNoClass(t *testing.T) {
	dir := t.TempDir()
	table := func(name string, n int, label func(i int) string) string {
		var b strings.Builder
		b.WriteString("a,b,y\n")
		for i := range n {
			fmt.Fprintf(&b, "%d.5,%d,%q\n", i*7%13, i*5%11, label(i))
		}
		return write(t, filepath.Join(dir, name), []byte(b.String()))
	}
	known := func(i int) string { return []string{"no", "caf\u00e9"}[i%2] }
	other := func(at, from string) func(i int) string {
		return func(i int) string { return strings.Replace(known(i), at, from, 1) }
	}
	extra := func(row int) func(i int) string {
		return func(i int) string {
			if i == row {
				return "may,be"
			}
			return known(i)
		}
	}
	net, out := filepath.Join(dir, "net.onnx"), filepath.Join(dir, "a.gp")
	good := table("good.csv", 60, known)
	succeed(t, "train", "--quiet", "--data", good, "--arch", "mlp:4-1", "--epochs", "2", "--lbfgs", "5", "--out", net)
	fit := func(data string, args ...string) []string {
		return append([]string{"fit", "--model", net, "--data", data, "-o", out, "--train-count", "60"}, args...)
	}
	for name, c := range map[string]struct {
		data string
		want string
	}{
		"all of a class":  {table("all.csv", 60, other("caf\u00e9", "y,es")), `: 30 of the 60 train rows are of no class that ` + net + ` tells apart (café,no): their labels are "y,es", and no row is of class café; correct the labels, or give --classes`},
		"a class":         {table("some.csv", 60, extra(7)), `: 1 of the 60 train rows are of no class`},
		"one class alone": {table("one.csv", 60, func(int) string { return "no" }), "has training rows of class no alone, and the bernoulli likelihood needs two classes to tell apart"},
	} {
		require.Contains(t, refuse(t, 1, fit(c.data)...), c.want, name)
	}
	few := table("few.csv", 200, extra(7))
	r := gpexplain(t.Context(), fit(few)...)
	require.Equal(t, 0, r.code, r.stderr)
	require.Contains(t, r.stdout, `few.csv: 1 of the 200 train rows are of no class that `+net+` tells apart (café,no): their labels are "may,be". They are left out.`)
	require.NotContains(t, succeed(t, fit(few, "--classes", "café,no")...), "may,be")
	require.NotContains(t, succeed(t, "predict", "--json", "--quiet", "--posterior", out, "--test-data", few), "may,be", "as the fit was told")
	require.Contains(t, refuse(t, 1, "predict", "--model", net, "--data", good, "--test-data", table("test.csv", 20, extra(3))), "1 of the 20 test rows are of no class")

	want := decode[result.Saved](t, succeed(t, fit(good, "--json", "--quiet")...)).Fit
	for _, args := range [][]string{{}, {"--classes", "cafe\u0301,no"}, {"--class-names", "cafe\u0301,no"}} {
		got := decode[result.Saved](t, succeed(t, fit(table("decomposed.csv", 60, other("\u00e9", "e\u0301")), append(args, "--json", "--quiet")...)...)).Fit
		require.Equal(t, want.LogEvidence, got.LogEvidence, args)
	}
}

// changed returns the built-in network after a change to its graph.
func changed(t *testing.T, change func(m *onnx.Model)) []byte {
	t.Helper()
	m := testref.Must(onnx.Decode(builtin(t)))(t)
	change(m)
	return testref.Must(m.Encode())(t)
}

// promise is a model whose one tensor claims 2^60 elements and holds none.
func promise() []byte {
	message := func(b []byte, field protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), content)
	}
	var tensor []byte
	for range 2 {
		tensor = protowire.AppendVarint(protowire.AppendTag(tensor, 1, protowire.VarintType), 1<<30) // dims
	}
	tensor = protowire.AppendVarint(protowire.AppendTag(tensor, 2, protowire.VarintType), 1) // float
	tensor = message(tensor, 8, []byte("w"))
	graph := message(nil, 5, tensor)
	return message(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 8), 7, graph)
}

// node finds an operator of the built-in network.
func node(m *onnx.Model, op string) *onnx.Node {
	return m.Graph.Nodes[slices.IndexFunc(m.Graph.Nodes, func(n *onnx.Node) bool { return n.OpType == op })]
}

func TestBadModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	whole, random := builtin(t), make([]byte, 4096)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	meta := func(key, value string) []byte {
		return changed(t, func(m *onnx.Model) {
			for i := range m.Metadata {
				if m.Metadata[i].Key == key {
					m.Metadata[i].Value = value
				}
			}
		})
	}
	for name, x := range map[string]struct {
		model []byte
		says  string
	}{
		"empty":     {nil, "empty"},
		"truncated": {whole[:len(whole)/2], "export"},
		"cut short": {whole[:len(whole)-1], "export"},
		"random":    {random, "export"},
		"text":      {[]byte("this is no model\n"), "export"},
		"2^60":      {promise(), "1073741824"},
		"cycle": {changed(t, func(m *onnx.Model) {
			first := m.Graph.Nodes[0]
			first.Inputs[0] = m.Graph.Nodes[len(m.Graph.Nodes)-1].Outputs[0]
		}), "cycle"},
		"missing input":    {changed(t, func(m *onnx.Model) { node(m, "Relu").Inputs[0] = "nowhere" }), "nowhere"},
		"unknown operator": {changed(t, func(m *onnx.Model) { node(m, "Relu").OpType = "Frobnicate" }), "Frobnicate"},
		"wrong shapes": {changed(t, func(m *onnx.Model) {
			w := m.Graph.Initializers[slices.IndexFunc(m.Graph.Initializers, func(w *onnx.Tensor) bool { return w.Name == "Dense1.weight" })]
			w.Dims = []int64{128, 25}
		}), "Gemm"},
		"NaN weight":      {changed(t, func(m *onnx.Model) { m.Graph.Initializers[2].Floats[5] = math.NaN() }), m2(t)},
		"infinite weight": {changed(t, func(m *onnx.Model) { m.Graph.Initializers[2].Floats[5] = math.Inf(1) }), m2(t)},
		"no output":       {changed(t, func(m *onnx.Model) { m.Graph.Outputs = nil }), "output"},
		"control characters": {changed(t, func(m *onnx.Model) {
			n := node(m, "Relu")
			n.Name, n.OpType = "a\nb\x1b[31m"+strings.Repeat("x", 1<<16), "No\nSuch"
		}), ""},
		"bad likelihood":       {meta(keyLikelihood, "student"), keyLikelihood},
		"bad precision":        {meta(keyPrecision, "-1"), keyPrecision},
		"bad classes":          {meta(keyClasses, "4;9"), keyClasses},
		"too many classes":     {meta(keyClasses, "1,2,3"), keyClasses},
		"classes not in data":  {meta(keyClasses, "4,77"), "77"},
		"rows of other labels": {meta(keyClasses, "4,8"), "--train-count"},
		"bad rows":             {meta(keyRows, "1-999999999999"), keyRows},
		"row past the end":     {meta(keyRows, "1,20001"), "20001"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := write(t, filepath.Join(dir, "bad.onnx"), x.model)
			for _, verb := range []string{"explain", "predict"} {
				args := []string{verb, "--model", path}
				if verb == "explain" {
					args = append(args, "--html", filepath.Join(dir, "page.html"))
				}
				line := refuse(t, 1, args...)
				require.Contains(t, line, x.says)
				require.Less(t, len(line), 1200)
				require.NotContains(t, line, "\x1b")
				if !strings.HasPrefix(name, "classes not") { // for which the data are at fault
					require.Contains(t, line, path)
				}
				require.Contains(t, line, "; ", "a remedy")
				require.Equal(t, []string{"bad.onnx"}, listing(t, dir))
			}
		})
	}
}

// m2 is the name of the third initializer, which the message must hold.
func m2(t *testing.T) string {
	m := testref.Must(onnx.Decode(builtin(t)))(t)
	return m.Graph.Initializers[2].Name
}

func TestModelPath(t *testing.T) {
	dir := t.TempDir()
	require.Contains(t, refuse(t, 1, "inspect", "--model", filepath.Join(dir, "none.onnx")), "no such file")
	require.Contains(t, refuse(t, 1, "inspect", "--model", dir), "is a directory")
	require.Contains(t, refuse(t, 1, "inspect", "--freeze", "nothing"), `"nothing"`)
	if os.Getuid() > 0 { // neither root nor on Windows, which know no such mode
		locked := write(t, filepath.Join(dir, "locked.onnx"), builtin(t))
		require.NoError(t, os.Chmod(locked, 0))
		require.Contains(t, refuse(t, 1, "inspect", "--model", locked), "permission denied")
	}
	// A name with spaces and letters of any alphabet is a name.
	odd := write(t, filepath.Join(dir, "mein Netz – 模型.onnx"), builtin(t))
	require.Contains(t, succeed(t, "inspect", "--model", odd), odd)
}

// Any damage to the file is one line or no damage at all.
func TestDamagedModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	whole, path := builtin(t), filepath.Join(t.TempDir(), "m.onnx")
	for range 100 {
		b := bytes.Clone(whole)
		for range 1 + rng.IntN(4) {
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
		write(t, path, b)
		if r := gpexplain(t.Context(), "inspect", "--model", path); r.code != 0 {
			require.Equal(t, 1, r.code)
			requireOneLine(t, r.stderr)
		}
	}
}

// A file that is as ONNX has it, but holds what is not read, is not called damaged, and no
// message names a package or asks to change the network.
func TestUnreadModel(t *testing.T) {
	unread := func(m *onnx.Model) {
		m.Graph.Nodes[1].OpType, m.Graph.Nodes[3].OpType = "Unique", "Unique"
		m.Graph.Nodes[2].OpType, m.Graph.Nodes[2].Domain = "Fused", "com.example"
	}
	for name, x := range map[string]struct {
		change func(m *onnx.Model)
		says   []string
	}{
		"operators":  {unread, []string{`node 1 "`, `node 3 "`, "(Unique)", "(com.example.Fused)", "2 operators of opset", "depends on the input; take a tensor before it with --output NAME", "domain com.example"}},
		"input type": {func(m *onnx.Model) { m.Graph.Inputs[0].Type = onnx.String }, []string{"string"}},
		"no batch":   {func(m *onnx.Model) { m.Graph.Inputs[0].Dims[1] = onnx.Dim{Param: "k"} }, []string{"no fixed size in dimension 1 k", "--bind k=SIZE"}},
		"opset":      {func(m *onnx.Model) { m.OpsetImport[0].Version = 99 }, []string{"opset is 99"}},
	} {
		path := write(t, filepath.Join(t.TempDir(), "m.onnx"), changed(t, x.change))
		line := strings.ReplaceAll(refuse(t, 1, "inspect", "--model", path), path, "m")
		for _, text := range x.says {
			require.Contains(t, line, text, name)
		}
		for _, text := range []string{"damaged", "network: ", "onnx: ", "change the model", "rewrite"} {
			require.NotContains(t, line, text, name)
		}
	}
}
