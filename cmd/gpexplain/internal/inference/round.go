package inference

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/sparse/shard"
	"github.com/funcgp/funcgp/store"
)

// A round is the state of a refit whose passes are split into parts.
type round struct {
	sparse.Round
	number    int       // of the next pass; the one at θ* is 0
	sites     *gp.Sites // of all training rows, of the posterior that the next pass starts from
	gradient  []float64 // Jᵀr at θ*
	preflight *report.Preflight
}

// Round is the number of the pass: 0 at the trained parameters, which is the only one without
// a refit.
func (s *Pass) Round() int {
	if s.round == nil {
		return 0
	}
	return s.round.number
}

// Move is how far the next step of a refit moves the function, in parts of its largest output;
// +Inf where it is not known yet.
func (s *Pass) Move() float64 { return s.round.Move }

// saveRound writes what the next round needs: the posterior of all parts, the sites of all
// training rows, and the function at which the round expands the likelihood.
func (s *Pass) saveRound(ctx context.Context, r *round, post *sparse.Projected, sites *gp.Sites, path string, split *int) error {
	head, prior, err := s.header(ctx, split)
	if err != nil {
		return err
	}
	head.Fit.Preflight, head.PreflightWarnings = r.preflight, r.preflight.Warnings
	search := 0.0
	if r.Search {
		search = 1
	}
	err = problem.InducingFile.Write(path, func(w *store.Writer) error {
		w.JSON("header", head)
		prior(w)
		w.Floats("round.state", []float64{float64(r.number), float64(r.Steps), r.Move, search})
		w.Floats("round.w", r.W)
		w.Floats("round.before", r.Before)
		w.Floats("round.gradient", r.gradient)
		sites.Save(w, "round.")
		return post.Save(w)
	})
	s.round = r
	return err
}

// loadRound reads a round, nil where the file is of inducing examples alone.
func (s *Pass) loadRound(file *store.File) (*round, error) {
	r := file.Reader("round.")
	if !r.Has("state") {
		return nil, nil
	}
	p := s.fit.problem
	state, gradient := r.Floats("state", 4), r.Floats("gradient", len(s.fit.theta))
	w := r.Floats("w", s.base.Rank())
	sites := gp.LoadSites(r, p.Examples.Train.Len(), p.Model.Outputs)
	if r.Err() != nil {
		return nil, r.Err()
	}
	out := &round{number: int(state[0]), sites: sites, gradient: gradient,
		Round: sparse.Round{Steps: int(state[1]), Move: state[2], Search: state[3] != 0, W: w}}
	if !out.Search {
		out.Before = r.Floats("before", s.base.Rank())
	}
	var h problem.SavedHeader
	if err := file.JSON("header", &h); err != nil {
		return nil, err
	}
	if out.preflight = h.Fit.Preflight; out.preflight == nil || out.number < 1 || out.Steps < 0 || math.IsNaN(out.Move) {
		_ = r.Fail("merge the round before again", "holds an impossible round of a refit")
		return nil, r.Err()
	}
	out.preflight.Warnings = h.PreflightWarnings
	return out, r.Err()
}

// step takes the Newton step of a round, whose pass has the posterior post. It returns the
// posterior of the refit where that ends, and else writes the next round to a file.
func (s *Pass) step(ctx context.Context, post *sparse.Projected, pass *sparse.Pass, next string, split *int) (*sparse.Posterior, error) {
	f, r := s.fit, s.round
	f.gradient, f.preflight = r.gradient, r.preflight
	for _, text := range f.preflight.Warnings {
		f.con.WarnText(text)
	}
	then, end, err := r.Next(post, r.sites, pass, f.problem.Examples.Y, f.problem.Task.Likelihood, 0)
	if err != nil {
		return nil, err
	}
	if then != nil {
		return nil, s.saveRound(ctx, &round{Round: *then, number: r.number + 1, gradient: r.gradient, preflight: r.preflight}, post, pass.Sites, next, split)
	}
	f.sites = r.sites
	return s.base.Refit(f.source, r.sites, pass, end)
}

// sitesKind is that of the temporary file of the sites of all parts.
const sitesKind = "gpexplain sites"

// joined maps the sites of all parts into memory, and in a round of a refit Φᵀw, from a
// temporary file beside out.
func (f *fit) joined(ctx context.Context, set *shard.Set, out string, step bool) (*sparse.Pass, error) {
	dir, name := filepath.Split(out)
	tmp, err := os.CreateTemp(dir, "."+name+".sites-*")
	if err != nil {
		return nil, console.FullErrorf("%s: no temporary file can be made beside it: %w; name another folder", out, console.CauseOf(err))
	}
	path := tmp.Name()
	remove := func() error { // a second time does no harm
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	f.con.CloseLater(remove)
	if err := tmp.Close(); err != nil {
		return nil, err
	}
	err = store.Write(path, sitesKind, 1, func(w *store.Writer) error {
		if step {
			if err := set.SaveStep(ctx, w, "step"); err != nil {
				return err
			}
		}
		return set.SaveSites(ctx, w, "")
	})
	if err != nil {
		return nil, err
	}
	file, err := store.Open(path, sitesKind, 1)
	if err != nil {
		return nil, err
	}
	f.con.CloseLater(file.Close)
	// What is open stays there on Unix, and elsewhere the file is removed in the end.
	_ = remove()
	r, n, c := file.Reader(""), set.Len(), f.problem.Model.Outputs
	pass := &sparse.Pass{Sites: gp.LoadSites(r, n, c)}
	if step {
		pass.Step = r.Floats("step", n, c)
	}
	return pass, r.Err()
}
