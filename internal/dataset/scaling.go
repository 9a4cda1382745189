package dataset

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"
)

// Scaling standardizes features: x ← (x − Mean)/Scale, both of length D. A nil
// Scaling leaves inputs as they are, which is right for images.
type Scaling struct {
	Mean, Scale []float64
}

// NewScaling returns the mean and the population standard deviation of every
// column of x, the training inputs (N×D). A constant column has scale 1. The
// error names a column whose spread a float64 cannot hold.
func NewScaling(x *mat.Dense) (*Scaling, error) {
	n, d := x.Dims()
	s := &Scaling{Mean: make([]float64, d), Scale: make([]float64, d)}
	col := make([]float64, n)
	for j := range d {
		mat.Col(col, j, x)
		s.Mean[j], s.Scale[j] = meanScale(col)
		if bad(s.Mean[j]) || bad(s.Scale[j]) {
			return nil, &Error{Place: fmt.Sprintf("feature %d", j), Problem: "its spread is too large to standardize", Remedy: "rescale the column"}
		}
	}
	return s, nil
}

// bad reports whether v is NaN or infinite.
func bad(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

// meanScale returns mean and standard deviation by two passes. It finds a constant
// column by comparing values, since the rounded mean would give it a tiny spread.
func meanScale(v []float64) (mean, scale float64) {
	constant := true
	for _, x := range v {
		mean += x
		constant = constant && x == v[0]
	}
	if constant {
		return v[0], 1
	}
	mean /= float64(len(v))
	var sum float64
	for _, x := range v {
		sum += (x - mean) * (x - mean)
	}
	scale = math.Sqrt(sum / float64(len(v)))
	if scale == 0 { // the squares underflow
		scale = 1
	}
	return mean, scale
}

// Apply standardizes the rows of x in place. It panics if x does not have D
// columns.
func (s *Scaling) Apply(x *mat.Dense) {
	if s == nil {
		return
	}
	n, d := x.Dims()
	if d != len(s.Mean) {
		panic("dataset: dimension mismatch")
	}
	for i := range n {
		row := x.RawRowView(i)
		for j := range row {
			row[j] = (row[j] - s.Mean[j]) / s.Scale[j]
		}
	}
}

// String writes the scaling as "m,m,...;s,s,...", from which ParseScaling
// gets the same numbers to the last bit. A nil scaling is "".
func (s *Scaling) String() string {
	if s == nil {
		return ""
	}
	return joinFloats(s.Mean) + ";" + joinFloats(s.Scale)
}

func joinFloats(v []float64) string {
	out := make([]string, len(v))
	for i, x := range v {
		out[i] = strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strings.Join(out, ",")
}

// ParseScaling reads what String wrote. The empty string is a nil Scaling.
func ParseScaling(text string) (*Scaling, error) {
	if text == "" {
		return nil, nil
	}
	m, sd, ok := strings.Cut(text, ";")
	if !ok {
		return nil, errors.New("dataset: scaling has no \";\" between means and scales")
	}
	mean, err := splitFloats(m)
	if err != nil {
		return nil, err
	}
	scale, err := splitFloats(sd)
	if err != nil {
		return nil, err
	}
	if len(mean) != len(scale) {
		return nil, fmt.Errorf("dataset: scaling has %d means but %d scales", len(mean), len(scale))
	}
	for j, v := range scale {
		if v <= 0 {
			return nil, fmt.Errorf("dataset: scale %d is %v, want a positive number", j, v)
		}
	}
	return &Scaling{mean, scale}, nil
}

func splitFloats(text string) ([]float64, error) {
	fields := strings.Split(text, ",")
	out := make([]float64, len(fields))
	for i, f := range fields {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil || bad(v) {
			return nil, fmt.Errorf("dataset: scaling holds %s, want a finite number", quote(f))
		}
		out[i] = v
	}
	return out, nil
}
