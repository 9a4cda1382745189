package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testref"
)

// pictures are the images and numbers of features on a page.
var pictures = regexp.MustCompile(`data:image[^"]+|<rect[^>]+>`)

// Models of several classes, of a regression and of counts are answered from a
// file as from a fit, with pictures of the training rows on the page, whether
// the inputs are inside the file or not.
func TestSavedPosteriorOfModels(t *testing.T) {
	testref.Long(t, "takes many whole commands; run without -short")
	dir := t.TempDir()
	classes := filepath.Join(dir, "classes.onnx")
	digits := []string{"--data", "digits:150,40", "--classes", "9,3,4"}
	succeed(t, slices.Concat([]string{"train", "--quiet", "--arch", "mlp:8-3", "--epochs", "2", "--lbfgs", "5", "--out", classes}, digits)...)
	models := map[string][]string{"classes": {"--model", classes, "--data", "digits:150,40"}}
	for _, name := range []string{"snelson", "poisson"} {
		models[name] = openReference(t, name).args
	}
	ways := map[string][]string{"exact": nil, "subset": {"--method", "subset", "--inducing", "10", "--refit"},
		"nystrom": {"--method", "nystrom", "--inducing", "10", "--select", "rpcholesky", "--seed", "5"}, "parameters": {"--method", "parameters"}}
	for name, model := range models {
		for method, way := range ways {
			if name != "poisson" && method == "parameters" {
				continue // thousands of them: of 6,307 a file takes 318 MB
			}
			files := map[string]string{}
			for _, inputs := range []string{"--with-inputs=false", "--with-inputs"} {
				files[inputs] = filepath.Join(dir, inputs+".gp")
				succeed(t, slices.Concat([]string{"fit", "--quiet", "--out", files[inputs], inputs}, model, way)...)
			}
			for _, verb := range []string{"predict", "explain", "importances"} {
				run := func(args []string) (text string, shown []string) {
					args = slices.Concat([]string{verb, "--json", "--quiet"}, model, args)
					if verb == "predict" {
						return withoutTimings(t, succeed(t, args...)), nil
					}
					page := filepath.Join(dir, "page.html")
					text = succeed(t, append(args, "--html", page)...)
					return withoutTimings(t, text), pictures.FindAllString(read(t, page), -1)
				}
				want, wantShown := run(way)
				for inputs, file := range files {
					got, shown := run([]string{"--posterior", file})
					require.Equal(t, want, got, "%s %s %s %s", name, method, inputs, verb)
					require.Equal(t, wantShown, shown, "%s %s %s %s", name, method, inputs, verb)
					if verb == "explain" {
						require.NotEmpty(t, shown)
					}
				}
			}
		}
	}
}

// With the inputs inside, images need no training rows beside them.
func TestImagesInside(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.gp")
	succeed(t, small("fit", "--quiet", "--out", file, "--with-inputs")...)
	want := succeed(t, small("explain", "--json")...)
	require.Equal(t, withoutTimings(t, want), withoutTimings(t, succeed(t, "explain", "--json", "--data", "digits:0,100", "--posterior", file)))
	// Without them, the rows must be there.
	succeed(t, small("fit", "--quiet", "--out", file)...)
	require.Contains(t, refuse(t, 1, "explain", "--data", "digits:0,100", "--posterior", file), "of other training rows")
}

// The features of test rows are those of the rows inside.
func TestColumnsInside(t *testing.T) {
	dir, data, model := csvModel(t)
	file := filepath.Join(dir, "a.gp")
	succeed(t, "fit", "--quiet", "--out", file, "--with-inputs", "--model", model, "--data", data)
	header, rest, _ := strings.Cut(read(t, data), "\n")
	other := write(t, filepath.Join(dir, "other.csv"), []byte("renamed_"+header+"\n"+rest))
	require.Contains(t, refuse(t, 1, "predict", "--posterior", file, "--model", model, "--data", other, "--test-data", other), "have columns")
}

