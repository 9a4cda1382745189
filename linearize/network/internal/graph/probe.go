package graph

import (
	"math"
	"math/rand/v2"
)

// The most work and memory of a probe: multiplications for one example, and numbers in all slots. probes is their
// number.
const (
	probeEffort = 1 << 26
	probeWidth  = 1 << 21
	probes      = 12
)

// Silent returns the given parameters that do not influence the outputs: those in which the derivative of every
// output is zero, at several random inputs and parameters near theta. It returns none for a program that would take
// long to run.
func (p *Program) Silent(theta []float64, params []int) []int {
	effort, width := 0, 0
	for i := range p.Nodes {
		effort += Multiplications(p.Nodes[i].Op)
	}
	for _, sl := range p.Slots {
		width += sl.Size
	}
	if len(params) == 0 || effort > probeEffort || width > probeWidth {
		return nil
	}
	rng := rand.New(rand.NewPCG(20, 26))
	moved, gradient := make([]float64, p.P), make([]float64, p.P)
	x, u := make([]float64, p.D), make([]float64, p.C)
	for i := 0; i < probes && len(params) > 0; i++ {
		// Set x to the inputs of a probe: normal numbers, positive ones as in pictures, or small integers where an
		// input is of integers.
		for j := range x {
			if x[j] = rng.NormFloat64(); i%2 == 1 {
				x[j] = math.Abs(x[j]) / 2
			}
		}
		for _, in := range p.Inputs {
			if in.Type == "" {
				continue
			}
			for j := range Product(in.Shape) {
				x[in.Column(j)] = min(max(float64(rng.IntN(2+i)), float64(in.Low)), float64(in.High))
			}
		}
		for j := range u {
			u[j] = rng.NormFloat64()
		}
		far := 0.1 * math.Exp2(float64(i)/2) // in the end far enough to change signs
		for j, v := range theta {
			moved[j] = v + far*(math.Abs(v)+0.1)*rng.NormFloat64()
		}
		s := NewState(p, p.EvalStatic(moved))
		s.Forward(x, 1)
		clear(gradient)
		s.AddGradient(gradient, u)
		// List the parameters whose part of the gradient is zero.
		var list []int
		for _, k := range params {
			prm, all := p.Params[k], true
			for _, g := range gradient[prm.Offset : prm.Offset+prm.Len()] {
				all = all && g == 0
			}
			if all {
				list = append(list, k)
			}
		}
		params = list
	}
	return params
}
