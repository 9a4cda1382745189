package weightspace

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A structured has what posteriors with a structure share: the examples, the prior and the center. Its methods are
// the methods of Weights that do not depend on the structure.
type structured struct {
	structure Structure
	x         linearize.Source
	prior     ntk.Prior
	o         Options
	n, c      int // training examples, outputs

	model         linearize.ModelFingerprint // fingerprint of θ* alone
	theta, center []float64                  // θ*; the mean of the parameters
	white         newton.Whitened
	sites         *gp.Sites
	local         sites.Arrays // the arrays of sites
	logDet        float64      // log det Q + log det Σ₀
	warnings      []error
}

// newStructured returns a structured without center, after checking sizes and numbers.
func newStructured(structure Structure, x linearize.Source, s *gp.Sites, prior ntk.Prior, theta []float64, o *Options) (*structured, error) {
	n, c := s.F.Dims()
	switch {
	case x.Len() != n:
		panic("weightspace: sites and examples differ in size")
	case n == 0:
		return nil, gp.ErrNoExamples
	case len(theta) == 0:
		panic("weightspace: there are no parameters")
	}
	a, err := sites.New(s, n, c)
	if err != nil {
		return nil, err
	}
	w := &structured{structure: structure, x: x, prior: prior, o: o.withDefaults(), n: n, c: c, theta: slices.Clone(theta), sites: s, local: a, white: newton.NewWhitened(prior, len(theta))}
	w.model.Parameters = linearize.SumOf(theta)
	w.center = w.theta
	return w, nil
}

// setCenter sets the center from the options.
func (w *structured) setCenter() {
	if w.o.Mean != gp.Network {
		panic("weightspace: a structured posterior has no linear-Gaussian mean; use gp.Network or Options.Center")
	}
	if c := w.o.Center; c != nil {
		if len(c) != len(w.theta) {
			panic("weightspace: the center has another number of parameters than theta")
		}
		w.center = slices.Clone(c)
		w.o.Center = nil
	}
}

// eachBatch calls do for all examples, in batches of linearize.Tile examples that do not depend on the batches of
// the source. It reports the number of examples done as stage.
func (f *structured) eachBatch(ctx context.Context, stage string, do func(first int, b *linearize.Batch) error) error {
	f.o.Show(stage, 0, f.n)
	return linearize.Rebatch(f.x, linearize.Tile(f.c)).Batches(ctx, func(first int, b *linearize.Batch) error {
		if b.P != len(f.theta) || b.Outputs() != f.c {
			panic("weightspace: the batches have another number of parameters than theta, or of outputs than the sites")
		}
		checkModel(f.model, b)
		if err := checkMatrix("network output", b.F, first); err != nil {
			return err
		}
		if err := do(first, b); err != nil {
			return err
		}
		f.o.Show(stage, first+b.Len(), f.n)
		return ctx.Err()
	})
}

// few is the number of examples that are read to learn how the Jacobian is divided into layers.
const few = 4

// weighted returns the examples of b with RᵀJ in place of J, where R is the root of Λ (E4), so that their Λ is the
// identity. first is the position of the first example of b. b must have at most 256 examples.
func (f *structured) weighted(ctx context.Context, first int, b *linearize.Batch) (*linearize.Batch, error) {
	c := f.c
	roots := mat.NewDense(b.Len()*c, c, nil)
	for n := range b.Len() {
		dense.TransposeTo(dense.Rows(roots.RawMatrix(), n*c, (n+1)*c), dense.Of(f.local.Block(f.local.Root, first+n), c, c))
	}
	var out *linearize.Batch
	err := linearize.Combine(b, roots).Batches(ctx, func(at int, part *linearize.Batch) error {
		if at != 0 {
			panic("weightspace: a batch of too many examples")
		}
		out = part
		return nil
	})
	return out, err
}

// Center returns the mean of the parameters, θ* or Options.Center. It must not be changed.
func (w *structured) Center() []float64 { return w.center }

// LogDet returns log det Q + log det Σ₀.
func (w *structured) LogDet() float64 { return w.logDet }

// Sites returns the sites of the posterior.
func (w *structured) Sites() *gp.Sites { return w.sites }

// Structure returns the structure of Q.
func (w *structured) Structure() Structure { return w.structure }

// Warnings returns warnings on what may make the posterior inaccurate.
func (w *structured) Warnings() []error { return w.warnings }

