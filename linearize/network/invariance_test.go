package network_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// invarianceRows returns JW, J, W and the ratio of each entry.
func invarianceRows(v []linearize.Invariance) []float64 {
	var out []float64
	for _, l := range v {
		out = append(out, l.JW, l.J, l.W, l.Ratio())
	}
	return out
}

// TestInvariancesReference compares with the numbers of a network with a layer
// normalization and a batch normalization, of which only the layer before the first
// is invariant: with running statistics, a batch normalization is a linear map.
func TestInvariancesReference(t *testing.T) {
	ref := testref.Open(t, "structures/normalized")
	net := testref.Must(network.ReadONNX(bytes.NewReader(ref.Model(t)), nil))(t)
	b := testref.Must(net.Linearize(t.Context(), ref.Matrix("x_train")))(t)
	layers := testref.Must(linearize.Invariances(t.Context(), linearize.Rebatch(b, 7), net.Theta()))(t)
	testref.RequireClose(t, invarianceRows(layers), ref.Floats("invariance_layer"), 1e-9, "layers")
	var tensors []linearize.Invariance
	for i, l := range layers {
		require.Equal(t, i == 0, l.Invariant(), l.Name)
		tensors = append(tensors, l.Tensors...)
	}
	testref.RequireClose(t, invarianceRows(tensors), ref.Floats("invariance_tensor"), 1e-9, "tensors")
}

// TestInvariancesDense compares with dense Jacobians on blocks of every kind.
func TestInvariancesDense(t *testing.T) {
	net, err := network.Seeded(3, []int{2, 6, 6}, network.Conv2D{Filters: 3, Kernel: 3}, network.Tanh, network.Flatten{},
		network.Dense{Units: 5}, network.LayerNorm{}, network.Tanh, network.Dense{Units: 2})
	require.NoError(t, err)
	rng, x := rand.New(rand.NewPCG(1, 2)), mat.NewDense(9, 72, nil)
	for i := range x.RawMatrix().Data {
		x.RawMatrix().Data[i] = rng.NormFloat64()
	}
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	layers := testref.Must(linearize.Invariances(t.Context(), b, net.Theta()))(t)
	var j mat.Dense
	b.JacobianTo(&j)
	theta, p := net.Theta(), 0
	for _, l := range layers {
		require.Equal(t, l.Name == layers[1].Name, l.Invariant(), "%s: %v", l.Name, l.Ratio())
		list := append([]linearize.Invariance{l}, l.Tensors...)
		for _, groups := range l.Groups {
			size := len(l.Groups[0]) / len(groups)
			for g, v := range groups {
				v.Spans = l.NodeSpans(g*size, size)
				list = append(list, v)
			}
		}
		for i, v := range list {
			jw, jj, ww := 0.0, 0.0, 0.0
			for r := range 18 {
				sum, row := 0.0, j.RawRowView(r)
				for _, s := range v.Spans {
					for k := s.Offset; k < s.Offset+s.Len(); k++ {
						sum += row[k] * theta[k]
						jj += row[k] * row[k]
					}
				}
				jw += sum * sum
			}
			for _, s := range v.Spans {
				for _, w := range theta[s.Offset : s.Offset+s.Len()] {
					ww += w * w
				}
				if i > 0 && i <= len(l.Tensors) {
					p += s.Len()
				}
			}
			testref.RequireClose(t, []float64{v.JW, v.J, v.W}, []float64{math.Sqrt(jw), math.Sqrt(jj), math.Sqrt(ww)}, 1e-10, v.Name)
		}
	}
	require.Equal(t, len(theta), p, "every parameter belongs to one tensor")
}

