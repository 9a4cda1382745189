package network

import (
	"context"
	"runtime"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// Derivatives computes the gradient of a loss and the diagonal of the GGN of a batch, at parameters
// that may differ from call to call, as in a training that samples its parameters. It keeps its
// memory between calls, so only one goroutine may use it at a time.
type Derivatives struct {
	net     *Network
	plan    *graph.Plan
	size    int                     // examples of a tile
	states  []*graph.State          // by worker
	back    []*graph.Backpropagator // by worker
	squared [][]float64             // squares of the static slots
	parts   [][2][]float64          // gradient and diagonal of each tile of a wave except the first
	values  []float64               // log likelihood of each tile of a wave
}

// NewDerivatives returns the Derivatives of a network that backpropagates the GGN by b.
func (n *Network) NewDerivatives(b Backpropagation) *Derivatives {
	return n.newDerivatives(b, false)
}

// newDerivatives is NewDerivatives. If rooted, the backpropagation starts from M = R Rᵀ.
func (n *Network) newDerivatives(b Backpropagation, rooted bool) *Derivatives {
	if b < Exact || b > FullAtConvolutions {
		panic("network: unknown backpropagation of the GGN")
	}
	d := &Derivatives{net: n, plan: graph.NewPlan(n.prog, b, rooted, true), squared: graph.Squares(n.static)}
	d.size = max(1, min(n.prog.Chunk, ggnFloats/max(1, d.plan.Floats)))
	d.parts, d.values = make([][2][]float64, wave), make([]float64, wave)
	for range runtime.GOMAXPROCS(0) {
		s := n.newState(n.static)
		d.states = append(d.states, s)
		d.back = append(d.back, graph.NewBackpropagator(d.plan, s, d.squared))
	}
	return d
}

// At returns Σ log p(y|f) over the rows of x at the parameters theta, and writes its
// gradient Σ_n J_nᵀr_n to grad and the diagonal of Σ_n J_nᵀJ_n, as the Backpropagation
// has it, to ggn. All three have length P; a nil grad or ggn is skipped. x is B×D and y
// has a row of targets for each example. The network's own parameters do not matter.
//
// A NaN or Inf in x, in an output or in the log likelihood is an error that names the
// row. The bits do not depend on the number of processors.
func (d *Derivatives) At(ctx context.Context, grad, ggn, theta []float64, x, y *mat.Dense, loss Loss) (float64, error) {
	n := d.net
	for _, v := range [][]float64{grad, ggn, theta} {
		if v != nil && len(v) != n.prog.P {
			panic("network: a vector of all parameters has wrong length")
		}
	}
	rows := dense.Count(x)
	if rows == 0 || rows != dense.Count(y) {
		panic("network: inputs and targets differ in rows")
	}
	if err := n.CheckInput(x); err != nil {
		return 0, err
	}
	clear(grad)
	clear(ggn)
	// Set the parameters.
	squares := ggn != nil
	static := d.net.prog.EvalStatic(theta)
	for _, s := range d.states {
		s.Static = static
	}
	if squares {
		graph.SquaresTo(ctx, d.squared, static)
	}
	seed, total := logLik(loss, y, n.prog.C), 0.0
	alone := par.Tiles(rows, d.size) == 1
	err := inWaves(ctx, rows, d.size, wave, len(d.states), func(w, i, lo, hi int) error {
		// The first tile of a wave adds its sums to the result.
		to := [2][]float64{grad, ggn}
		for k, of := range to {
			if i == 0 || of == nil {
				continue
			}
			if d.parts[i][k] == nil {
				d.parts[i][k] = make([]float64, len(of))
			}
			to[k] = d.parts[i][k]
			clear(to[k])
		}
		s := d.states[w]
		s.Team = alone
		s.Forward(contiguousRows(x, lo, hi), hi-lo)
		f, err := s.Outputs(lo)
		if err != nil {
			return err
		}
		u := s.Buffer(1, len(f))
		if d.values[i], err = seed(u, f, lo, hi); err != nil {
			return err
		}
		if grad != nil {
			s.AddGradient(to[0], u)
		}
		if ggn != nil {
			d.back[w].Add(to[1], nil)
		}
		return nil
	}, func(i int) {
		total += d.values[i]
		for k, to := range [][]float64{grad, ggn} {
			if i > 0 && to != nil {
				dense.Axpy(to, 1, d.parts[i][k])
			}
		}
	})
	if err == nil {
		err = finiteCurvature(ggn)
	}
	if err != nil {
		return 0, err
	}
	return total, nil
}