// EvidenceAtTheta returns the Laplace evidence (E7) in nats, with Q in place of H. The sites must be those at
// f_lin(x; center). Where the center is not θ*, it is the evidence at the center [gprior 9].
func (w *structured) EvidenceAtTheta() gp.Evidence {
	// Σ log p(y|f) − ½(θ−μ₀)ᵀΣ₀⁻¹(θ−μ₀) − ½(log det Q + log det Σ₀) (E7)
	return gp.NewEvidence(w.sites.LogLik, gp.Scatter(w.prior, w.center), w.logDet)
}

// meanTo writes f_lin(x; center) to mean, unless mean is nil. An error numbers the examples of x from first on.
func (w *structured) meanTo(mean *mat.Dense, x *linearize.Batch, first int) error {
	if mean == nil {
		return nil
	}
	mean.Copy(x.F)
	if &w.center[0] != &w.theta[0] {
		d, f := make([]float64, len(w.theta)), make([]float64, x.Len()*w.c)
		floats.SubTo(d, w.center, w.theta)
		// f_lin(x;θ) = F + J(θ − θ*) (E1)
		x.MulVecTo(f, d)
		mean.Add(mean, mat.NewDense(x.Len(), w.c, f))
	}
	return checkMatrix("predictive mean", mean, first)
}

// checkInputs returns the number of examples of x. It panics where x has other numbers of outputs or parameters
// than the training examples, or another model.
func (w *structured) checkInputs(x *linearize.Batch) int {
	if x.Len() > 0 && (x.Outputs() != w.c || x.P != len(w.theta)) {
		panic("weightspace: inputs do not fit the training examples")
	}
	checkModel(w.model, x)
	return x.Len()
}

// checkDraws returns the number S of rows of dst. It panics unless dst is S×P with S > 0.
func (w *structured) checkDraws(dst *mat.Dense) int {
	s, p := dst.Dims()
	if s == 0 || p != len(w.theta) {
		panic("weightspace: destination is not S×P")
	}
	return s
}

// eachTile writes the mean and the covariance for x, one tile of examples at a time. predict writes the C×C
// covariances of a tile, whose first example is example first of x.
func (w *structured) eachTile(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch, predict func(cov *mat.Dense, first int, tile *linearize.Batch) error) error {
	t, c := w.checkInputs(x), w.c
	if t == 0 {
		return ctx.Err()
	}
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, c)
	for lo, step := 0, linearize.Tile(c); lo < t; lo += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+step, t)
		tile := x.Slice(lo, hi)
		if err := w.meanTo(dense.Slice(mean, lo, hi), tile, lo); err != nil {
			return err
		}
		if cov == nil {
			continue
		}
		part := dense.Slice(cov, lo*c, hi*c)
		if err := predict(part, lo, tile); err != nil {
			return err
		}
		if err := checkCovariance(part, lo, c); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// joint writes the mean for x, and sizes cov, which predict then writes. width is the number of columns, with T·C
// rows each, that predict holds in addition.
func (w *structured) joint(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch, width int, predict func() error) error {
	t, c := w.checkInputs(x), w.c
	if err := ctx.Err(); t == 0 || err != nil {
		return err
	}
	dense.SizeTo(mean, t, c)
	if cov != nil {
		// Return a *gp.MemoryError where the joint covariance and the columns that predict holds exceed the budget.
		maxMemory := w.o.Memory
		need := func(t int) int64 {
			rows := memory.Mul(int64(t), int64(c))
			return memory.Mul(8, memory.Mul(rows, memory.Add(rows, int64(width))))
		}
		if err := gp.CheckMemory("a joint covariance", gp.TestExamples, t, maxMemory, need); err != nil {
			return err
		}
		dense.SizeTo(cov, t*c, t*c)
	}
	if err := w.meanTo(mean, x, 0); err != nil || cov == nil {
		return err
	}
	if err := predict(); err != nil {
		return err
	}
	return checkCovariance(cov, 0, c)
}

// checkCovariance returns a *gp.NotFiniteError for a NaN or Inf in cov, which has one row for each output of each
// example from first on.
func checkCovariance(cov *mat.Dense, first, c int) error {
	for i := range dense.Count(cov) {
		row := cov.RawRowView(i)
		if j := dense.NotFinite(row); j >= 0 {
			return &gp.NotFiniteError{What: "predictive covariance", Row: first + i/c, Output: i % c, Value: row[j], Remedy: "scale the inputs or raise the prior precision"}
		}
	}
	return nil
}
