package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/sparse/beam/pipeline"
	"github.com/funcgp/funcgp/sparse/parts"
	"github.com/funcgp/funcgp/sparse/shard"
)

func TestMain(m *testing.M) {
	log.LogLevel = "error"
	var err error
	if programs, err = os.MkdirTemp("", "gpexplain-*"); err == nil {
		err = os.Setenv("TMPDIR", programs) // where Beam leaves a file for each pipeline
	}
	if err != nil {
		panic(err)
	}
	status := ptest.MainRet(m)
	_ = os.RemoveAll(programs)
	os.Exit(status)
}

var (
	programs string // where gpexplain is built, and other temporary files are
	build    = sync.OnceValues(func() (string, error) {
		path := filepath.Join(programs, "gpexplain")
		c := exec.Command("go", "build", "-o", path, "./cmd/gpexplain")
		c.Dir = filepath.Join("..", "..", "..")
		out, err := c.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return path, err
	})
)

// gpexplain runs the command, with which pipelines are compared.
func gpexplain(t *testing.T, args ...string) string {
	t.Helper()
	path, err := build()
	require.NoError(t, err)
	c := exec.Command(path, args...)
	var problem strings.Builder
	c.Stderr = &problem
	out, err := c.Output()
	require.NoError(t, err, "%v: %s", args, problem.String())
	return string(out)
}

// fitted are the flags of a fit of 130 training rows.
var fitted = []string{"--data", "digits:800,100", "--train-count", "130", "--method", "nystrom", "--inducing", "24", "--quiet"}

// with returns flags before those of a fit.
func with(args []string, more ...string) []string { return append(more, args...) }

// requireSame compares two lines of JSON up to sums of 130 rows in another order, through a
// factorization.
func requireSame(t *testing.T, want, got string) {
	t.Helper()
	testkit.RequireSameJSON(t, want, got, 1e-10)
}

// numbered is 1 to 64 parts.
var numbered = []int{1, 2, 7, 64}

// A pipeline of any number of parts, with the sums in one tile or in many, gives the posterior
// of one process: its predictions, evidence, calibration and explanations. Explanations by a
// pipeline of any number of parts are those of one process too, with the same terms listed.
func TestFitAndExplain(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	gpexplain(t, with(fitted, "fit", "--refit=false", "-o", file("whole.gp"))...)
	gpexplain(t, with(fitted, "fit", "--select-only", "-o", file("z.gp"))...)
	question := []string{"--index", "6,24", "--top", "20"}
	asked := func(posterior string) string {
		return gpexplain(t, with(question, "explain", "--json", "--quiet", "--posterior", file(posterior))...)
	}
	want := strings.Split(strings.TrimSpace(asked("whole.gp")), "\n")
	same := func(text string) {
		t.Helper()
		got := strings.Split(strings.TrimSpace(text), "\n")
		require.Len(t, got, len(want))
		for i := range want {
			requireSame(t, want[i], got[i])
		}
	}
	for i, n := range numbered {
		f := &pipeline.Fit{FitOptions: pipeline.FitOptions{Inducing: file("z.gp")}, Parts: n, Out: file("all.gp")}
		if i%2 == 1 {
			f.Most, f.Dir = 50, dir // of 300 entries in rows of 24 to 1
		}
		_, err := f.Run(t.Context(), "prism")
		require.NoError(t, err)
		same(asked("all.gp"))
		e := &pipeline.Explain{TermsOptions: parts.TermsOptions{Posterior: file("whole.gp"), Question: parts.Question{Rows: parts.Rows{Index: "6,24"}, Top: 20}}, Parts: n, Out: file("all.terms")}
		require.NoError(t, e.Run(t.Context(), "prism"))
		same(gpexplain(t, "merge", "--json", "--quiet", file("all.terms")))
	}
	f := &pipeline.Fit{FitOptions: pipeline.FitOptions{Inducing: file("z.gp")}, Parts: 3, Out: file("all.gp")}
	report, err := f.Run(t.Context(), "direct")
	require.NoError(t, err)
	require.Equal(t, 130, report.Examples)
	same(asked("all.gp"))
	one := gpexplain(t, "predict", "--json", "--quiet", "--index", "24", "--posterior", file("whole.gp"))
	all := gpexplain(t, "predict", "--json", "--quiet", "--index", "24", "--posterior", file("all.gp"))
	requireSame(t, strings.SplitN(one, "\n", 2)[0], strings.SplitN(all, "\n", 2)[0])
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 4, "files of parts are left")
}

// A refit takes a pipeline for each round, and ends with the posterior of one process.
func TestRefit(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	args := []string{"--data", "digits:400,50", "--train-count", "40", "--method", "nystrom", "--inducing", "8", "--prior-precision", "40", "--refit", "--quiet"}
	gpexplain(t, with(args, "fit", "--calibrate", "none", "-o", file("whole.gp"))...)
	gpexplain(t, with(args, "fit", "--select-only", "-o", file("z.gp"))...)
	f := &pipeline.Fit{FitOptions: pipeline.FitOptions{Inducing: file("z.gp"), Calibrate: "none"}, Parts: 2, Out: file("all.gp")}
	_, err := f.Run(t.Context(), "prism")
	require.NoError(t, err)
	requireSame(t, gpexplain(t, "explain", "--json", "--posterior", file("whole.gp")), gpexplain(t, "explain", "--json", "--posterior", file("all.gp")))
}

// numbersFn hands on what a tile says.
type numbersFn struct{}

