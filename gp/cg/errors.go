package cg

import (
	"errors"
	"fmt"
)

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
	errNoEigenvalues = errors.New("cg: the eigenvalues of the preconditioner were not found; the kernel is not finite")
	errNotCovariance = errors.New("cg: conjugate gradients met a direction in which I + RᵀKR is not positive; the kernel is not a covariance")
)
