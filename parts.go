package funcgp

import (
	"cmp"
	"context"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/sparse/shard"
)

// A Pass is the pass of method nystrom over the training rows, which any processes compute in parts: what they have in
// common is the match, the mode there and the inducing examples, of a file that gpexplain fit --select-only or Save
// wrote. Merge makes a posterior of all parts. One goroutine at a time uses it.
type Pass struct {
	job  *job.Job
	pass *sumsPass
}

// OpenPass opens the file of a pass, with its model and data. The options may be nil. Files that are missing or have
// changed are an error that names them.
func OpenPass(ctx context.Context, path string, o *OpenOptions) (*Pass, error) {
	if path == "" {
		return nil, named(option.Errorf("OpenPass takes the file of a pass, which Pass.Save or {fit select-only} wrote"))
	}
	s, err := start(ctx, o.source(path), func(ctx context.Context, c *job.Job, f *asked) (*problem, error) {
		return openFile(ctx, c, f, inducingKind)
	})
	if err != nil {
		return nil, err
	}
	pass, err := loadPass(ctx, s.job, s.problem)
	return s.pass(pass, err)
}

// pass is a pass of the session, which is closed where err is not nil.
func (s *Session) pass(pass *sumsPass, err error) (*Pass, error) {
	if err != nil {
		s.Close()
		return nil, named(err)
	}
	return &Pass{s.job, pass}, nil
}

// NewPass finds the match and the mode, and chooses the inducing examples, as Fit of method nystrom does: the same options
// choose the same ones in every process. The options may be nil.
func NewPass(ctx context.Context, m Model, d Data, o *FitOptions) (*Pass, error) {
	if o == nil {
		o = &FitOptions{}
	}
	fit := *o
	if fit.Method.Name = cmp.Or(fit.Method.Name, "nystrom"); fit.Method.Name != "nystrom" {
		return nil, named(job.NotOneOf("method", fit.Method.Name, []string{"nystrom"}))
	}
	s, err := Start(ctx, m, d, &fit)
	if err != nil {
		return nil, err
	}
	p, err := s.problem.Grouped(ctx, s.job)
	var pass *sumsPass
	if err == nil {
		pass, err = newPass(ctx, s.job, p, &fit)
	}
	return s.pass(pass, err)
}

// Close closes the files. The pass must not be used any more.
func (s *Pass) Close() { s.job.Close() }

// Len is the number of training rows.
func (s *Pass) Len() int { return s.pass.Len() }

// Identity is what all parts must have in common, whichever process computes them.
func (s *Pass) Identity(ctx context.Context) (shard.Identity, error) {
	id, err := s.pass.Identity(ctx)
	return id, named(err)
}

// Save writes the inducing examples, with the match and the mode, to a file for OpenPass. The report has no part.
func (s *Pass) Save(ctx context.Context, path string) (*result.Part, error) {
	if err := s.pass.Save(ctx, path); err != nil {
		return nil, named(err)
	}
	return s.report(path), nil
}

// WritePart computes a part and writes it to a file. A part without rows is an error.
func (s *Pass) WritePart(ctx context.Context, part shard.Part, path string) (*result.Part, error) {
	lo, hi, err := s.pass.WritePart(ctx, part, path)
	if err != nil {
		return nil, named(err)
	}
	r := s.report(path)
	r.Part, r.First, r.Examples = part.String(), &lo, hi-lo
	return r, nil
}

// WriteApart is WritePart without the sums in the file, which it returns, to be added up elsewhere.
func (s *Pass) WriteApart(ctx context.Context, part shard.Part, path string) (*sparse.Sums, error) {
	sums, err := s.pass.WriteApart(ctx, part, path)
	return sums, named(err)
}

// report is what files of the pass have in common.
func (s *Pass) report(path string) *result.Part {
	r := &result.Part{Schema: "funcgp/part/1", File: path, Bytes: result.FileSize(path), Examples: s.Len(), Inducing: s.pass.Inducing()}
	r.Rank, r.Rows = s.pass.Rank()
	return r
}

// Merge makes a posterior of the files of all parts of a pass, in any order. A part that is missing, there twice, damaged or
// of another pass is refused by the name of its file. sums are those of all parts, where the files are of WriteApart, else
// nil; inducing is the file of the pass, "" where that is where it was when the parts were computed; and dir is a folder for
// a temporary file of 8·N·C·(3 + C) bytes for N training rows and C outputs, until Close, "" for the system's. The options
// may be nil; Fit.Calibrate is for the posterior of all parts.
func Merge(ctx context.Context, files []string, sums *sparse.Sums, inducing, dir string, o *OpenOptions) (*Posterior, error) {
	if o == nil {
		o = &OpenOptions{}
	}
	open := func(files []string, _ *sparse.Sums) (*shard.Set, error) { return shard.Open(files) }
	if sums != nil {
		open = shard.OpenApart
	}
	set, err := open(files, sums)
	if err != nil {
		return nil, named(err)
	}
	s, err := start(ctx, o.source(set.Paths()[0]), func(ctx context.Context, c *job.Job, f *asked) (*problem, error) {
		return openFile(ctx, c, f, shardKind)
	})
	if err != nil {
		return nil, err
	}
	var post *solution
	pass, err := mergePass(ctx, s.job, s.problem, inducing, o.Fit.Calibrate)
	if err == nil {
		post, err = pass.Merge(ctx, set, dir)
	}
	if err != nil {
		s.Close()
		return nil, named(err)
	}
	return answering(s.job, post), nil
}
