package funcgp_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// TestBind checks that a file with an open size answers as the network with that size, where Model.Bind gives it, and
// that a saved posterior needs no one to give it again.
func TestBind(t *testing.T) {
	net := testref.Must(network.Seeded(1, network.Shape{2}, network.Dense{Units: 5}, network.Tanh, network.Dense{Units: 1}))(t)
	var file bytes.Buffer
	require.NoError(t, net.WriteONNX(&file))
	m := testref.Must(onnx.Decode(file.Bytes()))(t)
	m.Graph.Inputs[0].Dims[1] = onnx.Dim{Param: "width"}
	path, saved := filepath.Join(t.TempDir(), "open.onnx"), filepath.Join(t.TempDir(), "a.gp")
	require.NoError(t, os.WriteFile(path, testref.Must(m.Encode())(t), 0o644))
	x, y := mat.NewDense(30, 2, nil), mat.NewDense(30, 1, nil)
	for i := range 30 {
		x.SetRow(i, []float64{float64(i % 5), float64(i) / 10})
		y.Set(i, 0, float64(i)/7+float64(i%3))
	}
	data := funcgp.Data{X: x, Y: y}
	options := &funcgp.FitOptions{Likelihood: "gaussian", Standardize: "no", Prior: funcgp.Precision(1), NoiseVariance: new(.1)}
	predict := func(p *funcgp.Posterior, err error) []float64 {
		require.NoError(t, err)
		defer p.Close()
		var out []float64
		for _, q := range testref.Must(p.Predict(t.Context(), testref.Must(p.Rows(t.Context(), x))(t)))(t) {
			out = append(out, float64(q.Mean[0]), float64(q.Covariance[0][0]))
		}
		require.NoError(t, p.Save(t.Context(), saved, &funcgp.SaveOptions{Bundle: true}))
		return out
	}
	want := predict(funcgp.Fit(t.Context(), funcgp.Model{Network: net}, data, options))
	_, err := funcgp.Fit(t.Context(), funcgp.Model{File: path}, data, options)
	require.ErrorContains(t, err, "width")
	for name, value := range map[string]string{"width": "2", m.Graph.Inputs[0].Name: "n,2"} {
		bind := map[string]string{name: value}
		require.Equal(t, want, predict(funcgp.Fit(t.Context(), funcgp.Model{File: path, Bind: bind}, data, options)), bind)
		require.Equal(t, want, predict(funcgp.Open(t.Context(), saved, nil)), bind)
	}
}
