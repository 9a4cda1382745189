package gp

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/store"
)

// Targets are training targets, N rows, and their likelihood. Load compares
// them with those of the saved posterior.
type Targets struct {
	Y          *mat.Dense
	Likelihood Likelihood
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

// Check compares the likelihood's residual at s.F with s.Residual. It returns a
// *TargetsError where they differ by more than rounding, and another error where
// the targets do not fit s in number or the likelihood does not admit them.
func (t *Targets) Check(s *Sites) error {
	if err := checkTargets(t.Y, s.F, t.Likelihood); err != nil {
		return err
	}
	// A residual Λ(y − f) carries the rounding errors of Λf.
	tol := 1e-9*largest(s.Residual) + 1e-14*largest(s.Lambda)*largest(s.F)
	n, c := s.F.Dims()
	r := make([]float64, c)
	for i := range n {
		t.Likelihood.Expand(r, nil, nil, t.Y.RawRowView(i), s.F.RawRowView(i))
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
