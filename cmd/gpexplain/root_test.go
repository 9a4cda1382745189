package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Wrong without opening any file: exit status 2, whatever files are named.
func TestUsage(t *testing.T) {
	for _, line := range []string{
		"bogus",
		"explain extra",
		"explain --bogus",
		"explain --model",
		"help bogus",
		"help explain more",
		"completion bogus",
		"version extra",
		"inspect --model=",
		"explain --data=",
		"explain --classes=",
		"explain --html=",
		"explain --freeze=",
		"explain --top 0",
		"explain --top -3",
		"explain --top many",
		"explain --top 99999999999999999999",
		"explain --index -1",
		"explain --index 3 --input a.png",
		"explain --invert",
		"explain --invert=maybe --input a.png",
		"explain --index 5-3",
		"explain --index 1,x",
		"explain --all --input a.png",
		"explain --class-names a",
		"explain --class-names a,a",
		"explain --id=",
		"explain --csv a.csv --html a.csv",
		"explain --terms all",
		"explain --contrast 4",
		"explain --contrast 4,4",
		"explain --contrast a,b",
		"explain --contrast 4,5 --classes 4,9",
		"explain --html a --csv a",
		"explain --html ./a --csv a",
		"explain --html a.csv --data a.csv",
		"explain --html m.onnx --model m.onnx",
		"explain --csv a --input a",
		"explain --html -",
		"explain --refit=maybe",
		"explain --model missing.onnx --prior-precision 0",
		"explain --prior-precision -1",
		"explain --prior-precision NaN",
		"explain --prior-precision Inf",
		"explain --prior-precision 1e-320",
		"explain --prior-precision x",
		"explain --noise-variance 0",
		"explain --noise-variance -1",
		"explain --likelihood bernoulli --noise-variance 1",
		"explain --likelihood student",
		"explain --likelihood gaussian --classes 4,9",
		"explain --likelihood bernoulli --classes 3,4,9",
		"explain --classes 4",
		"explain --classes 4,4",
		"explain --classes 4,,9",
		"explain --classes four",
		"explain --train-count 0",
		"explain --train-count -5",
		"explain --train-count 5 --train-index missing",
		"explain --data a.csv --split -1",
		"explain --data a.csv --split 0 --test-data b.csv",
		"explain --split 0",
		"explain --target y",
		"explain --data mnist --test-data b.csv",
		"explain --data digits:x",
		"explain --data digits:1,2,3",
		"explain --data digits:-4",
		"explain --data digits:99999999999",
		"explain --workers 0",
		"explain --workers -1",
		"explain --workers 1000000000",
		"explain --max-memory lots",
		"explain --max-memory -1GB",
		"explain --max-memory 0",
		"explain --seed -1",
		"explain --quiet --verbose",
		"explain --profile heap",
		"importances --top 0",
		"importances --html a --train-index a",
		"audit --top 0",
		"audit --html a --csv a",
		"audit --csv a --posterior a",
		"audit --calibrate some",
		"acquire",
		"forget",
		"forget 1",
		"forget 1 2 -o a --posterior b",
		"forget 1, -o a --posterior b",
		"forget 1,1 -o a --posterior b",
		"forget 1 -o a --posterior a",
		"forget 1 -o a --posterior b --method exact",
		"acquire --pool a --top 0",
		"acquire --pool a --batch -1",
		"acquire --pool a --csv a",
		"predict --index -1",
		"predict --index 1 --test-index missing",
		"predict --link fast",
		"predict --samples 0 --link mc",
		"predict --samples 10",
		"predict --link exact --likelihood categorical",
		"predict --link probit --likelihood poisson",
		"validate --tolerance 0",
		"validate --tolerance NaN",
		"explain --method magic",
		"explain --method=",
		"explain --inducing 5",
		"explain --select uniform",
		"explain --method parameters --inducing 5",
		"explain --method nystrom --inducing 0",
		"explain --method nystrom --select best",
		"explain --posterior=",
		"explain --posterior a --html a",
		"evidence --posterior a --optimize",
		"fit",
		"fit --out=",
		"fit -o -",
		"fit -o a --posterior b",
		"fit -o a --model a",
		"fit -o a --method nystrom --checkpoint a",
		"fit -o a --checkpoint b",
		"fit -o a --method subset --checkpoint b",
		"fit -o a --tune-prior=best",
		"predict --tune-prior best",
		"predict --tune-prior=",
		"train",
		"train --model a.onnx --out b.onnx",
		"train --out a --arch vgg",
		"train --out a --arch mlp:",
		"train --out a --arch mlp:3-",
		"train --out a --arch mlp:0",
		"train --out a --arch mlp:99999999",
		"train --out a --activation sin",
		"train --out a --epochs -1",
		"train --out a --lbfgs -1",
		"train --out a --batch 0",
		"train --out a --lr 0",
		"train --out a --lr NaN",
		"train --out a.csv --data a.csv",
	} {
		dir := t.TempDir()
		t.Chdir(dir)
		require.NotEmpty(t, refuse(t, 2, strings.Fields(line)...), line)
		require.Empty(t, listing(t, dir), line)
	}
}

