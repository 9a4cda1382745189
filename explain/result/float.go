package result

import (
	"encoding/json"
	"math"
)

// A Float is a number in a Report. JSON has it in full precision, or as null if it
// is NaN or infinite.
type Float float64

var _ json.Marshaler = Float(0)

// MarshalJSON implements json.Marshaler.
func (f Float) MarshalJSON() ([]byte, error) {
	if !f.Finite() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// UnmarshalJSON reads null as NaN.
func (f *Float) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*f = Float(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(f))
}

// Finite reports whether f is a number.
func (f Float) Finite() bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }

// Undefined returns NaN, which JSON shows as null.
func Undefined() Float { return Float(math.NaN()) }

// Floats returns v as Floats. A nil v stays nil, which JSON shows as null.
func Floats(v []float64) []Float {
	if v == nil {
		return nil
	}
	f := make([]Float, len(v))
	for i, x := range v {
		f[i] = Float(x)
	}
	return f
}

// An Index is the number of a row or output. A negative Index means that there is none, and is null in JSON.
type Index int

// MarshalJSON implements json.Marshaler.
func (i Index) MarshalJSON() ([]byte, error) {
	if i < 0 {
		return []byte("null"), nil
	}
	return json.Marshal(int(i))
}

// UnmarshalJSON reads null as -1.
func (i *Index) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*i = -1
		return nil
	}
	return json.Unmarshal(b, (*int)(i))
}
