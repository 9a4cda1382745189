package pipeline

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/funcgp/funcgp/cmd/gpexplain/parts"
	"github.com/funcgp/funcgp/sparse/shard"
)

// A Fit is a fit whose passes over the training rows a runner of Beam splits.
type Fit struct {
	Inducing string   // file that gpexplain fit --select-only wrote
	Args     []string // more flags of gpexplain fit, such as --data where that has moved
	Parts    int      // at most as many as there are training rows
	Out      string   // file of the posterior
	// Dir is a directory that all machines share, for files of parts; "" makes one beside
	// Out and removes it in the end.
	Dir       string
	Calibrate string    // loo, heldout or none, as of gpexplain merge
	Notes     io.Writer // what there is to say of the posterior; nil for nowhere
	// Most is the number of matrix entries of a tile; see Pass.
	Most int
}

// Run makes the pass of the fit on a runner, and writes the posterior. Where it fails, there is no
// file Out.
func (f *Fit) Run(ctx context.Context, runner string) error {
	dir, remove, err := f.directory()
	if err != nil {
		return err
	}
	defer remove()
	defer fits.forget()
	inducing, err := filepath.Abs(f.Inducing)
	if err != nil {
		return err
	}
	return f.pass(ctx, runner, inducing, dir)
}

// directory is where files of parts go, and a function that removes it.
func (f *Fit) directory() (dir string, remove func(), err error) {
	if f.Dir != "" {
		// Runs that go on at the same time have a directory each.
		if dir, err = filepath.Abs(f.Dir); err == nil {
			dir, err = os.MkdirTemp(dir, "fit-*")
		}
	} else if dir, err = filepath.Abs(filepath.Dir(f.Out)); err == nil {
		dir, err = os.MkdirTemp(dir, "."+filepath.Base(f.Out)+".parts-*")
	}
	// What cannot be removed stays, and does no harm.
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// pass makes one pass and merges it.
func (f *Fit) pass(ctx context.Context, runner, inducing, dir string) error {
	args := append([]string{"--inducing-file", inducing}, f.Args...)
	p := Pass{Args: args, Dir: dir, Most: f.Most}
	err := fits.with(ctx, args, func(fit *parts.Fit) error {
		if n := fit.Len(); f.Parts < 1 || f.Parts > n {
			return tooMany(f.Parts, n)
		}
		var err error
		p.Identity, err = fit.Identity(ctx)
		return err
	})
	if err != nil {
		return err
	}
	err = run(ctx, runner, f.Parts, func(s beam.Scope, in beam.PCollection) {
		WriteTiles(s, Sums(s, in, p), dir)
	})
	if err != nil {
		return err
	}
	fits.forget() // merging takes its own
	sums, err := ReadTiles(dir)
	if err != nil {
		return err
	}
	var files []string
	for i := range f.Parts {
		files = append(files, partFile(dir, shard.Part{Number: i, Of: f.Parts}))
	}
	merge := append([]string{"--inducing-file", inducing}, f.Args...)
	if f.Calibrate != "" {
		merge = append(merge, "--calibrate", f.Calibrate)
	}
	return parts.Merge(ctx, merge, f.Notes, files, sums, f.Out)
}

// Explain are explanations whose pass over the training rows a runner of Beam splits.
type Explain struct {
	Args  []string // flags of gpexplain explain that go with --shard, with absolute paths
	Parts int      // at most as many as there are training rows
	Out   string   // file of the terms, on a disk that all machines share
}

// Run makes the pass on a runner and writes the file, of which gpexplain merge prints the
// explanation. Where it fails, there is no file Out.
func (e *Explain) Run(ctx context.Context, runner string) error {
	out, err := filepath.Abs(e.Out)
	if err != nil {
		return err
	}
	defer openings.forget()
	var posterior string
	var n int
	err = openings.with(ctx, e.Args, func(t *parts.Terms) error {
		if n = t.Len(); e.Parts < 1 || e.Parts > n {
			return tooMany(e.Parts, n)
		}
		posterior = t.Posterior()
		return nil
	})
	if err != nil {
		return err
	}
	return run(ctx, runner, e.Parts, func(s beam.Scope, in beam.PCollection) {
		WriteTerms(s, Terms(s, in, e.Args, posterior), n, out)
	})
}

// run runs the pipeline that build adds to n parts.
func run(ctx context.Context, runner string, n int, build func(s beam.Scope, in beam.PCollection)) error {
	p, s := beam.NewPipelineWithRoot()
	list := make([]shard.Part, n)
	for i := range list {
		list[i] = shard.Part{Number: i, Of: n}
	}
	// Without a shuffle, runners compute all parts in the one bundle that makes them.
	build(s, beam.Reshuffle(s, beam.CreateList(s, list)))
	_, err := beam.Run(ctx, runner, p)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return runError(runner, err)
}
