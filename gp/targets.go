package gp

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/internal/store"
)

// Targets are what a posterior is fitted to: the targets of N training examples under a likelihood. They are
// read-only.
type Targets struct {
	Y          *mat.Dense // N rows, as the likelihood takes them
	Likelihood Likelihood
	// Weights are the powers w_i ≥ 0 of p(y_i|f_i) in the objective, N numbers; nil stands for 1 each (E23). A row of
	// weight 2 counts as two equal rows, and a row of weight 0 as none.
	Weights []float64
}

// NewTargets returns targets, N rows, that all have weight 1.
func NewTargets(y *mat.Dense, lik Likelihood) *Targets { return &Targets{Y: y, Likelihood: lik} }

// Under returns the same targets and weights under another likelihood.
func (t *Targets) Under(lik Likelihood) *Targets {
	return &Targets{Y: t.Y, Likelihood: lik, Weights: t.Weights}
}

// Len returns N.
func (t *Targets) Len() int {
	n, _ := t.Y.Dims()
	return n
}

// Weight returns w_i.
func (t *Targets) Weight(i int) float64 {
	if t.Weights == nil {
		return 1
	}
	return t.Weights[i]
}

// Expand returns w_i log p(y_i|f) of example i, and writes w_i r, w_i Λ and √w_i R, of the sizes of
// Likelihood.Expand (E3), (E23). A nil destination is skipped.
func (t *Targets) Expand(i int, residual, lambda, root, f []float64) (logp float64) {
	w := t.Weight(i)
	if w == 0 { // also where log p is −∞
		clear(residual)
		clear(lambda)
		clear(root)
		return 0
	}
	logp = t.Likelihood.Expand(residual, lambda, root, t.Y.RawRowView(i), f)
	if w == 1 {
		return logp
	}
	floats.Scale(w, residual)
	floats.Scale(w, lambda)
	floats.Scale(math.Sqrt(w), root)
	return w * logp
}

// Scored tells whether the likelihood is Scored.
func (t *Targets) Scored() bool {
	_, ok := t.Likelihood.(Scored)
	return ok
}

// curvatureTo writes −w_i ∂²log p/∂f² of example i under a Scored likelihood, C·C.
func (t *Targets) curvatureTo(dst []float64, i int, f []float64) {
	t.Likelihood.(Scored).CurvatureTo(dst, t.Y.RawRowView(i), f)
	floats.Scale(t.Weight(i), dst)
}

// SlopeTo writes the derivatives of tr(CΛ_i) in the function values f of example i, length C, for a fixed covariance
// cov, C·C: what the derivative of a refit's evidence takes of the likelihood (E10). It uses SlopeTo of a Sloped
// likelihood, and otherwise differences of Expand.
func (t *Targets) SlopeTo(dst []float64, i int, f, cov []float64) {
	curvatureSlopeTo(dst, t.Likelihood, t.Y.RawRowView(i), f, cov)
	floats.Scale(t.Weight(i), dst)
}

// LogLik returns Σ w_i log p(y_i|f_i), f N·C, added in order.
func (t *Targets) LogLik(f []float64) float64 { return newton.LogLik(t, f) }

// Slice returns the targets of the examples [lo, hi) in the same memory.
func (t *Targets) Slice(lo, hi int) *Targets {
	s := &Targets{Y: dense.Slice(t.Y, lo, hi), Likelihood: t.Likelihood}
	if t.Weights != nil {
		s.Weights = t.Weights[lo:hi]
	}
	return s
}

// Rows returns a copy of the targets of some examples, in the order of rows.
func (t *Targets) Rows(rows []int) *Targets {
	_, width := t.Y.Dims()
	s := &Targets{Y: mat.NewDense(len(rows), width, nil), Likelihood: t.Likelihood}
	for k, i := range rows {
		s.Y.SetRow(k, t.Y.RawRowView(i))
		if t.Weights != nil {
			s.Weights = append(s.Weights, t.Weights[i])
		}
	}
	return s
}

// Without returns the targets with a weight of 0 for these rows, which then count as none (E23).
func (t *Targets) Without(rows ...int) *Targets {
	s := &Targets{Y: t.Y, Likelihood: t.Likelihood, Weights: make([]float64, t.Len())}
	for i := range s.Weights {
		s.Weights[i] = t.Weight(i)
	}
	for _, i := range rows {
		s.Weights[i] = 0
	}
	return s
}

// CheckFor returns an error unless there is one row of targets for each of n ≥ 1 examples, all targets are finite,
// and all weights are finite and not negative. If the likelihood has a method CheckY(y []float64, c int) error, it
// must also admit each row for c outputs.
func (t *Targets) CheckFor(n, c int) error {
	if rows := t.Len(); rows != n {
		return fmt.Errorf("gp: %d rows of targets for %d examples", rows, n)
	}
	if n == 0 {
		return ErrNoExamples
	}
	if t.Weights != nil && len(t.Weights) != n {
		return fmt.Errorf("gp: %d weights for %d examples", len(t.Weights), n)
	}
	if err := checkFinite("target", t.Y); err != nil {
		return err
	}
	for i, w := range t.Weights {
		if !(w >= 0) || math.IsInf(w, 1) {
			return fmt.Errorf("gp: the weight of example %d is %v; a weight is finite and not negative", i, w)
		}
	}
	if lik, ok := t.Likelihood.(checker); ok {
		for i := range n {
			if err := lik.CheckY(t.Y.RawRowView(i), c); err != nil {
				return fmt.Errorf("gp: target of example %d: %w", i, err)
			}
		}
	}
	return nil
}

// checkAt checks the targets and f, N×C, before the likelihood sees them.
func (t *Targets) checkAt(f *mat.Dense) error {
	n, c := f.Dims()
	if n > 0 {
		if err := checkFinite("network output", f); err != nil {
			return err
		}
	}
	return t.CheckFor(n, c)
}

// TargetsError says that sites belong to other targets or another likelihood.
type TargetsError struct {
	Row, Output int
	Residual    float64 // of the targets given
	Saved       float64 // residual of the sites
}

func (e *TargetsError) Error() string {
	return fmt.Sprintf("the targets or the likelihood are others: the residual of training example %d, output %d is %v, the saved one %v", e.Row, e.Output, e.Residual, e.Saved)
}

// Check compares the residual at s.F with s.Residual. It returns a
// *TargetsError where they differ by more than rounding, and another error where
// the targets do not fit s in number or the likelihood does not admit them.
func (t *Targets) Check(s *Sites) error {
	if err := t.checkAt(s.F); err != nil {
		return err
	}
	// A residual Λ(y − f) carries the rounding errors of Λf.
	tol := 1e-9*largest(s.Residual) + 1e-14*largest(s.Lambda)*largest(s.F)
	n, c := s.F.Dims()
	r := make([]float64, c)
	for i := range n {
		t.Expand(i, r, nil, nil, s.F.RawRowView(i))
		for j, v := range r {
			if was := s.Residual.At(i, j); !(math.Abs(v-was) <= tol) {
				return &TargetsError{Row: i, Output: j, Residual: v, Saved: was}
			}
		}
	}
	return nil
}

// CheckSaved calls Check and makes its error that of r. It does nothing where t
// is nil.
func (t *Targets) CheckSaved(r *store.Reader, s *Sites) {
	if t == nil || r.Err() != nil {
		return
	}
	if err := t.Check(s); err != nil {
		_ = r.Fail(saved.OtherTargets, "%v", err)
	}
}

// largest returns the largest magnitude in m.
func largest(m *mat.Dense) float64 { return math.Max(mat.Max(m), -mat.Min(m)) }
