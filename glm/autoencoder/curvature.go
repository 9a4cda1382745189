package autoencoder

import (
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/linearize/network"
)

// A Curvature is a way to carry the GGN back through the layers [lae algorithm 1].
type Curvature int

const (
	// Approximate keeps the diagonal between layers [lae E.4.1], at the work of one
	// backward pass.
	Approximate Curvature = iota
	// Exact keeps all of it, at the work of a backward pass for each pixel down to the
	// first layer that is narrower.
	Exact
	// Mixed keeps the diagonal before and after convolutions, and all of it elsewhere.
	Mixed
)

var curvatureNames = []string{"approximate", "exact", "mixed"}

// String returns the name that ParseCurvature reads.
func (c Curvature) String() string { return curvatureNames[c] }

// ParseCurvature returns the curvature of a name: approximate, exact or mixed.
func ParseCurvature(name string) (Curvature, error) {
	if i := slices.Index(curvatureNames, name); i >= 0 {
		return Curvature(i), nil
	}
	return 0, fmt.Errorf("autoencoder: there is no curvature %q; take approximate, exact or mixed", name)
}

// CurvatureNames returns the names of the curvatures.
func CurvatureNames() []string { return slices.Clone(curvatureNames) }

func (c Curvature) backpropagation() network.Backpropagation {
	switch c {
	case Exact:
		return network.Exact
	case Mixed:
		return network.ConvolutionDiagonals
	}
	return network.Diagonals
}
