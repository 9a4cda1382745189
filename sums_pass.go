package funcgp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/sparse/shard"
)

// selectInducing finds the match and the mode of the linearized model, selects the inducing examples and factors their
// kernel. The same options, data and seed select the same ones in every process.
func (s *Pass) selectInducing(ctx context.Context) error {
	f := s.fit
	if err := f.start(); err != nil {
		return err
	}
	err := f.prepare(ctx, f.problem.KeepsJacobian(), f.settleMode)
	if err == nil {
		s.inducing, err = f.inducing(ctx)
		f.con.Clear()
	}
	if err != nil {
		return explainError(f.problem.Examples.Train, err)
	}
	s.move = floats.SubTo(make([]float64, len(f.mode.Theta)), f.mode.Theta, f.theta)
	f.measure(f.mode.Sites, f.outputs, f.problem.Examples.Train.Weights)
	return s.factor(ctx)
}

// factor forms and factors the kernel of the inducing examples.
func (s *Pass) factor(ctx context.Context) error {
	b, err := sparse.NewBuilder(ctx, s.fit.kernel, s.inducing, s.fit.sparseOptions())
	if err == nil {
		s.base, err = b.Posterior(ctx)
	}
	s.fit.con.Clear()
	return explainError(s.fit.problem.Examples.Train, err)
}

// load reads the inducing examples' factor, and the mode.
func (s *Pass) load(ctx context.Context, file *store.File) (err error) {
	if s.base, err = sparse.LoadProjected(ctx, file, s.fit.kernel, s.inducing, s.fit.sparseOptions()); err != nil {
		return err
	}
	r := file.Reader("mode.")
	s.move = r.Floats("move", len(s.fit.theta))
	return r.Err()
}

// passOf returns the pass of the problem's file with the inducing examples that it records, but not their factor, and a
// way to calibrate the posterior of all parts.
func passOf(ctx context.Context, c *job.Job, p *problem, calibrate string) (*Pass, error) {
	h := &p.Saved.Header
	if !inRange(h.Inducing, p.Examples.Train.Len(), h.Select == result.SelectStrength) {
		return nil, p.Saved.Damaged("its inducing examples cannot be used")
	}
	method := Method{Name: h.Fit.Method, Select: h.Select, Inducing: len(h.Inducing)}
	f := &fit{con: c, problem: p, asked: FitOptions{Method: method, Refit: h.Fit.Refit, Calibrate: calibrate}, shards: true}
	err := f.start()
	if err != nil {
		return nil, err
	}
	f.settled = &settlement{match: *h.Fit.Match, why: option.Text(h.Fit.Match.Why), projection: float64(h.Projection)}
	if v := h.Fit.StatedPrecision; v != nil {
		f.settled.stated = float64(*v)
	}
	f.preflight, f.alarms = h.Fit.Preflight, job.Restored(slices.Concat(h.Fit.Warnings, h.Fit.Remarks))
	f.gradientNorm = float64(h.Fit.GradientNorm)
	s := &Pass{fit: f}
	if !f.asked.Method.takesRows() {
		s.inducing, err = p.Inducing(ctx, h.Inducing)
		return s, err
	}
	u, err := p.Saved.File.Floats("sparse.directions")
	if err != nil {
		return nil, err
	}
	m, outputs := len(h.Inducing), p.Model.Outputs
	if len(u) != m*outputs {
		return nil, p.Saved.Damaged("its inducing examples cannot be used")
	}
	s.inducing, err = p.InducingRows(ctx, h.Inducing, mat.NewDense(m, outputs, u))
	return s, err
}

// header returns the description of model, data and task for a file of the pass.
func (s *Pass) header(ctx context.Context) (savedHeader, func(w *store.Writer), error) {
	f := s.fit
	warnings := f.alarms
	if f.problem.Saved == nil { // and what reading the data said: parts read no scaling but the one in the file
		warnings = f.con.Warnings
	}
	q := &solution{Problem: f.problem, How: methodUsed{Name: f.asked.Method.Name, selection: f.asked.Method.Select, inducing: s.inducing.Rows, mean: f.mean()}, precision: f.precision, network: !f.asked.Refit, preflight: f.preflight}
	match := f.settled.match
	match.Why = string(f.settled.why)
	r := result.Fit{Method: f.asked.Method.Name, Refit: f.asked.Refit,
		StatedPrecision: numberPointer(f.settled.stated), Match: &match, Preflight: f.preflight, GradientNorm: result.Float(f.gradientNorm)}
	r.Warnings, r.Remarks = result.Remarks(warnings)
	head, prior, err := q.header(ctx, r)
	head.Projection = result.Float(f.settled.projection)
	return head, prior, err
}

