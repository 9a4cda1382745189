package explain

import (
	"cmp"
	"math"
	"slices"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
)

// An Importance says how strongly a training example determines the function, by
// the length of its dual vector α_i [thesis fig. 5.6a].
type Importance struct {
	Index int       // position in the training data
	Norm  float64   // |α_i|, Euclidean over the outputs
	Alpha []float64 // α_i, read-only
}

// Importances returns all N training examples, the largest |α_i| first and ties in
// the data's order.
func Importances(d gp.Dual) []Importance {
	alpha, n := d.Alpha(), d.Data().Len()
	if n == 0 {
		return nil
	}
	c := len(alpha) / n
	list := make([]Importance, n)
	for i := range list {
		a := alpha[i*c : (i+1)*c : (i+1)*c]
		// |α_i|
		list[i] = Importance{Index: i, Norm: math.Sqrt(dense.Dot(a, a)), Alpha: a}
	}
	slices.SortStableFunc(list, func(a, b Importance) int { return cmp.Compare(b.Norm, a.Norm) })
	return list
}
