package funcgp

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// priorNet is a network of two layers, 2·3+3 and 3·2+2 parameters.
func priorNet(t testing.TB) *network.Network {
	t.Helper()
	return testref.Must(network.Seeded(1, []int{2}, network.Dense{Units: 3}, network.Tanh, network.Dense{Units: 2}))(t)
}

// priorFile is a prior of two layers with a scale.
func priorFile(t testing.TB, kind string) *priorOfFile {
	t.Helper()
	net := priorNet(t)
	groups := layerGroups(net, .5)
	require.Len(t, groups, 2)
	groups[1].Variance = 2
	var scale []float64
	switch kind {
	case priorIsotropic:
		groups = oneGroup(net, .25)
	case priorG:
		for i := range 17 {
			scale = append(scale, float64(i)/4)
		}
	}
	return newPriorFile(kind, groups, scale, net, &problemTask{Likelihood: likelihoodNamed("gaussian")}, .1, &priorFind{Form: "refit", Evidence: -3, Examples: 8})
}

// What is written is read again to the last bit, and a parameter has the variance of its group times its scale.
func TestPriorFile(t *testing.T) {
	net := priorNet(t)
	for _, kind := range []string{priorIsotropic, priorGroups, priorG} {
		path := filepath.Join(t.TempDir(), "prior.json")
		f := priorFile(t, kind)
		f.Groups[0].Variance = math.Pi / 7
		require.NoError(t, f.Write(path))
		got := testref.Must(readPrior(t.Context(), path, 0))(t)
		f.path = path
		require.Equal(t, f, got)
		require.Empty(t, got.misfit(net))
		task := &problemTask{Likelihood: likelihoodNamed("gaussian"), Precision: 1}
		require.NoError(t, got.noise(task, &trainedModel{Name: "net"}))
		got.set(task, &trainedModel{Name: "net", Net: net})
		require.EqualValues(t, .1, task.Noise)
		require.Equal(t, kind != priorIsotropic, task.Prior != nil)
		prior := testref.Must(task.PriorAt(task.Precision))(t)
		variance, mean := make([]float64, 17), make([]float64, 17)
		prior.VarianceTo(variance)
		prior.MeanTo(mean)
		logs, free := 0.0, 0.0
		for i, v := range variance {
			want := math.Pi / 7 // of the first group
			switch {
			case kind == priorIsotropic:
				want = 1 / task.Precision
			case i >= 9:
				want = 2
			}
			if kind == priorG {
				want *= float64(i) / 4
			}
			require.Equal(t, want, v)
			if v > 0 {
				logs, free = logs-math.Log(v), free+1
				require.Zero(t, mean[i])
			} else {
				require.Equal(t, net.Theta()[i], mean[i])
			}
		}
		require.InEpsilon(t, math.Exp(logs/free), task.Precision, 1e-14)
		if task.Prior == nil {
			continue
		}
		require.Same(t, task.Prior, task.Prior.At(task.Precision))
		task.Prior.At(2 * task.Precision).VarianceTo(mean)
		for i, v := range variance {
			require.Equal(t, v/2, mean[i])
		}
		require.Len(t, task.Prior.Groups(), 2)
		require.Equal(t, kind == priorG, task.Prior.Held() == 1)
	}
}

