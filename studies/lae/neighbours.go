package lae

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/logsum"
)

// A labelling has codes, M×L, with a label from 0 on for each: a few labelled rows, from which an
// autoencoder that all rows taught classifies others.
type labelling struct {
	codes *mat.Dense // M×L
	cov   *mat.Dense // their covariances, M·L×L, or nil
	label []int
}

// classes returns the most probable label of each of the codes, N×L, by the k nearest labelled ones.
// With covariances of both, here N·L×L, a labelled code counts by the density of the difference of
// the codes, N(0, C + C_i), instead of as one vote.
func (n *labelling) classes(codes, cov *mat.Dense, k int) []int {
	rows, l := codes.Dims()
	m, _ := n.codes.Dims()
	out := make([]int, rows)
	dense.EachRow(codes.RawMatrix(), func(i int, z []float64) {
		type neighbour struct {
			at       int
			distance float64 // squared, by which the nearest are found
			weight   float64 // in the log domain
		}
		all := make([]neighbour, m)
		d := mat.NewVecDense(l, nil)
		for at := range m {
			for j, v := range n.codes.RawRowView(at) {
				d.SetVec(j, z[j]-v)
			}
			all[at] = neighbour{at: at, distance: mat.Dot(d, d)}
			if cov != nil {
				distance := density(d, dense.Slice(cov, i*l, (i+1)*l), dense.Slice(n.cov, at*l, (at+1)*l))
				all[at].distance, all[at].weight = distance, -distance/2
			}
		}
		slices.SortFunc(all, func(a, b neighbour) int { return cmp.Or(cmp.Compare(a.distance, b.distance), a.at-b.at) })
		votes, most := map[int]*logsum.Sum{}, math.Inf(-1)
		for _, v := range all[:min(k, m)] {
			label := n.label[v.at]
			if votes[label] == nil {
				s := logsum.New()
				votes[label] = &s
			}
			votes[label].Add(v.weight)
			if now := votes[label].Value(); now > most {
				out[i], most = label, now
			}
		}
	})
	return out
}

// density returns −2 log N(d; 0, a+b) up to a constant. A sum that is singular counts as one with a
// little noise.
func density(d *mat.VecDense, a, b *mat.Dense) float64 {
	l := d.Len()
	sum, trace := mat.NewSymDense(l, nil), 0.0
	for i := range l {
		for j := i; j < l; j++ {
			sum.SetSym(i, j, a.At(i, j)+b.At(i, j))
		}
		trace += sum.At(i, i)
	}
	var chol mat.Cholesky
	for jitter := 0.0; !chol.Factorize(sum); jitter = max(10*jitter, 1e-12*trace, 1e-300) {
		if !(jitter < math.MaxFloat64/10) {
			panic("lae: a covariance of codes is not finite")
		}
		for i := range l {
			sum.SetSym(i, i, sum.At(i, i)+jitter)
		}
	}
	x := mat.NewVecDense(l, nil)
	if err := chol.SolveVecTo(x, d); err != nil {
		panic("lae: " + err.Error())
	}
	return mat.Dot(d, x) + chol.LogDet()
}
