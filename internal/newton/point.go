package newton

import "gonum.org/v1/gonum/floats"

// A Point is a function f = m + Φᵀw or f = m + Kα with prior mean m. w has coefficients of features Φ, or parameters
// in units of their prior standard deviation. α is a dual vector.
type Point struct {
	F       []float64 // f at the training examples, N·C
	Weights []float64 // w; nil with α
	Dual    []float64 // α, N·C; nil with w
	Value   float64   // the objective; 0 where it was not computed
}

// An Objective is the function that a refit to targets Y maximizes over points (E9): Σ log p(y|f) − ½wᵀw −
// ½αᵀKα.
type Objective struct {
	Y     Targets
	Prior []float64 // m, N·C; needed only where points have α
}

var _ Line[*Point] = (*Objective)(nil)

// Between returns a + t(b − a), because f is linear in w and α.
func (o *Objective) Between(a, b *Point, t float64) *Point {
	return &Point{F: Mix(a.F, b.F, t), Weights: Mix(a.Weights, b.Weights, t), Dual: Mix(a.Dual, b.Dual, t)}
}

// Objective returns the objective, or −Inf where it is not finite.
func (o *Objective) Objective(p *Point) float64 {
	if p.Value == 0 {
		p.Value = Finite(LogLik(o.Y, p.F) - floats.Dot(p.Weights, p.Weights)/2 - o.scatter(p)/2)
	}
	return p.Value
}

// scatter returns αᵀKα.
func (o *Objective) scatter(p *Point) float64 {
	sum := 0.0
	for i, a := range p.Dual {
		sum += a * (p.F[i] - o.Prior[i])
	}
	return sum
}

// Slope returns (r(f) − α)ᵀ(f_b − f_a) − wᵀ(w_b − w_a) with f, w and α at p, as K(α_b − α_a) = f_b − f_a.
func (o *Objective) Slope(p, a, b *Point) float64 {
	return Slope(o.Y, p.F, p.Dual, a.F, b.F) - floats.Dot(p.Weights, Minus(b.Weights, a.Weights))
}

// Values returns f at the training examples.
func (o *Objective) Values(p *Point) []float64 { return p.F }
