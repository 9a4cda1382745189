package network

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// A Backpropagation is a way to backpropagate the GGN from layer to layer [lae algorithm 1]. At the
// result z of a layer it is a matrix M, whose rows and columns are the elements of z: M starts as Λ
// at the output, and a layer with the Jacobian J passes JᵀMJ on to its input. Each operator is a
// layer. Where paths split and join, as in a residual block, everything between is one layer.
type Backpropagation = graph.Backpropagation

const (
	// Exact keeps the whole of M. The result is the diagonal of Σ_n J_nᵀΛ_nJ_n up to rounding.
	Exact = graph.Exact
	// Diagonals keeps the diagonal of M before and after every layer [lae E.4.1]. Its
	// work for a chain of layers is that of one backward pass.
	Diagonals = graph.Diagonals
	// ConvolutionDiagonals keeps the diagonal of M before and after convolutions, and
	// the whole of M elsewhere. It is a reading of the "mixed diagonal" that [lae]
	// names without defining it.
	ConvolutionDiagonals = graph.ConvDiagonals
	// FullAtConvolutions is ConvolutionDiagonals, except that a convolution's own
	// weights see the whole of the M above it.
	FullAtConvolutions = graph.FullAtConvolutions
)

// GGNDiagonal writes the diagonal of Σ_n J_nᵀ Λ_n J_n over the rows of x, N×D, to dst,
// length P, or the approximation of it that b chooses. roots holds R of each example,
// N·C×C, with Λ = R Rᵀ (E4); nil means that Λ is the identity, as for a Gaussian
// likelihood of variance one.
//
// No Jacobian is formed. Exact takes C backward passes from the output down to the first layer
// whose result has fewer elements than C. From there it takes as many passes as the result has
// elements, and so on. These are fewer passes than Linearize takes if a layer is narrower than the
// output, as in an autoencoder.
//
// It panics for roots of another size. A NaN or Inf in x or in an output is an error that names the
// row.
func (n *Network) GGNDiagonal(ctx context.Context, dst []float64, x, roots *mat.Dense, b Backpropagation) error {
	if len(dst) != n.prog.P {
		panic("network: the diagonal of the GGN has one number for each parameter")
	}
	clear(dst)
	return n.addGGN(ctx, dst, x, roots, b)
}

var _ linearize.SquaredModel = (*Network)(nil)

// AddSquares adds the diagonal of Σ_n J_nᵀ R_n R_nᵀ J_n to dst; see GGNDiagonal.
func (n *Network) AddSquares(ctx context.Context, dst []float64, x, roots *mat.Dense) error {
	return n.addGGN(ctx, dst, x, roots, Exact)
}

// ggnFloats bounds the elements of M that a worker keeps for a chunk of examples.
const ggnFloats = 1 << 22

func (n *Network) addGGN(ctx context.Context, dst []float64, x, roots *mat.Dense, b Backpropagation) error {
	rows, c := dense.Count(x), n.prog.C
	if roots != nil && !dense.Is(roots, rows*c, c) {
		panic("network: the roots are not N·C×C")
	}
	if x.IsEmpty() {
		return fmt.Errorf("network: no examples to linearize at")
	}
	if err := n.CheckInput(x); err != nil {
		return err
	}
	d, parts := n.newDerivatives(b, roots != nil), make([][]float64, wave)
	err := inWaves(ctx, rows, d.size, wave, len(d.states), func(w, i, lo, hi int) error {
		if parts[i] == nil {
			parts[i] = make([]float64, len(dst))
		}
		clear(parts[i])
		return d.addGGN(w, parts[i], x, roots, lo, hi)
	}, func(i int) { dense.Axpy(dst, 1, parts[i]) })
	if err != nil {
		return err
	}
	return finiteCurvature(dst)
}

// addGGN adds the diagonal for the examples [lo, hi) to dst, with the memory of worker w.
func (d *Derivatives) addGGN(w int, dst []float64, x, roots *mat.Dense, lo, hi int) error {
	s, c := d.states[w], d.net.prog.C
	s.Forward(contiguousRows(x, lo, hi), hi-lo)
	if _, err := s.Outputs(lo); err != nil {
		return err
	}
	var r []float64
	if roots != nil {
		r = contiguousRows(roots, lo*c, hi*c)
	}
	d.back[w].Add(dst, r)
	return nil
}

// finiteCurvature returns an error that names the first number that is not finite.
func finiteCurvature(ggn []float64) error {
	if i := dense.NotFinite(ggn); i >= 0 {
		return fmt.Errorf("network: the curvature of parameter %d is %v; the network has no derivative at some input, or its derivatives are too large", i, ggn[i])
	}
	return nil
}
