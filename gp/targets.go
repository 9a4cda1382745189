package gp

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/store"
)

// Targets are training targets, N rows, and their likelihood. A Load that is
// given them compares them with those of the saved posterior.
type Targets struct {
	Y          *mat.Dense
	Likelihood Likelihood
}

// A TargetsError says that sites belong to other targets or another likelihood.
type TargetsError struct {
	Row, Output     int
	Residual, Saved float64 // of the targets given, and of the sites
}

func (e *TargetsError) Error() string {
	return fmt.Sprintf("the targets or the likelihood are others: the residual of training example %d, output %d is %v, the saved one %v", e.Row, e.Output, e.Residual, e.Saved)
}

// Check tells whether s are sites of the targets, whatever the function values
// they are at: the likelihood's residual at s.F is s.Residual, but for
// rounding. If not it returns a *TargetsError, and another error where the
// targets cannot be those of s at all.
func (t *Targets) Check(s *Sites) error {
	if err := checkTargets(t.Y, s.F, t.Likelihood); err != nil {
		return err
	}
	// Residuals y − f lose what rounding leaves of Λf.
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

// CheckSaved makes other targets than those of the sites the error of a Reader.
// A nil t compares nothing.
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
