package funcgp

import (
	"cmp"
	"context"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/sparse/shard"
)

// A Pass is the pass of method nystrom over the training rows, of which any number of processes can each
// compute parts. The parts share the match, the mode at it and the inducing examples, which are in a file that
// gpexplain fit --select-only or Save wrote. Merge makes a posterior from all parts. A Pass is not safe for
// concurrent use.
type Pass struct {
	fit      *fit
	base     *sparse.Projected
	inducing *sparse.Inducing
	file     string     // of the inducing examples; "" where they were selected here
	move     []float64  // v* − θ*, P, at whose function the sites are
	named    *namedFile // once a part was written
}

// OpenPass opens the file of a pass, with its model and data. The options may be nil. Files that are missing or have
// changed are an error that names them.
func OpenPass(ctx context.Context, path string, o *OpenOptions) (*Pass, error) {
	if path == "" {
		return nil, named(option.Errorf("OpenPass takes the file of a pass, which Pass.Save or {fit select-only} wrote"))
	}
	s, err := start(ctx, o.source(path), inducingKind.open)
	if err != nil {
		return nil, err
	}
	pass, err := passOf(ctx, s.job, s.problem, "none")
	if err == nil {
		pass.file = path
		err = pass.load(ctx, s.problem.Saved.File)
	}
	return s.pass(pass, err)
}

// pass returns the pass unchanged, or closes the session if err is not nil.
func (s *Session) pass(pass *Pass, err error) (*Pass, error) {
	if err != nil {
		s.Close()
		return nil, named(err)
	}
	return pass, nil
}

// NewPass finds the match and the mode, and chooses the inducing examples, as Fit of method nystrom does: the same options
// choose the same ones in every process. The options may be nil.
func NewPass(ctx context.Context, m Model, d Data, o *FitOptions) (*Pass, error) {
	if o == nil {
		o = &FitOptions{}
	}
	asked := *o
	if asked.Method.Name = cmp.Or(asked.Method.Name, "nystrom"); asked.Method.Name != "nystrom" {
		return nil, named(job.NotOneOf("method", asked.Method.Name, []string{"nystrom"}))
	}
	s, err := Start(ctx, m, d, &asked)
	if err != nil {
		return nil, err
	}
	p, err := s.problem.Grouped(ctx, s.job)
	if err != nil {
		return s.pass(nil, err)
	}
	pass := &Pass{fit: &fit{con: s.job, problem: p, asked: asked, shards: true}}
	return s.pass(pass, pass.selectInducing(ctx))
}

// Close closes the files. The pass must not be used any more.
func (s *Pass) Close() { s.fit.con.Close() }

// Len is the number of training rows.
func (s *Pass) Len() int { return s.fit.problem.Examples.Train.Len() }

// Identity returns the facts that all parts of the pass share, whichever process computes them.
func (s *Pass) Identity(ctx context.Context) (shard.Identity, error) {
	if err := s.name(ctx); err != nil {
		return shard.Identity{}, named(err)
	}
	return s.named.identity, nil
}

// Save writes the inducing examples, with the match and the mode, to a file for OpenPass. The report has no part.
func (s *Pass) Save(ctx context.Context, path string) (*result.Part, error) {
	head, prior, err := s.header(ctx)
	if err == nil {
		err = inducingKind.Write(path, func(w *store.Writer) error {
			w.JSON("header", head)
			prior(w)
			w.Floats("mode.move", s.move)
			return s.base.Save(w)
		})
	}
	if err != nil {
		return nil, named(err)
	}
	return s.report(path), nil
}

// WritePart computes a part and writes it to a file. A part without rows is an error.
func (s *Pass) WritePart(ctx context.Context, part shard.Part, path string) (*result.Part, error) {
	done, err := s.part(ctx, part)
	if err == nil {
		err = s.write(done, path)
	}
	if err != nil {
		return nil, named(err)
	}
	r := s.report(path)
	lo, hi := part.Rows(s.Len())
	r.Part, r.First, r.Examples = part.String(), &lo, hi-lo
	return r, nil
}

// WriteApart does what WritePart does, but returns the sums instead of writing them to the file. The caller
// adds up the sums of all parts.
func (s *Pass) WriteApart(ctx context.Context, part shard.Part, path string) (*sparse.Sums, error) {
	done, err := s.part(ctx, part)
	if err != nil {
		return nil, named(err)
	}
	sums := done.Sums
	done.Sums = nil
	return sums, named(s.write(done, path))
}

// report returns the part of a report that all files of the pass share.
func (s *Pass) report(path string) *result.Part {
	rows := elementRows(s.fit.asked.Method.takesRows(), s.inducing.Len(), s.fit.problem.Model.Outputs)
	return &result.Part{Schema: "funcgp/part/1", File: path, Bytes: result.FileSize(path), Examples: s.Len(), Inducing: s.inducing.Len(), Rank: s.base.Rank(), Rows: rows}
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
	if err := Check(&o.Model, &o.Data, &o.Fit, "parts"); err != nil { // before a file is opened
		return nil, err
	}
	open := func(files []string, _ *sparse.Sums) (*shard.Set, error) { return shard.Open(files) }
	if sums != nil {
		open = shard.OpenApart
	}
	set, err := open(files, sums)
	if err != nil {
		return nil, named(err)
	}
	s, err := start(ctx, o.source(set.Paths()[0]), shardKind.open)
	if err != nil {
		return nil, err
	}
	var post *solution
	pass, err := mergePass(ctx, s.job, s.problem, inducing, o.Fit.Calibrate)
	if err == nil {
		post, err = pass.merge(ctx, set, dir)
	}
	if err != nil {
		s.Close()
		return nil, named(err)
	}
	return answering(s.job, post), nil
}
