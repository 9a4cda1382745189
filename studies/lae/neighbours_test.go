package lae

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
)

// By hand: three labelled codes, one of which is uncertain.
func TestLabelling(t *testing.T) {
	codes, labels := mat.NewDense(3, 2, []float64{0, 0, 1, 0, 5, 0}), []int{0, 1, 1}
	near := mat.NewDense(2, 2, []float64{0.4, 0, 0.6, 0})
	plain := &labelling{codes, nil, labels}
	require.Equal(t, []int{0, 1}, plain.classes(near, nil, 1))
	require.Equal(t, []int{1, 1}, plain.classes(near, nil, 3))

	identity := func(v ...float64) *mat.Dense {
		m := mat.NewDense(2*len(v), 2, nil)
		for i, s := range v {
			m.Set(2*i, 0, s)
			m.Set(2*i+1, 1, s)
		}
		return m
	}
	// The second code is so certain that it cannot be that of (.4, 0).
	n, first := &labelling{codes, identity(1, 0.001, 1), labels}, near.Slice(0, 1, 0, 2).(*mat.Dense)
	require.Equal(t, []int{0}, n.classes(first, identity(0.001), 3))
	require.Equal(t, []int{1}, n.classes(first, identity(0.5), 3))
	require.Equal(t, []int{0}, (&labelling{codes, mat.NewDense(6, 2, nil), labels}).classes(first, mat.NewDense(2, 2, nil), 1))
}
