package cg

import (
	"errors"
	"fmt"
)

// ConvergenceWarning says that a solve by conjugate gradients did not reach
// its tolerance: it used all its steps, or rounding allowed no further gain.
type ConvergenceWarning struct {
	What     string  // what was solved for
	Steps    int     // of conjugate gradients
	Residual float64 // the relative residual reached
	Allowed  float64 // the tolerance
}

func (w *ConvergenceWarning) Error() string {
	return fmt.Sprintf("cg: conjugate gradients for %s reached the relative residual %.3g, not %.3g, in %d steps; allow more steps or a larger rank of the preconditioner",
		w.What, w.Residual, w.Allowed, w.Steps)
}

// QuadratureWarning says that after MaxSteps Lanczos steps the quadrature of the
// log determinant still has a larger error than the choice of probes.
type QuadratureWarning struct {
	Steps  int
	Width  float64 // of the interval that holds the quadrature
	StdErr float64 // standard error of the probes
}

func (w *QuadratureWarning) Error() string {
	return fmt.Sprintf("cg: the quadrature of the log determinant is known to %.3g after %d Lanczos steps, the probes' standard error is %.3g; allow more steps or a larger rank of the preconditioner",
		w.Width, w.Steps, w.StdErr)
}

// RangeError reports that a solve by conjugate gradients, or a Lanczos step,
// met a number that is NaN or Inf.
type RangeError struct {
	What     string  // the number
	Value    float64 // NaN or Inf
	Steps    int     // steps of conjugate gradients or Lanczos before it
	Residual float64 // the last relative residual before it; 1 at the start, NaN for Lanczos
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("cg: %s is not finite (%v) after %d steps, at the relative residual %.3g; check the Jacobian, and scale targets, noise and prior variance towards 1",
		e.What, e.Value, e.Steps, e.Residual)
}

var (
	errEnough        = errors.New("cg: enough") // ends a pass over examples early
	errNoEigenvalues = errors.New("cg: the eigenvalues of the preconditioner were not found; the kernel is not finite")
	errNotCovariance = errors.New("cg: conjugate gradients met a direction in which I + RᵀKR is not positive; the kernel is not a covariance")
)