// A flag that says what the file of a posterior says changes nothing, and one that says another
// thing is refused by its name.
func TestFlagsOfSavedPosterior(t *testing.T) {
	dir := t.TempDir()
	file, inside := filepath.Join(dir, "a.gp"), filepath.Join(dir, "inside.gp")
	fit := small("fit", "--quiet", "--method", "nystrom", "--inducing", "10", "--prior-precision", "3")
	succeed(t, append(fit, "--out", file)...)
	succeed(t, append(fit, "--out", inside, "--with-inputs")...)
	header := func(path string) (h savedHeader) {
		f := testref.Must(store.Open(path, savedKind, savedVersion))(t)
		defer f.Close()
		require.NoError(t, f.JSON("header", &h))
		return h
	}
	rows, ok := job.ParseRows(header(file).Rows, 400)
	require.True(t, ok)
	var lines strings.Builder
	for _, row := range rows {
		fmt.Fprintln(&lines, row)
	}
	index, other := rowsFile(t, lines.String()), rowsFile(t, strings.Replace(lines.String(), "\n", "\n\n", 1)+"399\n")
	predict := []string{"predict", "--json", "--posterior"}
	for _, path := range []string{file, inside} {
		want := withoutTimings(t, succeed(t, append(predict, path)...))
		for _, c := range []struct {
			flag, same, other string
		}{
			{"train-count", "60", "59"},
			{"train-index", index, other},
			{"method", "nystrom", "exact"},
			{"inducing", "10", "11"},
			{"select", "stratified", "uniform"},
			{"likelihood", "bernoulli", "categorical"},
			{"classes", "4, 9", "9,4"},
			{"prior-precision", "3.0", "4"},
			{"at", "match", "stated"},
			{"refit", "false", "true"},
			{"inference", "laplace", "variational"},
			{"calibrate", "loo", "heldout"},
			{"standardize", "auto", "yes"},
			{"outputs", "", "all"},
			{"weight-decay", "", "0.001"},
			{"tune-prior", "", "evidence"},
			{"within", "", "0.1"},
			{"input-mean", "", "1"},
		} {
			flag := "--" + c.flag + "="
			if c.same != "" {
				require.Equal(t, want, withoutTimings(t, succeed(t, append(predict, path, flag+c.same)...)), flag)
			}
			line := refuse(t, 1, append(predict, path, flag+c.other)...)
			require.Contains(t, line, path+": --"+c.flag+" "+c.other+" is not what it was fitted with", flag)
		}
	}
	// Nobody knows the flags of a file that an older version wrote, but what was fitted.
	old := remade(t, file, func(h map[string]any) { delete(h, "flags") }, nil)
	require.NotEmpty(t, succeed(t, append(predict, old, "--method", "nystrom", "--train-count", "60")...))
	require.Contains(t, refuse(t, 1, append(predict, old, "--tune-prior=loo")...), "--tune-prior loo is not what it was fitted with; ")
}

// A posterior by FITC, which earlier versions had, is refused with what to type.
func TestSavedByFITC(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.gp")
	succeed(t, small("fit", "--quiet", "--method", "nystrom", "--inducing", "5", "-o", file)...)
	old := remade(t, file, func(h map[string]any) { h["fit"].(map[string]any)["method"] = "fitc" }, nil)
	for _, verb := range []string{"predict", "explain"} {
		line := refuse(t, 1, verb, "--data", "digits:400,100", "--posterior", old)
		require.Equal(t, "gpexplain: "+old+": is of --method fitc, which this version does not have; fit it again with --method nystrom\n", line)
	}
}

// The kind and the version of a saved posterior's file.
const (
	savedKind    = "gpexplain posterior"
	savedVersion = 6
)

// A savedHeader is part of what the file says about its posterior.
type savedHeader struct {
	Rows       string
	Remembered struct{ Files []struct{ Path string } }
}

// remade writes a saved posterior again with another header or rows.
func remade(t *testing.T, from string, header func(h map[string]any), inputs func(h map[string]any)) string {
	t.Helper()
	f := testref.Must(store.Open(from, savedKind, savedVersion))(t)
	defer f.Close()
	path := filepath.Join(t.TempDir(), "remade.gp")
	require.NoError(t, store.Write(path, savedKind, savedVersion, func(w *store.Writer) error {
		for _, name := range f.Sections() {
			data, err := f.Bytes(name)
			if err != nil {
				return err
			}
			change := map[string]func(map[string]any){"header": header, "inputs": inputs}[name]
			if change != nil {
				var h map[string]any
				if err := json.Unmarshal(data, &h); err != nil {
					return err
				}
				change(h)
				if data, err = json.Marshal(h); err != nil {
					return err
				}
			}
			w.Bytes(name, data)
		}
		return nil
	}))
	return path
}

