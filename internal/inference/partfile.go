package inference

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/sparse/shard"
	"github.com/funcgp/funcgp/store"
)

// named is what the files of all parts say.
type named struct {
	head     problem.SavedHeader
	prior    func(w *store.Writer)
	identity shard.Identity
	from     origin
}

// WriteApart computes a part of the pass and writes it to a file without its sums, which it
// returns to be added apart.
func (s *Pass) WriteApart(ctx context.Context, part shard.Part, path string, split *int) (*sparse.Sums, error) {
	done, err := s.part(ctx, part, split)
	if err != nil {
		return nil, err
	}
	sums := done.Sums
	done.Sums = nil
	return sums, s.write(done, path)
}

// Identity is what all parts of the pass have in common.
func (s *Pass) Identity(ctx context.Context, split *int) (shard.Identity, error) {
	if err := s.name(ctx, split); err != nil {
		return shard.Identity{}, err
	}
	return s.named.identity, nil
}

// name finds what the files of all parts say, once: it takes the checksums of all files.
func (s *Pass) name(ctx context.Context, split *int) error {
	if s.named != nil {
		return nil
	}
	var n named
	var err error
	if n.head, n.prior, err = s.header(ctx, split); err != nil {
		return err
	}
	if n.identity, err = s.identity(ctx, n.head.Remembered); err != nil {
		return err
	}
	if n.from, err = s.origin(ctx); err != nil {
		return err
	}
	s.named = &n
	return nil
}

// write writes a part that was computed to a file.
func (s *Pass) write(done *shard.Shard, path string) error {
	return shard.Write(path, done, func(w *store.Writer) error {
		w.JSON("header", s.named.head)
		w.JSON("origin", s.named.from)
		if u := s.inducing.Directions; u != nil {
			w.Floats("sparse.directions", mat.DenseCopyOf(u).RawMatrix().Data)
		}
		s.named.prior(w)
		return nil
	})
}

// MergeSet returns the posterior of all parts of a set, calibrated by a method, and its problem.
// inducing is the file of the inducing examples where it is not where it was.
func MergeSet(ctx context.Context, c *job.Job, f *problem.Flags, set *shard.Set, inducing, out, calibrate string) (*problem.Problem, *Posterior, error) {
	p, err := problem.OpenFile(ctx, c, f, set.Paths()[0], problem.ShardFile)
	if err != nil {
		return nil, nil, err
	}
	pass, err := MergePass(ctx, c, p, inducing)
	if err != nil {
		return nil, nil, err
	}
	q, err := pass.Merge(ctx, set, out, calibrate)
	return p, q, err
}
