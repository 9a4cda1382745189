// Command gpexplain-beam runs a fit or an explanation of gpexplain in parts on Apache Beam.
//
//	gpexplain fit --select-only --inducing 200 -o z.gp
//	gpexplain-beam fit --inducing-file z.gp --parts 64 -o all.gp
//	gpexplain-beam explain --posterior all.gp --index 24 --parts 64 -o all.terms
//	gpexplain merge all.terms
//
// Without --runner and --endpoint it runs the parts in its own process, on Beam's Prism. Otherwise it
// hands them to a job server or a cluster, whose machines need the files at the same paths.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec/optimized"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/dataflow"

	//lint:ignore SA1019 --runner direct is there for machines on which no port may be opened
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/flink"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/sparse/beam/pipeline"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() { // a second signal ends the process
		<-ctx.Done()
		stop()
	}()
	os.Exit(job.Status(os.Stderr, "gpexplain-beam", option.Flags, run(ctx, os.Stdout, os.Stderr, os.Args[1:])))
}

// runners are the values of --runner.
var runners = []string{"prism", "flink", "dataflow", "direct"}

// beamFlags are the flags of Beam that the help lists.
var beamFlags = []string{"endpoint", "environment_type", "environment_config", "worker_binary", "parallelism", "job_name", "project", "region", "staging_location", "temp_location", "num_workers", "worker_machine_type", "experiments"}

// run executes one command line.
func run(ctx context.Context, stdout, stderr io.Writer, args []string) error {
	root := &cobra.Command{
		Use:   "gpexplain-beam",
		Short: "Run a fit or an explanation of gpexplain in parts on Apache Beam",
		Long: `Gpexplain-beam splits the pass over the training rows of a fit or an explanation into
parts, which a runner of Apache Beam computes and merges: Prism, in this process or as the
job server at --endpoint, or a cluster of Flink or Dataflow. The result is the file that
gpexplain merge writes of parts of gpexplain fit --shard, or takes of parts of gpexplain
explain --shard.

All machines need the same files at the same paths: the inducing examples or the posterior,
the model and the data, and the directory of the result, where files of parts go.

Prism has run it with workers in the command, in processes and in containers. Flink and
Dataflow have not run it yet.`,
		Example: `  gpexplain fit --select-only --inducing 200 -o z.gp
  gpexplain-beam fit --inducing-file z.gp --parts 64 -o all.gp
  gpexplain-beam fit --inducing-file /nfs/z.gp --parts 1000 -o /nfs/all.gp --endpoint localhost:8073 --environment_type loopback
  gpexplain-beam explain --posterior all.gp --index 24 --parts 64 -o all.terms
  gpexplain merge all.terms`,
		SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs, Version: version(),
		RunE: func(c *cobra.Command, _ []string) error {
			initBeam(c) // does not return in a worker
			return c.Help()
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	flags := root.PersistentFlags()
	flags.AddGoFlagSet(flag.CommandLine)
	flags.VisitAll(func(f *pflag.Flag) { f.Hidden = !slices.Contains(beamFlags, f.Name) })
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return job.Usagef("%v", err) })
	root.AddCommand(fitCommand(stderr), explainCommand())
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	ran := false
	for _, c := range root.Commands() {
		verb := c.RunE
		c.Args = cobra.NoArgs
		c.RunE = func(c *cobra.Command, args []string) error {
			ran = true
			// Beam leaves a file for each pipeline among the temporary ones.
			old := os.Getenv("TMPDIR")
			dir, err := os.MkdirTemp("", "gpexplain-beam-*")
			if err == nil {
				err = os.Setenv("TMPDIR", dir)
			}
			if err == nil {
				err = verb(c, args)
			}
			// Files that cannot be removed do no harm.
			_, _ = os.Setenv("TMPDIR", old), os.RemoveAll(dir)
			return err
		}
	}
	err := root.ExecuteContext(ctx)
	if _, ok := errors.AsType[*job.UsageError](err); err != nil && !ran && !ok {
		return job.Usagef("%v", err) // an unknown verb or argument
	}
	return err
}

// version returns the version of the module.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}

