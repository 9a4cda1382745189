package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// words are what random command lines are made of: of each flag values that
// work and values that do not. Small data and a small model keep them fast, and
// none of them opens the network.
var words = map[string][]string{
	"--model":            {"tiny.onnx", "moons.onnx", "junk.onnx", "none.onnx", ".", ""},
	"--data":             {"digits:30,10", "digits:20,0", "digits:x", "moons.csv", "junk.csv", "none.csv", "idx", ".", ""},
	"--classes":          {"0,1", "4,9", "9,4", "0,1,2,3,4,5,6,7,8,9", "1", "x", "7,77", "a,b", "\"a", ""},
	"--class-names":      {"four,nine", "a,b,c,d,e,f,g,h,i,j", "a,a", "a", "a,,b", "\"a", ""},
	"--id":               {"x0", "y", "none", ""},
	"--all":              {"", "=false", "=x"},
	"--csv":              {"out.csv", "none/out.csv", "moons.csv", ""},
	"--train-count":      {"1", "5", "12", "0", "-1", "1000000", "x"},
	"--train-index":      {"rows.txt", "junk.csv", "none.txt", ""},
	"--target":           {"y", "x0", "x0,y", "y,y", "none"},
	"--split":            {"0", "1", "-1", "x"},
	"--test-data":        {"moons.csv", "junk.csv", "none.csv"},
	"--likelihood":       {"gaussian", "bernoulli", "categorical", "poisson", "student"},
	"--prior-precision":  {"1", "1e-9", "1e9", "0", "-1", "NaN", "1e-320"},
	"--noise-variance":   {"1", "1e-9", "0", "Inf"},
	"--freeze":           {"Dense1.weight", "Dense1.weight,Dense1.bias", "none", ""},
	"--seed":             {"0", "18446744073709551615", "-1"},
	"--json":             {"", "=true", "=false", "=x"},
	"--quiet":            {"", "=false"},
	"--verbose":          {"", "=false"},
	"--profile":          {"heap", ""},
	"--workers":          {"1", "2", "0", "-1", "1000000000"},
	"--max-memory":       {"1GiB", "10kB", "1", "x"},
	"--index":            {"0", "6", "13", "-1", "1000000", "1,6-8", "5-", "8-6", "0-99999999999"},
	"--input":            {"digit.png", "moon.csv", "moons.csv", "junk.csv", "idx", "none.png", "-", ""},
	"--invert":           {"", "=yes", "=no", "=x"},
	"--top":              {"1", "3", "1000000", "0", "-1"},
	"--refit":            {"", "=true", "=false", "=x"},
	"--terms":            {"posterior", "raw", "all"},
	"--contrast":         {"0,1", "4,9", "4,4", "4", "x,y"},
	"--html":             {"out.html", "none/out.html", ".", "-", "tiny.onnx"},
	"--link":             {"exact", "qmc", "probit", "mc", "bridge", "fast"},
	"--samples":          {"1", "20", "0"},
	"--test-index":       {"rows.txt", "none.txt", ""},
	"--tolerance":        {"1e-6", "1e-17", "0", "NaN"},
	"--arch":             {"mlp:2-1", "mlp:2-10", "mlp:1", "mlp:", "mlp:1048576-1048576", "vgg"},
	"--activation":       {"relu", "tanh", "sin"},
	"--out":              {"out.onnx", "none/out.onnx", "moons.csv", ".", ""},
	"--epochs":           {"0", "1", "-1"},
	"--batch":            {"1", "16", "1000000000", "0"},
	"--lr":               {"0.01", "1e5", "0", "NaN"},
	"--lbfgs":            {"0", "1", "3", "-1"},
	"--method":           {"exact", "kept", "subset", "nystrom", "parameters", "magic"},
	"--inducing":         {"1", "3", "30", "0", "-1", "x"},
	"--select":           {"uniform", "stratified", "trace", "greedy", "rpcholesky", "kmeans", "best"},
	"--prior":            {"moons.json", "junk.csv", "none.json", ".", ""},
	"--optimize":         {"", "=false"},
	"--per-layer":        {"", "=false"},
	"--normalized-apart": {"", "=x"},
	"--g-prior":          {"", "=false"},
	"--keep-noise":       {"", "=false"},
	"--inference":        {"laplace", "variational", "x"},
	"--form":             {"refit", "held-sites", "linear-gaussian", "at-theta", "x", ""},
	"--posterior":        {"tiny.gp", "moons.gp", "junk.csv", "none.gp", ".", ""},
	"--checkpoint":       {"out.part", "moons.gp", "none/out.part", ".", ""},
	"--tune-prior":       {"", "=loo", "=x"},
	"--with-inputs":      {"", "=false"},
	"-o":                 {"out.gp", "none/out.gp", "moons.csv", "-"},
	"--bogus":            {"", "x"},
	"extra":              {""},
	"-h":                 {""},
	"--":                 {""},
}

