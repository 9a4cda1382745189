package doc_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"go/token"
	"go/types"
	"hash/crc32"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// What doc/file.md says that the files of posteriors are.
const (
	savedKind    = "gpexplain posterior"
	savedVersion = 6
)

// A fileTable is a table of doc/file.md: the name and the second column of each line.
type fileTable struct {
	names []string
	says  map[string]string
	seen  map[string]bool
}

// fileTables are the tables of doc/file.md by the comments before them.
func fileTables(t *testing.T) map[string]*fileTable {
	t.Helper()
	tables := map[string]*fileTable{}
	line := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*) \\|")
	for _, m := range regexp.MustCompile(`(?s)<!-- (\w+) -->\n(.*?)\n\n`).FindAllStringSubmatch(read(t, "file.md"), -1) {
		table := &fileTable{says: map[string]string{}, seen: map[string]bool{}}
		for _, row := range line.FindAllStringSubmatch(m[2], -1) {
			table.names = append(table.names, row[1])
			table.says[row[1]] = row[2]
		}
		tables[m[1]] = table
	}
	return tables
}

// A savedCase is a file to compare with the page.
type savedCase struct {
	name, path, table string
	classes, targets  int
}

// rowsInMemory are rows of a regression that come twice, so that inducing examples are alike.
func rowsInMemory(t *testing.T) (funcgp.Model, funcgp.Data, *funcgp.FitOptions) {
	t.Helper()
	net, err := network.Seeded(1, network.Shape{2}, network.Dense{Units: 5}, network.Tanh, network.Dense{Units: 1})
	require.NoError(t, err)
	x, y := mat.NewDense(30, 2, nil), mat.NewDense(30, 1, nil)
	for i := range 30 {
		x.SetRow(i, []float64{float64(i % 5), float64(i % 3)})
		y.Set(i, 0, float64(i)/7)
	}
	data := funcgp.Data{X: x, Y: y, Columns: []string{"a", "b"}}
	o := &funcgp.FitOptions{Likelihood: "gaussian", Standardize: "no", Prior: funcgp.Precision(1)}
	return funcgp.Model{Network: net}, data, o
}

// savedCases writes files by every method, and by the command those that only it writes.
func savedCases(t *testing.T) (cases []savedCase) {
	t.Helper()
	dir := t.TempDir()
	add := func(c savedCase, m funcgp.Model, d funcgp.Data, o *funcgp.FitOptions, s funcgp.SaveOptions) {
		p, err := funcgp.Fit(t.Context(), m, d, o)
		require.NoError(t, err, c.name)
		c.path = filepath.Join(dir, c.name+".gp")
		require.NoError(t, p.Save(t.Context(), c.path, &s))
		require.NoError(t, p.Close())
		cases = append(cases, c)
	}
	digits := funcgp.Data{TrainCount: 40}
	for _, m := range []funcgp.Method{{Name: "exact"}, {Name: "kept"}, {Name: "nystrom", Inducing: 10, Select: "strength"},
		{Name: "subset", Inducing: 10}} {
		table := m.Name
		if m.Inducing > 0 {
			table = "sparse"
		}
		add(savedCase{name: m.Name, table: table, classes: 2, targets: 1}, funcgp.Model{}, digits,
			&funcgp.FitOptions{Method: m}, funcgp.SaveOptions{})
	}
	add(savedCase{name: "inputs", table: "exact", classes: 2, targets: 1}, funcgp.Model{}, digits, nil,
		funcgp.SaveOptions{Inputs: true})
	add(savedCase{name: "variational", table: "exact", classes: 2, targets: 1}, funcgp.Model{}, digits,
		&funcgp.FitOptions{Inference: "variational"}, funcgp.SaveOptions{})
	m, d, o := rowsInMemory(t)
	o.Method = funcgp.Method{Name: "parameters"}
	add(savedCase{name: "parameters", table: "parameters", targets: 1}, m, d, o, funcgp.SaveOptions{Bundle: true})
	o.Method = funcgp.Method{Name: "nystrom", Inducing: 25}
	d.Weights = slices.Repeat([]float64{1}, 30)
	add(savedCase{name: "singular", table: "sparse", targets: 1}, m, d, o, funcgp.SaveOptions{Bundle: true})
	add(savedCase{name: "withheld", table: "sparse", targets: 1}, m, d, &funcgp.FitOptions{Likelihood: o.Likelihood, Standardize: o.Standardize, Prior: o.Prior,
		Method: funcgp.Method{Name: "nystrom", Inducing: 5}}, funcgp.SaveOptions{Bundle: true, WithoutInputs: true})
	if testing.Short() {
		return cases
	}
	words := filepath.Join(repository, "testdata", "corpus", "string-labels")
	name := func(file string) string { return filepath.Join(dir, file) }
	write(t, name("rows.txt"), []byte("1\n"))
	fit := "gpexplain fit --quiet -o "
	run(t, strings.Join([]string{"set -e",
		"gpexplain evidence --quiet --train-count 60 --g-prior --optimize -o " + name("prior.json"),
		fit + name("g.gp") + " --train-count 60 --prior " + name("prior.json"),
		fit + name("all.gp") + " --train-count 40",
		fit + name("less.gp") + " --posterior " + name("all.gp") + " --without " + name("rows.txt"),
		fit + name("words.gp") + " --id id --model " + filepath.Join(words, "model.onnx") +
			" --data " + filepath.Join(words, "train.csv") + " --class-weights balanced --label-smoothing 0.1",
	}, "\n"), "bash")
	for _, c := range []string{"g", "less"} {
		cases = append(cases, savedCase{name: c, path: name(c + ".gp"), table: "exact", classes: 2, targets: 1})
	}
	return append(cases, savedCase{name: "words", path: name("words.gp"), table: "exact", classes: 2, targets: 1})
}

