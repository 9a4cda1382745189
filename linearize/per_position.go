package linearize

import (
	"github.com/funcgp/funcgp/internal/dense"
)

// perPosition is a dense layer applied at t positions: input t×k, result t×m.
type perPosition struct{ t, k, m int }

func (p perPosition) groups() int { return 1 }

func (p perPosition) factors() (t, k, m int) { return p.t, p.k, p.m }

func (p perPosition) patches(dst, x []float64, _ int) { copy(dst, x) }

func (p perPosition) gradients(dst, g []float64, _ int) { copy(dst, g) }

func (p perPosition) scratch() int { return 0 }

func (p perPosition) weightGradient(dst, x, g, _ []float64, transposed bool, beta float64) {
	gramTo(dst, g, x, p.t, p.m, p.k, transposed, beta)
}

func (p perPosition) channelSums(dst, g []float64) {
	for t := range p.t {
		dense.Axpy(dst, 1, g[t*p.m:(t+1)*p.m])
	}
}
