// Package parts computes parts of explanations and of an audit as gpexplain explain --shard and audit --shard do, and
// merges them as gpexplain merge does, in the process of a program that hands the parts out by itself, such as an engine
// of dataflow. Parts of a fit are those of a funcgp.Pass.
//
//	terms, err := parts.OpenTerms(ctx, o)
//	part, err := terms.Part(ctx, shard.Part{Number: 3, Of: 64}) // in any process
//	total, err = total.Add(part)                               // of all parts
//	err = total.Write("all.terms")                             // for gpexplain merge
//
// Options go to another process as JSON, where they open the same model and data. Errors and warnings name an option by
// the flag of gpexplain that says the same. A value is used by one goroutine at a time.
package parts

import (
	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/problem"
)

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