// A file with right checksums may say anything: it is refused in one line that
// names it, and takes no memory that its numbers ask for.
func TestHostileHeader(t *testing.T) {
	dir := t.TempDir()
	sparse, exact, inside := filepath.Join(dir, "sparse.gp"), filepath.Join(dir, "exact.gp"), filepath.Join(dir, "inside.gp")
	succeed(t, small("fit", "--quiet", "--out", sparse, "--method", "nystrom", "--inducing", "5")...)
	succeed(t, small("fit", "--quiet", "--out", exact)...)
	succeed(t, small("fit", "--quiet", "--out", inside, "--with-inputs", "--method", "nystrom", "--inducing", "5")...)
	ask := func(path string) ran {
		return gpexplain(t.Context(), "predict", "--json", "--data", "digits:400,100", "--posterior", path)
	}
	require.Zero(t, ask(remade(t, inside, nil, nil)).code)
	most := float64(math.MaxInt32)
	for field, values := range map[string][]any{
		"rows":            {"", "x", "-1", "0-99999999999", "9223372036854775806-9223372036854775807", "1,1", "0-3", strings.Repeat("1,", 1000)},
		"likelihood":      {"", "x", "categorical", "\n"},
		"classes":         {[]int{}, []int{4}, []int{4, 4}, []int{4, 9, 3}, []int{-1, 1 << 40}, "4,9"},
		"prior_precision": {0, -1, 1e-300, 1e300, nil, "1"},
		"prior_factor":    {0, -1, 2},
		"inducing":        {[]int{}, nil, []int{-1, 1, 2, 3, 4}, []int{0, 1, 2, 3, 60}, []int{0, 0, 0, 0, 0}, []float64{most * most}, make([]int, 1000), []int{0, 1, 2, 3, 4}, []int{0}},
		"bound":           {-1, 3, 1e9},
		"inputs":          {7},
		"grouped_prior":   {1, map[string]any{}, map[string]any{"kind": "g"}, map[string]any{"schema": "funcgp/prior/1", "kind": "groups", "likelihood": "bernoulli", "parameters": 0, "groups": []int{}}},
		"fit":             {1, nil, map[string]any{"method": "x"}, map[string]any{"method": "parameters"}, map[string]any{"method": "exact"}},
	} {
		for _, value := range values {
			path := remade(t, sparse, func(h map[string]any) { h[field] = value }, nil)
			r := ask(path)
			require.Equal(t, 1, r.code, "%s %v", field, value)
			requireOneLine(t, r.stderr)
			require.Contains(t, r.stderr, path, "%s %v", field, value)
		}
	}
	// The exact posterior has no inducing examples, and other sections.
	for _, method := range []string{"subset", "nystrom", "parameters"} {
		path := remade(t, exact, func(h map[string]any) {
			h["fit"].(map[string]any)["method"] = method
			if method != "parameters" {
				h["inducing"] = []int{0, 1}
			}
		}, nil)
		require.Contains(t, ask(path).stderr, path)
	}
	for field, values := range map[string][]any{
		"rows":    {"", "0-99999999999", "9223372036854775807", "3-1", "0-58,9223372036854775807"},
		"shape":   {[]int{}, []int{-1}, []int{1 << 40, 1 << 40}, []int{784}, []float64{1e9, 1e9, 1e9}},
		"columns": {[]string{"a"}, 3},
		"integer": {false, "x"},
	} {
		for _, value := range values {
			path := remade(t, inside, nil, func(h map[string]any) { h[field] = value })
			r := ask(path)
			require.Equal(t, 1, r.code, "%s %v", field, value)
			requireOneLine(t, r.stderr)
			require.Contains(t, r.stderr, path, "%s %v", field, value)
		}
	}
}

// --max-memory holds for what a file needs; nothing in it can be made smaller.
func TestMaxMemoryOfSaved(t *testing.T) {
	for method, args := range map[string][]string{"exact": nil, "nystrom": {"--inducing", "10"}, "subset": {"--inducing", "10"}} {
		file := filepath.Join(t.TempDir(), "a.gp")
		succeed(t, append(small("fit", "--quiet", "--out", file, "--method", method), args...)...)
		line := refuse(t, 1, "predict", "--data", "digits:400,100", "--posterior", file, "--max-memory", "10kB")
		require.Regexp(t, `^gpexplain: a saved posterior takes [\d.]+ [kMG]B of memory, of which 10.0 kB may be used; raise --max-memory\n$`, line, method)
	}
}

// Training rows inside the file go with the test rows of their own split: those
// of another one were trained on.
func TestSplitInside(t *testing.T) {
	dir := t.TempDir()
	data := write(t, filepath.Join(dir, "t.csv"), []byte("a,b,y\n1,2,0\n3,4,1\n5,7,0\n7,8,1\n2,2,1\n4,1,0\n"))
	write(t, filepath.Join(dir, "t.splits.csv"), []byte("split,row,part\n0,0,train\n0,1,train\n0,2,train\n0,3,train\n0,4,test\n0,5,test\n"+
		"1,0,test\n1,1,test\n1,2,train\n1,3,train\n1,4,train\n1,5,train\n"))
	net, file := filepath.Join(dir, "net.onnx"), filepath.Join(dir, "a.gp")
	succeed(t, "train", "--quiet", "--data", data, "--split", "0", "--arch", "mlp:4-1", "--epochs", "2", "--lbfgs", "1", "--out", net)
	succeed(t, "fit", "--json", "--quiet", "-o", file, "--with-inputs", "--model", net, "--data", data, "--split", "0")
	ask := []string{"predict", "--quiet", "--posterior", file, "--model", net, "--data", data, "--split"}
	succeed(t, append(ask, "0")...)
	require.Contains(t, refuse(t, 1, append(ask, "1")...), "some would be test rows")
}