// part computes a part of the pass.
func (s *Pass) part(ctx context.Context, part shard.Part) (*shard.Shard, error) {
	p := s.fit.problem
	lo, hi := part.Rows(s.Len())
	if lo == hi {
		return nil, job.FullErrorf("{shard=%v}: it has no rows, as there are %d training rows; split them into at most %d", part, s.Len(), s.Len())
	}
	of := p.Part(lo, hi)
	// Refuse sums and sites that do not fit.
	c, n, bytes := p.Model.Outputs, hi-lo, p.Model.Net.BatchBytes
	if err := gp.CheckMemory("the sums of a part of the training rows", gp.InducingExamples, s.base.Inducing().Len(), p.Memory, func(m int) int64 {
		return wholeBytes(float64(sparse.RowBytes(elementRows(s.fit.asked.Method.takesRows(), m, c), n, c, false)) + float64(bytes(m)) + 2*float64(bytes(min(n, linearize.Tile(c)))))
	}); err != nil {
		return nil, err
	}
	if err := s.fit.con.EndPart(ctx, "load"); err != nil {
		return nil, err
	}
	source, err := of.TrainingExamples(ctx, of.KeepsJacobian())
	if err == nil {
		err = s.fit.con.EndPart(ctx, "linearize")
	}
	var done *shard.Shard
	if err == nil {
		done, err = shard.Compute(ctx, s.base, s.move, source, of.TrainTargets())
	}
	if err == nil {
		err = s.fit.con.EndPart(ctx, "kernel")
	}
	s.fit.con.Clear()
	if err != nil {
		return nil, explainError(of.Examples.Train, err)
	}
	if err := s.name(ctx); err != nil {
		return nil, err
	}
	done.Part, done.Identity = part, s.named.identity
	return done, nil
}

// identity returns the facts that all parts of the pass share. was records where the data are.
func (s *Pass) identity(ctx context.Context, was *remembered) (id shard.Identity, err error) {
	f, p := s.fit, s.fit.problem
	t, e := p.Task, p.Examples
	id = shard.Identity{Model: p.Model.Net.Fingerprint(), Prior: f.kernel.Fingerprint(), Method: f.asked.Method.Name, Likelihood: t.Likelihood.Name(),
		Examples: e.Train.Len(), Targets: linearize.SumOf(append(dense.Flat(e.Y), p.TrainTargets().Weights...))}
	if hasNoise(t.Likelihood) {
		id.Likelihood += fmt.Sprintf(" with noise variance %v", t.Noise)
	}
	id.Mode = linearize.SumOf(s.move)
	id.Rows = linearize.Sum(sha256.Sum256([]byte(job.FormatRows(e.Train.Index))))
	var sums []string // of the files of the data, wherever they are; none for data that come from none
	for _, file := range was.Files {
		if file.Path != was.Model && !slices.Contains(was.Weight, file.Path) {
			sums = append(sums, file.SHA256)
		}
	}
	if sums != nil {
		id.Files = linearize.Sum(sha256.Sum256([]byte(strings.Join(sums, " "))))
	}
	z, err := linearize.FingerprintOf(ctx, s.inducing.Batch)
	id.Inducing = z.Data.Inputs
	if u := s.inducing.Directions; u != nil {
		id.Inducing = linearize.SumOf(mat.DenseCopyOf(u).RawMatrix().Data)
	}
	return id, err
}

// An origin says where the inducing examples of a part come from.
type origin struct {
	File string `json:"file"` // "" where every part selected them
	SHA  string `json:"sha256"`
}

func (s *Pass) origin(ctx context.Context) (origin, error) {
	if s.file == "" {
		return origin{}, nil
	}
	path, err := filepath.Abs(s.file)
	if err != nil {
		return origin{}, err
	}
	sum, err := inputfile.Sum(ctx, path)
	return origin{path, sum}, err
}

