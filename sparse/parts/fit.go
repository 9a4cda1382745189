// Package parts computes parts of a fit, of explanations and of an audit as gpexplain fit --shard,
// explain --shard and audit --shard do, and merges those of a fit as gpexplain merge does, in the process of a
// program that hands the parts out by itself, such as an engine of dataflow.
//
//	o := &parts.FitOptions{Inducing: "z.gp"} // which gpexplain fit --select-only wrote
//	fit, err := parts.OpenFit(ctx, o)
//	sums, err := fit.Part(ctx, shard.Part{Number: 3, Of: 64}, "part3.rows") // in any process
//	err = total.Merge(sums)                                                // of all parts
//	report, err := parts.Merge(ctx, o, files, total, "all.gp")
//
// Options go to another process as JSON, where they open the same model and data. Errors and
// warnings name an option by the flag of gpexplain that says the same. A value is used by one
// goroutine at a time.
package parts

import (
	"cmp"
	"context"
	"slices"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/sparse/shard"
)

// FitOptions are the options of a fit in parts.
type FitOptions struct {
	funcgp.OpenOptions
	Inducing  string // file of the inducing examples, which gpexplain fit --select-only wrote; of Merge "" is where it was
	Calibrate string // of Merge: loo, heldout or none, as of funcgp.FitOptions
}

// open returns flags that say where the model and the data are now that a file remembers, and a job to open them.
func open(o *funcgp.OpenOptions, path, calibrate string) (*problem.Flags, *job.Job, error) {
	f := &problem.Flags{Model: problem.ModelFlags{ModelOptions: o.Model}, Data: problem.DataFlags{DataOptions: o.Data}}
	f.Task.Memory, f.Task.Calibrate = o.Memory, calibrate
	if err := f.Check(path); err != nil {
		return nil, nil, err
	}
	c := job.New(job.Progress(o.Progress))
	c.Words = option.Flags
	return f, c, nil
}

// A Fit is a pass over the training rows of a fit, and a process computes some parts of it.
type Fit struct {
	job   *job.Job
	pass  *inference.Pass
	split *int
}

// OpenFit opens the inducing examples, the model and the data of a pass. Files that are missing
// or have changed are an error that names them.
func OpenFit(ctx context.Context, o *FitOptions) (*Fit, error) {
	if o.Inducing == "" {
		return nil, job.Usagef("{inducing-file} FILE is needed: what {fit select-only} wrote")
	}
	flags, c, err := open(&o.OpenOptions, o.Inducing, "")
	if err != nil {
		return nil, err
	}
	p, err := problem.OpenFile(ctx, c, flags, o.Inducing, problem.InducingFile)
	f := &Fit{job: c, split: flags.Data.Split}
	if err == nil {
		f.pass, err = inference.LoadPass(ctx, c, p)
	}
	if err != nil {
		c.Close()
		return nil, problem.LessMemory(err, false)
	}
	return f, nil
}

// Close closes the files. The Fit must not be used any more.
func (f *Fit) Close() { f.job.Close() }

// Len is the number of training rows.
func (f *Fit) Len() int { return f.pass.Len() }

// Identity is what all parts must have in common, whichever process computes them.
func (f *Fit) Identity(ctx context.Context) (shard.Identity, error) {
	return f.pass.Identity(ctx, f.split)
}

// Part computes a part of the pass. It writes the part's file without the sums, and returns
// the sums. A part without rows is an error.
func (f *Fit) Part(ctx context.Context, part shard.Part, path string) (*sparse.Sums, error) {
	sums, err := f.pass.WriteApart(ctx, part, path, f.split)
	if err != nil {
		return nil, problem.LessMemory(err, false)
	}
	return sums, nil
}

// Merge makes a posterior of the files of all parts of a pass and their sums together, and
// writes it to the file out as gpexplain merge does. It returns what there is to say of the
// posterior.
func Merge(ctx context.Context, o *FitOptions, files []string, sums *sparse.Sums, out string) (*result.Fit, error) {
	calibrate := cmp.Or(o.Calibrate, "loo")
	if !slices.Contains(inference.Calibrations, calibrate) {
		return nil, job.NotOneOf("calibrate", calibrate, inference.Calibrations)
	}
	flags, c, err := open(&o.OpenOptions, o.Inducing, "")
	if err != nil {
		return nil, err
	}
	defer c.Close()
	set, err := shard.OpenApart(files, sums)
	if err != nil {
		return nil, err
	}
	p, q, err := inference.MergeSet(ctx, c, flags, set, o.Inducing, out, calibrate)
	if err != nil {
		return nil, problem.LessMemory(err, false)
	}
	report := q.Report(p, c.Warnings)
	return &report, q.Save(ctx, out, p, report, inference.SaveOptions{Split: flags.Data.Split})
}
