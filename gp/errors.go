package gp

import (
	"fmt"

	"github.com/funcgp/funcgp/linearize"
)

// NotFiniteError reports a NaN or Inf and where it stands.
type NotFiniteError struct {
	What        string // for example "target" or "network output"
	Row, Output int    // 0-based example and column
	Value       float64
	Remedy      string // what to do, or empty where that is plain
}

func (e *NotFiniteError) Error() string {
	text := fmt.Sprintf("gp: %s of example %d, output %d is %v", e.What, e.Row, e.Output, e.Value)
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// tooLarge is the remedy for numbers that the prior's variance made overflow.
const tooLarge = "raise the prior precision, or check the network's Jacobian"

// NotPDError reports that a matrix has no Cholesky factor, although it has one
// in exact arithmetic for valid data.
type NotPDError struct {
	What   string  // the matrix, for example "I + RᵀKR"
	N      int     // its rows
	Jitter float64 // the largest number that was added to its diagonal, or 0
	Reason string  // why this may be, or what to do
}

func (e *NotPDError) Error() string {
	text := fmt.Sprintf("gp: %s with %d rows is not positive definite", e.What, e.N)
	if e.Jitter > 0 {
		text += fmt.Sprintf(", even with %.3g on its diagonal", e.Jitter)
	}
	return text + "; " + e.Reason
}

const notCovariance = "the kernel is not a covariance"

// NegativeVarianceError reports a predictive variance that is negative by more
// than rounding explains.
type NegativeVarianceError struct {
	Row, Output     int
	Variance, Prior float64 // posterior and prior variance
}

func (e *NegativeVarianceError) Error() string {
	return fmt.Sprintf("gp: the posterior variance of example %d, output %d is %.3g at a prior variance of %.3g; the kernel is not a covariance", e.Row, e.Output, e.Variance, e.Prior)
}

// Units of a MemoryError.
const (
	TrainingExamples = "training examples"
	TestExamples     = "test examples"
	InducingExamples = "inducing examples"
	InducingPairs    = "inducing pairs" // of example and output
	KeptRows         = "kept rows"      // of example and eigen-direction of Λ
	Parameters       = linearize.Parameters
)

// MemoryError reports that an operation would take more memory than allowed.
type MemoryError = linearize.MemoryError

// stopped wraps the error of a cancelled context with what it interrupted.
func stopped(what string, err error) error {
	return fmt.Errorf("gp: stopped while %s: %w", what, err)
}

// NoMatchError says that no prior precision matches the linearized model to the network
// (E21), because the network explains the training targets no better than the prior mean.
type NoMatchError struct {
	Network, Prior float64 // Σ log p(y|f) at f(x;θ*) and at the prior mean
}

func (e *NoMatchError) Error() string {
	return fmt.Sprintf("gp: the network has a log likelihood of %.6g on the training targets and the prior mean one of %.6g; no prior precision matches the network; train it further, or state the precision", e.Network, e.Prior)
}