// value computes a formula of the page, such as N·C·(N·C + 1).
func value(t *testing.T, formula string, of map[string]int) int {
	t.Helper()
	text := regexp.MustCompile(`\w`).ReplaceAllStringFunc(strings.ReplaceAll(formula, "·", "*"), func(s string) string {
		if _, err := strconv.Atoi(s); err == nil {
			return s
		}
		n, ok := of[s]
		require.True(t, ok, "%s: %s is unknown", formula, s)
		return strconv.Itoa(n)
	})
	v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, text)
	require.NoError(t, err, formula)
	return testref.Must(strconv.Atoi(v.Value.ExactString()))(t)
}

// about is what sections say of the sizes of a posterior.
type about struct {
	M, Rank, Columns int
	Examples, Rows   []int
	Directions       bool
}

// sizesOf are the values of the letters of the page.
func sizesOf(t *testing.T, f *store.File, c *savedCase) map[string]int {
	t.Helper()
	var head struct {
		Fit struct {
			Examples, Outputs, Parameters int
			Calibration                   struct{ Rows int }
		}
	}
	var a, thin, novel about
	require.NoError(t, f.JSON("header", &head))
	if c.table == "parameters" { // whose sums have the sections of kept rows
		require.NoError(t, f.JSON("kept.about", &a))
	} else {
		require.NoError(t, f.JSON(c.table+".about", &a))
	}
	require.NoError(t, f.JSON("novelty.about", &novel))
	if c.table == "kept" {
		require.NoError(t, f.JSON("thinned.about", &thin))
	}
	of := map[string]int{"N": head.Fit.Examples, "C": head.Fit.Outputs, "P": head.Fit.Parameters, "R": a.Rank, "M": a.M,
		"m": a.M * head.Fit.Outputs, "n": len(thin.Examples), "D": novel.Columns, "S": len(novel.Rows),
		"L": head.Fit.Calibration.Rows, "W": 13, "T": c.targets}
	if c.classes > 0 {
		of["W"] = 7 + 2*c.classes
	}
	if a.Directions {
		of["m"] = a.M
	}
	if c.name == "subset" {
		of["N"] = a.M
	}
	if c.table == "sparse" { // the sums of a file say how many scalars they have
		b := testref.Must(f.Bytes("sparse.scalars"))(t)
		of["Q"] = len(b) / 8
	}
	var rows struct{ Shape, Held []int }
	if f.Has("inputs") {
		require.NoError(t, f.JSON("inputs", &rows))
		if len(rows.Shape) == 1 {
			n := head.Fit.Examples
			if rows.Held != nil {
				n = len(rows.Held)
			}
			of["X"] = n * rows.Shape[0]
		} else {
			of["X"] = 0
		}
	}
	return of
}

