package limits

import (
	"fmt"

	"github.com/funcgp/funcgp/linearize"
)

// The least flops are those of dense algebra in the cheapest order that is known: a product of m×k by k×n takes 2mnk,
// one triangle of a symmetric result half of it, Cholesky n³/3, a triangular solve n² for each right side. Zeros behind
// a rectifier or a pool are not made use of, and neither is fast multiplication. The least bytes are those of float64
// numbers that a stage has to read and to write once. Stages keep nothing in the cache for one another.

// A layer is a dense layer or a convolution: at t positions it multiplies the weight of each group, m×k, by a patch. A
// dense layer has one position and one group.
type layer struct {
	groups, t, k, m float64
	in              float64 // numbers that it reads of an example
	bias            bool
	columns         bool // whether the columns of the Jacobian for the weight are formed
}

// A shape is what the counts take of a network with c outputs.
type shape struct {
	d, c, p float64
	layers  []layer
}

// shapeOf returns the shape of the network of b, whose convolutions are Conv blocks.
func shapeOf(b *linearize.Batch) (*shape, error) {
	_, d := b.X.Dims()
	s := &shape{d: float64(d), c: float64(b.Outputs()), p: float64(b.P)}
	for _, v := range b.Blocks {
		switch v := v.(type) {
		case *linearize.Outer:
			_, in := v.A.Dims()
			_, out := v.G.Dims()
			s.layers = append(s.layers, layer{groups: 1, t: 1, k: float64(in), m: float64(out), in: float64(in), bias: v.Bias != nil})
		case *linearize.Conv:
			_, in := v.X.Dims()
			t, k, m := v.Factors()
			s.layers = append(s.layers, layer{groups: float64(v.Groups()), t: float64(t), k: float64(k), m: float64(m), in: float64(in), bias: v.Bias != nil})
		default:
			return nil, fmt.Errorf("limits: no count of a %T", v)
		}
	}
	return s, nil
}

// An extent is the size of a kernel: pairs of examples and entries.
type extent struct{ pairs, entries float64 }

// gram is one triangle of κ(x, x) for n examples, cross is κ(x*, x) for t and n, and diagonal the blocks κ(x*, x*).
func (s *shape) gram(n float64) extent     { return extent{n * (n + 1) / 2, triangle(n * s.c)} }
func (s *shape) cross(t, n float64) extent { return extent{t * n, t * n * s.c * s.c} }
func (s *shape) diagonal(t float64) extent { return extent{t, t * triangle(s.c)} }

func triangle(n float64) float64 { return n * (n + 1) / 2 }

// choose decides for each layer whether its columns are formed: where they and their product are cheaper than to
// contract the factors, for a kernel of extent x and n examples.
func (s *shape) choose(x extent, n float64) {
	for i := range s.layers {
		l := &s.layers[i]
		contracted := l.kernel(x)
		l.columns = true
		if l.kernel(x)+l.forming(n*s.c) > contracted {
			l.columns = false
		}
	}
}

// macs are the multiply-adds of the layer for an example.
func (l *layer) macs() float64 { return l.groups * l.t * l.k * l.m }

// forming is Σ_t g_t p_tᵀ for rows of the Jacobian. With one position it is a multiplication without additions.
func (l *layer) forming(rows float64) float64 {
	if l.t == 1 {
		return l.macs() * rows
	}
	return 2 * l.macs() * rows
}

// kernel is the layer's part of a kernel, J Jᵀ: of columns for each entry 2·width, or of the factors
// Σ_tt' (p_t·p_t')(g_t·g_t'), where p is shared by all outputs of an example. The bias of a dense layer adds 1 to p·p',
// that of a convolution is m columns.
func (l *layer) kernel(x extent) float64 {
	flops := l.groups * l.t * l.t * (2*l.k*x.pairs + (2*l.m+2)*x.entries)
	if l.columns {
		flops = 2 * l.groups * l.k * l.m * x.entries
	}
	switch {
	case !l.bias:
	case l.t == 1 && !l.columns:
		flops += x.pairs
	default:
		flops += 2 * l.groups * l.m * x.entries
	}
	return flops
}

func (s *shape) kernel(x extent) (flops float64) {
	for i := range s.layers {
		flops += s.layers[i].kernel(x)
	}
	return flops
}