// phrase turns bytes into a command line: a verb, then for every two bytes a
// flag and a value.
func phrase(code []byte) []string {
	verbs := []string{"explain", "predict", "importances", "evidence", "validate", "train", "fit", "inspect", "version", "completion", "help", "bogus"}
	flags := make([]string, 0, len(words))
	for flag := range words {
		flags = append(flags, flag)
	}
	slices.Sort(flags)
	if len(code) == 0 {
		return nil
	}
	verb := verbs[int(code[0])%len(verbs)]
	args := []string{verb}
	for i := 1; i+1 < len(code) && i < 20; i += 2 {
		flag := flags[int(code[i])%len(flags)]
		value := words[flag][int(code[i+1])%len(words[flag])]
		switch {
		case value == "" && !strings.HasPrefix(flag, "--") || strings.HasPrefix(value, "=") || slices.Contains([]string{"--json", "--quiet", "--verbose", "--invert", "--all", "--refit", "--tune-prior", "--with-inputs", "--optimize", "--per-layer", "--normalized-apart", "--g-prior", "--keep-noise", "--"}, flag):
			args = append(args, flag+value)
		default:
			args = append(args, flag, value)
		}
	}
	return withSmallData(verb, args)
}

// withSmallData adds a small model and small data where a line names none.
func withSmallData(verb string, args []string) []string {
	if !slices.Contains([]string{"explain", "predict", "importances", "evidence", "validate", "train", "fit"}, verb) {
		return args
	}
	defaults := []string{}
	if verb == "validate" && !slices.Contains(args, "--model") && !slices.Contains(args, "--data") {
		return slices.Insert(args, 1, "--model", "moons.onnx", "--data", "moons.csv", "--test-data", "moons.csv")
	}
	if verb != "train" && !slices.Contains(args, "--model") {
		defaults = append(defaults, "--model", "tiny.onnx")
	}
	if !slices.Contains(args, "--data") {
		defaults = append(defaults, "--data", "digits:30,10")
	}
	if verb == "fit" && !slices.Contains(args, "-o") && !slices.Contains(args, "--out") {
		defaults = append(defaults, "-o", "out.gp")
	}
	if verb == "train" && !slices.Contains(args, "--arch") {
		defaults = append(defaults, "--arch", "mlp:2-10")
	}
	return slices.Insert(args, 1, defaults...)
}

// fuzzFiles fills the current directory with what the words name.
func fuzzFiles(t testing.TB) {
	moons := "x0,x1,y\n0.1,2,0\n1.5,-1,1\n0.3,1,0\n1,0,1\n0.2,1.5,0\n1.2,-0.5,1\n"
	write(t, "moons.csv", []byte(moons))
	write(t, "moons.splits.csv", []byte("split,row,part\n0,0,train\n0,1,train\n0,2,train\n0,3,valid\n0,4,test\n0,5,test\n"))
	write(t, "moon.csv", []byte("0.4,1\n"))
	write(t, "junk.csv", []byte("a,\"b\n\x00,NaN"))
	write(t, "junk.onnx", []byte("\x08\x07\x12\x02xx"))
	write(t, "rows.txt", []byte("3\n0\n"))
	write(t, "digit.png", []byte("\x89PNG\r\n\x1a\n"))
	require.NoError(t, os.Mkdir("idx", 0o700))
	for name, content := range idxFiles(20, 10) {
		write(t, filepath.Join("idx", name), content)
	}
	succeed(t, "train", "--data", "digits:30,10", "--arch", "mlp:1-10", "--epochs", "1", "--lbfgs", "1", "--out", "tiny.onnx")
	succeed(t, "train", "--data", "moons.csv", "--arch", "mlp:2-1", "--activation", "tanh", "--epochs", "1", "--lbfgs", "5", "--out", "moons.onnx")
	succeed(t, "fit", "--json", "--model", "tiny.onnx", "--data", "digits:30,10", "--method", "nystrom", "--inducing", "3", "-o", "tiny.gp", "--quiet")
	succeed(t, "fit", "--json", "--model", "moons.onnx", "--data", "moons.csv", "--with-inputs", "-o", "moons.gp")
	succeed(t, "evidence", "--json", "--quiet", "--model", "moons.onnx", "--data", "moons.csv", "--optimize", "--per-layer", "-o", "moons.json")
}

// Whatever the flags: an exit status of 0, 1 or 2, or 75 for a device that is full, never a
// panic, at most one line of failure, and no file but those asked for.
func FuzzFlags(f *testing.F) {
	dir := f.TempDir()
	f.Chdir(dir)
	fuzzFiles(f)
	before := listing(f, dir)
	for verb := range 12 {
		for seed := range 12 {
			code := []byte{byte(verb)}
			for k := range seed {
				code = append(code, byte(17*seed+31*k+verb), byte(seed*k+5*verb))
			}
			f.Add(code)
		}
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		args := phrase(code)
		var stdout, stderr bytes.Buffer
		exit := job.Status(&stderr, "gpexplain", option.Flags, run(t.Context(), &stdout, &stderr, args))
		if exit != job.StatusAgain || !strings.Contains(stderr.String(), "/dev/full") {
			require.Contains(t, []int{0, 1, 2}, exit)
		}
		verbose := slices.Contains(args, "--verbose")
		if exit != 0 && !verbose {
			requireOneLine(t, stderr.String())
		}
		if exit == 2 {
			require.Empty(t, stdout.String(), "%q", args)
		}
		for _, name := range listing(t, dir) {
			require.True(t, slices.Contains(before, name) || strings.HasPrefix(name, "out."), "%q left %s", args, name)
		}
	})
}
