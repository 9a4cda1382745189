package testref

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
)

// tensor is one entry of a safetensors file: its header and its bytes,
// little-endian and row-major.
type tensor struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
	data    []byte
}

// sizes holds the bytes of one element of each dtype that is read.
var sizes = map[string]int{"F64": 8, "F32": 4, "I64": 8, "U8": 1}

// parse reads a safetensors file: an 8-byte header length, a JSON header, data.
func parse(b []byte) (map[string]tensor, map[string]string, error) {
	if len(b) < 8 {
		return nil, nil, fmt.Errorf("testref: %d bytes, too short for a safetensors file", len(b))
	}
	n := binary.LittleEndian.Uint64(b)
	if n > uint64(len(b)-8) {
		return nil, nil, fmt.Errorf("testref: header of %d bytes in a file of %d", n, len(b))
	}
	header, data := b[8:8+n], b[8+n:]
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(header, &entries); err != nil {
		return nil, nil, fmt.Errorf("testref: header: %w", err)
	}
	tensors, meta := map[string]tensor{}, map[string]string{}
	for name, entry := range entries {
		if name == "__metadata__" {
			if err := json.Unmarshal(entry, &meta); err != nil {
				return nil, nil, fmt.Errorf("testref: metadata: %w", err)
			}
			continue
		}
		var x tensor
		if err := json.Unmarshal(entry, &x); err != nil {
			return nil, nil, fmt.Errorf("testref: tensor %q: %w", name, err)
		}
		size, ok := sizes[x.DType]
		if !ok {
			return nil, nil, fmt.Errorf("testref: tensor %q: %w", name, fmt.Errorf("dtype %q is not one of F64, F32, I64, U8", x.DType))
		}
		lo, hi := x.Offsets[0], x.Offsets[1]
		if lo < 0 || hi < lo || hi > len(data) {
			return nil, nil, fmt.Errorf("testref: tensor %q: %w", name, fmt.Errorf("bytes [%d, %d) of %d", lo, hi, len(data)))
		}
		n := (hi - lo) / size
		if !holds(x.Shape, n) || n*size != hi-lo {
			return nil, nil, fmt.Errorf("testref: tensor %q: %w", name, fmt.Errorf("shape %v of %s in %d bytes", x.Shape, x.DType, hi-lo))
		}
		x.data = data[lo:hi]
		tensors[name] = x
	}
	return tensors, meta, nil
}

// holds reports whether an array of the given shape has n elements.
func holds(shape []int, n int) bool {
	product := 1
	for _, d := range shape {
		if d < 0 || d > 0 && product > math.MaxInt/d {
			return false
		}
		product *= d
	}
	return product == n
}

func (x tensor) len() int { return len(x.data) / sizes[x.DType] }

// float returns element i, exactly for every dtype but I64 beyond 2⁵³.
func (x tensor) float(i int) float64 {
	switch x.DType {
	case "F64":
		return math.Float64frombits(binary.LittleEndian.Uint64(x.data[8*i:]))
	case "F32":
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(x.data[4*i:])))
	}
	return float64(x.int(i))
}

// int returns element i of an I64 or U8 tensor.
func (x tensor) int(i int) int {
	if x.DType == "U8" {
		return int(x.data[i])
	}
	return int(binary.LittleEndian.Uint64(x.data[8*i:]))
}
