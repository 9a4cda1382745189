package graph

import (
	"github.com/funcgp/funcgp/internal/dense"
)

// PerPosition is a dense layer applied at t positions: input t×k, result t×m.
type PerPosition struct{ T, K, M int }

func (p PerPosition) Groups() int { return 1 }

func (p PerPosition) Factors() (t, k, m int) { return p.T, p.K, p.M }

func (p PerPosition) Patches(dst, x []float64, _ int) { copy(dst, x) }

func (p PerPosition) Gradients(dst, g []float64, _ int) { copy(dst, g) }

func (p PerPosition) Scratch() int { return 0 }

func (p PerPosition) WeightGradient(dst, x, g, _ []float64, transposed bool, beta float64) {
	gramTo(dst, g, x, p.T, p.M, p.K, transposed, beta)
}

func (p PerPosition) AddBiasGradient(dst, g []float64) {
	for t := range p.T {
		dense.Axpy(dst, 1, g[t*p.M:(t+1)*p.M])
	}
}
