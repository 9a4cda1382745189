package variational

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// depth is the number of former steps that are mixed.
const depth = 10

// An anderson accelerates a fixed-point iteration (Anderson, J. ACM 12, 1965): it goes
// to the combination of former points whose combined steps are shortest.
type anderson struct{ x, step [][]float64 }

func (a *anderson) len() int { return len(a.x) }

// add adds a point and its step, unless it is the last one.
func (a *anderson) add(it *iterate) {
	if n := len(a.x); n > 0 && floats.Same(a.x[n-1], it.x) {
		return
	}
	a.x = append(a.x, it.x)
	a.step = append(a.step, floats.SubTo(make([]float64, len(it.x)), it.next, it.x))
	if len(a.x) > depth+1 {
		a.x, a.step = a.x[1:], a.step[1:]
	}
}

// point returns the next point. Steps are measured in units of scale. A site whose
// precision would not be positive takes the plain step instead. n is N·C.
func (a *anderson) point(scale []float64, n, c int) []float64 {
	last := len(a.x) - 1
	columns := mat.NewDense(len(scale), last, nil)
	right := mat.NewVecDense(len(scale), nil)
	for i, s := range scale {
		right.SetVec(i, s*a.step[last][i])
		for k := range last {
			columns.Set(i, k, s*(a.step[k+1][i]-a.step[k][i]))
		}
	}
	var gamma mat.VecDense
	var svd mat.SVD
	to := floats.AddTo(make([]float64, len(scale)), a.x[last], a.step[last])
	if !svd.Factorize(columns, mat.SVDThin) {
		return to
	}
	values := svd.Values(nil)
	rank := 0
	for rank < len(values) && values[rank] > 1e-12*values[0] {
		rank++
	}
	if rank == 0 {
		return to
	}
	svd.SolveVecTo(&gamma, right, rank)
	plain := append([]float64(nil), to...)
	for k := range last {
		g := gamma.AtVec(k)
		for i := range to {
			to[i] -= g * (a.x[k+1][i] - a.x[k][i] + a.step[k+1][i] - a.step[k][i])
		}
	}
	for i := 0; i < n; i += c {
		keep := false
		for j := range c {
			d := n + (i+j)*c + j
			keep = keep || !(to[d] >= 0.1*a.x[last][d]) || math.IsInf(to[d], 0)
		}
		if keep {
			copy(to[i:i+c], plain[i:i+c])
			copy(to[n+i*c:n+(i+c)*c], plain[n+i*c:])
		}
	}
	return to
}
