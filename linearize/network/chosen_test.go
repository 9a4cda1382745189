package network_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// TestLayers checks which tensors are of the layers that are named, that f is the whole network's and J its columns, and
// that what is before the parameters is computed once for each row, whatever asks for it.
func TestLayers(t *testing.T) {
	whole := testref.Must(network.Sequential(network.Shape{2, 12, 12}, network.Conv2D{Filters: 16, Kernel: 3, Padding: 1}, network.ReLU, network.Conv2D{Filters: 32, Kernel: 3, Padding: 1}, network.MaxPool2D{12}, network.Flatten{},
		network.Dense{Units: 8}, network.LayerNorm{}, network.Tanh, network.Dense{Units: 3}))(t)
	file := written(t, whole)
	var names []string
	for _, p := range whole.Params() {
		names = append(names, p.Name)
	}
	require.Len(t, names, 10)
	x := inputsOf(whole, rand.New(rand.NewPCG(1, 2)), 9)
	b := testref.Must(whole.Linearize(t.Context(), x))(t)
	var all mat.Dense
	b.JacobianTo(&all)
	for _, c := range []struct {
		layers []string
		want   []string
		held   bool
	}{
		{in(network.LastLayer), names[8:], true}, {in("5"), names[8:], true}, {in("*Dense*"), append(names[4:6:6], names[8:]...), true}, {in(names[6], "5"), append(names[6:7:7], names[8:]...), true},
		{in("2", "LayerNorm*", network.LastLayer), append(names[2:4:4], names[6:]...), false}, {in("*"), names, false},
	} {
		net := testref.Must(network.ReadONNX(bytes.NewReader(file), &network.ReadOptions{Layers: c.layers}))(t)
		var got []string
		for _, p := range net.Params() {
			got = append(got, p.Name)
		}
		require.Equal(t, c.want, got, "%q", c.layers)
		require.Equal(t, net.Fingerprint(), testref.Must(whole.WithLayers(c.layers...))(t).Fingerprint())
		for range 2 {
			part := testref.Must(net.Linearize(t.Context(), x))(t)
			testref.RequireClose(t, part.F.RawMatrix().Data, b.F.RawMatrix().Data, 1e-13, "f")
			var j mat.Dense
			part.JacobianTo(&j)
			for _, p := range net.Params() {
				for _, q := range whole.Params() {
					if q.Name == p.Name {
						want := mat.DenseCopyOf(all.Slice(0, 27, q.Offset, q.Offset+q.Len()))
						testref.RequireClose(t, mat.DenseCopyOf(j.Slice(0, 27, p.Offset, p.Offset+p.Len())).RawMatrix().Data, want.RawMatrix().Data, 1e-12, p.Name)
					}
				}
			}
			f := testref.Must(net.Forward(t.Context(), mat.DenseCopyOf(x.Slice(3, 9, 0, 288))))(t)
			testref.RequireClose(t, f.RawMatrix().Data, b.F.RawMatrix().Data[9:], 1e-13, "f")
		}
		theta := net.Theta()
		theta[0]++
		moved := testref.Must(net.WithTheta(theta))(t)
		requireDifferences(t, moved)
		width, held, computed := net.FeaturesHeld()
		if !c.held {
			require.Zero(t, width)
			continue
		}
		require.Positive(t, width)
		require.Equal(t, 9, held) // of which the differences take five again
		require.Equal(t, held, computed)
	}
	for entry, want := range map[string]string{"6": "there is no layer 6: they are 1 to 5", "Dens.*": `cannot take the layer "Dens.*": no tensor has that name, and the nearest are "Dense`} {
		_, err := network.ReadONNX(bytes.NewReader(file), &network.ReadOptions{Layers: in(entry)})
		require.ErrorContains(t, err, want)
	}
	// Patterns in Freeze leave what Learn names.
	net := testref.Must(network.ReadONNX(bytes.NewReader(file), &network.ReadOptions{Freeze: in("*"), Learn: in("*Dense*bias")}))(t)
	require.Len(t, net.Params(), 2)
	_, err := network.ReadONNX(bytes.NewReader(file), &network.ReadOptions{Freeze: in("Cnv*")})
	require.ErrorContains(t, err, `cannot freeze "Cnv*": no tensor has that name, and the nearest are`)
}
