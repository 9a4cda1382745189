package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

var update = flag.Bool("update", false, "rewrite the answers of testdata/golden that differ")

// TestGolden compares the answers of the command lines of testdata/golden with those kept there. See compareGolden for
// what counts as the same.
func TestGolden(t *testing.T) {
	testref.Long(t, "takes many whole commands; run without -short")
	folder := filepath.Join(repository, "testdata", "golden")
	t.Chdir(t.TempDir())
	require.NoError(t, os.Symlink(filepath.Join(repository, "testdata", "corpus"), "corpus"))
	for _, name := range []string{"counts.csv", "rows.csv"} {
		require.NoError(t, os.Symlink(filepath.Join(folder, name), name))
	}
	largest, kept := 0., map[string]bool{"commands.txt": true, "counts.csv": true, "rows.csv": true}
	for line := range strings.Lines(read(t, filepath.Join(folder, "commands.txt"))) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		name, named := strings.CutSuffix(words[0], ":")
		if named {
			words = words[1:]
		}
		r := gpexplain(t.Context(), words...)
		require.Equal(t, 0, r.code, "gpexplain %s: %s", strings.Join(words, " "), r.stderr)
		if !named {
			continue
		}
		file := name + ".json"
		require.False(t, kept[file], "two command lines are named %s", name)
		kept[file] = true
		file = filepath.Join(folder, file)
		got := goldenAnswers(t, r.stdout)
		text, err := os.ReadFile(file)
		if !*update {
			require.NoError(t, err, "%s has no answer yet: go test ./cmd/gpexplain -run Golden -update", name)
		}
		differences, apart := []string{"no answer yet"}, 0.
		if err == nil {
			differences, apart = compareGolden(name, goldenAnswers(t, string(text)), got)
		}
		largest = max(largest, apart)
		if len(differences) > 0 && *update {
			require.NoError(t, os.WriteFile(file, goldenText(t, got), 0o644))
			continue
		}
		for _, d := range differences[:min(len(differences), 20)] {
			t.Errorf("%s (gpexplain %s)\n\t%s", name, strings.Join(words, " "), d)
		}
		if len(differences) > 20 {
			t.Errorf("%s: %d more", name, len(differences)-20)
		}
	}
	for _, file := range listing(t, folder) {
		if !kept[file] {
			if *update {
				require.NoError(t, os.Remove(filepath.Join(folder, file)))
			} else {
				t.Errorf("no command line writes testdata/golden/%s", file)
			}
		}
	}
	t.Logf("%d answers; largest difference of a number %.2g of the largest of its kind", len(kept)-3, largest)
}

// leftOut are members of the JSON that golden answers do not hold: times, versions, checksums of files with rounded
// numbers, prose, and the entries at which validate finds the largest difference, one of many alike.
var leftOut = []string{"timings", "seconds", "record", "funcgp.command", "sha256", "function_space", "weight_space",
	"meanings", "text", "remedy", "see", "why", "says", "origin", "reason", "not_covered"}

// goldenTolerances are of kinds of numbers that rounding moves by more than 1e-8 of their largest.
var goldenTolerances = []struct {
	kind string  // how it ends
	by   float64 // of the largest of kind
	of   string  // the kind with which to compare instead, for a difference of larger numbers; "1" for 1
}{
	{".novelty.score", 1e-7, ""},           // of distances between near rows
	{".boundary.margin", 1e-7, ""},         // at a precision that a search finds, to 1e-8
	{".boundary.entropy", 1e-7, ""},        // likewise
	{".mislabelled.log_density", 1e-7, ""}, // likewise
	{"ed.label_probability", 1e-7, ""},     // likewise
	{"ed.suggested_probability", 1e-7, ""}, // likewise
	{".outputs.remainder", 1e-8, ".outputs.network"},
	{".each.remainder", 1e-8, ".outputs.network"},
	{".match.remainder", 1e-8, "1"},
	{".bytes", 1e-2, ""}, // of a file, compressed
}

// goldenRounding are kinds of numbers that are rounding, or nothing where there is none: they may be a thousand times
// what they were.
var goldenRounding = []string{".sum_residual", ".log_evidence_se", ".mean_error", ".difference", ".forget.bound", ".distance",
	".errors.mean", ".errors.covariance", ".errors.probability", ".errors.probability_sd",
	".far_errors.mean", ".far_errors.covariance", ".far_errors.probability", ".far_errors.probability_sd", ".errors.novelty", ".far_errors.novelty"}

// goldenOrders are the members by whose absolute value lists of rows are in order, the first that an item has.
var goldenOrders = []string{"norm", "leverage", "log_density", "margin", "gain", "correlation", "value", "raw"}

// goldenAnswers are the JSON values that a command wrote, without what golden answers do not hold.
func goldenAnswers(t testing.TB, text string) []any {
	t.Helper()
	var list []any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for {
		var v any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err)
		list = append(list, without(v, leftOut))
	}
}

