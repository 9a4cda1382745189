package pipeline

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/sparse/parts"
	"github.com/funcgp/funcgp/sparse/shard"
)

// FitOptions are the options of a fit in parts. They are sent to the workers as JSON.
type FitOptions struct {
	funcgp.OpenOptions
	Inducing  string // file of the pass, which gpexplain fit --select-only or funcgp.Pass.Save wrote
	Calibrate string // as in funcgp.FitOptions
}

// A Fit is a fit whose passes over the training rows a runner of Beam splits.
type Fit struct {
	FitOptions
	Parts int    // at most as many as there are training rows
	Out   string // file of the posterior
	// Dir is a directory that all machines share, for files of parts; "" makes one beside
	// Out and removes it in the end.
	Dir string
	// Most is the largest number of matrix entries in a tile, unless a single row has more; see Pass.
	Most int
}

// Run makes the pass of the fit on a runner, writes the posterior, and returns the report of
// the fit. If it fails, there is no file Out.
func (f *Fit) Run(ctx context.Context, runner string) (*result.Fit, error) {
	dir, remove, err := directory(f.Dir, f.Out)
	if err != nil {
		return nil, err
	}
	defer remove()
	defer fits.forget()
	p := Pass{FitOptions: f.FitOptions, Dir: dir, Most: f.Most}
	if err := absolute(&p.Inducing, &p.Model.File, &p.Data.Source); err != nil {
		return nil, err
	}
	err = fits.with(ctx, text(&p.FitOptions), func(fit *funcgp.Pass) error {
		if n := fit.Len(); f.Parts < 1 || f.Parts > n {
			return tooMany(f.Parts, n)
		}
		var err error
		p.Identity, err = fit.Identity(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = run(ctx, runner, f.Parts, func(s beam.Scope, in beam.PCollection) {
		WriteTiles(s, Sums(s, in, p), dir)
	})
	if err != nil {
		return nil, err
	}
	fits.forget() // the merge opens its own pass
	sums, err := ReadTiles(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for i := range f.Parts {
		files = append(files, partFile(dir, shard.Part{Number: i, Of: f.Parts}))
	}
	open := p.OpenOptions
	open.Fit.Calibrate = p.Calibrate
	post, err := funcgp.Merge(ctx, files, sums, p.Inducing, dir, &open)
	if err != nil {
		return nil, err
	}
	defer post.Close()
	report := post.Report(ctx)
	return &report, post.Save(ctx, f.Out, nil)
}

// absolute makes paths of files absolute, because workers run in other directories. Other names stay.
func absolute(names ...*string) (err error) {
	for _, name := range names {
		if _, there := os.Stat(*name); there == nil && err == nil {
			*name, err = filepath.Abs(*name)
		}
	}
	return err
}

// directory makes a directory for files of workers, in one that all machines share or, for "",
// beside out, and returns a function that removes it.
func directory(shared, out string) (dir string, remove func(), err error) {
	if shared != "" {
		// Each run has a directory of its own, because several may run at the same time.
		if dir, err = filepath.Abs(shared); err == nil {
			dir, err = os.MkdirTemp(dir, "fit-*")
		}
	} else if dir, err = filepath.Abs(filepath.Dir(out)); err == nil {
		dir, err = os.MkdirTemp(dir, "."+filepath.Base(out)+".parts-*")
	}
	return dir, func() {
		// Rename the directory before removing it, so that a worker that still runs cannot write files into it.
		gone := dir + ".gone"
		if os.Rename(dir, gone) != nil {
			gone = dir
		}
		_ = os.RemoveAll(gone) // files that cannot be removed do no harm
	}, err
}

// An Explain computes explanations in a pass over the training rows that a runner of Beam splits.
type Explain struct {
	parts.TermsOptions
	Parts int    // at most as many as there are training rows
	Out   string // file of the terms, on a disk that all machines share
}

// Run makes the pass on a runner and writes the file, from which gpexplain merge prints the
// explanation. If it fails, there is no file Out.
func (e *Explain) Run(ctx context.Context, runner string) error {
	dir, remove, err := directory("", e.Out)
	if err != nil {
		return err
	}
	defer remove()
	defer openings.forget()
	o := e.TermsOptions
	if err := absolute(&o.Posterior, &o.Model.File, &o.Data.Source, &o.Rows.TestIndex, &o.Rows.Input); err != nil {
		return err
	}
	var posterior string
	var n int
	err = openings.with(ctx, text(&o), func(t *parts.Terms) error {
		if n = t.Len(); e.Parts < 1 || e.Parts > n {
			return tooMany(e.Parts, n)
		}
		posterior = t.Posterior()
		return nil
	})
	if err != nil {
		return err
	}
	// A worker that writes after the run has ended finds no directory. The file of a worker on a
	// machine that does not share the directory is missing here.
	written := filepath.Join(dir, "terms")
	err = run(ctx, runner, e.Parts, func(s beam.Scope, in beam.PCollection) {
		WriteTerms(s, Terms(s, in, o, posterior), n, written)
	})
	if err != nil {
		return err
	}
	terms, err := os.ReadFile(written)
	if err != nil {
		return fmt.Errorf("%s: no worker has written the terms beside it; name with --out a file in a directory that all machines share", e.Out)
	}
	return atomicfile.Write(e.Out, func(w io.Writer) error {
		_, err := w.Write(terms)
		return err
	})
}

// run runs the pipeline that build adds to n parts.
func run(ctx context.Context, runner string, n int, build func(s beam.Scope, in beam.PCollection)) error {
	p, s := beam.NewPipelineWithRoot()
	list := make([]shard.Part, n)
	for i := range list {
		list[i] = shard.Part{Number: i, Of: n}
	}
	// Without a reshuffle, runners compute all parts in the one bundle that creates the list.
	build(s, beam.Reshuffle(s, beam.CreateList(s, list)))
	_, err := beam.Run(ctx, runner, p)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return runError(runner, err)
}