// initBeam initializes Beam. In a worker process that a runner started, it does the work, and does
// not return until the runner ends the process.
func initBeam(c *cobra.Command) {
	if beam.Initialized() {
		return
	}
	given := func(name string) bool {
		f := c.Flags().Lookup(name)
		return f != nil && f.Value.String() == "true"
	}
	if given("worker") {
		signal.Reset() // the first one ends it
		go endWithParent()
	}
	beam.Init()
	if !given("verbose") { // what fails is the error of the pipeline too
		slog.SetDefault(slog.New(slog.DiscardHandler))
	}
}

// endWithParent ends a worker once the program that started it has ended. Beam's workers would wait for ever.
func endWithParent() {
	for parent := os.Getppid(); os.Getppid() == parent; {
		time.Sleep(time.Second)
	}
	os.Exit(1)
}

// common are the flags of both verbs.
type common struct {
	runner, out string
	parts       int
	verbose     bool
	open        funcgp.OpenOptions
	memory      string // --max-memory
}

func (s *common) add(c *cobra.Command, what string) {
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&s.out, "out", "o", "", "write "+what+" to `FILE`; needed")
	f.IntVar(&s.parts, "parts", 64, "split the training rows into `N` parts")
	f.StringVar(&s.runner, "runner", "prism", "`RUNNER` of the pipeline: prism, in this process or at --endpoint; flink or dataflow, a cluster; or direct, in this process without the coders")
	f.BoolVar(&s.verbose, "verbose", false, "write what the runner logs to standard error")
	f.StringVar(&s.open.Model.File, "model", "", "the network where it has moved, an ONNX `FILE`")
	f.StringVar(&s.open.Data.Source, "data", "", "the rows where they have moved, as gpexplain takes them")
	f.StringVar(&s.memory, "max-memory", "", "take at most this much memory in a process, a `SIZE` such as 4GiB (default 80 % of what is free)")
}

// begin checks the flags and sets up Beam's.
func (s *common) begin(c *cobra.Command, input string) error {
	empty := ""
	c.LocalNonPersistentFlags().Visit(func(f *pflag.Flag) {
		if f.Value.String() == "" { // from a shell variable that is not set
			empty = f.Name
		}
	})
	var err error
	if s.open.Memory, err = job.ParseBytes("max-memory", s.memory); err != nil {
		return err
	}
	switch {
	case empty != "":
		return job.Usagef("--%s is empty; give it a value or leave it out", empty)
	case !slices.Contains(runners, s.runner):
		return job.Usagef("--runner %s is none of %s", s.runner, strings.Join(runners, ", "))
	case s.out == "":
		return job.Usagef("-o FILE is needed")
	case s.parts < 1:
		return job.Usagef("--parts %d must be at least 1", s.parts)
	case same(s.out, input):
		return job.Usagef("--out and an input both name %s", s.out)
	}
	dir := filepath.Dir(s.out)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s: there is no directory %s to write it to", s.out, dir)
	}
	initBeam(c)
	return setWorker(c)
}

// setWorker makes this program the program of worker processes, unless --worker_binary gives another. It
// does so on Linux only, because workers run Linux. Beam would build one from sources that may be missing.
func setWorker(c *cobra.Command) error {
	if f := c.Flags().Lookup("worker_binary"); f.Changed || runtime.GOOS != "linux" {
		return nil
	}
	path, err := os.Executable()
	if err != nil {
		return err
	}
	return c.Flags().Set("worker_binary", path)
}

func same(a, b string) bool {
	x, err := filepath.Abs(a)
	y, err2 := filepath.Abs(b)
	return err == nil && err2 == nil && x == y
}