func without(v any, names []string) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if v[name] = without(member, names); slices.Contains(names, name) {
				delete(v, name)
			}
		}
	case []any:
		for i := range v {
			v[i] = without(v[i], names)
		}
	}
	return v
}

// goldenText writes values one below the other with 12 digits, lists of numbers and what is short on one line.
func goldenText(t testing.TB, answers []any) []byte {
	t.Helper()
	var b bytes.Buffer
	var put func(v any, indent string)
	put = func(v any, indent string) {
		inner := indent + " "
		long := len(testref.Must(json.Marshal(v))(t)) > 120
		separate, end := ", ", ""
		if long {
			separate, end = ",\n"+inner, "\n"+indent
		}
		switch v := v.(type) {
		case []any:
			if long && !slices.ContainsFunc(v, isNumber) {
				b.WriteString("[\n" + inner)
			} else {
				separate, end = ", ", ""
				b.WriteString("[")
			}
			for i, v := range v {
				if i > 0 {
					b.WriteString(separate)
				}
				put(v, inner)
			}
			b.WriteString(end + "]")
		case map[string]any:
			b.WriteString("{" + strings.TrimLeft(separate, ", "))
			for i, name := range slices.Sorted(maps.Keys(v)) {
				if i > 0 {
					b.WriteString(separate)
				}
				fmt.Fprintf(&b, "%q: ", name)
				put(v[name], inner)
			}
			b.WriteString(end + "}")
		case json.Number:
			if strings.ContainsAny(v.String(), ".eE") {
				b.WriteString(strconv.FormatFloat(goldenFloat(v), 'g', 12, 64))
			} else {
				b.WriteString(v.String())
			}
		default:
			b.Write(testref.Must(json.Marshal(v))(t))
		}
	}
	for _, v := range answers {
		put(v, "")
		b.WriteString("\n")
	}
	return b.Bytes()
}

func isNumber(v any) bool { _, ok := v.(json.Number); return ok }

func goldenFloat(n json.Number) float64 {
	x, _ := n.Float64() // a number of JSON that decodes; beyond float64 it is infinite
	return x
}

// compareGolden returns how the answers of a command line differ, a line each, and the largest difference of numbers
// that count as the same.
//
// Numbers are the same within 1e-8 of the largest of their kind, those at the same path but for places in lists; see
// goldenTolerances and goldenRounding for others. What is discrete is the same: words, classes, rows, ranks, steps of a
// grid. But rows of a list in order may change places, or with those left out of the list, where what they are
// in order by is the same within 1e-8.
func compareGolden(name string, want, got []any) (differences []string, largest float64) {
	scale := map[string]float64{"1": 1}
	var measure func(kind string, v any)
	measure = func(kind string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				measure(kind+"."+name, member)
			}
		case []any:
			for _, v := range v {
				measure(kind, v)
			}
		case json.Number:
			scale[kind] = max(scale[kind], math.Abs(goldenFloat(v)))
		}
	}
	for _, v := range want {
		measure("."+name, v)
	}
	differ := func(path string, want, got any) {
		differences = append(differences, fmt.Sprintf("%s: %.200v, was %.200v", path, fmt.Sprint(got), fmt.Sprint(want)))
	}
	numbers := func(kind, path string, want, got json.Number) {
		w, g := goldenFloat(want), goldenFloat(got)
		by, of := 1e-8, scale[kind]
		for _, t := range goldenTolerances {
			if strings.HasSuffix(kind, t.kind) {
				if by = t.by; t.of == "1" {
					of = 1
				} else if t.of != "" {
					of = scale["."+name+t.of]
				}
			}
		}
		switch apart := math.Abs(w-g) / of; {
		case w == g:
		case slices.ContainsFunc(goldenRounding, func(end string) bool { return strings.HasSuffix(kind, end) }):
			if math.Abs(g) > 1000*of+1e-12 {
				differ(path+" (rounding)", want, got)
			}
		case apart <= by:
			if by == 1e-8 {
				largest = max(largest, apart)
			}
		default:
			differ(fmt.Sprintf("%s (apart %.2g of the largest)", path, apart), want, got)
		}
	}
	var compare func(kind, path string, want, got any)
	compare = func(kind, path string, want, got any) {
		switch w := want.(type) {
		case map[string]any:
			g, ok := got.(map[string]any)
			if !ok {
				break
			}
			for _, name := range slices.Sorted(maps.Keys(w)) {
				if _, ok := g[name]; ok {
					compare(kind+"."+name, path+"."+name, w[name], g[name])
				} else {
					differences = append(differences, fmt.Sprintf("%s.%s: is gone", path, name))
				}
			}
			for _, name := range slices.Sorted(maps.Keys(g)) {
				if _, ok := w[name]; !ok {
					differences = append(differences, fmt.Sprintf("%s.%s: is new", path, name))
				}
			}
			return
		case []any:
			g, ok := got.([]any)
			if !ok || len(g) != len(w) {
				break
			}
			for i := range w {
				inPlace := g[i]
				if row := rowOf(w[i]); row != "" && row != rowOf(g[i]) && tied(kind, scale, w[i], g[i]) {
					at := slices.IndexFunc(g, func(v any) bool { return rowOf(v) == row })
					if at < 0 { // another as large is in the list in its place
						continue
					}
					inPlace = g[at]
				}
				compare(kind, fmt.Sprintf("%s[%d]", path, i), w[i], inPlace)
			}
			return
		case json.Number:
			if g, ok := got.(json.Number); ok {
				numbers(kind, path, w, g)
				return
			}
		default:
			if want == got {
				return
			}
		}
		differ(path, want, got)
	}
	if len(want) != len(got) {
		return []string{fmt.Sprintf("%d JSON values, were %d", len(got), len(want))}, 0
	}
	for i := range want {
		compare("."+name, fmt.Sprintf("[%d]", i), want[i], got[i])
	}
	return differences, largest
}