// mergePass returns the pass whose parts the files are, with a way to calibrate their posterior. p is the problem of the
// first of them, and inducing the file of the inducing examples where it is not where it was.
func mergePass(ctx context.Context, c *job.Job, p *problem, inducing, calibrate string) (*Pass, error) {
	s, err := passOf(ctx, c, p, calibrate)
	if err != nil {
		return nil, err
	}
	var from origin
	if err := p.Saved.File.JSON("origin", &from); err != nil {
		return nil, err
	}
	if s.file = from.File; inducing != "" {
		s.file = inducing
	}
	if s.file == "" {
		return s, s.factor(ctx)
	}
	sum, err := inputfile.Sum(ctx, s.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, job.FullErrorf("%s: the inducing examples of its pass are not there; give {inducing-file} with the file that fit {select-only} wrote", s.file)
	case err != nil:
		return nil, err
	case from.File != "" && sum != from.SHA:
		return nil, job.FullErrorf("%s: these are not the inducing examples of the parts (SHA-256 %.12s…, was %.12s…); give {inducing-file} with the file that they were computed with", s.file, sum, from.SHA)
	}
	file, err := inducingKind.Open(ctx, s.file, p.Memory, false)
	if err != nil {
		return nil, err
	}
	c.CloseLater(file.Close)
	return s, s.load(ctx, file)
}

// merge returns the posterior of all parts of the pass, calibrated. Their sites are in a temporary file in dir, "" for
// the system's folder.
func (s *Pass) merge(ctx context.Context, set *shard.Set, dir string) (*solution, error) {
	now, err := s.identity(ctx, s.fit.problem.Saved.Header.Remembered)
	if err != nil {
		return nil, err
	}
	if d := set.Identity().Difference(now); d != "" {
		return nil, job.FullErrorf("%s and the other parts are of another pass than model and data as they are now: they differ in %s; compute the parts again", set.Paths()[0], d)
	}
	q, err := s.merged(ctx, set, dir)
	return s.fit.finish(ctx, q, err)
}

// sitesKind is the kind of the temporary file with the sites of all parts.
const sitesKind = "gpexplain sites"

// merged adds up the parts and gives the posterior its training rows. Their sites are in a temporary file in dir, which
// is mapped into memory.
func (s *Pass) merged(ctx context.Context, set *shard.Set, dir string) (*solution, error) {
	f, p := s.fit, s.fit.problem
	if err := f.con.EndPart(ctx, "load"); err != nil {
		return nil, err
	}
	if err := set.Check(ctx, func(lo, hi int) linearize.Source {
		q := p.Part(lo, hi)
		return q.Examples.Source(ctx, q.Model, q.Examples.Train)
	}); err != nil {
		return nil, err
	}
	post, err := set.Merge(ctx, s.base)
	if err != nil {
		return nil, err
	}
	if f.sites, err = f.joined(ctx, set, dir); err != nil {
		return nil, err
	}
	f.mode = &mode.Mode{Sites: f.sites}
	if f.source, err = p.TrainingExamples(ctx, p.KeepsJacobian()); err != nil {
		return nil, err
	}
	dual, err := post.WithData(ctx, f.source, f.sites)
	if err != nil {
		return nil, err
	}
	if err := f.con.EndPart(ctx, "kernel"); err != nil {
		return nil, err
	}
	q := f.sparsePosterior(dual, s.inducing)
	return q, f.compare(ctx, q)
}

// joined maps the sites of all parts into memory, from a temporary file in dir.
func (f *fit) joined(ctx context.Context, set *shard.Set, dir string) (*gp.Sites, error) {
	tmp, err := os.CreateTemp(dir, ".gpexplain-sites-*")
	if err != nil {
		return nil, job.FullErrorf("%s: no temporary file can be made there: %w; name another folder", cmp.Or(dir, os.TempDir()), job.CauseOf(err))
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
	err = store.Write(path, sitesKind, 1, func(w *store.Writer) error { return set.SaveSites(ctx, w, "") })
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
	r := file.Reader("")
	sites := gp.LoadSites(r, set.Len(), f.problem.Model.Outputs)
	return sites, r.Err()
}

// A namedFile holds what the files of all parts record.
type namedFile struct {
	head     savedHeader
	prior    func(w *store.Writer)
	identity shard.Identity
	from     origin
}

// name computes what the files of all parts record, once, because it takes the checksums of all files.
func (s *Pass) name(ctx context.Context) error {
	if s.named != nil {
		return nil
	}
	var n namedFile
	var err error
	if n.head, n.prior, err = s.header(ctx); err != nil {
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