func fitCommand(notes io.Writer) *cobra.Command {
	var s common
	var fit pipeline.Fit
	c := &cobra.Command{Use: "fit", Short: "Fit a posterior in parts and write it to a file",
		Long: `Fit computes the sums over the training rows by parts, given the inducing examples that
gpexplain fit --select-only wrote with the match, the mode, the model, the data and the prior,
and writes the posterior that gpexplain fit writes, in one pipeline.`,
		Example: `  gpexplain fit --select-only --inducing 200 -o z.gp
  gpexplain-beam fit --inducing-file z.gp --parts 64 -o all.gp
  gpexplain predict --posterior all.gp --index 24`}
	f := c.Flags()
	f.StringVar(&fit.Inducing, "inducing-file", "", "`FILE` of the inducing examples, which gpexplain fit --select-only wrote; needed")
	s.add(c, "the posterior")
	f.StringVar(&fit.Dir, "dir", "", "`DIR` for files of parts, which all machines share (default that of --out)")
	f.StringVar(&fit.Calibrate, "calibrate", "loo", "scale the covariance by `HOW`, as gpexplain merge does: loo, heldout or none")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if fit.Inducing == "" {
			return job.Usagef("--inducing-file FILE is needed: what gpexplain fit --select-only wrote")
		}
		if !slices.Contains([]string{"loo", "heldout", "none"}, fit.Calibrate) {
			return job.Usagef("--calibrate %s is none of loo, heldout, none", fit.Calibrate)
		}
		if err := s.begin(c, fit.Inducing); err != nil {
			return err
		}
		fit.Parts, fit.Out, fit.OpenOptions = s.parts, s.out, s.open
		posterior, err := fit.Run(c.Context(), s.runner)
		if err != nil {
			return err
		}
		// An error of writing to standard error cannot be reported anywhere.
		if text := report.Basis(posterior); text != "" {
			_, _ = fmt.Fprintln(notes, "basis: "+text)
		}
		for _, w := range posterior.Warnings {
			_, _ = fmt.Fprintln(notes, "warning: "+job.OneLine(w.Error()))
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "wrote %s of %d parts\n", s.out, s.parts)
		return err
	}
	return c
}

func explainCommand() *cobra.Command {
	var s common
	var e pipeline.Explain
	c := &cobra.Command{Use: "explain", Short: "Explain predictions in parts",
		Long: `Explain computes what the training rows contribute to predictions by parts, and writes the
sums and the largest terms to a file, of which gpexplain merge prints what gpexplain explain
prints.`,
		Example: `  gpexplain-beam explain --posterior all.gp --index 24 --parts 64 -o all.terms
  gpexplain merge all.terms`}
	f := c.Flags()
	f.StringVar(&e.Posterior, "posterior", "", "`FILE` of the posterior; needed")
	s.add(c, "the terms")
	f.StringVar(&e.Rows.Index, "index", "", "explain the test rows of this `LIST`, such as 24 or 1,2,5-9 (default the first kept one)")
	f.StringVar(&e.Rows.TestIndex, "test-index", "", "explain the test rows listed in `FILE`, one row number a line")
	f.BoolVar(&e.Rows.All, "all", false, "explain all test rows")
	f.StringVar(&e.Rows.Input, "input", "", "explain the rows of `FILE`, as gpexplain explain takes them")
	f.StringVar(&e.Rows.Invert, "invert", "", "`yes|no`: pictures of --input are dark ink on light paper or not")
	f.IntVar(&e.Top, "top", 8, "list the `K` largest terms")
	f.StringVar(&e.Terms, "terms", "posterior", "list the terms of this `KERNEL`: posterior or raw")
	f.StringVar(&e.Contrast, "contrast", "", "for two classes `A,B`, explain why A rather than B")
	f.StringVar(&e.Calibrate, "calibrate", "", "none leaves the covariance as it is")
	c.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case e.Posterior == "":
			return job.Usagef("--posterior FILE is needed: what gpexplain fit, gpexplain merge or gpexplain-beam fit wrote")
		case e.Top < 1:
			return job.Usagef("--top %d must be at least 1", e.Top)
		}
		if err := s.begin(c, e.Posterior); err != nil {
			return err
		}
		e.Parts, e.Out, e.OpenOptions = s.parts, s.out, s.open
		if err := e.Run(c.Context(), s.runner); err != nil {
			return err
		}
		_, err := fmt.Fprintf(c.OutOrStdout(), "wrote %s of %d parts; gpexplain merge prints the explanation\n", s.out, s.parts)
		return err
	}
	return c
}
