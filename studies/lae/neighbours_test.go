package lae

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
)

// By hand: five labelled codes on a line, of which one has a wrong label.
func TestNeighbours(t *testing.T) {
	n := &labelling{mat.NewDense(5, 1, []float64{0, 1, 2, 10, 11}), []int{0, 1, 0, 1, 1}}
	require.Equal(t, []int{1, 0, 0, 1, 1}, n.nearest([]float64{1.1}))
	asked := mat.NewDense(3, 1, []float64{1.1, 9, 0.4})
	// Of one neighbour 1, 1 and 0, of two 0 (a draw), 1 and 0 (a draw), of three 0, 1 and 0.
	right := testref.Must(n.right(t.Context(), asked, []int{0, 1, 0}))(t)
	require.Equal(t, []int{2, 3, 3}, right[:3])
}

// Of six pictures a class, one of class 0 lies among those of class 1. Its nearest neighbours outvote it only where there
// are three of them.
func TestNeighboursByTwoFolds(t *testing.T) {
	codes := mat.NewDense(12, 1, []float64{0, 1, 10.4, 0.1, 1.1, 0.6, 10, 11, 12, 10.5, 10.3, 11.1})
	n := &labelling{codes, []int{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}}
	require.Equal(t, 3, testref.Must(n.neighbours(t.Context(), 1, 6))(t))
	require.Equal(t, 1, testref.Must(n.neighbours(t.Context(), 12, 1))(t), "one picture a class has no halves")
	pairs := n.part(2, func(p int) bool { return p%3 == 1 })
	require.Equal(t, []float64{10.4, 0.1, 12, 10.5}, pairs.codes.RawMatrix().Data)
	require.Equal(t, []int{0, 0, 1, 1}, pairs.label)
}