// rowOf names the row, or the pair of rows, that an item of a list is about, "" for none.
func rowOf(v any) string {
	item, _ := v.(map[string]any)
	if index, ok := item["index"]; ok {
		return fmt.Sprint(index)
	}
	first, _ := item["first"].(map[string]any)
	second, _ := item["second"].(map[string]any)
	if first == nil || second == nil {
		return ""
	}
	return fmt.Sprint(first["index"], "-", second["index"])
}

// tied says whether two items of a list of rows in order could stand in either order.
func tied(kind string, scale map[string]float64, a, b any) bool {
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	for _, name := range goldenOrders {
		if u, ok := x[name].(json.Number); ok {
			v, ok := y[name].(json.Number)
			return ok && math.Abs(math.Abs(goldenFloat(u))-math.Abs(goldenFloat(v))) <= 1e-8*scale[kind+"."+name]
		}
	}
	return false
}

// TestCompareGolden holds what counts as the same.
func TestCompareGolden(t *testing.T) {
	for _, c := range []struct {
		name, want, got string
		differ          string // "" for the same
	}{
		{"of its kind", `{"a":[100,1e-3]}`, `{"a":[100,1.0005e-3]}`, ""},
		{"too far", `{"a":[100,1e-3]}`, `{"a":[100,1.002e-3]}`, "[0].a[1] (apart 2e-08 of the largest): 1.002e-3, was 1e-3"},
		{"none of its kind", `{"a":0}`, `{"a":1e-300}`, "[0].a (apart +Inf of the largest): 1e-300, was 0"},
		{"discrete", `{"class":4,"name":"a"}`, `{"class":9,"name":"a"}`, "[0].class (apart 1.2 of the largest): 9, was 4"},
		{"word", `{"name":"a"}`, `{"name":"b"}`, "[0].name: b, was a"},
		{"null", `{"a":null}`, `{"a":0}`, "[0].a: 0, was <nil>"},
		{"gone", `{"a":1}`, `{}`, "[0].a: is gone"},
		{"new", `{}`, `{"a":1}`, "[0].a: is new"},
		{"shorter", `[1,2]`, `[1]`, "[0]: [1], was [1 2]"},
		{"a row more", `1`, `1 2`, "2 JSON values, were 1"},
		{"rounding", `{"sum_residual":1e-13}`, `{"sum_residual":-9e-13}`, ""},
		{"no rounding", `{"sum_residual":1e-13}`, `{"sum_residual":1e-9}`, "[0].sum_residual (rounding): 1e-9, was 1e-13"},
		{"a difference", `{"outputs":{"network":1e6,"remainder":1e-3}}`, `{"outputs":{"network":1e6,"remainder":2e-3}}`, ""},
		{"tied", `[{"index":3,"value":1,"sd":5},{"index":4,"value":-1,"sd":6}]`, `[{"index":4,"value":-1,"sd":6},{"index":3,"value":1,"sd":5}]`, ""},
		{"tied, but wrong", `[{"index":3,"value":1,"sd":5},{"index":4,"value":-1,"sd":6}]`, `[{"index":4,"value":-1,"sd":6},{"index":3,"value":1,"sd":6}]`, "[0][0].sd (apart 0.17 of the largest): 6, was 5"},
		{"tied with one left out", `[{"index":3,"value":1}]`, `[{"index":4,"value":-1}]`, ""},
		{"not tied", `[{"index":3,"value":1}]`, `[{"index":4,"value":0.9}]`, "[0][0].index (apart 0.33 of the largest): 4, was 3"},
	} {
		differences, _ := compareGolden("test", goldenAnswers(t, c.want), goldenAnswers(t, c.got))
		if c.differ == "" {
			require.Empty(t, differences, c.name)
		} else {
			require.Contains(t, differences, c.differ, c.name)
		}
	}
}
