package evaluate

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// LastLayer attributes by the inputs h of the network's last dense layer: the
// representer points of that layer fitted again (Yeh et al. 2018), and the likeness of
// neighbours.
type LastLayer struct {
	// Precision is that of the last layer's prior N(0, I/δ); 0 means 1.
	Precision float64
}

var _ Method = LastLayer{}

// Attribute implements Method with the attributions "representer points" and "nearest
// neighbours". The first is wᵀα_i(h_iᵀh + 1)/δ, where w is the gradient of the target in f
// and α_i the residual at the mode of the last layer. The second is the cosine of h and
// h_i times wᵀe_i, with e_i the indicator of the training row's class, and −1 or 1 for
// one output. It is an error where the network does not end in a dense layer, or where
// rows have no class.
func (l LastLayer) Attribute(ctx context.Context, p *Problem) ([]Attribution, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	h, err := lastInputs(ctx, p.Network, p.X)
	if err != nil {
		return nil, err
	}
	ht, err := lastInputs(ctx, p.Network, p.TestX)
	if err != nil {
		return nil, err
	}
	alpha, delta, err := l.residuals(ctx, p, h)
	if err != nil {
		return nil, err
	}
	f, err := p.Network.Forward(ctx, p.TestX)
	if err != nil {
		return nil, err
	}
	rows, n := dense.Count(ht), dense.Count(h)
	_, c := f.Dims()
	points, near := mat.NewDense(rows, n, nil), mat.NewDense(rows, n, nil)
	w, e := make([]float64, c), make([]float64, c)
	size := make([]float64, n)
	for i := range size {
		size[i] = floats.Norm(h.RawRowView(i), 2)
	}
	for t := range rows {
		p.target().GradientTo(w, p.TestY.RawRowView(t), f.RawRowView(t))
		a := ht.RawRowView(t)
		own := floats.Norm(a, 2)
		for i := range n {
			product := dense.Dot(a, h.RawRowView(i))
			points.Set(t, i, dense.Dot(w, alpha.RawRowView(i))*(product+1)/delta)
			if err := indicatorTo(e, p.Y.RawRowView(i)); err != nil {
				return nil, err
			}
			if own > 0 && size[i] > 0 {
				near.Set(t, i, dense.Dot(w, e)*product/(own*size[i]))
			}
		}
	}
	return []Attribution{{"representer points", points}, {"nearest neighbours", near}}, nil
}

// indicatorTo writes the indicator of the class y, or −1 and 1 for one output.
func indicatorTo(e, y []float64) error {
	clear(e)
	class := y[0]
	if len(y) != 1 || class != math.Trunc(class) || class < 0 || class >= max(2, float64(len(e))) {
		return errors.New("evaluate: nearest neighbours need a class of every training row")
	}
	if len(e) == 1 {
		e[0] = 2*class - 1
	} else {
		e[int(class)] = 1
	}
	return nil
}

// residuals returns α, N×C, at the mode of the last layer's parameters, and its δ.
func (l LastLayer) residuals(ctx context.Context, p *Problem, h *mat.Dense) (*mat.Dense, float64, error) {
	if l.Precision == 0 {
		l.Precision = 1
	}
	_, c, _ := p.Network.Dims()
	_, in := h.Dims()
	last, err := network.Sequential(network.Shape{in}, network.Dense{Units: c})
	if err != nil {
		return nil, 0, err
	}
	_, _, params := last.Dims()
	zero := make([]float64, params)
	if last, err = last.WithTheta(zero); err != nil {
		return nil, 0, err
	}
	b, err := last.Linearize(ctx, h)
	if err != nil {
		return nil, 0, err
	}
	prior, err := ntk.NewIsotropic(l.Precision, nil)
	if err != nil {
		return nil, 0, err
	}
	found, err := mode.Find(ctx, b, gp.NewTargets(p.Y, p.Likelihood), prior, zero, &mode.Options{Gradient: 1e-6})
	if err != nil {
		return nil, 0, err
	}
	return found.Sites.Residual, l.Precision, nil
}

// lastInputs returns the inputs of the last dense layer at the rows of x: of the block
// whose gradients are the identity.
func lastInputs(ctx context.Context, net *network.Network, x *mat.Dense) (*mat.Dense, error) {
	b, err := net.Linearize(ctx, x)
	if err != nil {
		return nil, err
	}
	for _, block := range b.Blocks {
		if o, ok := block.(*linearize.Outer); ok && o.A != nil && identity(o.G, b.Outputs()) {
			return o.A, nil
		}
	}
	return nil, errors.New("evaluate: the network does not end in a dense layer, so that it has no representer points and neighbours of it")
}

// identity reports whether g is identity matrices of size c, one below the other.
func identity(g *mat.Dense, c int) bool {
	rows, out := g.Dims()
	if out != c {
		return false
	}
	for i := range rows {
		for j, v := range g.RawRowView(i) {
			if want := 0.0; v != want && !(j == i%c && v == 1) || j == i%c && v != 1 {
				return false
			}
		}
	}
	return true
}
