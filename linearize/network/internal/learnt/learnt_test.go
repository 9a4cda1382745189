package learnt

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
)

// made returns a float32 tensor of numbers that depend on the index along each dimension.
func made(f func(at []int) float64, dims ...int) *onnx.Tensor {
	t := &onnx.Tensor{Type: onnx.Float}
	n := 1
	for _, d := range dims {
		t.Dims = append(t.Dims, int64(d))
		n *= d
	}
	at := make([]int, len(dims))
	for i := range n {
		for k, left := len(dims)-1, i; k >= 0; k-- {
			at[k], left = left%dims[k], left/dims[k]
		}
		t.Floats = append(t.Floats, float64(float32(f(at))))
	}
	return t
}

// position is the sine or cosine of column c of d at position p, pairs beside each other.
func position(p, c, d int) float64 {
	arg := float64(float32(float64(p) * math.Pow(10000, -float64(c/2*2)/float64(d))))
	if c%2 == 0 {
		return math.Sin(arg)
	}
	return math.Cos(arg)
}

// halves is position with all sines first.
func halves(p, c, d int) float64 { return position(p, c%(d/2)*2+c/(d/2), d) }

// TestRegular checks tables, grids and frequencies that are buffers.
func TestRegular(t *testing.T) {
	for name, x := range map[string]*onnx.Tensor{
		"sinusoids":              made(func(at []int) float64 { return position(at[1], at[2], 16) }, 1, 50, 16),
		"sinusoids, three rows":  made(func(at []int) float64 { return position(at[1], at[2], 4) }, 1, 3, 4),
		"sinusoids, 5000 rows":   made(func(at []int) float64 { return position(at[0], at[2], 32) }, 5000, 1, 32),
		"sinusoids from row 100": made(func(at []int) float64 { return position(100+at[0], at[1], 32) }, 20, 32),
		"halves":                 made(func(at []int) float64 { return halves(at[0], at[1], 16) }, 40, 16),
		"scaled":                 made(func(at []int) float64 { return 0.02 * position(at[0], at[1], 64) }, 17, 64),
		"channels first":         made(func(at []int) float64 { return position(at[1], at[0], 8) }, 8, 12),
		"a sine alone":           made(func(at []int) float64 { return math.Sin(0.3 + 0.7*float64(at[0])) }, 24),
		"rows and columns": made(func(at []int) float64 {
			return halves(at[0], at[2]%16, 16)*step(at[2] < 16) + halves(at[1], at[2]%16, 16)*step(at[2] >= 16)
		}, 7, 7, 32),
		"rows and columns, flat":  made(func(at []int) float64 { return picture(at[0], at[1], 14) }, 196, 32),
		"after a class token":     made(func(at []int) float64 { return picture(at[1]-1, at[2], 14) * step(at[1] > 0) }, 1, 197, 32),
		"not square":              made(func(at []int) float64 { return picture(at[0], at[1], 5) }, 30, 8),
		"grid":                    made(func(at []int) float64 { return -1 + 2*float64(at[2+at[1]])/5 }, 1, 2, 6, 6),
		"steps":                   made(func(at []int) float64 { return float64(at[0]) / 10 }, 11),
		"frequencies":             made(func(at []int) float64 { return math.Pow(10000, -float64(at[0])/32) }, 32),
		"slopes":                  made(func(at []int) float64 { return math.Exp2(-float64(at[0] + 1)) }, 12, 1, 1),
		"of 16 bits":              half(made(func(at []int) float64 { return position(at[0], at[1], 16) }, 30, 16)),
		"distances to the second": made(func(at []int) float64 { return float64(at[0]-at[1]) / 3 }, 9, 9),
	} {
		formula, tested := regular(x)
		require.True(t, formula && tested, name)
	}
}

func step(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// picture is the table of position p of a picture with rows of w, of sines and cosines of
// its row and column.
func picture(p, c, w int) float64 {
	d := 16
	if c < d {
		return halves(max(p, 0)/w, c, d)
	}
	return halves(max(p, 0)%w, c-d, d)
}

func half(t *onnx.Tensor) *onnx.Tensor {
	t.Type = onnx.Float16
	for i, v := range t.Floats {
		t.Floats[i] = math.Round(v*2048) / 2048
	}
	return t
}

// TestIrregular checks that no learnt numbers are taken for a formula: 20,000 random tensors,
// near one and near zero, smooth along an axis, sparse or of few values.
func TestIrregular(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	kinds := []func() float64{
		rng.NormFloat64,
		func() float64 { return 1 + 1e-3*rng.NormFloat64() },
		func() float64 { return 1 + 1e-6*rng.NormFloat64() },
		func() float64 { return step(rng.Float64() < 0.3) },
		func() float64 { return step(rng.Float64() < 0.05) * rng.NormFloat64() },
		func() float64 { return math.Round(2 * rng.NormFloat64()) },
		func() float64 { return 0 },
		func() float64 { return 1 },
	}
	for i := range 20000 {
		draw := kinds[i%len(kinds)]
		var dims []int
		for range 1 + rng.IntN(3) {
			dims = append(dims, 1+rng.IntN(9))
		}
		x := made(func([]int) float64 { return draw() }, dims...)
		if i%8 == 0 && i%3 == 1 { // smooth: a walk with small steps
			sum := 0.0
			for j := range x.Floats {
				sum += 0.1 * draw()
				x.Floats[j] = float64(float32(sum))
			}
		}
		if constantSteps(x) {
			continue // of few values, and by chance indeed equal steps
		}
		formula, _ := regular(x)
		require.False(t, formula, "%v %v", x.Dims, x.Floats)
	}
}

// constantSteps reports whether all second differences along the numbers are zero.
func constantSteps(t *onnx.Tensor) bool {
	for i := 2; i < len(t.Floats); i++ {
		if math.Abs(t.Floats[i]-2*t.Floats[i-1]+t.Floats[i-2]) > 1e-6*math.Abs(t.Floats[i]) {
			return false
		}
	}
	return true
}

// TestNameKind checks what names say.
func TestNameKind(t *testing.T) {
	for name, want := range map[string]kindOfName{
		"layers.0.self_attn.in_proj_weight": learntName, "0.weight": learntName, "bert.embeddings.LayerNorm.beta": learntName, "blocks.3.gamma_1": learntName, "norm1_bias": otherName,
		"onnx::MatMul_123": generatedName, "/block/Constant_12_output_0": generatedName, "312": generatedName, "w12": generatedName,
		"block.alpha": learntScalarName, "logit_scale": learntScalarName, "module.temperature": learntScalarName,
		"bn.running_var": certainName, "attn.inv_freq": certainName, "pe": encodingName, "encoder.pos_encoder.pe": encodingName,
		"detect.anchors": bufferName, "grid_0": bufferName, "target.mean": statisticName, "conv.weight_u": spectralName, "parametrizations.weight.0._v": spectralName,
		"fourier.freqs": frequencyName, "scale": otherName, "table": otherName,
	} {
		require.Equal(t, want, nameKind(name), name)
	}
}
