package main

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/testref"
)

// A step is one report of progress.
type step struct {
	stage  string
	number int // of the steps of this stage in a row, from 0
}

// steps runs a command line and tells its progress. The context is cancelled
// at the step of number stop; -1 is never.
func steps(t *testing.T, stop int, args []string) ([]step, ran) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all []step
	hear := func(stage string, _, _ int) {
		if len(all) == stop {
			cancel()
		}
		s := step{stage: stage}
		if k := len(all); k > 0 && all[k-1].stage == stage {
			s.number = all[k-1].number + 1
		}
		all = append(all, s)
	}
	var stdout, stderr bytes.Buffer
	c := console.New(args, &stdout, &stderr)
	c.Listener = heard{c.Listener, hear}
	code := job.Status(&stderr, "gpexplain", option.Flags, runOn(ctx, c))
	return all, ran{code, stdout.String(), stderr.String()}
}

// heard listens to a job in place of the screen.
type heard struct {
	job.Listener
	show func(stage string, done, total int)
}

func (h heard) Show(stage string, done, total int) { h.show(stage, done, total) }

func (h heard) Ended(part string) { h.show(part, 1, 1) }

// breaks are the first and the last step of each stage, of the first and the
// last time that it comes.
func breaks(all []step) []int {
	first, last := map[string][2]int{}, map[string][2]int{}
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1].number > 0 {
			j++
		}
		if _, ok := first[all[i].stage]; !ok {
			first[all[i].stage] = [2]int{i, j}
		}
		last[all[i].stage] = [2]int{i, j}
		i = j + 1
	}
	var at []int
	for stage := range first {
		at = append(at, first[stage][0], first[stage][1], last[stage][0], last[stage][1])
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// A verb that is cancelled in any stage of its progress says so, goes on to no
// later stage and leaves no file: each verb once, and each method by fit or explain. Validate has a test of its own.
func TestCancelAtEveryStage(t *testing.T) {
	testref.Long(t, "takes many whole commands; run without -short")
	dir := t.TempDir()
	small := func(verb string, args ...string) []string {
		return append([]string{verb, "--data", "digits:150,50", "--train-count", "20"}, args...)
	}
	fit := filepath.Join(dir, "fit.gp")
	succeed(t, small("fit", "-o", fit, "--method", "nystrom", "--inducing", "10")...)
	refitted := filepath.Join(dir, "refitted.gp")
	succeed(t, small("fit", "--quiet", "-o", refitted, "--refit")...)
	moons := openReference(t, "categorical")
	of := func(verb string, more ...string) []string {
		return append(append([]string{verb}, moons.args...), more...)
	}
	for name, line := range map[string]struct {
		args []string
		file string // flag of a file that is written
	}{
		"explain":             {small("explain"), "--html"},
		"explain nystrom":     {small("explain", "--method", "nystrom", "--inducing", "10"), "--html"},
		"explain saved":       {[]string{"explain", "--data", "digits:150,50", "--posterior", fit}, "--html"},
		"importances":         {small("importances"), "--html"},
		"audit":               {small("audit"), "--html"},
		"acquire":             {small("acquire", "--pool", "digits:150,50", "--batch", "3"), "--csv"},
		"forget":              {[]string{"forget", "1", "--data", "digits:150,50", "--posterior", refitted}, "-o"},
		"predict categorical": {of("predict", "--refit"), ""},
		"evidence":            {of("evidence"), ""},
		"fit":                 {small("fit", "--refit"), "--out"},
		"fit nystrom":         {small("fit", "--method", "nystrom", "--inducing", "10", "--select", "kmeans", "--tune-prior"), "--out"},
		"fit tuned":           {small("fit", "--tune-prior", "loo", "--train-count", "8", "--calibrate", "none"), "--out"},
		"fit parameters":      {of("fit", "--method", "parameters"), "--out"},
		"train voggn":         {[]string{"train", "--data", "digits:100,100", "--classes", "4,9", "--arch", "mlp:1-1", "--optimizer", "voggn", "--steps", "3"}, "--out"},
		"train":               {[]string{"train", "--data", "digits:100,100", "--classes", "4,9", "--epochs", "2", "--lbfgs", "3"}, "--out"},
	} {
		t.Run(name, func(t *testing.T) {
			args := func(dir string) []string {
				if line.file == "" {
					return line.args
				}
				return append(line.args[:len(line.args):len(line.args)], line.file, filepath.Join(dir, "file"))
			}
			all, r := steps(t, -1, args(t.TempDir()))
			require.Zero(t, r.code, r.stderr)
			for _, at := range breaks(all) {
				in := all[at]
				if in.stage == "write" || in.stage == "predict" && line.file == "" && at >= len(all)-2 {
					continue // the result is out
				}
				dir := t.TempDir()
				done, r := steps(t, at, args(dir))
				require.Equal(t, job.StatusInterrupted, r.code, in)
				require.Equal(t, "gpexplain: interrupted\n", r.stderr, in)
				require.Empty(t, listing(t, dir), in)
				next := at + 1 // the first step of another stage
				for next < len(done) && done[next].number > 0 {
					next++
				}
				require.Len(t, done, next, "%v: later stages began: %v", in, done[at:])
			}
		})
	}
}

// Before any stage too.
func TestCancelBeforeTheFirstStage(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"inspect"}, {"explain", "--html", filepath.Join(dir, "a")}, {"predict"}, {"importances", "--html", filepath.Join(dir, "a")}, {"evidence"}, {"validate"},
		{"fit", "-o", filepath.Join(dir, "a")}, {"train", "--out", filepath.Join(dir, "a")},
	} {
		require.Equal(t, ran{job.StatusInterrupted, "", "gpexplain: interrupted\n"}, gpexplain(ctx, args...), "%q", args)
		require.Empty(t, listing(t, dir))
	}
}

// stopper is a standard output that cancels at its first write.
type stopper struct {
	cancel context.CancelFunc
	writes int
}

// Write implements io.Writer.
func (s *stopper) Write(p []byte) (int, error) {
	s.cancel()
	s.writes++
	return len(p), nil
}

// Predictions end in the middle of the rows that are handled at a time.
func TestPredictStopsAmongRows(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := &stopper{cancel: cancel}
	var stderr bytes.Buffer
	require.Equal(t, job.StatusInterrupted, job.Status(&stderr, "gpexplain", option.Flags, run(ctx, out, &stderr, []string{"predict", "--data", "digits:400,2000", "--train-count", "60"})))
	require.Equal(t, "gpexplain: interrupted\n", stderr.String())
	require.Equal(t, 1, out.writes)
}
