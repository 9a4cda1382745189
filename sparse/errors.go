package sparse

import (
	"errors"
	"fmt"
)

// CountError reports more inducing examples than there are training examples,
// more pairs than there are outputs of training examples, or none.
type CountError struct {
	M, N  int  // inducing and training examples, or pairs and outputs N·C
	Pairs bool // M counts (example, output) pairs
}

func (e *CountError) Error() string {
	switch {
	case e.M < 1 && e.Pairs:
		return fmt.Sprintf("sparse: %d inducing pairs; at least one is needed", e.M)
	case e.M < 1:
		return fmt.Sprintf("sparse: %d inducing examples; at least one is needed", e.M)
	case e.Pairs:
		return fmt.Sprintf("sparse: %d inducing pairs of %d outputs of training examples; choose at most %d", e.M, e.N, e.N)
	}
	return fmt.Sprintf("sparse: %d inducing examples of %d training examples; choose at most %d", e.M, e.N, e.N)
}

// MismatchError reports sums that cannot be added, because they belong to other
// inducing examples or another prior.
type MismatchError struct {
	What string // what differs, such as "their prior"
}

func (e *MismatchError) Error() string {
	return "sparse: the sums differ in " + e.What + "; build all of them with the same inducing examples and prior"
}

// errSubsetPairs reports inducing pairs given for a subset of data.
var errSubsetPairs = errors.New("sparse: a subset of data is one of whole examples, whose sites couple their outputs; choose examples instead of (example, output) pairs")