// TestScales multiplies parameters before a normalization by a factor: the outputs stay as they are where it is one for
// each of Scales, and change where it is for half of such a group, or for a layer that has none. A group
// normalization has a scale for each of its groups of channels, an instance normalization one for each channel, a layer
// normalization one in all. Weights are stored by output and by input, in groups of channels and not.
func TestScales(t *testing.T) {
	g := newGraph(17, 4, 6, 6)
	tiny := floatA("epsilon", 1e-12)
	groupNorm := func(y string, groups, size, channels int) string { // as a reshape and a normalization of each group
		y = g.op("InstanceNormalization", in(g.op("Reshape", in(y, g.batchAnd(int64(groups), -1))), g.param(groups), g.param(groups)), tiny)
		return g.op("Tanh", in(g.op("Reshape", in(y, g.batchAnd(int64(channels), int64(size), int64(size))))))
	}
	y := groupNorm(g.op("Conv", in("x", g.param(6, 4, 3, 3), g.param(6))), 3, 4, 6)
	y = groupNorm(g.op("Conv", in(y, g.param(4, 3, 2, 2), g.param(4)), intA("group", 2)), 4, 3, 4)
	y = groupNorm(g.op("ConvTranspose", in(y, g.param(4, 3, 2, 2)), intA("group", 2)), 6, 4, 6)
	y = g.op("MatMul", in(g.op("Flatten", in(y)), g.param(96, 6)))
	y = g.op("Reshape", in(groupNorm(g.op("Reshape", in(y, g.batchAnd(6, 1, 1))), 2, 1, 6), g.batchAnd(6)))
	y = g.op("Gemm", in(y, g.param(5, 6), g.param(5)), intA("transB", 1))
	y = g.op("LayerNormalization", in(y, g.param(5)), tiny)
	net := testref.Must(readModel(g.output(g.op("Gemm", in(y, g.param(2, 5), g.param(2)), intA("transB", 1))), nil))(t)

	rng, x := rand.New(rand.NewPCG(1, 2)), mat.NewDense(9, 144, nil)
	for i := range x.RawMatrix().Data {
		x.RawMatrix().Data[i] = rng.NormFloat64()
	}
	f := testref.Must(net.Forward(t.Context(), x))(t)
	moved := func(factor float64, spans []linearize.Span) float64 {
		theta := net.Theta()
		for _, s := range spans {
			floats.Scale(factor, theta[s.Offset:s.Offset+s.Len()])
		}
		g := testref.Must(testref.Must(net.WithTheta(theta))(t).Forward(t.Context(), x))(t)
		g.Sub(g, f)
		return mat.Norm(g, 2) / mat.Norm(f, 2)
	}
	for _, model := range []linearize.Model{net, net.Factored()} {
		b := testref.Must(model.Linearize(t.Context(), x))(t)
		var got []int // numbers of scales of weights
		for _, l := range testref.Must(linearize.Invariances(t.Context(), b, net.Theta()))(t) {
			scales := l.Scales()
			if l.Spans[0].Rows > 1 {
				got = append(got, len(scales))
			}
			if len(scales) < 2 {
				if l.J > 1e-9 { // a bias before a normalization of its channel changes nothing
					require.Equal(t, l.Invariant(), moved(1.5, l.Spans) < 1e-8, l.Name)
				}
				continue
			}
			size := len(l.Groups[0]) / len(scales)
			for i, v := range scales {
				require.Less(t, moved(1.5, l.NodeSpans(i*size, size)), 1e-8, v.Name)
				if size > 1 {
					require.Greater(t, moved(1.5, l.NodeSpans(i*size, size/2)), 1e-5, v.Name)
				}
			}
		}
		want := []int{3, 4, 6, 2, 1, 0}
		if model == linearize.Model(net) {
			// The names in the Full block do not say that the first weight has a bias, and it does not know the groups
			// of a weight stored by input.
			want[0], want[2] = 0, 1
		}
		require.Equal(t, want, got)
	}
}

// TestTrainingInvariances checks which layers of a network with batch normalization the
// diagnosis names: those before a normalization, whose scale it takes away, and no
// others; with running statistics none is. A bias before a normalization is taken away
// with the mean, so that it has no influence of its own.
func TestTrainingInvariances(t *testing.T) {
	net, err := network.Seeded(3, []int{1, 8, 8}, network.Conv2D{Filters: 3, Kernel: 3, NoBias: true}, network.BatchNorm{}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Flatten{}, network.Dense{Units: 7}, network.BatchNorm{}, network.ReLU, network.Dropout{Ratio: 0.5}, network.Dense{Units: 5}, network.Tanh, network.Dense{Units: 2})
	require.NoError(t, err)
	rng, x := rand.New(rand.NewPCG(1, 2)), mat.NewDense(70, 64, nil)
	for i := range x.RawMatrix().Data {
		x.RawMatrix().Data[i] = rng.NormFloat64()
	}
	theta := net.Theta()
	for i := range theta {
		theta[i] += 0.1 * rng.NormFloat64()
	}
	net = testref.Must(net.WithTheta(theta))(t)
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	inUse := testref.Must(linearize.Invariances(t.Context(), b, net.Theta()))(t)
	training := testref.Must(net.TrainingInvariances(t.Context(), x))(t)
	require.Len(t, training, 6)
	for i, l := range training {
		require.False(t, inUse[i].Invariant(), l.Name)
		require.Equal(t, i < 3, l.Invariant(), "%s: %v", l.Name, l.Ratio())
		require.Equal(t, []float64{inUse[i].J, inUse[i].W}, []float64{l.J, l.W})
		if i > 3 { // behind all normalizations; what comes before differs with their statistics
			require.False(t, l.Invariant())
		}
	}
	// The hidden layer is invariant as a whole and in its weight; its bias alone moves nothing.
	hidden := training[2]
	require.True(t, hidden.Tensors[0].Invariant())
	require.True(t, hidden.Tensors[1].Invariant())
	// Each filter and each node can be scaled alone.
	require.Len(t, training[0].Scales(), 3)
	require.Len(t, hidden.Scales(), 7)
	require.Nil(t, inUse[0].Scales())

	plain, err := network.Seeded(3, []int{64}, network.Dense{Units: 7}, network.Tanh, network.Dense{Units: 2})
	require.NoError(t, err)
	b = testref.Must(plain.Linearize(t.Context(), x))(t)
	want := testref.Must(linearize.Invariances(t.Context(), b, plain.Theta()))(t)
	got := testref.Must(plain.TrainingInvariances(t.Context(), x))(t)
	require.Equal(t, want, got)
}
