package network_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/network/head"
)

func readKept(t *testing.T, file []byte) *network.Network {
	t.Helper()
	return testref.Must(network.ReadONNX(bytes.NewReader(file), &network.ReadOptions{Head: head.Keep}))(t)
}

// The tensor between an encoder and a decoder is the narrowest. Beside it the outputs
// are those of the network, with the same Jacobian, and what comes after it is the
// decoder.
func TestWithCode(t *testing.T) {
	net := wide(t, 6, 5, 2, 4, 6)
	_, _, p := net.Dims()
	rng := rand.New(rand.NewPCG(4, 4))
	x := gaussianMatrix(rng, 7, 6)
	joint, size, err := net.WithCode(net.Bottleneck())
	require.NoError(t, err)
	require.Equal(t, 2, size)
	require.NotEqual(t, net.Fingerprint(), joint.Fingerprint())

	b := testref.Must(joint.Linearize(t.Context(), x))(t)
	own := testref.Must(net.Linearize(t.Context(), x))(t)
	var j, want mat.Dense
	b.JacobianTo(&j)
	own.JacobianTo(&want)
	for n := range 7 {
		require.InDeltaSlice(t, own.F.RawRowView(n), b.F.RawRowView(n)[2:], 1e-14)
		for c := range 6 {
			require.InDeltaSlice(t, want.RawRowView(n*6+c), j.RawRowView(n*8+2+c), 1e-14)
		}
		for c := range 2 { // of the code: by differences, and zero after it
			row := j.RawRowView(n*8 + c)
			for i := range p {
				theta := net.Theta()
				theta[i] += 1e-6
				up := testref.Must(joint.WithTheta(theta))(t)
				f := testref.Must(up.Forward(t.Context(), x.Slice(n, n+1, 0, 6).(*mat.Dense)))(t)
				require.InDelta(t, (f.At(0, c)-b.F.At(n, c))/1e-6, row[i], 1e-5)
				if i >= 6*5+5+5*2+2 {
					require.Zero(t, row[i])
				}
			}
		}
	}
	tail := testref.Must(net.After(net.Bottleneck()))(t)
	l, c := tail.Dims()
	require.Equal(t, []int{2, 6}, []int{l, c})
	f := testref.Must(tail.Forward(t.Context(), nil, mat.DenseCopyOf(b.F.Slice(0, 7, 0, 2))))(t)
	require.True(t, mat.EqualApprox(own.F, f, 1e-14))
	_, err = tail.Forward(t.Context(), nil, mat.NewDense(1, 2, []float64{0, math.NaN()}))
	require.ErrorContains(t, err, "row 0")
}

// An encoder and a decoder from two files are the autoencoder of one file, which can be
// written and read.
func TestJoin(t *testing.T) {
	ref := testref.Open(t, "structures/autoencoder")
	x := ref.MatrixRC("x_test", 10, 64)
	encoder, decoder := readKept(t, ref.File(t, "encoder.onnx")), readKept(t, ref.File(t, "decoder.onnx"))
	net, tensor, err := network.Join(encoder, decoder)
	require.NoError(t, err)
	require.Equal(t, net.Bottleneck(), tensor)
	require.Equal(t, ref.Floats("theta"), net.Theta())
	var file bytes.Buffer
	require.NoError(t, net.WriteONNX(&file))
	for _, n := range []*network.Network{net, readKept(t, file.Bytes())} {
		f := testref.Must(n.Forward(t.Context(), x))(t)
		require.InDeltaSlice(t, ref.Floats("f_test"), f.RawMatrix().Data, 1e-12)
		tail := testref.Must(n.After(tensor))(t)
		f = testref.Must(tail.Forward(t.Context(), nil, ref.MatrixRC("latent_test", 10, 2)))(t)
		require.InDeltaSlice(t, ref.Floats("f_test"), f.RawMatrix().Data, 1e-12)
	}
	_, _, err = network.Join(decoder, decoder)
	require.ErrorContains(t, err, "64 outputs, the second takes 2 inputs")
}

func TestCodesThatAreNone(t *testing.T) {
	net := wide(t, 4, 3, 2, 4)
	_, _, err := net.WithCode("nothing")
	require.ErrorContains(t, err, `"nothing"`)
	require.ErrorContains(t, err, net.Bottleneck())
	around, err := network.Sequential(network.Shape{4}, network.Residual{Layers: []network.Layer{network.Dense{Units: 2}, network.Tanh, network.Dense{Units: 4}}})
	require.NoError(t, err)
	require.Empty(t, around.Bottleneck())
	_, _, err = around.WithCode("Residual1_Dense1_Gemm1")
	if err == nil {
		_, err = around.After("Residual1_Dense1_Gemm1")
	}
	require.Error(t, err)
}
