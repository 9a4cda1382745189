package network

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// wave is how many chunks have a gradient of their own at a time. It bounds the
// memory and fixes the order in which gradients are added.
const wave = 16

// A gradientSum adds up gradients with respect to θ, chunk by chunk in a fixed
// order.
type gradientSum struct {
	net    *Network
	states []*graph.State // by worker
	parts  [][]float64    // the gradient of each chunk of a wave, length P
}

func newGradientSum(n *Network) *gradientSum {
	g := &gradientSum{net: n, states: make([]*graph.State, par.Workers(0)), parts: make([][]float64, wave)}
	for w := range g.states {
		g.states[w] = graph.NewState(n.prog, n.static)
	}
	for i := range g.parts {
		g.parts[i] = make([]float64, n.prog.P)
	}
	return g
}

// setTheta points the states at other parameters.
func (g *gradientSum) setTheta(theta []float64) {
	static := g.net.prog.EvalStatic(theta)
	for _, s := range g.states {
		s.Static = static
	}
}

// add adds Σ_n J(x_n)ᵀ u_n to dst and returns the sum of the numbers that seed
// returns. seed gets the outputs f of examples [lo, hi) and writes their u.
func (g *gradientSum) add(ctx context.Context, dst []float64, x *mat.Dense, seed func(u, f []float64, lo, hi int) (float64, error)) (float64, error) {
	p := g.net.prog
	rows, _ := x.Dims()
	tiles := par.Tiles(rows, p.Chunk)
	sum, values := 0.0, make([]float64, wave)
	for first := 0; first < tiles; first += wave {
		count := min(wave, tiles-first)
		err := par.DoWorker(ctx, 0, count, func(w, i int) (err error) {
			s := g.states[w]
			lo, hi := par.Bounds(first+i, rows, p.Chunk)
			s.Forward(contiguousRows(x, lo, hi), hi-lo)
			f, err := s.Outputs(lo)
			if err != nil {
				return err
			}
			u := s.Buffer(1, len(f))
			if values[i], err = seed(u, f, lo, hi); err != nil {
				return err
			}
			clear(g.parts[i])
			s.AddGradient(g.parts[i], u)
			return nil
		})
		if err != nil {
			return 0, err
		}
		for i := range count {
			sum += values[i]
			dense.Axpy(dst, 1, g.parts[i])
		}
	}
	return sum, nil
}

// VJP writes Jᵀu = Σ_n J(x_n)ᵀ u_n to dst, length P, by one forward and one
// backward pass; x is N×D and u N×C, and other sizes panic. A NaN or Inf in x or
// in an output is an error that names the row.
func (n *Network) VJP(ctx context.Context, dst []float64, x, u *mat.Dense) error {
	rows, c := u.Dims()
	if xr, _ := x.Dims(); xr != rows || c != n.prog.C || len(dst) != n.prog.P {
		panic("network: sizes of a vector-Jacobian product differ")
	}
	if err := n.checkInput(x); err != nil {
		return err
	}
	clear(dst)
	_, err := newGradientSum(n).add(ctx, dst, x, func(seed, _ []float64, lo, hi int) (float64, error) {
		for i := lo; i < hi; i++ {
			copy(seed[(i-lo)*c:], u.RawRowView(i))
		}
		return 0, nil
	})
	return err
}
