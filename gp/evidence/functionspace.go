package evidence

import (
	"context"
	"slices"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// functionSpace computes posteriors from the kernels of the groups.
type functionSpace struct {
	m     *Model
	held  *kernels // nil where the memory is too small
	units []ntk.Kernel
	last  *gp.Exact // its memory is reused by the next posterior
}

// newSpace chooses the space that takes less work, or the other one where only that fits into memory.
func newSpace(ctx context.Context, m *Model) (space, error) {
	n, c, p := m.p.X.Len(), m.p.X.Outputs(), m.p.X.P
	budget := gp.MemoryBudget(m.o.Memory)
	fits := [...]bool{inFunctions: functionBytes(n, c) <= budget, inWeights: weightspace.Bytes(p, c) <= budget}
	in := m.o.in
	// Where Λ is the Fisher information, the mode moves by the Hessian. Only function space can solve with it.
	switch {
	case m.p.Y.Scored():
		in = inFunctions
	case in != anySpace:
	case inWeightSpace(p, n*c) && fits[inWeights] || !fits[inFunctions] && fits[inWeights]:
		in = inWeights
	default:
		in = inFunctions
	}
	if in == inWeights {
		return newWeightSpace(m)
	}
	return newFunctionSpace(ctx, m)
}

// Values of Options.in.
const (
	anySpace = iota
	inFunctions
	inWeights
)

// functionBytes returns the memory in bytes of function space for n examples with c outputs, without the kernels of
// the groups.
func functionBytes(n, c int) int64 { return memory.Add(gp.Bytes(n, c), scratchBytes(n, c)) }

func newFunctionSpace(ctx context.Context, m *Model) (*functionSpace, error) {
	n, c := m.p.X.Len(), m.p.X.Outputs()
	groups := len(m.scatter)
	err := gp.CheckMemory("an evidence in function space", gp.TrainingExamples, n, m.o.Memory, func(n int) int64 { return functionBytes(n, c) })
	if err != nil {
		return nil, err
	}
	f := &functionSpace{m: m}
	k := ntk.New(m.prior, m.p.Theta)
	if memory.Add(functionBytes(n, c), kernelBytes(n, c, groups)) <= gp.MemoryBudget(m.o.Memory) {
		var err error
		if f.held, err = formKernels(ctx, k, m.p.X, m.o.Show); err != nil {
			return nil, err
		}
	}
	for g := range groups {
		weight := make([]float64, groups)
		weight[g] = 1
		f.units = append(f.units, &weighted{Kernel: k.GroupKernel(g), held: f.held, weight: weight})
	}
	return f, nil
}

// scratchBytes returns the memory in bytes of the panels for the derivatives.
func scratchBytes(n, c int) int64 {
	return memory.Mul(16, memory.Mul(int64(examplesOfPanel(c)*c), memory.Mul(int64(n), int64(c))))
}

func (f *functionSpace) at(ctx context.Context, form Form, prior *ntk.Scaled, y *gp.Targets) (posterior, error) {
	p := f.m.p
	k := &weighted{held: f.held, weight: prior.Factors()}
	k.Kernel = ntk.New(prior, p.Theta)
	o := &gp.Options{Limits: linearize.Limits{Memory: f.m.o.Memory}, Reuse: f.last}
	f.last = nil // its memory is invalid from here on, also if this fails
	s, err := gp.NewSites(y, p.X.F)
	if err != nil {
		return nil, err
	}
	e := &exact{f: f}
	if form.refits() {
		e.Exact, err = gp.Refit(ctx, k, p.X, y, o)
	} else {
		e.Exact, err = gp.Fit(ctx, k, p.X, s, o)
	}
	if err == nil && form == HeldSites {
		e.mode = &exactMode{e.EvidenceRefit(), e.Alpha(), e.Warnings()}
		e.Exact, err = e.Recondition(ctx, s)
	}
	if err == nil && form == LinearGaussian {
		e.linear, err = e.EvidenceLinearGaussian(ctx)
	}
	if err != nil {
		return nil, err
	}
	f.last = e.Exact
	return e, nil
}

// An exact is a posterior in function space.
type exact struct {
	f *functionSpace
	*gp.Exact
	linear gp.Evidence // for LinearGaussian
	mode   *exactMode  // for HeldSites, where Exact is at the sites of θ*; else nil
}

// An exactMode is the part of the refit that HeldSites uses.
type exactMode struct {
	gp.Evidence
	alpha    []float64
	warnings []error
}

func (e *exact) evidence(form Form, scatter float64) gp.Evidence {
	switch form {
	case AtTheta:
		return e.EvidenceAtTheta(scatter)
	case LinearGaussian:
		return e.linear
	case HeldSites:
		return gp.NewEvidence(e.mode.LogLik, e.mode.Scatter, e.LogDet())
	}
	return e.EvidenceRefit()
}

func (e *exact) terms(ctx context.Context, form Form, y *gp.Targets) (*terms, error) {
	g, err := e.GroupTermsOf(ctx, e.f.units, e.dual())
	if err != nil {
		return nil, err
	}
	t := &terms{trace: g.Trace, quad: g.Quad, inverse: g.Inverse}
	if form == Refit {
		t.moving, err = e.Moving(ctx, g, y)
	}
	return t, err
}

func (e *exact) sites() *gp.Sites { return e.Sites() }

func (e *exact) dual() []float64 {
	if e.mode != nil {
		return e.mode.alpha
	}
	return e.Alpha()
}

func (e *exact) warnings() []error {
	if e.mode == nil {
		return e.Warnings()
	}
	// At the sites of θ* only the factor of B is used, not the mean.
	all := slices.Clone(e.mode.warnings)
	if w := linearize.FindWarning(e.Warnings(), "jitter"); w != nil {
		all = append(all, w)
	}
	return all
}