// Each way in which a file cannot be used is one error that says it.
func TestPriorFileErrors(t *testing.T) {
	var good bytes.Buffer
	require.NoError(t, json.NewEncoder(&good).Encode(priorFile(t, priorG)))
	for want, edit := range map[string]func(m map[string]any){
		`its schema is "x"`:                       func(m map[string]any) { m["schema"] = "x" },
		`its kind is "x"`:                         func(m map[string]any) { m["kind"] = "x" },
		"unknown field":                           func(m map[string]any) { m["more"] = 1 },
		"is for the kind g alone":                 func(m map[string]any) { m["kind"] = priorGroups },
		"an isotropic prior has one":              func(m map[string]any) { m["kind"] = priorIsotropic },
		`its likelihood is "student"`:             func(m map[string]any) { m["likelihood"] = "student" },
		"for the gaussian likelihood":             func(m map[string]any) { m["likelihood"] = "poisson" },
		"its noise_variance is 0":                 func(m map[string]any) { m["noise_variance"] = 0 },
		"its scale has 1 numbers for 17":          func(m map[string]any) { m["scale"] = []float64{1} },
		"the scale of parameter 1 is -1":          func(m map[string]any) { m["scale"].([]any)[1] = -1 },
		"its tensors have 17 parameters, not the": func(m map[string]any) { m["parameters"] = 16; m["scale"] = m["scale"].([]any)[:16] },
		"the variance of group":                   func(m map[string]any) { m["groups"].([]any)[1].(map[string]any)["variance"] = -1 },
		"is there twice":                          func(m map[string]any) { g := m["groups"].([]any); g[1] = g[0] },
		"which is none":                           func(m map[string]any) { tensorOf(m)["shape"] = []int{1 << 20, 1 << 20} },
		"cannot unmarshal":                        func(m map[string]any) { m["theta"] = 7 },
		"a checksum has":                          func(m map[string]any) { m["theta"] = "aa" },
	} {
		var m map[string]any
		require.NoError(t, json.Unmarshal(good.Bytes(), &m))
		edit(m)
		text := testref.Must(json.Marshal(m))(t)
		require.ErrorContains(t, testref.Err(parsePrior(text)), want)
		path := filepath.Join(t.TempDir(), "a.json")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		_, err := readPrior(t.Context(), path, 0)
		require.ErrorContains(t, err, "--prior "+path+": ")
		require.ErrorContains(t, err, "; find it again with")
	}
	// A group may be held at 0, but not all parameters.
	for kind, ok := range map[string]bool{priorIsotropic: false, priorGroups: true, priorG: true} {
		f := priorFile(t, kind)
		f.Groups[0].Variance = 0
		require.Equal(t, ok, f.check() == nil, kind)
	}
	require.ErrorContains(t, testref.Err(parsePrior(append(good.Bytes(), '1'))), "something follows")
	_, err := readPrior(t.Context(), "none.json", 0)
	require.ErrorContains(t, err, "--prior none.json: it cannot be opened")
	path := filepath.Join(t.TempDir(), "large.json")
	require.NoError(t, os.WriteFile(path, good.Bytes(), 0o600))
	require.ErrorContains(t, testref.Err(readPrior(t.Context(), path, 1000)), "raise Limits.Memory")
}

func tensorOf(m map[string]any) map[string]any {
	return m["groups"].([]any)[0].(map[string]any)["tensors"].([]any)[0].(map[string]any)
}

// A prior is for the tensors of one model, and one with a scale for their values too.
func TestPriorMisfit(t *testing.T) {
	net := priorNet(t)
	f := priorFile(t, priorGroups)
	name := f.Groups[0].Tensors[0].Name
	f.Groups[0].Tensors[0].Shape = []int{3, 3}
	require.Contains(t, f.misfit(net), "its tensor "+name+" has the shape [3 3]")
	f.Groups[0].Tensors = f.Groups[0].Tensors[1:]
	require.Contains(t, f.misfit(net), "it says nothing of the tensor "+name)
	f = priorFile(t, priorGroups)
	f.Groups[0].Tensors = append(f.Groups[0].Tensors, priorTensor{Name: "more"})
	require.Equal(t, "there is no tensor more", f.misfit(net))

	theta := net.Theta()
	theta[3]++
	moved := testref.Must(net.WithTheta(theta))(t)
	require.Empty(t, priorFile(t, priorGroups).misfit(moved))
	require.Contains(t, priorFile(t, priorG).misfit(moved), "other values of the parameters")
}

// FuzzParsePrior reads anything without a panic; what it takes it writes and reads again.
func FuzzParsePrior(f *testing.F) {
	for _, kind := range []string{priorIsotropic, priorGroups, priorG} {
		text := testref.Must(json.Marshal(priorFile(f, kind)))(f)
		f.Add(text)
	}
	f.Add([]byte(`{"schema":"funcgp/prior/1","kind":"g","likelihood":"poisson","parameters":0,"theta":"","groups":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		one, err := parsePrior(text)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		again := testref.Must(json.Marshal(one))(t)
		two := testref.Must(parsePrior(again))(t)
		third := testref.Must(json.Marshal(two))(t)
		require.Equal(t, string(again), string(third))
	})
}
