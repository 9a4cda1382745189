package network

import (
	"context"
	"runtime"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// wave is the number of chunks whose gradients are held separately at a time. It bounds the memory
// and fixes the order in which gradients are added.
const wave = 16

// waveFloats bounds the numbers in the gradients of a wave, except that each worker has one gradient. Gradients are
// added in the order of the chunks, whatever the length of a wave.
const waveFloats = 1 << 25

// inWaves calls work for chunks of size rows on several workers, wave chunks at a time. After each wave it calls
// done for the chunks of the wave in order.
func inWaves(ctx context.Context, rows, size, wave, workers int, work func(worker, i, lo, hi int) error, done func(i int)) error {
	tiles := par.Tiles(rows, size)
	for first := 0; first < tiles; first += wave {
		count := min(wave, tiles-first)
		err := par.DoWorker(ctx, workers, count, func(w, i int) error {
			lo, hi := par.Bounds(first+i, rows, size)
			return work(w, i, lo, hi)
		})
		if err != nil {
			return err
		}
		for i := range count {
			done(i)
		}
	}
	return nil
}

// A gradientSum adds up gradients with respect to θ, chunk by chunk in a fixed
// order.
type gradientSum struct {
	prog   *graph.Program
	static [][]float64
	states []*graph.State   // by worker
	parts  [][]float64      // the gradient of each chunk of a wave, length P; nil until it is needed
	drop   graph.Dropper    // for a training program
	norms  *graph.Minibatch // for a program with batch normalization
}

// newGradientSum returns the gradientSum of the network itself.
func (n *Network) newGradientSum() *gradientSum {
	g := newGradientSum(n.prog, n.static)
	for _, s := range g.states {
		s.Features = n.features
	}
	return g
}

// newGradientSum returns the gradientSum of a program at the static values of some
// parameters.
func newGradientSum(p *graph.Program, static [][]float64) *gradientSum {
	workers := runtime.GOMAXPROCS(0)
	g := &gradientSum{prog: p, static: static, states: make([]*graph.State, workers), parts: make([][]float64, max(1, min(wave, max(workers, waveFloats/max(1, p.P)))))}
	if len(p.Norms) > 0 {
		g.parts = make([][]float64, wave)
		g.norms = graph.NewMinibatch(p, wave)
	}
	for w := range g.states {
		g.states[w] = graph.NewState(p, static)
	}
	return g
}

// setTheta sets the parameters.
func (g *gradientSum) setTheta(theta []float64) {
	g.static = g.prog.EvalStatic(theta)
	for _, s := range g.states {
		s.Static = g.static
	}
}

// part returns the cleared gradient of chunk i of a wave.
func (g *gradientSum) part(i int) []float64 {
	if g.parts[i] == nil {
		g.parts[i] = make([]float64, g.prog.P)
	}
	clear(g.parts[i])
	return g.parts[i]
}

// A seeder is given the outputs f of examples [lo, hi). It writes the gradient of a function of the
// outputs to u, and returns a number, such as the value of the function.
type seeder func(u, f []float64, lo, hi int) (float64, error)

// add adds Σ_n J(x_n)ᵀ u_n to dst, where seed writes u_n, and returns the sum of the numbers that
// seed returns.
func (g *gradientSum) add(ctx context.Context, dst []float64, x *mat.Dense, seed seeder) (float64, error) {
	if g.norms != nil {
		// This program has batch normalization.
		rows, _ := x.Dims()
		chunk, err := g.forwardTogether(ctx, x)
		if err != nil {
			return 0, err
		}
		tiles := par.Tiles(rows, chunk)
		u, parts, sum := make([][]float64, tiles), make([][]float64, tiles), 0.0
		for i := range tiles {
			lo, hi := par.Bounds(i, rows, chunk)
			f, err := g.norms.State(i).Outputs(lo)
			if err != nil {
				return 0, err
			}
			u[i], parts[i] = make([]float64, len(f)), g.part(i)
			value, err := seed(u[i], f, lo, hi)
			if err != nil {
				return 0, err
			}
			sum += value
		}
		if err := g.norms.AddGradients(ctx, parts, u); err != nil {
			return 0, err
		}
		for _, part := range parts {
			dense.Axpy(dst, 1, part)
		}
		return sum, nil
	}
	p := g.prog
	rows, _ := x.Dims()
	alone := par.Tiles(rows, p.Chunk) == 1
	sum, values := 0.0, make([]float64, len(g.parts))
	err := inWaves(ctx, rows, p.Chunk, len(g.parts), len(g.states), func(w, i, lo, hi int) (err error) {
		s := g.states[w]
		s.Drop, s.First = g.drop, lo
		s.Forward(contiguousRows(x, lo, hi), hi-lo)
		f, err := s.Outputs(lo)
		if err != nil {
			return err
		}
		u := s.Buffer(1, len(f))
		if values[i], err = seed(u, f, lo, hi); err != nil {
			return err
		}
		to := dst
		if !alone {
			to = g.part(i)
		}
		s.AddGradient(to, u)
		return nil
	}, func(i int) {
		if sum += values[i]; !alone {
			dense.Axpy(dst, 1, g.parts[i])
		}
	})
	if err != nil {
		return 0, err
	}
	return sum, nil
}

// forwardTogether runs a program with batch normalization, with the examples of all chunks in
// memory at once. It returns the length of a chunk.
func (g *gradientSum) forwardTogether(ctx context.Context, x *mat.Dense) (int, error) {
	rows, _ := x.Dims()
	chunk := max(g.prog.Chunk, par.Tiles(rows, wave))
	return chunk, g.norms.Forward(ctx, par.Tiles(rows, chunk), func(i int, s *graph.State) {
		lo, hi := par.Bounds(i, rows, chunk)
		s.Static, s.Drop, s.First = g.static, g.drop, lo
		s.Start(contiguousRows(x, lo, hi), hi-lo)
	})
}

// VJP writes Jᵀu = Σ_n J(x_n)ᵀ u_n to dst, length P, by one forward and one
// backward pass; x is N×D and u N×C, and other sizes panic. A NaN or Inf in x or
// in an output is an error that names the row.
func (n *Network) VJP(ctx context.Context, dst []float64, x, u *mat.Dense) error {
	rows, c := u.Dims()
	if xr, _ := x.Dims(); xr != rows || c != n.prog.C || len(dst) != n.prog.P {
		panic("network: sizes of a vector-Jacobian product differ")
	}
	if err := n.CheckInput(x); err != nil {
		return err
	}
	clear(dst)
	_, err := n.newGradientSum().add(ctx, dst, x, func(seed, _ []float64, lo, hi int) (float64, error) {
		for i := lo; i < hi; i++ {
			copy(seed[(i-lo)*c:], u.RawRowView(i))
		}
		return 0, nil
	})
	return err
}
