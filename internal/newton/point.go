package newton

import "gonum.org/v1/gonum/floats"

// A Point is a function f = m + Φᵀw + Kα with prior mean m. One of the two sums may be missing. w has coefficients
// of features Φ, or parameters in units of their prior standard deviation. α is a dual vector.
type Point struct {
	F       []float64 // f at the training examples, N·C
	Weights []float64 // w; nil without Φᵀw
	Span    []float64 // Φᵀw at the training examples; needed only beside α
	Dual    []float64 // α, N·C; nil without Kα
	KDual   []float64 // Kα; nil where it is f − m − Φᵀw
	slope   []float64 // Objective.Gradient; nil where it was not computed
	Value   float64   // the objective; 0 where it was not computed
}

// An Objective is the function that a refit to targets Y maximizes over points (E9): Σ log p(y|f) − ½wᵀw −
// ½αᵀKα.
type Objective struct {
	Y     Targets
	Prior []float64 // m, N·C; needed only where points have α
	// Gradient, if not nil, returns Φr(f) − w at a point without α. Fisher scoring needs it: its steps become short
	// so slowly that slopes must not be differences of large numbers.
	Gradient func(p *Point) []float64
}

var _ Line[*Point] = (*Objective)(nil)

// Between returns a + t(b − a), because f is linear in w and α.
func (o *Objective) Between(a, b *Point, t float64) *Point {
	p := &Point{Weights: Mix(a.Weights, b.Weights, t), Span: Mix(a.Span, b.Span, t), Dual: Mix(a.Dual, b.Dual, t)}
	if a.KDual == nil {
		p.F = Mix(a.F, b.F, t)
		return p
	}
	p.KDual = Mix(a.KDual, b.KDual, t)
	p.F = floats.AddTo(make([]float64, len(a.F)), o.Prior, p.KDual)
	return p
}

// Objective returns the objective, or −Inf where it is not finite.
func (o *Objective) Objective(p *Point) float64 {
	if p.Value == 0 {
		p.Value = Finite(LogLik(o.Y, p.F) - floats.Dot(p.Weights, p.Weights)/2 - o.Scatter(p)/2)
	}
	return p.Value
}

// Scatter returns αᵀKα.
func (o *Objective) Scatter(p *Point) float64 {
	if p.KDual != nil {
		return floats.Dot(p.Dual, p.KDual)
	}
	sum := 0.0
	for i, a := range p.Dual {
		d := p.F[i] - o.Prior[i]
		if len(p.Span) > 0 {
			d -= p.Span[i]
		}
		sum += a * d
	}
	return sum
}

// Slope returns (r(f) − α)ᵀ(f_b − f_a) − wᵀ(w_b − w_a) + αᵀΦᵀ(w_b − w_a) with f, w and α at p. It follows from
// K(α_b − α_a) = f_b − f_a − Φᵀ(w_b − w_a).
func (o *Objective) Slope(p, a, b *Point) float64 {
	if o.Gradient != nil {
		if p.slope == nil {
			p.slope = o.Gradient(p)
		}
		return floats.Dot(p.slope, Minus(b.Weights, a.Weights))
	}
	slope := Slope(o.Y, p.F, p.Dual, a.F, b.F) - floats.Dot(p.Weights, Minus(b.Weights, a.Weights))
	if len(p.Span) > 0 {
		for i, v := range p.Dual {
			slope += v * (b.Span[i] - a.Span[i])
		}
	}
	return slope
}

// Values returns f at the training examples.
func (o *Objective) Values(p *Point) []float64 { return p.F }
