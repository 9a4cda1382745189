package weightspace

import (
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// A NoFactorsError reports a layer that a posterior with Kronecker factors cannot hold.
type NoFactorsError struct {
	Layer  string // name of its parameters up to the last dot
	Reason string // a clause about the layer
	Remedy string
}

func (e *NoFactorsError) Error() string {
	return fmt.Sprintf("weightspace: layer %q has no Kronecker factors: %s; %s", e.Layer, e.Reason, e.Remedy)
}

// otherStructure is the remedy for a layer that only posteriors of other structures can hold.
const otherStructure = "use the structure block or diag, or freeze the layer"

// maxExact is the most parameters (scales and shifts of one layer) of an exact block in a Kronecker posterior.
const maxExact = 4096

// A matrixLayer says where the parameters of a layer are in θ: a weight matrix, out×in, and biases of its outputs.
// Together they are an out×cols matrix whose last column has the biases, which multiply a constant input of 1.
type matrixLayer struct {
	name         string
	block        int             // position of its block in a batch
	group        int             // group of a grouped convolution; each group is a matrix
	out, in      int             // in is 0 where the weight is no parameter
	weight, bias *linearize.Span // nil where it is no parameter
}

// cols returns the number of inputs of the layer, including the constant 1 for a bias.
func (l *matrixLayer) cols() int {
	if l.bias != nil {
		return l.in + 1
	}
	return l.in
}

// size returns the number of parameters of the layer.
func (l *matrixLayer) size() int { return l.out * l.cols() }

// at returns the position in θ of entry (i, j) of the layer's out×cols matrix.
func (l *matrixLayer) at(i, j int) int {
	switch {
	case j == l.in:
		return l.bias.Offset + l.group*l.out + i
	case l.weight.Transposed: // (groups·in)×out
		return l.weight.Offset + (l.group*l.in+j)*l.out + i
	}
	return l.weight.Offset + (l.group*l.out+i)*l.in + j // (groups·out)×in
}

// gather copies the layer's parameters, out×cols, from v, P numbers in the order of θ.
func (l *matrixLayer) gather(dst, v []float64) {
	w := l.cols()
	for i := range l.out {
		for j := range w {
			dst[i*w+j] = v[l.at(i, j)]
		}
	}
}

// A vectorLayer has the parameters of one layer that no matrix multiplies: scales and shifts of a normalization, or
// the bias of a transposed convolution.
type vectorLayer struct {
	name  string
	spans []linearize.Span
}

func (l *vectorLayer) size() int {
	n := 0
	for _, s := range l.spans {
		n += s.Len()
	}
	return n
}

// index returns the positions in θ of the layer's parameters.
func (l *vectorLayer) index() []int {
	var at []int
	for _, s := range l.spans {
		for i := range s.Len() {
			at = append(at, s.Offset+i)
		}
	}
	return at
}

// A layout divides the parameters of a network between the layers of a Kronecker posterior.
type layout struct {
	matrices []*matrixLayer
	vectors  []*vectorLayer
}

// layoutOf returns the layout of a batch. The error is a *NoFactorsError.
func layoutOf(b *linearize.Batch) (*layout, error) {
	l := new(layout)
	for i, k := range b.Blocks {
		var err error
		switch k := k.(type) {
		case *linearize.Outer:
			m := &matrixLayer{block: i, weight: k.Weight, bias: k.Bias}
			_, m.out = k.G.Dims()
			if k.Weight != nil {
				_, m.in = k.A.Dims()
			}
			m.name = layerName(k.Spans()[0].Name)
			l.matrices = append(l.matrices, m)
		case *linearize.Conv:
			l.conv(i, k)
		case *linearize.Embedding:
			err = &NoFactorsError{Layer: layerName(k.Table.Name), Reason: "it reads rows of a table", Remedy: otherStructure}
		default:
			err = l.full(k)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, v := range l.vectors {
		if n := v.size(); n > maxExact {
			return nil, &NoFactorsError{Layer: v.name, Remedy: otherStructure,
				Reason: fmt.Sprintf("its %d parameters are in no matrix, and at most %d are held in an exact block", n, maxExact)}
		}
	}
	return l, nil
}

// conv adds one matrix for each group of a convolution.
func (l *layout) conv(block int, v *linearize.Conv) {
	_, in, out := v.Factors()
	name, bias := layerName(v.Spans()[0].Name), v.Bias
	if bias != nil && !homogeneous(v) {
		l.vector(name, *bias)
		bias = nil
	}
	if v.Weight == nil {
		in = 0
	}
	if v.Weight == nil && bias == nil {
		return
	}
	for g := range v.Groups() {
		m := &matrixLayer{name: name, block: block, group: g, out: out, in: in, weight: v.Weight, bias: bias}
		if v.Groups() > 1 {
			m.name = fmt.Sprintf("%s, group %d", name, g)
		}
		l.matrices = append(l.matrices, m)
	}
}

// homogeneous tells whether the gradient in a convolution's bias is the sum of the gradients over its positions.
// For a transposed convolution it is not, because the bias is added where positions overlap. Both sides are linear
// in the gradient, so comparing them for one random gradient decides it.
func homogeneous(v *linearize.Conv) bool {
	t, _, m := v.Factors()
	groups := v.Groups()
	if groups*m != v.Bias.Len() {
		return false
	}
	_, size := v.G.Dims()
	rng := rand.New(rand.NewPCG(1, 2))
	g, each := make([]float64, size), make([]float64, t*m)
	for i := range g {
		g[i] = rng.Float64()
	}
	want, got := make([]float64, groups*m), make([]float64, groups*m)
	v.Layout.AddBiasGradient(want, g)
	for group := range groups {
		v.Layout.Gradients(each, g, group)
		for i := range t {
			dense.Axpy(got[group*m:(group+1)*m], 1, each[i*m:(i+1)*m])
		}
	}
	return floats.EqualApprox(got, want, 1e-10*float64(size))
}

// full adds the tensors of a block without factors, which must be vectors.
func (l *layout) full(k linearize.Block) error {
	for _, s := range k.Spans() {
		if s.Rows > 1 && s.Cols > 1 {
			return &NoFactorsError{Layer: layerName(s.Name), Reason: fmt.Sprintf("its tensor %q is used in several places, or its Jacobian is held as columns", s.Name),
				Remedy: "for a convolution give batches of Network.Factored or a source of the network, otherwise " + otherStructure}
		}
		l.vector(layerName(s.Name), s)
	}
	return nil
}

// vector adds the vector s to the vectorLayer with this name.
func (l *layout) vector(name string, s linearize.Span) {
	for _, v := range l.vectors {
		if v.name == name {
			v.spans = append(v.spans, s)
			return
		}
	}
	l.vectors = append(l.vectors, &vectorLayer{name: name, spans: []linearize.Span{s}})
}
