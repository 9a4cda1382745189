package pipeline

import (
	"context"
	"os"
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/sparse/parts"
	"github.com/funcgp/funcgp/sparse/shard"
)

// A Fit is a fit whose passes over the training rows a runner of Beam splits.
type Fit struct {
	parts.FitOptions
	Parts int    // at most as many as there are training rows
	Out   string // file of the posterior
	// Dir is a directory that all machines share, for files of parts; "" makes one beside
	// Out and removes it in the end.
	Dir string
	// Most is the number of matrix entries of a tile; see Pass.
	Most int
}

// Run makes the pass of the fit on a runner, writes the posterior, and returns what there is to
// say of it. Where it fails, there is no file Out.
func (f *Fit) Run(ctx context.Context, runner string) (*result.Fit, error) {
	dir, remove, err := f.directory()
	if err != nil {
		return nil, err
	}
	defer remove()
	defer fits.forget()
	p := Pass{FitOptions: f.FitOptions, Dir: dir, Most: f.Most}
	if err := absolute(&p.Inducing, &p.Model, &p.Data); err != nil {
		return nil, err
	}
	err = fits.with(ctx, text(&p.FitOptions), func(fit *parts.Fit) error {
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
	fits.forget() // merging takes its own
	sums, err := ReadTiles(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for i := range f.Parts {
		files = append(files, partFile(dir, shard.Part{Number: i, Of: f.Parts}))
	}
	return parts.Merge(ctx, &p.FitOptions, files, sums, f.Out)
}

// absolute makes paths of files absolute, as workers that run elsewhere take them. Other names stay.
func absolute(names ...*string) (err error) {
	for _, name := range names {
		if _, there := os.Stat(*name); there == nil && err == nil {
			*name, err = filepath.Abs(*name)
		}
	}
	return err
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

// Explain are explanations whose pass over the training rows a runner of Beam splits.
type Explain struct {
	parts.TermsOptions
	Parts int    // at most as many as there are training rows
	Out   string // file of the terms, on a disk that all machines share
}

// Run makes the pass on a runner and writes the file, and gpexplain merge prints the
// explanation in it. Where it fails, there is no file Out.
func (e *Explain) Run(ctx context.Context, runner string) error {
	out, err := filepath.Abs(e.Out)
	if err != nil {
		return err
	}
	defer openings.forget()
	o := e.TermsOptions
	if err := absolute(&o.Posterior, &o.Model, &o.Data, &o.Rows.TestIndex, &o.Rows.Input); err != nil {
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
	return run(ctx, runner, e.Parts, func(s beam.Scope, in beam.PCollection) {
		WriteTerms(s, Terms(s, in, o, posterior), n, out)
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