// factors are the bytes of the Jacobian of n examples in the form that the kernel reads.
func (s *shape) factors(n float64) float64 {
	numbers := 0.0
	for _, l := range s.layers {
		if l.columns {
			numbers += n * s.c * l.groups * l.k * l.m
		} else {
			numbers += n * (l.in + s.c*l.groups*l.t*l.m)
		}
		if l.bias && (l.columns || l.t > 1) {
			numbers += n * s.c * l.groups * l.m
		}
	}
	return 8 * numbers
}

// jacobian is the outputs of n examples, 2·MACs each, their gradients in the result of every layer, 2·MACs for each
// output but through layers that read the input, and the columns where they are formed.
func (s *shape) jacobian(n float64) stage {
	flops := 0.0
	for _, l := range s.layers {
		flops += 2 * n * l.macs()
		if l.in != s.d {
			flops += 2 * n * s.c * l.macs()
		}
		if l.columns {
			flops += l.forming(n * s.c)
		}
	}
	return stage{Name: outputs, Flops: flops, Bytes: 8*(n*s.d+s.p+n*s.c) + s.factors(n)}
}

// root is a row vector of n numbers times R (E4): a multiplication where there is one output, and of R = diag(√p) − p√pᵀ
// a scalar product and a scaled vector beside it.
func (s *shape) root(n float64) float64 {
	if s.c == 1 {
		return n
	}
	return 5 * n
}

// fit is the kernel of n examples with the prior mean m = f + J(μ₀ − θ*), then B, its factor and the dual vector (E5), of
// which the product with K and the two solves take 2n² each.
func (s *shape) fit(n float64) []stage {
	rows, mean := n*s.c, 0.0
	for _, l := range s.layers {
		if l.columns {
			mean += 2 * rows * l.groups * l.k * l.m
		} else {
			mean += 2 * (n*l.macs() + rows*l.groups*l.t*l.m)
		}
	}
	half := 8 * triangle(rows)
	return []stage{
		s.jacobian(n),
		{Name: gramKernel, Flops: s.kernel(s.gram(n)) + mean, Bytes: s.factors(n) + 8*s.p + half},
		{Name: factorOfB, Flops: 2*s.root(triangle(rows)) + rows*rows*rows/3 + 4*rows*rows, Bytes: 7 * half},
	}
}

// predict is the prediction of t examples from n: the half solve V = L⁻¹RᵀK_n*, n² for each right side, and the blocks
// of K_** − VᵀV (E6).
func (s *shape) predict(t, n float64) []stage {
	rows, right := n*s.c, t*s.c
	cross := 8 * right * rows
	return []stage{
		s.jacobian(t),
		{Name: crossKernel, Flops: s.kernel(s.cross(t, n)), Bytes: s.factors(n) + s.factors(t) + cross},
		{Name: solve, Flops: right * (rows*rows + s.root(rows)), Bytes: 8*triangle(rows) + 2*cross},
		s.covariance(t, n),
	}
}

// covariance is the blocks K_** − VᵀV of t examples, where V has a row for each output of n examples.
func (s *shape) covariance(t, n float64) stage {
	x := s.diagonal(t)
	return stage{Name: covariance, Flops: s.kernel(x) + 2*x.entries*n*s.c, Bytes: s.factors(t) + 8*(t*s.c*n*s.c+t*s.c*s.c)}
}

// inducing is the prediction of t examples from m inducing ones (E13): V is the product of the cross-kernel with a
// triangular root of K_ZZ⁻¹ − A⁻¹, (m·C)² for each row. The integral is that of the fewest points that QMC takes for a
// row: c logits from c − 1 normal numbers, c exponentials of 20 flops, their sum and quotients, and sums of p and p².
func (s *shape) inducing(t, m float64) []stage {
	rows := m * s.c
	of := s.covariance(t, m)
	of.Flops += t * s.c * rows * rows
	of.Bytes += 8 * triangle(rows)
	const points = 1024
	return []stage{
		s.jacobian(t),
		{Name: crossKernel, Flops: s.kernel(s.cross(t, m)), Bytes: s.factors(m) + s.factors(t) + 8*t*s.c*rows},
		of,
		{Name: integral, Flops: t * points * (2*s.c*(s.c-1) + 25*s.c), Bytes: 8 * t * s.c * (s.c + 3)},
	}
}