// The tables of doc/file.md name the sections of files of every method, in their order, and say how long they are;
// and they name the members of headers.
func TestFilePage(t *testing.T) {
	tables := fileTables(t)
	for _, c := range savedCases(t) {
		f := testref.Must(store.Open(c.path, savedKind, savedVersion))(t)
		of := sizesOf(t, f, &c)
		var order []string
		for _, table := range []*fileTable{tables["common"], tables[c.table]} {
			for _, name := range table.names {
				if f.Has(name) {
					order = append(order, name)
					table.seen[name] = true
					requireLength(t, f, name, table.says[name], of)
				}
			}
		}
		require.Equal(t, order, f.Sections(), c.name)
		var head map[string]json.RawMessage
		require.NoError(t, f.JSON("header", &head))
		for name := range head {
			tables["header"].seen[name] = true
		}
		require.NoError(t, f.Close())
	}
	if testing.Short() {
		return
	}
	// What takes a model of other kinds than these: counts, several of many classes, soft labels.
	tables["header"].seen["rate_kept"], tables["header"].seen["grouped"] = true, true
	tables["common"].seen["inputs.shares"] = true
	for name, table := range tables {
		require.ElementsMatch(t, table.names, slices.Collect(maps.Keys(table.seen)), name)
	}
}

// requireLength compares the length of a section with what the page says.
func requireLength(t *testing.T, f *store.File, name, says string, of map[string]int) {
	t.Helper()
	b := testref.Must(f.Bytes(name))(t)
	switch says {
	case "JSON":
		require.True(t, json.Valid(b), name)
	case "bytes":
	default:
		require.Equal(t, 8*value(t, says, of), len(b), "%s: %s", name, says)
	}
}

// The errors that doc/file.md shows are those of such files.
func TestFileRefusals(t *testing.T) {
	m := regexp.MustCompile("(?s)<!-- refusals -->\n```text\n(.*?)\n```").FindStringSubmatch(read(t, "file.md"))
	require.NotNil(t, m)
	shown := strings.Split(m[1], "\n")
	model, data, options := rowsInMemory(t)
	p := testref.Must(funcgp.Fit(t.Context(), model, data, options))(t)
	defer p.Close()
	path := filepath.Join(t.TempDir(), "a.gp")
	require.NoError(t, p.Save(t.Context(), path, &funcgp.SaveOptions{Bundle: true}))
	good := []byte(read(t, path))
	f := testref.Must(store.Open(path, savedKind, savedVersion))(t)
	defer f.Close()
	again := func(kind string, version uint32, change func(name string, b []byte) []byte) []byte {
		other := filepath.Join(t.TempDir(), "b.gp")
		require.NoError(t, store.Write(other, kind, version, func(w *store.Writer) error {
			for _, name := range f.Sections() {
				b, err := f.Bytes(name)
				if err != nil {
					return err
				}
				w.Bytes(name, change(name, b))
			}
			return nil
		}))
		return []byte(read(t, other))
	}
	same := func(_ string, b []byte) []byte { return b }
	require.Equal(t, good, again(savedKind, savedVersion, same))
	older := again(savedKind, savedVersion, func(name string, b []byte) []byte {
		if name == "exact.about" {
			return []byte(strings.Replace(string(b), `"Version":2`, `"Version":1`, 1))
		}
		return b
	})
	damaged := slices.Clone(good)
	alpha := testref.Must(f.Bytes("exact.alpha"))(t)
	damaged[strings.Index(string(damaged), string(alpha))] ^= 1
	container := slices.Clone(good)
	container[8] = 2
	binary.LittleEndian.PutUint32(container[60:], crc32.Checksum(container[:60], crc32.MakeTable(crc32.Castagnoli)))
	files := [][]byte{container, again("gpexplain inducing", 1, same), again(savedKind, savedVersion+1, same),
		older, damaged}
	require.Len(t, shown, len(files))
	for i, b := range files {
		write(t, path+"x", b)
		require.ErrorContains(t, testref.Err(funcgp.Open(t.Context(), path+"x", nil)), shown[i], fmt.Sprint(i))
	}
}
