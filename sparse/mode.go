package sparse

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
)

// A Mode is the posterior at the mode of the linearized model in the span of the
// inducing examples (E9), found from features of the training examples that stay in
// memory. It predicts as the result of Refit does, and is immutable and safe for
// concurrent use.
type Mode struct {
	*Projected
	train *Prepared
	at    *newton.Point // the mode
	sites *gp.Sites     // sites of the last Newton step
	alpha []float64     // b − ΛΦᵀw
}

// Mode returns the mode under the prior variances of p multiplied by factor, without
// a pass over data. train holds all training examples, prepared by p, and y, N rows,
// their targets. The Newton steps start at from, the mode under another factor, or
// at θ* where that is nil. The errors are those of gp.NewSites and Refit. Mode panics
// where factor is not positive and finite.
func (p *Projected) Mode(ctx context.Context, train *Prepared, factor float64, y *gp.Targets, from *Mode) (*Mode, error) {
	if !(factor > 0) || math.IsInf(factor, 1) {
		panic("sparse: a factor on the prior variance must be positive and finite")
	}
	if err := y.CheckFor(train.Len(), p.b.c); err != nil {
		return nil, err
	}
	l := &modeSums{b: p.b.scaled(factor), train: train}
	l.root = math.Sqrt(factor * p.preparedRatio(train))
	l.spec = p.sums.spec
	l.spec.trace = l.b.trace
	at, sitesAt := l.point(make([]float64, l.b.rank())), dense.Flat(train.f)
	if from != nil {
		// Start at the weights of the same function under the other prior.
		w := make([]float64, len(from.at.Weights))
		floats.ScaleTo(w, math.Sqrt(from.b.ratio/l.b.ratio), from.at.Weights)
		at = &newton.Point{Weights: w, F: from.at.F}
		sitesAt = at.F
	}
	s := newton.New(y, p.o.MaxIter, from == nil)
	m := &Mode{train: train}
	at, err := newton.Find(&s, &newton.Objective{Y: y}, sitesAt, at, func(f []float64, _ *newton.Point) (*newton.Point, error) {
		var err error
		if m.sites, err = gp.NewSites(y, mat.NewDense(train.Len(), l.b.c, f)); err != nil {
			return nil, err
		}
		sums, err := l.sums(ctx, m.sites)
		if err != nil {
			return nil, err
		}
		if m.Projected, err = newProjected(ctx, l.b, sums, &p.o); err != nil {
			return nil, err
		}
		p.o.Show(StageNewton, s.Steps+1, 0)
		return l.point(m.w), nil
	})
	if err != nil {
		return nil, err
	}
	m.refit, m.at = true, at
	local := sites.Of(m.sites)
	m.alpha = make([]float64, len(train.mean))
	local.PseudoTargets(m.alpha, train.mean)
	q := make([]float64, len(train.mean))
	floats.SubTo(q, at.F, train.mean)
	local.SubtractLambda(m.alpha, m.alpha, q)
	return m, nil
}

// modeSums makes the points f = m + Φᵀw of a Mode, and their sums.
type modeSums struct {
	b     *basis
	train *Prepared
	root  float64 // Φ is root times the features of train
	spec  sumsSpec
}

// point returns f = m + Φᵀw.
func (l *modeSums) point(w []float64) *newton.Point {
	t := l.train
	p := &newton.Point{Weights: w, F: append([]float64(nil), t.mean...)}
	dense.Gemv(blas.NoTrans, l.root, dense.Cols(t.phi, 0, len(w)), dense.Vector(w), 1, dense.Vector(p.F))
	return p
}

// sums returns the sums of all examples with these sites.
func (l *modeSums) sums(ctx context.Context, s *gp.Sites) (*Sums, error) {
	t, c, r := l.train, l.b.c, l.b.rank()
	sums, local := newSums(l.spec), sites.Of(s)
	sums.logLik = s.LogLik
	a, step := newAdder(l.b, sums, t.Len(), c), linearize.Tile(c)
	for i := range par.Tiles(t.Len(), step) {
		lo, hi := par.Bounds(i, t.Len(), step)
		floats.ScaleTo(a.diag[:(hi-lo)*c*c], l.root*l.root, dense.Contiguous(dense.Slice(t.prior, lo*c, hi*c)))
		if err := a.addWith(ctx, t.features(lo, hi, r, l.root), local.Slice(lo, hi), t.mean[lo*c:hi*c]); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// F returns f̂ at the training examples, N×C.
func (m *Mode) F() *mat.Dense {
	return mat.NewDense(len(m.at.F)/m.b.c, m.b.c, append([]float64(nil), m.at.F...))
}

// Evidence is the Laplace evidence at the mode (E9), as Posterior.EvidenceRefit.
func (m *Mode) Evidence() gp.Evidence {
	// Σ log p(y|f̂) − ½wᵀw − ½ log det A' (E9)
	return gp.NewEvidence(m.sites.LogLik, floats.Dot(m.w, m.w), m.logDet)
}

// LeaveOneOutTo writes the posterior at training examples without the example
// itself (E17), as Posterior.LeaveOneOutTo does: mean n×C and cov n·C×C of the
// examples in these rows of the data.
func (m *Mode) LeaveOneOutTo(ctx context.Context, mean, cov *mat.Dense, rows []int) error {
	t, c, r := m.train, m.b.c, m.b.rank()
	dense.SizeTo(mean, len(rows), c)
	dense.SizeTo(cov, len(rows)*c, c)
	ratio := m.preparedRatio(t)
	step := linearize.Tile(c)
	for tile := range par.Tiles(len(rows), step) {
		lo, hi := par.Bounds(tile, len(rows), step)
		phi := dense.New((hi-lo)*c, r)
		prior, h := mat.NewDense(phi.Rows, c, nil), mat.NewDense(phi.Rows, c, nil)
		for i, row := range rows[lo:hi] {
			dense.Slice(prior, i*c, (i+1)*c).Scale(ratio, dense.Slice(t.prior, row*c, (row+1)*c))
			dense.Copy(dense.Rows(phi, i*c, (i+1)*c), t.features(row, row+1, r, math.Sqrt(ratio)))
		}
		rest := mat.DenseCopyOf(prior)
		if err := m.split(ctx, h, rest, phi); err != nil {
			return err
		}
		err := par.Do(ctx, hi-lo, func(i int) error {
			row := rows[lo+i]
			to, v := []float64(nil), dense.Slice(cov, (lo+i)*c, (lo+i+1)*c)
			if mean != nil {
				to = mean.RawRowView(lo + i)
			}
			part := func(of *mat.Dense) *mat.Dense { return dense.Slice(of, i*c, (i+1)*c) }
			gp.LeaveOneOutSplit(to, v, part(h), part(rest), part(prior), dense.Slice(m.sites.Root, row*c, (row+1)*c), m.at.F[row*c:(row+1)*c], m.alpha[row*c:(row+1)*c])
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