func (*numbersFn) ProcessElement(first int, tile *sparse.Tile) int {
	if tile.First() != first {
		return -1
	}
	return tile.Len()
}

func init() { register.DoFn2x1[int, *sparse.Tile, int](&numbersFn{}) }

// pass is a pass over 130 rows with inducing examples that z names.
func pass(t *testing.T, dir string) pipeline.Pass {
	t.Helper()
	z := filepath.Join(dir, "z.gp")
	gpexplain(t, with(fitted, "fit", "--select-only", "-o", z)...)
	o := pipeline.FitOptions{Inducing: z}
	fit, err := funcgp.OpenPass(t.Context(), z, nil)
	require.NoError(t, err)
	defer fit.Close()
	id, err := fit.Identity(t.Context())
	require.NoError(t, err)
	return pipeline.Pass{FitOptions: o, Dir: dir, Identity: id}
}

// Every tile is the sum over all rows of the parts, and there is one for each key.
func TestSums(t *testing.T) {
	p := pass(t, t.TempDir())
	for most, tiles := range map[int]int{0: 1, 100: 4} { // rows of 24 to 1 entries: 4, 6, 9 and 5 rows
		p.Most = most
		q, s, in := ptest.CreateList([]shard.Part{{Number: 2, Of: 5}, {Number: 0, Of: 5}, {Number: 4, Of: 5}})
		sums := pipeline.Sums(s, in, p)
		passert.Count(s, sums, "tiles", tiles)
		passert.EqualsList(s, beam.ParDo(s, &numbersFn{}, sums), slices.Repeat([]int{3 * 26}, tiles))
		require.NoError(t, ptest.Run(q))
	}
}

// Parts that the rows do not have, and workers that find another pass or posterior, make the
// pipeline fail with an error that says so.
func TestWorkersRefuse(t *testing.T) {
	dir := t.TempDir()
	p := pass(t, dir)
	refused := func(problem string, part shard.Part, build func(s beam.Scope, in beam.PCollection)) {
		t.Helper()
		q, s, in := ptest.CreateList([]shard.Part{part})
		build(s, in)
		require.ErrorContains(t, ptest.Run(q), problem)
	}
	sums := func(p pipeline.Pass) func(s beam.Scope, in beam.PCollection) {
		return func(s beam.Scope, in beam.PCollection) { pipeline.Sums(s, in, p) }
	}
	refused("part 5/3 is of rows beyond the 130 training rows; the parts of N are 0/N to N-1/N", shard.Part{Number: 5, Of: 3}, sums(p))
	refused("there are 130 training rows; split them into at most 130", shard.Part{Number: 0, Of: 131}, sums(p))
	other := p
	other.Identity.Inducing[0]++
	refused("they differ in the inducing examples; all machines need the same files", shard.Part{Number: 0, Of: 1}, sums(other))
	other = p
	other.Inducing = filepath.Join(dir, "none.gp")
	refused("none.gp: the inducing examples cannot be opened", shard.Part{Number: 0, Of: 1}, sums(other))
	gp := filepath.Join(dir, "a.gp")
	gpexplain(t, with(fitted, "fit", "--refit=false", "--calibrate", "none", "-o", gp)...)
	refused("a worker finds another posterior than where the pipeline was started; all machines need the same files", shard.Part{Number: 0, Of: 1}, func(s beam.Scope, in beam.PCollection) {
		pipeline.Terms(s, in, parts.TermsOptions{Posterior: gp}, "0123")
	})
}

// What is wrong is one line, which names it, before a pipeline begins or after, and leaves no
// file.
func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	z, out := pass(t, dir).Inducing, filepath.Join(dir, "out")
	fit := func(f pipeline.Fit) error {
		f.Out = out
		_, err := f.Run(t.Context(), "prism")
		return err
	}
	gone, err := os.ReadFile(z)
	require.NoError(t, err)
	damaged := filepath.Join(dir, "damaged.gp")
	gone[len(gone)/2] ^= 1
	require.NoError(t, os.WriteFile(damaged, gone, 0o600))
	for problem, err := range map[string]error{
		"--parts 131: there are 130 training rows": fit(pipeline.Fit{FitOptions: pipeline.FitOptions{Inducing: z}, Parts: 131}),
		"--parts 0: there are 130 training rows":   fit(pipeline.Fit{FitOptions: pipeline.FitOptions{Inducing: z}}),
		"none.gp: the inducing examples cannot":    fit(pipeline.Fit{FitOptions: pipeline.FitOptions{Inducing: filepath.Join(dir, "none.gp")}, Parts: 1}),
		"damaged.gp: ":                             fit(pipeline.Fit{FitOptions: pipeline.FitOptions{Inducing: damaged}, Parts: 1}),
		"nowhere":                                  fit(pipeline.Fit{FitOptions: pipeline.FitOptions{Inducing: z}, Parts: 1, Dir: filepath.Join(dir, "nowhere")}),
		"--posterior FILE is needed":               (&pipeline.Explain{Parts: 1, Out: out}).Run(t.Context(), "prism"),
		z + `: holds a "gpexplain inducing"`:       (&pipeline.Explain{TermsOptions: parts.TermsOptions{Posterior: z}, Parts: 1, Out: out}).Run(t.Context(), "prism"),
	} {
		require.ErrorContains(t, err, problem)
		require.NotContains(t, job.Message(err.Error()), "\n")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = (&pipeline.Fit{FitOptions: pipeline.FitOptions{Inducing: z}, Parts: 2, Out: out}).Run(ctx, "prism")
	require.ErrorIs(t, err, context.Canceled)
	require.NoFileExists(t, out)
}
