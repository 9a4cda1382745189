package certificate

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Certificate compares the posterior on kept rows with that of all rows. D are the
// dropped rows, and M = S_D C_k(D,D) S_D with S_D = diag √λ and C_k the posterior
// covariance on the kept rows (E16). Where these have representatives, D has all rows that they stand
// for, and variances may also be smaller than those of all rows.
type Certificate struct {
	Kept, Dropped int     // rows with λ > 0, without representatives
	Trace         float64 // the part of tr Λ that kept rows have
	// TraceM is t = tr M, and its interval is TraceM ± TraceMError. TraceMError is 0
	// where t was computed exactly.
	TraceM, TraceMError float64
	// Norm is the interval of ‖M‖₂.
	Norm [2]float64
	// VarianceAtMost is 1 + Norm[1]: no variance is more than this times that of all
	// rows.
	VarianceAtMost float64
	// LogDet is the interval of log det B of all rows.
	LogDet [2]float64
	// Failure is the probability that an interval does not hold, over the random numbers:
	// 0 where all was computed exactly, and 1e-6 for the bounds of Options.All. It is
	// 0.05, of each interval alone and as tests find it, where Sampled is set.
	Failure float64
	// Sampled tells that the intervals come from a sample of the dropped rows: they are
	// estimates and no bounds.
	Sampled bool
	Rows    int // number of different dropped rows that were used
}

// Options are those of Certify. nil means all defaults.
type Options struct {
	// Sample is the number of dropped rows to draw, at least 2; 0 means 2000. Where there
	// are no more than this, everything is computed exactly.
	Sample int
	// All uses all dropped rows. It takes some thirty products with J and as many with Jᵀ
	// over all training examples.
	All  bool
	Seed uint64
	linearize.Limits
	// Products are those of the training examples, such as a network's; nil means
	// linearize.ProductsOf the source, where each takes the work of all outputs.
	Products linearize.Products
}

// Stages of Options.Progress.
const (
	StageSample = "dropped rows"          // rows of the sample
	StageNorm   = "norm of dropped rows"  // products with M
	StageTrace  = "trace of dropped rows" // random vectors
)

const defaultSample = 2000

// Certify compares t with the posterior of all rows of the training examples src with
// sites s, from which its rows were kept. prior and theta are those of the kernel of t.
//
// It fails with a *PriorError where the kernel of t is an ntk.NTK of another prior or θ*,
// with a *gp.MemoryError before anything large is allocated, with a *gp.NotFiniteError where a covariance is NaN or Inf, and with ctx.Err(), wrapped.
func Certify(ctx context.Context, t *gp.Thinned, src linearize.Source, s *gp.Sites, prior ntk.Prior, theta []float64, o *Options) (*Certificate, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	if opt.Sample < 0 || opt.Sample == 1 {
		panic("certificate: a sample of fewer than two rows")
	}
	opt.Sample = cmp.Or(opt.Sample, defaultSample)
	d, err := newDropped(ctx, t, src, s, prior, theta, &opt)
	if err != nil {
		return nil, stopped(err)
	}
	c := &Certificate{Kept: t.Kept().Own(), Dropped: d.rows.Len(), Trace: 1}
	if d.rows.Total > 0 {
		c.Trace = 1 - d.rows.Trace/d.rows.Total
	}
	switch {
	case d.rows.Len() <= opt.Sample:
		err = d.exactly(ctx, c)
	case opt.All:
		err = d.all(ctx, c)
	default:
		err = d.sampled(ctx, c)
	}
	if err != nil {
		return nil, stopped(err)
	}
	c.VarianceAtMost = 1 + c.Norm[1]
	for i := range c.LogDet {
		c.LogDet[i] += t.LogDet()
	}
	if t.Kept().Representatives > 0 {
		c.LogDet[0] = t.LogDetOwn()
	}
	return c, nil
}

// A PriorError reports a prior, or a θ*, that is not that of the posterior's kernel.
type PriorError struct {
	Of ntk.Difference // the first parameter that differs: of the kernel, and as given
}

func (e *PriorError) Error() string {
	d := &e.Of
	if d.Variance[0] != d.Variance[1] {
		return fmt.Sprintf("the posterior's kernel has the prior variance %v for parameter %d, the prior given has %v; give the prior of the posterior", d.Variance[0], d.Parameter, d.Variance[1])
	}
	return fmt.Sprintf("in the posterior's kernel the prior mean of parameter %d is %v from θ*, in what is given %v; give prior and θ* of the posterior", d.Parameter, d.Shift[0], d.Shift[1])
}

func stopped(err error) error { return fmt.Errorf("certificate: %w", err) }

// dropped are the rows that a posterior leaves out, with what it takes to multiply with
// their covariance.
type dropped struct {
	post   *gp.Thinned
	src    linearize.Source
	prior  ntk.Prior
	kernel *ntk.NTK
	rows   *gp.Kept  // those that are dropped
	root   []float64 // √λ of each
	o      *Options
}

func newDropped(ctx context.Context, t *gp.Thinned, src linearize.Source, s *gp.Sites, prior ntk.Prior, theta []float64, o *Options) (*dropped, error) {
	n, _ := s.F.Dims()
	if n != src.Len() || len(theta) != t.Rows().P {
		panic("certificate: sites, examples and parameters differ in size")
	}
	kernel := ntk.New(prior, theta)
	if k, ok := t.Kernel().(*ntk.NTK); ok {
		if other := k.Difference(kernel); other != nil {
			return nil, &PriorError{*other}
		}
	}
	rows, err := t.Kept().Dropped(ctx, s)
	if err != nil {
		return nil, err
	}
	d := &dropped{post: t, src: src, prior: prior, kernel: kernel, rows: rows, o: o}
	for _, v := range rows.Lambda {
		d.root = append(d.root, math.Sqrt(v))
	}
	return d, nil
}

// exactly computes c from M itself.
func (d *dropped) exactly(ctx context.Context, c *Certificate) error {
	if c.Rows = d.rows.Len(); c.Rows == 0 {
		return nil
	}
	m, err := d.covariance(ctx, dense.Range(c.Rows))
	if err != nil {
		return err
	}
	c.TraceM = mat.Trace(m)
	one := make([]float64, c.Rows)
	for i := range one {
		one[i] = 1
	}
	norm, _, err := first(ctx, m, one, 1e-12)
	if err != nil {
		return err
	}
	c.Norm = [2]float64{norm, norm}
	for i := range one {
		m.SetSym(i, i, 1+m.At(i, i))
	}
	u, ok, err := dense.PotrfContext(ctx, m.RawSymmetric())
	if err != nil {
		return err
	}
	if !ok {
		return &gp.NotPDError{What: "I + M of the dropped rows", N: c.Rows, Reason: "the kernel is not a covariance"}
	}
	c.LogDet = [2]float64{dense.LogDet(u), dense.LogDet(u)}
	return nil
}
