// Package parts computes parts of a fit and of explanations as gpexplain fit --shard and
// explain --shard do, and merges those of a fit as gpexplain merge does, in the process of a
// program that hands the parts out by itself, such as an engine of dataflow.
//
//	fit, err := parts.OpenFit(ctx, []string{"--inducing-file", "z.gp"}, nil)
//	sums, err := fit.Part(ctx, shard.Part{Number: 3, Of: 64}, "part3.rows") // in any process
//	err = total.Merge(sums)                                                // of all parts
//	err = parts.Merge(ctx, nil, nil, files, total, "all.gp")
//
// Arguments are flags as the verb of the command takes them, so that a process that has
// them opens the same model and data. A value is used by one goroutine at a time.
package parts

import (
	"context"
	"encoding"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/internal/terms"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/sparse/shard"
)

// parse reads the flags of a verb, which speaks on notes, nil for nowhere.
func parse(verb string, args []string, notes io.Writer, common *problem.Flags, add func(c *cobra.Command), check func(c *cobra.Command) error) (*console.Console, error) {
	if notes == nil {
		notes = io.Discard
	}
	con := console.New(args, io.Discard, notes)
	c := &cobra.Command{Use: verb}
	add(c)
	flags.Problem(c, con, common, true)
	if err := c.ParseFlags(args); err != nil {
		return nil, job.Usagef("%v", err)
	}
	if left := c.Flags().Args(); len(left) > 0 {
		return nil, job.Usagef("%s takes no argument %s", verb, left[0])
	}
	if err := flags.CheckProblem(c, common); err != nil {
		return nil, err
	}
	if err := check(c); err != nil {
		return nil, err
	}
	con.Begin()
	return con, nil
}

// A Fit is a pass over the training rows of a fit, of which a process computes some parts.
type Fit struct {
	con   *console.Console
	pass  *inference.Pass
	split *int
}