// The message of a wrong word says what may have been meant, or where help is.
func TestUsageMessages(t *testing.T) {
	for line, want := range map[string]string{
		"explain --png a":                      "--png is gone; write a page by --html and print it",
		"explain --bogus":                      "unknown flag: --bogus; see gpexplain explain --help",
		"explain --tpo 3":                      "unknown flag: --tpo; did you mean --top?",
		"explain -top 3":                       "unknown flag: -top; did you mean --top?",
		"inspect --clases 4,9":                 "unknown flag: --clases; see gpexplain inspect --help",
		"evidence --nductng 3":                 "unknown flag: --nductng; did you mean --inducing?",
		"explain --top x":                      "invalid argument \"x\" for \"--top\" flag; see gpexplain explain --help",
		"bogus":                                "there is no verb \"bogus\"; see gpexplain help",
		"help bogus":                           "there is no verb \"bogus\"; see gpexplain help",
		"expalin":                              "there is no verb \"expalin\"; did you mean explain?",
		"help expalin":                         "there is no verb \"expalin\"; did you mean explain?",
		"explain --method nystorm":             "--method \"nystorm\" must be exact, kept, subset, nystrom, parameters or auto; did you mean nystrom?",
		"explain --likelihood normal":          "--likelihood \"normal\" must be gaussian, bernoulli, categorical, poisson, negative-binomial:R or heteroscedastic",
		"explain --likelihood Poisson":         "--likelihood \"Poisson\" must be gaussian, bernoulli, categorical, poisson, negative-binomial:R or heteroscedastic; did you mean poisson?",
		"explain --calibrate held-out":         "--calibrate \"held-out\" must be loo, heldout or none; did you mean heldout?",
		"predict --link probability":           "--link \"probability\" must be exact, qmc, probit, mc or bridge",
		"train --out a --activation thanh":     "--activation \"thanh\" must be relu or tanh; did you mean tanh?",
		"fit -o a --tune-prior evidense":       "--tune-prior \"evidense\" must be loo, evidence or heldout; did you mean evidence?",
		"fit -o a --method nystrom --select k": "--select \"k\" must be uniform, stratified, trace, greedy, rpcholesky, kmeans or strength",
	} {
		require.Equal(t, "gpexplain: "+want+"\n", refuse(t, 2, strings.Fields(line)...), line)
	}
}

var verbs = []string{"explain", "predict", "reconstruct", "importances", "audit", "acquire", "evidence", "validate", "train", "inspect", "fit", "merge", "forget", "export", "card", "serve"}

func TestHelp(t *testing.T) {
	all := succeed(t, "help")
	require.Equal(t, all, succeed(t))
	require.Equal(t, all, succeed(t, "--help"))
	for _, verb := range append(verbs, "version", "completion") {
		require.Contains(t, all, "\n  "+verb)
		help := succeed(t, "help", verb)
		require.Equal(t, help, succeed(t, verb, "--help"), verb)
		require.Contains(t, help, "Usage:")
		for line := range strings.SplitSeq(help, "\n") {
			require.LessOrEqual(t, len([]rune(line)), helpWidth, line)
			require.NotContains(t, line, "`", verb)
		}
	}
	require.NotContains(t, succeed(t, "help", "inspect"), "--classes", "what means nothing to a verb is not listed")
}

