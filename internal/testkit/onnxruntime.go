package testkit

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
)

// An onnxruntime is a Node process that runs each graph that is written to it. It ends with the tests.
type onnxruntime struct {
	sync.Mutex
	to   *json.Encoder
	from *json.Decoder
}

var startOnnxruntime = sync.OnceValues(func() (*onnxruntime, error) {
	c := exec.Command("node", "--input-type=module", "-e", fmt.Sprintf(`
import * as ort from %q;
import fs from "fs";
import readline from "readline";
ort.env.wasm.numThreads = 1;
for await (const line of readline.createInterface({input: process.stdin})) {
	const {path, feeds} = JSON.parse(line);
	let answer;
	try {
		const s = await ort.InferenceSession.create(fs.readFileSync(path));
		const arrays = {float64: Float64Array, float32: Float32Array, int64: {from: v => BigInt64Array.from(v, BigInt)}};
		const out = await s.run(Object.fromEntries(feeds.map(f => [f.Name, new ort.Tensor(f.Type, arrays[f.Type].from(f.Data.map(Number)), f.Dims)])));
		answer = {outputs: Object.fromEntries(Object.entries(out).filter(([k, v]) => v.data !== undefined && v.type !== "string").map(([k, v]) => [k, Array.from(v.data, x => Number.isFinite(Number(x)) ? Number(x) : String(x))]))};
		await s.release();
	} catch (e) {
		answer = {error: String(e)};
	}
	console.log(JSON.stringify(answer));
}`, filepath.Join(os.Getenv("FUNCGP_ONNXRUNTIME"), "dist", "ort.min.mjs")))
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &onnxruntime{to: json.NewEncoder(in), from: json.NewDecoder(out)}, c.Start()
})

// numbers is an array in JSON, in which numbers that are not finite are strings, as JavaScript writes them.
type numbers []float64

// MarshalJSON implements json.Marshaler.
func (v numbers) MarshalJSON() ([]byte, error) {
	all := make([]any, len(v))
	for i, x := range v {
		switch all[i] = x; {
		case math.IsNaN(x):
			all[i] = "NaN"
		case math.IsInf(x, 0):
			all[i] = map[bool]string{true: "Infinity", false: "-Infinity"}[x > 0]
		}
	}
	return json.Marshal(all)
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *numbers) UnmarshalJSON(text []byte) error {
	var all []any
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*v = make(numbers, len(all))
	for i, x := range all {
		switch x := x.(type) {
		case float64:
			(*v)[i] = x
		case string:
			var err error
			if (*v)[i], err = strconv.ParseFloat(x, 64); err != nil {
				return err
			}
		}
	}
	return nil
}

// A Feed is an input of a graph: of type float32, float64 or int64.
type Feed struct {
	Name, Type string
	Data       numbers
	Dims       []int
}

// Onnxruntime runs a graph with an input x of float64 at the rows x, as OnnxruntimeFeeds does.
func Onnxruntime(t testing.TB, graph []byte, x *mat.Dense) map[string][]float64 {
	t.Helper()
	rows, cols := x.Dims()
	return OnnxruntimeFeeds(t, graph, Feed{"x", "float64", Flat(x), []int{rows, cols}})
}

// OnnxruntimeFeeds runs a graph with onnxruntime, and returns the elements of each output. It
// returns nil if FUNCGP_ONNXRUNTIME, the folder of npm's package onnxruntime-web, is not set.
func OnnxruntimeFeeds(t testing.TB, graph []byte, feeds ...Feed) map[string][]float64 {
	t.Helper()
	if os.Getenv("FUNCGP_ONNXRUNTIME") == "" {
		return nil
	}
	r, err := startOnnxruntime()
	require.NoError(t, err)
	r.Lock()
	defer r.Unlock()
	path := filepath.Join(t.TempDir(), "graph.onnx")
	require.NoError(t, os.WriteFile(path, graph, 0o600))
	require.NoError(t, r.to.Encode(map[string]any{"path": path, "feeds": feeds}))
	var answer struct {
		Outputs map[string]numbers
		Error   string
	}
	require.NoError(t, r.from.Decode(&answer))
	require.Empty(t, answer.Error)
	outputs := map[string][]float64{}
	for name, v := range answer.Outputs {
		outputs[name] = v
	}
	return outputs
}
