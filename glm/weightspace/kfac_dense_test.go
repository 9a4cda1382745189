package weightspace_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A denseLayer is a dense layer written out: its inputs, N×cols with the homogeneous
// one, its gradients Rᵀg, N·C×out, and the place in θ of each element of its out×cols
// matrix.
type denseLayer struct {
	a, g *mat.Dense
	at   []int
}

// A denseChain holds all layers of a network of dense layers and matrices over all
// parameters.
type denseChain struct {
	layers   []denseLayer
	n, p     int
	variance []float64
	ggn      *mat.Dense
}

func newDenseChain(t *testing.T, b *linearize.Batch, s *gp.Sites, prior ntk.Prior) *denseChain {
	t.Helper()
	n, c := b.Len(), b.Outputs()
	d := &denseChain{n: n, p: b.P, variance: make([]float64, b.P)}
	prior.VarianceTo(d.variance)
	var j, rj mat.Dense
	b.JacobianTo(&j)
	rj.CloneFrom(&j)
	for i := range n {
		rj.Slice(i*c, (i+1)*c, 0, b.P).(*mat.Dense).Mul(s.Root.Slice(i*c, (i+1)*c, 0, c).T(), j.Slice(i*c, (i+1)*c, 0, b.P))
	}
	d.ggn = new(mat.Dense)
	d.ggn.Mul(rj.T(), &rj)
	for _, k := range b.Blocks {
		o, ok := k.(*linearize.Outer)
		require.True(t, ok)
		d.layers = append(d.layers, newDenseLayer(o, s, n, c))
	}
	return d
}

func newDenseLayer(o *linearize.Outer, s *gp.Sites, n, c int) denseLayer {
	_, out := o.G.Dims()
	in := 0
	if o.Weight != nil {
		_, in = o.A.Dims()
	}
	cols := in
	if o.Bias != nil {
		cols++
	}
	l := denseLayer{a: mat.NewDense(n, cols, nil), g: mat.NewDense(n*c, out, nil)}
	for i := range n {
		for q := range cols {
			l.a.Set(i, q, 1)
			if q < in {
				l.a.Set(i, q, o.A.At(i, q))
			}
		}
		l.g.Slice(i*c, (i+1)*c, 0, out).(*mat.Dense).Mul(s.Root.Slice(i*c, (i+1)*c, 0, c).T(), o.G.Slice(i*c, (i+1)*c, 0, out))
	}
	for i := range out {
		for q := range cols {
			switch {
			case q == in:
				l.at = append(l.at, o.Bias.Offset+i)
			case o.Weight.Transposed:
				l.at = append(l.at, o.Weight.Offset+q*out+i)
			default:
				l.at = append(l.at, o.Weight.Offset+i*in+q)
			}
		}
	}
	return l
}

// product returns G_ij ⊗ A_ij between two layers, where A is divided by N.
func (d *denseChain) product(i, j int) *mat.Dense {
	a, g := d.sides(i, j)
	var k mat.Dense
	k.Kronecker(g, a)
	return &k
}

func (d *denseChain) sides(i, j int) (a, g *mat.Dense) {
	a, g = new(mat.Dense), new(mat.Dense)
	a.Mul(d.layers[i].a.T(), d.layers[j].a)
	a.Scale(1/float64(d.n), a)
	g.Mul(d.layers[i].g.T(), d.layers[j].g)
	return a, g
}

// put adds block (i, j) to m, which has the order of θ.
func (d *denseChain) put(m *mat.SymDense, i, j int, block *mat.Dense) {
	for p, row := range d.layers[i].at {
		for q, col := range d.layers[j].at {
			if row <= col {
				m.SetSym(row, col, m.At(row, col)+block.At(p, q))
			}
		}
	}
}

// precisionOf returns Σ₀⁻¹ plus the blocks with |i−j| ≤ far.
func (d *denseChain) precisionOf(far int, block func(i, j int) *mat.Dense) *mat.SymDense {
	m := mat.NewSymDense(d.p, nil)
	for i, v := range d.variance {
		m.SetSym(i, i, 1/v)
	}
	for i := range d.layers {
		for j := range d.layers {
			if i-j <= far && j-i <= far {
				d.put(m, i, j, block(i, j))
			}
		}
	}
	return m
}

func (d *denseChain) truncated(t *testing.T) *mat.SymDense {
	t.Helper()
	return d.precisionOf(1, d.product)
}

func (d *denseChain) truncatedGGN(t *testing.T) *mat.SymDense {
	t.Helper()
	return d.precisionOf(1, func(i, j int) *mat.Dense {
		b := mat.NewDense(len(d.layers[i].at), len(d.layers[j].at), nil)
		b.Apply(func(p, q int, _ float64) float64 { return d.ggn.At(d.layers[i].at[p], d.layers[j].at[q]) }, b)
		return b
	})
}

// chain returns the covariance of the chain of Martens and Grosse written out: the
// damped blocks, Ψ_l = M_{l,l+1}M_{l+1}⁻¹, S_l and Q⁻¹ = ΞᵀΛΞ, with P×P matrices.
func (d *denseChain) chain(t *testing.T) (covariance *mat.Dense, block func(i, j int) *mat.Dense) {
	t.Helper()
	rho := math.Sqrt(float64(d.n))
	block = func(i, j int) *mat.Dense {
		a, g := d.sides(i, j)
		a.Scale(rho, a)
		g.Scale(1/rho, g)
		if i == j {
			root := 1 / math.Sqrt(d.variance[d.layers[i].at[0]])
			for _, m := range []*mat.Dense{a, g} {
				for k := range first(m) {
					m.Set(k, k, m.At(k, k)+root)
				}
			}
		}
		var k mat.Dense
		k.Kronecker(g, a)
		return &k
	}
	xi, lambda := mat.NewDense(d.p, d.p, nil), mat.NewDense(d.p, d.p, nil)
	for i := range d.p {
		xi.Set(i, i, 1)
	}
	for i, l := range d.layers {
		s := block(i, i)
		if i+1 < len(d.layers) {
			var psi, inverse, back mat.Dense
			require.NoError(t, inverse.Inverse(block(i+1, i+1)))
			psi.Mul(block(i, i+1), &inverse)
			back.Mul(&psi, block(i+1, i))
			s.Sub(s, &back)
			for p, row := range l.at {
				for q, col := range d.layers[i+1].at {
					xi.Set(row, col, -psi.At(p, q))
				}
			}
		}
		var inverse mat.Dense
		require.NoError(t, inverse.Inverse(s))
		for p, row := range l.at {
			for q, col := range l.at {
				lambda.Set(row, col, inverse.At(p, q))
			}
		}
	}
	covariance = new(mat.Dense)
	covariance.Product(xi.T(), lambda, xi)
	return covariance, block
}

func first(m *mat.Dense) int {
	r, _ := m.Dims()
	return r
}