// The help of a verb describes at most 15 flags, those that most people need, and with --all each once.
func TestHelpIsShort(t *testing.T) {
	described := regexp.MustCompile(`(?m)^  (?:-\w, |    )--([\w-]+)`)
	for _, verb := range verbs {
		short, all := succeed(t, "help", verb), succeed(t, "help", verb, "--all")
		names := func(help string) (list []string) {
			for _, m := range described.FindAllStringSubmatch(help, -1) {
				list = append(list, m[1])
			}
			return list
		}
		usual, every := names(short), names(all)
		require.LessOrEqual(t, len(usual), 15, "%s: %s", verb, usual)
		require.Subset(t, every, usual)
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(every))), len(every), "%s: %s", verb, every)
		if len(every) > len(usual) {
			require.Contains(t, short, fmt.Sprintf("%d more: gpexplain help %s --all\n", len(every)-len(usual), verb))
		}
		for line := range strings.SplitSeq(all, "\n") {
			require.LessOrEqual(t, len([]rune(line)), helpWidth, line)
		}
	}
	known := " "
	for _, verb := range verbs {
		known += strings.Join(described.FindAllString(succeed(t, "help", verb, "--all"), -1), " ") + " "
	}
	for _, g := range groups {
		for _, name := range strings.Fields(g.usual + " " + g.more + " " + usualOwn) {
			require.Contains(t, known, "--"+name+" ", "a group names a flag that no verb has")
		}
	}
}

// A manual page is written for every verb, and has the words of its help.
func TestManual(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "man1")
	require.Empty(t, succeed(t, "man", dir))
	require.Len(t, listing(t, dir), len(verbs)+1)
	macro := regexp.MustCompile(`^\.(TH|SH|nf)`)
	for _, name := range listing(t, dir) {
		page := read(t, filepath.Join(dir, name))
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
				require.Regexp(t, macro, line, name)
			}
		}
	}
	page := read(t, filepath.Join(dir, "gpexplain-explain.1"))
	require.Regexp(t, `\n\\&.*\\-\\-top K +list the K largest terms \(default 8\)\n`, page)
	require.Contains(t, page, `\-\-prior\-precision`)
	require.Contains(t, refuse(t, 1, "man", filepath.Join(dir, "gpexplain.1")), "gpexplain.1: ")
	require.Contains(t, refuse(t, 2, "man"), "accepts 1 arg")
}

func TestVersion(t *testing.T) {
	require.Regexp(t, `^gpexplain \S+ go1\.\S+ \w+/\w+\n$`, succeed(t, "version"))
	require.Equal(t, succeed(t, "version"), succeed(t, "--version"))
	v := decode[map[string]string](t, succeed(t, "version", "--json"))
	require.Contains(t, v, "version")
	require.Contains(t, v, "go")
}

func TestCompletion(t *testing.T) {
	for shell, word := range map[string]string{"bash": "__start_gpexplain", "zsh": "#compdef gpexplain", "fish": "complete -c gpexplain", "powershell": "Register-ArgumentCompleter"} {
		require.Contains(t, succeed(t, "completion", shell), word)
	}
	require.Contains(t, succeed(t, "completion"), "bash")
	complete := func(args ...string) string {
		return gpexplain(t.Context(), append([]string{"__complete"}, args...)...).stdout
	}
	require.Contains(t, complete("exp"), "explain")
	require.Contains(t, complete("explain", "--ter"), "--terms")
	require.Contains(t, complete("explain", "--terms", ""), "posterior\nraw\n")
	require.Contains(t, complete("predict", "--link", "p"), "probit\n")
	require.Contains(t, complete("help", ""), "evidence\n")
}

func TestProfile(t *testing.T) {
	for kind, name := range map[string]string{"cpu": "cpu.pprof", "mem": "mem.pprof", "trace": "trace.out"} {
		dir := t.TempDir()
		t.Chdir(dir)
		succeed(t, small("evidence", "--profile", kind)...)
		require.Equal(t, []string{name}, listing(t, dir), "in the current directory")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "cpu.pprof"), 0o700))
	require.Contains(t, refuse(t, 1, small("evidence", "--profile", "cpu")...), "cannot write cpu.pprof: is a directory")
}
