package campaign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A target is a fuzz test: what the name of a package's folder and of the test are.
type target struct{ module, pkg, name string }

// graph says whether the test is one of networks.
func (t target) graph() bool {
	return strings.HasPrefix(t.pkg, "./linearize") || t.pkg == "./internal/onnx"
}

// fuzzing is the part that runs the fuzz tests which keep chooses.
func fuzzing(name, short string, keep func(target) bool) Part {
	var targets []target
	return Part{name, short, func(ctx context.Context, env *Env) (err error) {
		if targets, err = findTargets(env.Root, keep); err != nil {
			return err
		}
		for _, t := range targets {
			// With -fuzz the program counts branches, which is what leads the fuzzer. go test would keep the corpus
			// in Go's cache of builds, so the program runs without it.
			build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-fuzz=Fuzz", "-o", t.program(env), t.pkg)
			build.Dir = t.module
			if _, err := os.Stat(t.program(env)); err == nil {
				continue
			}
			fmt.Fprintf(env.Log, "%s: builds the tests of %s\n", name, t.pkg)
			if text, err := build.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", t.pkg, err, text)
			}
		}
		return nil
	}, func(ctx context.Context, env *Env, r *Result) error {
		// Turns of a target grow, so that a short run meets all of them; the seed says with which one it
		// begins. Each turn first runs the whole corpus, which a busy machine does not do in ten seconds.
		for turn := 20 * time.Second; ; turn = min(2*turn, 3*time.Minute) {
			for i := range targets {
				t := targets[(uint64(i)+env.Seed)%uint64(len(targets))]
				if deadline, ok := ctx.Deadline(); ok {
					turn = min(turn, time.Until(deadline))
				}
				if turn < time.Second || ctx.Err() != nil {
					return nil
				}
				if err := fuzz(ctx, env, r, t, turn); err != nil {
					return err
				}
			}
		}
	}}
}

// program is the file of the tests of the package.
func (t target) program(env *Env) string {
	return filepath.Join(env.Temp, strings.ReplaceAll(filepath.Join(filepath.Base(t.module), t.pkg), string(filepath.Separator), "_")+".test")
}

var fuzzTest = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F\)`)

// findTargets lists the fuzz tests of the module at root and of those nested in it, in the order of
// their folders.
func findTargets(root string, keep func(target) bool) ([]target, error) {
	var list []target
	module := root
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "testdata" || path != root && strings.HasPrefix(name, ".") {
				return fs.SkipDir
			}
			if !strings.HasPrefix(path+"/", module+"/") {
				module = root
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				module = path
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range fuzzTest.FindAllSubmatch(text, -1) {
			rel, err := filepath.Rel(module, filepath.Dir(path))
			if err != nil {
				return err
			}
			if t := (target{module, "./" + filepath.ToSlash(rel), string(m[1])}); keep(t) {
				list = append(list, t)
			}
		}
		return nil
	})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("campaign: no fuzz tests under %s", root)
	}
	return list, err
}

var executions = regexp.MustCompile(`execs: (\d+)`)

// fuzz runs a fuzz test for a turn, from the package's seeds and the corpus in env.Dir, to which Go
// adds. A failing input, which Go writes to the package's testdata, moves to env.Dir: the finding
// names it.
func fuzz(ctx context.Context, env *Env, r *Result, t target, turn time.Duration) error {
	rel, err := filepath.Rel(env.Root, filepath.Join(t.module, t.pkg))
	if err != nil {
		return err
	}
	kind := filepath.ToSlash(rel) + " " + t.name
	inputs := filepath.Join(t.module, t.pkg, "testdata", "fuzz", t.name)
	before, err := names(inputs)
	if err != nil {
		return err
	}
	// The fuzzer itself ends an input that takes long, and minimizes a failing one for a while; what takes longer
	// hangs.
	within, stop := context.WithTimeout(ctx, turn+2*time.Minute)
	defer stop()
	test := exec.CommandContext(within, t.program(env), "-test.fuzz=^"+t.name+"$", "-test.run=^"+t.name+"$", fmt.Sprintf("-test.fuzztime=%ds", int(turn.Seconds())),
		"-test.fuzzminimizetime=10s", "-test.parallel=1", "-test.fuzzcachedir="+filepath.Join(env.Dir, "corpus", rel))
	test.Dir = filepath.Join(t.module, t.pkg)
	test.Cancel = func() error { return test.Process.Signal(os.Interrupt) }
	test.WaitDelay = 10 * time.Second
	text, err := test.CombinedOutput()
	if test.ProcessState == nil {
		return err
	}
	if all := executions.FindAllSubmatch(text, -1); len(all) > 0 {
		n, err := strconv.ParseInt(string(all[len(all)-1][1]), 10, 64)
		if err != nil {
			return err
		}
		r.Count(kind, n)
	}
	fmt.Fprintf(env.Log, "%s: %s, %d executions in all\n", kind, turn.Round(time.Second), r.Trials[kind])
	if test.ProcessState.Success() || ctx.Err() != nil {
		// A worker that still has its input when the test ends keeps the output open for a while: that is no failure.
		return nil
	}
	after, err := names(inputs)
	if err != nil {
		return err
	}
	kept := ""
	for name := range after {
		if before[name] {
			continue
		}
		kept = filepath.Join(env.Dir, "failing", rel, t.name, name)
		if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(inputs, name), kept); err != nil {
			return err
		}
	}
	if kept == "" && bytes.Contains(text, []byte("context deadline exceeded")) {
		// Go's fuzzer says so, and names no input, where the end of its time meets a worker of a busy machine.
		return nil
	}
	if kept == "" {
		r.Find("%s fails: %s", kind, tail(text))
		return nil
	}
	input, err := os.ReadFile(kept)
	if err != nil {
		return err
	}
	r.Find("%s fails with %.300q: %s", kind, strings.TrimPrefix(string(input), "go test fuzz v1\n"), tail(text))
	return nil
}

// names are the files of a folder; one that is not there has none.
func names(dir string) (map[string]bool, error) {
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	set := map[string]bool{}
	for _, d := range list {
		set[d.Name()] = true
	}
	return set, nil
}

// tail is the part of what a program wrote that says why it failed.
func tail(text []byte) string {
	const most = 600
	if at := bytes.Index(text, []byte("--- FAIL")); at >= 0 {
		text = text[at:]
	}
	return string(text[:min(len(text), most)])
}
