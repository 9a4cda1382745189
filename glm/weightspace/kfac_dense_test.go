package weightspace_test

import (
	"math"
	"strings"
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

// part returns the block between layers i and j of a matrix in the order of θ.
func (d *denseChain) part(m mat.Matrix, i, j int) *mat.Dense {
	b := mat.NewDense(len(d.layers[i].at), len(d.layers[j].at), nil)
	b.Apply(func(p, q int, _ float64) float64 { return m.At(d.layers[i].at[p], d.layers[j].at[q]) }, b)
	return b
}

// denseKronecker returns the matrix of all layers' G ⊗ A, written out, and of the
// blocks of H of other tensors.
func denseKronecker(t *testing.T, b *linearize.Batch, s *gp.Sites) *mat.SymDense {
	t.Helper()
	prior, err := ntk.NewIsotropic(1, nil)
	require.NoError(t, err)
	n, c := b.Len(), b.Outputs()
	d := &denseChain{n: n, p: b.P, variance: make([]float64, b.P)}
	prior.VarianceTo(d.variance)
	h := mat.NewSymDense(b.P, nil)
	var j mat.Dense
	b.JacobianTo(&j)
	rows := func(spans ...linearize.Span) { // the block of H of some tensors
		var at []int
		for _, s := range spans {
			for i := range s.Len() {
				at = append(at, s.Offset+i)
			}
		}
		for _, p := range at {
			for _, q := range at {
				if p > q {
					continue
				}
				sum := 0.0
				for i := range n * c {
					for k := range c {
						sum += j.At(i, p) * s.Lambda.At(i, k) * j.At(i/c*c+k, q)
					}
				}
				h.SetSym(p, q, sum)
			}
		}
	}
	vectors := map[string][]linearize.Span{}
	for _, k := range b.Blocks {
		switch k := k.(type) {
		case *linearize.Outer:
			d.layers = []denseLayer{newDenseLayer(k, s, n, c)}
			d.put(h, 0, 0, d.product(0, 0))
		case *linearize.Conv:
			bias := k.Bias
			if bias != nil && !sumsPositions(k) {
				rows(*bias)
				bias = nil
			}
			for g := range k.Groups() {
				l, positions := newConvLayer(k, bias, g, s, c)
				d.layers = []denseLayer{l}
				product := d.product(0, 0)
				product.Scale(1/float64(positions), product)
				d.put(h, 0, 0, product)
			}
		default:
			for _, s := range k.Spans() {
				name := s.Name[:strings.LastIndexByte(s.Name, '.')]
				vectors[name] = append(vectors[name], s)
			}
		}
	}
	for _, spans := range vectors {
		rows(spans...)
	}
	return h
}

// sumsPositions tells whether the gradient of the bias is the sum over positions.
func sumsPositions(k *linearize.Conv) bool {
	tt, _, m := k.Factors()
	rows, _ := k.G.Dims()
	for g := range k.Groups() {
		all := mat.NewDense(rows*tt, m, nil)
		k.FactorsTo(nil, all, g)
		for i := range rows {
			want := make([]float64, k.Bias.Len())
			k.Layout.AddBiasGradient(want, k.G.RawRowView(i))
			if len(want) != m*k.Groups() {
				return false
			}
			for o := range m {
				sum := 0.0
				for p := range tt {
					sum += all.At(i*tt+p, o)
				}
				if math.Abs(sum-want[g*m+o]) > 1e-12 {
					return false
				}
			}
		}
	}
	return true
}

// newConvLayer writes out a group of a convolution as a dense layer with an example
// for each position.
func newConvLayer(k *linearize.Conv, bias *linearize.Span, group int, s *gp.Sites, c int) (l denseLayer, positions int) {
	tt, in, out := k.Factors()
	n, _ := k.X.Dims()
	patches, gradients := mat.NewDense(n*tt, in, nil), mat.NewDense(n*c*tt, out, nil)
	k.FactorsTo(patches, gradients, group)
	cols := in
	if bias != nil {
		cols++
	}
	l = denseLayer{a: mat.NewDense(n*tt, cols, nil), g: mat.NewDense(n*c*tt, out, nil)}
	l.a.Apply(func(i, j int, _ float64) float64 {
		if j == in {
			return 1
		}
		return patches.At(i, j)
	}, l.a)
	l.g.Apply(func(i, o int, _ float64) float64 {
		at, example, p := i/tt%c, i/(tt*c), i%tt
		sum := 0.0
		for k := range c { // Rᵀg
			sum += s.Root.At(example*c+k, at) * gradients.At((example*c+k)*tt+p, o)
		}
		return sum
	}, l.g)
	for i := range out {
		for j := range cols {
			switch {
			case j == in:
				l.at = append(l.at, bias.Offset+group*out+i)
			case k.Weight.Transposed:
				l.at = append(l.at, k.Weight.Offset+(group*in+j)*out+i)
			default:
				l.at = append(l.at, k.Weight.Offset+(group*out+i)*in+j)
			}
		}
	}
	return l, tt
}
