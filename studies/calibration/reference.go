package calibration

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"

	"gonum.org/v1/gonum/mat"
)

// A reference is a file of tensors in the safetensors format.
type reference struct {
	entries map[string]entry
	data    []byte
}

type entry struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

func readReference(path string) (*reference, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(b) < 8 || binary.LittleEndian.Uint64(b) > uint64(len(b)-8) {
		return nil, fmt.Errorf("%s is no safetensors file", path)
	}
	n := binary.LittleEndian.Uint64(b)
	header := map[string]json.RawMessage{}
	if err := json.Unmarshal(b[8:8+n], &header); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r := &reference{entries: map[string]entry{}, data: b[8+n:]}
	for name, raw := range header {
		var e entry
		if name != "__metadata__" {
			if err := json.Unmarshal(raw, &e); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", path, name, err)
			}
			r.entries[name] = e
		}
	}
	return r, nil
}

// bits returns the 8-byte elements of a tensor.
func (r *reference) bits(name, dtype string) []uint64 {
	e, ok := r.entries[name]
	if !ok || e.DType != dtype {
		panic(fmt.Sprintf("calibration: the reference has no tensor %s of type %s", name, dtype))
	}
	b := r.data[e.Offsets[0]:e.Offsets[1]]
	v := make([]uint64, len(b)/8)
	for i := range v {
		v[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return v
}

func (r *reference) ints(name string) []int {
	v := r.bits(name, "I64")
	out := make([]int, len(v))
	for i := range v {
		out[i] = int(int64(v[i]))
	}
	return out
}

func (r *reference) matrix(name string) *mat.Dense {
	v := r.bits(name, "F64")
	out := make([]float64, len(v))
	for i := range v {
		out[i] = math.Float64frombits(v[i])
	}
	shape := r.entries[name].Shape
	return mat.NewDense(shape[0], len(v)/shape[0], out)
}
