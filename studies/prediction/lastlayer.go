package prediction

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/minimize"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// lastLayer are the figures of a Laplace approximation of the last layer W φ + β alone, as laplace-torch
// has it by default: the GGN of W is A ⊗ G with A the mean of φφᵀ and G the sum of Λ, that of β is G, the prior
// precision is where the evidence is largest, and classes are predicted by the probit approximation. Of a
// regression the evidence chooses σ² as well, which laplace-torch leaves at 1. Counts have no figures.
func (s *set) lastLayer(ctx context.Context, net *network.Network, r *split) (figures, error) {
	if s.likelihood == "poisson" {
		return none(), nil
	}
	phi, squares, err := last(ctx, net, r.x)
	if err != nil {
		return none(), err
	}
	f, err := net.Forward(ctx, r.x)
	if err != nil {
		return none(), err
	}
	l := &layer{scatter: squares}
	n, width := phi.Dims()
	a := mat.NewSymDense(width, nil)
	a.SymOuterK(1/float64(n), phi.T())
	if l.a, l.u, err = eigen(a); err != nil {
		return none(), err
	}
	noises := []float64{0} // logarithms
	if s.likelihood == "gaussian" {
		noises = minimize.Grid(math.Log(1e-4), math.Log(4), 60)
		l.v = mat.NewDense(1, 1, []float64{1})
	} else {
		g := mat.NewSymDense(s.outputs, nil)
		lambda := make([]float64, s.outputs*s.outputs)
		for i := range n {
			l.logLik += s.lik().Expand(nil, lambda, nil, r.y.RawRowView(i), f.RawRowView(i))
			g.AddSym(g, mat.NewSymDense(s.outputs, lambda))
		}
		if l.g, l.v, err = eigen(g); err != nil {
			return none(), err
		}
	}
	// laplace-torch takes at most 100 steps of .1 in log δ from δ = 1.
	best := *l
	most := math.Inf(-1)
	for _, u := range noises {
		if s.likelihood == "gaussian" {
			l.noise = math.Exp(u)
			l.g = []float64{float64(n) / l.noise}
			l.logLik = -0.5 * float64(n) * (meanSquare(r.y, f)/l.noise + math.Log(2*math.Pi*l.noise))
		}
		for _, t := range minimize.Grid(-10, 10, 400) {
			l.delta = math.Exp(t)
			if v := l.evidence(); v > most {
				most, best = v, *l
			}
		}
	}

	test, _, err := last(ctx, net, r.testX)
	if err != nil {
		return none(), err
	}
	mean, err := net.Forward(ctx, r.testX)
	if err != nil {
		return none(), err
	}
	rows, _ := mean.Dims()
	sd := make([]float64, rows)
	for i := range rows {
		v := best.variance(test.RawRowView(i))
		if s.likelihood == "gaussian" {
			sd[i] = math.Sqrt(v[0]+best.noise) * r.targets.Scale[0]
			continue
		}
		for c, f := range mean.RawRowView(i) {
			mean.Set(i, c, f/math.Sqrt(1+math.Pi/8*v[c]))
		}
	}
	if s.likelihood == "gaussian" {
		return realFigures(r.units(r.testY), r.units(mean), sd), nil
	}
	return s.alone(r, mean, 0), nil
}

// A layer has the eigenvalues a and g and the eigenvectors u and v of A and G.
type layer struct {
	a, g         []float64
	u, v         *mat.Dense
	scatter      float64 // the sum of squares of the parameters of the layer
	logLik       float64 // at θ*
	delta, noise float64 // δ and σ²
}

// evidence is the log marginal likelihood.
func (l *layer) evidence() float64 {
	logDet := 0.0
	for _, g := range l.g {
		logDet += math.Log1p(g / l.delta)
		for _, a := range l.a {
			logDet += math.Log1p(a * g / l.delta)
		}
	}
	return l.logLik - 0.5*(logDet+l.delta*l.scatter)
}

// variance is the diagonal of the covariance of the outputs where the inputs of the layer are phi.
func (l *layer) variance(phi []float64) []float64 {
	var p mat.VecDense
	p.MulVec(l.u.T(), mat.NewVecDense(len(phi), phi))
	out := make([]float64, len(l.g))
	for k, g := range l.g {
		v := 1 / (g + l.delta)
		for j, a := range l.a {
			v += p.AtVec(j) * p.AtVec(j) / (a*g + l.delta)
		}
		for c := range out {
			out[c] += l.v.At(c, k) * l.v.At(c, k) * v
		}
	}
	return out
}

// eigen returns the eigenvalues of a, a matrix without negative ones, and its eigenvectors.
func eigen(a *mat.SymDense) ([]float64, *mat.Dense, error) {
	var e mat.EigenSym
	if !e.Factorize(a, true) {
		return nil, nil, fmt.Errorf("prediction: no eigenvalues of a factor of size %d", a.SymmetricDim())
	}
	var v mat.Dense
	e.VectorsTo(&v)
	values := e.Values(nil)
	for i := range values {
		values[i] = max(0, values[i])
	}
	return values, &v, nil
}

// last returns the inputs φ of the last layer and the sum of squares of its parameters.
func last(ctx context.Context, net *network.Network, x *mat.Dense) (phi *mat.Dense, squares float64, err error) {
	b, err := net.Linearize(ctx, x)
	if err != nil {
		return nil, 0, err
	}
	var o *linearize.Outer
	for _, block := range b.Blocks {
		if k, ok := block.(*linearize.Outer); ok && (o == nil || k.Weight.Offset > o.Weight.Offset) {
			o = k
		}
	}
	theta := net.Theta()
	for _, s := range o.Spans() {
		v := theta[s.Offset : s.Offset+s.Len()]
		squares += floats.Dot(v, v)
	}
	return o.A, squares, nil
}
