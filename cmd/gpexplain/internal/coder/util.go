package coder

import (
	"encoding/json"
	"io"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
)

// encoder writes JSON as it is, one object a line.
func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// numbers returns numbers for JSON.
func numbers(v []float64) []result.Float {
	out := make([]result.Float, len(v))
	for i, x := range v {
		out[i] = result.Float(x)
	}
	return out
}

// block returns block i of n×n matrices that stand below one another.
func block(m *mat.Dense, i, n int) [][]result.Float {
	out := make([][]result.Float, n)
	for k := range n {
		out[k] = numbers(m.RawRowView(i*n + k))
	}
	return out
}
