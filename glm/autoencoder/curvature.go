package autoencoder

import (
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/linearize/network"
)

// A Curvature is a way to compute the diagonal of the generalized Gauss–Newton matrix (GGN) by carrying C×C blocks
// back through the layers [lae algorithm 1].
type Curvature int

const (
	// Approximate keeps only the diagonal between layers [lae E.4.1]. It costs one backward pass.
	Approximate Curvature = iota
	// Exact keeps the full matrix between layers. It costs one backward pass for each pixel, down to the first
	// layer that is narrower than the output.
	Exact
	// Mixed keeps the diagonal before and after convolutions, and the full matrix elsewhere.
	Mixed
)

var curvatureNames = []string{"approximate", "exact", "mixed"}

// String returns the name, as ParseCurvature reads it.
func (c Curvature) String() string { return curvatureNames[c] }

// ParseCurvature returns the curvature with the given name: approximate, exact or mixed.
func ParseCurvature(name string) (Curvature, error) {
	if i := slices.Index(curvatureNames, name); i >= 0 {
		return Curvature(i), nil
	}
	return 0, fmt.Errorf("autoencoder: there is no curvature %q; take approximate, exact or mixed", name)
}

// CurvatureNames returns the names of all curvatures.
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
