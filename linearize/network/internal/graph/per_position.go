package graph

import (
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// PerPosition lays out a dense layer that is applied at T positions. Its input is T×K, its result T×M.
type PerPosition struct {
	T, K, M int
	Team    bool // products may run on several goroutines
}

var _ linearize.Positions = PerPosition{}

// Groups implements linearize.Positions.
func (p PerPosition) Groups() int { return 1 }

// Factors implements linearize.Positions.
func (p PerPosition) Factors() (t, k, m int) { return p.T, p.K, p.M }

// Patches implements linearize.Positions.
func (p PerPosition) Patches(dst, x []float64, _ int) { copy(dst, x) }

// Gradients implements linearize.Positions.
func (p PerPosition) Gradients(dst, g []float64, _ int) { copy(dst, g) }

// Scratch implements linearize.Positions.
func (p PerPosition) Scratch() int { return 0 }

// WeightGradient implements linearize.Positions.
func (p PerPosition) WeightGradient(dst, x, g, _ []float64, transposed bool, beta float64) {
	gramTo(dst, g, x, p.T, p.M, p.K, transposed, beta, p.Team)
}

// AddBiasGradient implements linearize.Positions.
func (p PerPosition) AddBiasGradient(dst, g []float64) {
	for t := range p.T {
		dense.Axpy(dst, 1, g[t*p.M:(t+1)*p.M])
	}
}