// OpenFit opens the inducing examples, the model and the data of a pass. args are flags of
// gpexplain fit that go with --inducing-file, which is needed. Files that are missing or have
// changed are an error that names them. What there is to say of the data goes to notes, if
// that is not nil.
func OpenFit(ctx context.Context, args []string, notes io.Writer) (*Fit, error) {
	var common problem.Flags
	var file string
	con, err := parse("fit", args, notes, &common,
		func(c *cobra.Command) {
			c.Flags().StringVar(&file, "inducing-file", "", "")
		}, func(c *cobra.Command) error {
			if file == "" {
				return job.Usagef("--inducing-file FILE is needed: what gpexplain fit --select-only wrote")
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	f := &Fit{con: con, split: common.Data.Split}
	p, err := problem.OpenFile(ctx, con.Job, &common, file, problem.InducingFile)
	if err == nil {
		f.pass, err = inference.LoadPass(ctx, con.Job, p)
	}
	if err != nil {
		con.Close()
		return nil, problem.InFlags(err, false)
	}
	return f, nil
}

// Close closes the files. The Fit must not be used any more.
func (f *Fit) Close() { f.con.Close() }

// Len is the number of training rows.
func (f *Fit) Len() int { return f.pass.Len() }

// Identity is what all parts must have in common, whichever process computes them.
func (f *Fit) Identity(ctx context.Context) (shard.Identity, error) {
	return f.pass.Identity(ctx, f.split)
}

// Part computes a part of the pass. It writes the part's file without the sums, and returns
// those. A part without rows is an error.
func (f *Fit) Part(ctx context.Context, part shard.Part, path string) (*sparse.Sums, error) {
	sums, err := f.pass.WriteApart(ctx, part, path, f.split)
	if err != nil {
		return nil, problem.InFlags(err, false)
	}
	return sums, nil
}

// Merge makes a posterior of the files of all parts of a pass and the sums of all of them, and
// writes it to the file out as gpexplain merge does, of which args are flags. What there
// is to say of the posterior goes to notes, if that is not nil.
func Merge(ctx context.Context, args []string, notes io.Writer, files []string, sums *sparse.Sums, out string) error {
	var common problem.Flags
	var calibration inference.CalibrationFlags
	var inducing string
	con, err := parse("merge", args, notes, &common, func(c *cobra.Command) {
		c.Flags().StringVar(&inducing, "inducing-file", "", "")
		flags.Calibration(c, &calibration)
	}, func(c *cobra.Command) error {
		return calibration.Check()
	})
	if err != nil {
		return err
	}
	defer con.Close()
	set, err := shard.OpenApart(files, sums)
	if err != nil {
		return err
	}
	p, q, err := inference.MergeSet(ctx, con.Job, &common, set, inducing, out, calibration.Method)
	if err != nil {
		return problem.InFlags(err, false)
	}
	report := q.Report(p, con.Warnings)
	if err := q.Save(ctx, out, p, report, inference.SaveOptions{Split: common.Data.Split}); err != nil {
		return err
	}
	if con.Quiet {
		return con.Verdict()
	}
	return errors.Join(console.WarningsText(con.Stderr, &report), con.Verdict())
}

// Terms are the parts of explanations of predictions by a posterior.
type Terms struct {
	con    *console.Console
	answer *terms.Answer
}

// A TermsPart is what some of the training rows contribute to predictions.
type TermsPart struct{ part *terms.Part }

// OpenTerms opens a posterior with its model and data. args are flags of gpexplain explain
// that go with --shard, of which --posterior is needed.
func OpenTerms(ctx context.Context, args []string, notes io.Writer) (*Terms, error) {
	var common problem.Flags
	var posterior inference.Flags
	var calibration inference.CalibrationFlags
	var which problem.RowFlags
	var q terms.Question
	con, err := parse("explain", args, notes, &common,
		func(c *cobra.Command) {
			flags.Posterior(c, &posterior)
			flags.Calibration(c, &calibration)
			flags.Rows(c, &which, "explain", "")
			f := c.Flags()
			f.IntVar(&q.Top, "top", 8, "")
			f.StringVar(&q.Terms, "terms", "posterior", "")
			f.StringVar(&q.Contrast, "contrast", "", "")
		}, func(c *cobra.Command) error {
			switch {
			case posterior.File == "":
				return job.Usagef("--posterior FILE is needed: what gpexplain fit or merge wrote")
			case q.Top < 1:
				return job.Usagef("--top %d must be at least 1", q.Top)
			case q.Terms != "posterior" && q.Terms != "raw":
				return job.NotOneOf("terms", q.Terms, []string{"posterior", "raw"})
			}
			_, _, err := common.Data.CheckContrast(q.Contrast)
			return errors.Join(err, which.Check(c.Flags().Changed), posterior.Check(c.Flags().Changed), calibration.Check())
		})
	if err != nil {
		return nil, err
	}
	q.Calibrate = calibration.Method
	t := &Terms{con: con}
	if t.answer, err = terms.Open(ctx, con.Job, &common, &posterior, &which, q); err != nil {
		con.Close()
		return nil, problem.InFlags(err, true)
	}
	return t, nil
}

// Close closes the files. The Terms must not be used any more.
func (t *Terms) Close() { t.con.Close() }

// Len is the number of training rows.
func (t *Terms) Len() int { return t.answer.Examples() }

// Posterior is the SHA-256 of the posterior's file in hex.
func (t *Terms) Posterior() string { return t.answer.Posterior() }

// Part computes what a part of the training rows contributes. A part without rows is an error.
func (t *Terms) Part(ctx context.Context, part shard.Part) (*TermsPart, error) {
	p, err := t.answer.Part(ctx, part)
	if err == nil {
		p, err = terms.Add(nil, p)
	}
	if err != nil {
		return nil, problem.InFlags(err, true)
	}
	return &TermsPart{p}, nil
}

// Add returns a and b together: the sums over the training rows of both, and of their listed
// terms as many of the largest as were asked for.
func (a *TermsPart) Add(b *TermsPart) (*TermsPart, error) {
	sum, err := terms.Add(a.part, b.part)
	return &TermsPart{sum}, err
}

// Len is the number of training rows that were added.
func (a *TermsPart) Len() int { return a.part.Covered }

var (
	_ encoding.BinaryMarshaler   = (*TermsPart)(nil)
	_ encoding.BinaryUnmarshaler = (*TermsPart)(nil)
)

// MarshalBinary implements encoding.BinaryMarshaler.
func (a *TermsPart) MarshalBinary() ([]byte, error) { return a.part.Encode() }

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (a *TermsPart) UnmarshalBinary(data []byte) error {
	p, err := terms.Decode(data)
	if err == nil {
		a.part = p
	}
	return err
}

// Write writes the sum over all parts to a file of which gpexplain merge prints the
// explanation.
func (a *TermsPart) Write(path string) error { return a.part.Write(path) }

// Message is an error in one line as the command writes it.
func Message(err error) string { return job.Message(err.Error()) }

// IsUsage tells whether an error is one of wrong arguments, found without opening a file.
func IsUsage(err error) bool {
	_, ok := errors.AsType[*job.UsageError](err)
	return ok
}
