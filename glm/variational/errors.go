package variational

import "fmt"

// A FisherError says that a likelihood gives the Fisher information as Λ, which is
// not −∂²log p/∂f², so that E Λ is not the precision at which the lower bound is largest.
type FisherError struct{ Likelihood string }

func (e *FisherError) Error() string {
	return fmt.Sprintf("variational: the %s likelihood is not log-concave, and its Λ is the Fisher information; the refinement needs a log-concave likelihood", e.Likelihood)
}

// A DivergedError reports numbers outside the range of a float64, and a remedy.
type DivergedError struct {
	What   string // "the refinement", or an update by its number from 0
	Err    error  // names the number
	Remedy string
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("variational: %s diverged: %v; %s", e.What, e.Err, e.Remedy)
}

// Unwrap returns what diverged.
func (e *DivergedError) Unwrap() error { return e.Err }
