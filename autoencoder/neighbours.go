package autoencoder

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/logsum"
)

// Neighbours classifies rows by their codes, from a few labelled ones: semi-supervised
// learning, with an autoencoder that all rows taught.
type Neighbours struct {
	codes *mat.Dense // M×L
	cov   *mat.Dense // M·L×L, or nil
	label []int
	k     int
}

// NewNeighbours returns the classifier by the k nearest of M labelled codes, M×L, with a
// label from 0 on for each. With their covariances, M·L×L, a code counts by the density
// of the difference of the codes, N(0, C + C_i), instead of as one vote. Sizes that do
// not fit panic.
func NewNeighbours(codes, cov *mat.Dense, label []int, k int) *Neighbours {
	m, l := codes.Dims()
	if len(label) != m || k < 1 || cov != nil && !dense.Is(cov, m*l, l) {
		panic("autoencoder: codes, covariances, labels or the number of neighbours do not fit")
	}
	return &Neighbours{codes, cov, slices.Clone(label), min(k, m)}
}

// Classes returns the most probable label of each of the codes, N×L. cov has their
// covariances, N·L×L, and is nil if those of the labelled codes are.
func (n *Neighbours) Classes(codes, cov *mat.Dense) []int {
	rows, l := codes.Dims()
	if (cov == nil) != (n.cov == nil) || cov != nil && !dense.Is(cov, rows*l, l) {
		panic("autoencoder: codes and labelled codes must both have covariances, or none")
	}
	out := make([]int, rows)
	dense.EachRow(0, codes.RawMatrix(), func(i int, z []float64) {
		var c *mat.Dense
		if cov != nil {
			c = dense.Slice(cov, i*l, (i+1)*l)
		}
		out[i] = n.class(z, c)
	})
	return out
}

// A neighbour is a labelled code with its weight, in the log domain.
type neighbour struct {
	at       int
	distance float64 // squared, by which the nearest are found
	weight   float64
}

func (n *Neighbours) class(z []float64, cov *mat.Dense) int {
	m, l := n.codes.Dims()
	all := make([]neighbour, m)
	d := mat.NewVecDense(l, nil)
	for i := range m {
		for j, v := range n.codes.RawRowView(i) {
			d.SetVec(j, z[j]-v)
		}
		all[i] = neighbour{at: i, distance: mat.Dot(d, d)}
		if cov != nil {
			all[i].distance, all[i].weight = density(d, cov, dense.Slice(n.cov, i*l, (i+1)*l))
		}
	}
	slices.SortFunc(all, func(a, b neighbour) int { return cmp.Or(cmp.Compare(a.distance, b.distance), a.at-b.at) })
	votes := map[int]*logsum.Sum{}
	best, most := 0, math.Inf(-1)
	for _, v := range all[:n.k] {
		k := n.label[v.at]
		if votes[k] == nil {
			s := logsum.New()
			votes[k] = &s
		}
		votes[k].Add(v.weight)
		if now := votes[k].Value(); now > most {
			best, most = k, now
		}
	}
	return best
}

// density returns −2 log N(d; 0, a+b) up to a constant, and the log density. A sum that
// is singular counts as one with a little noise.
func density(d *mat.VecDense, a, b *mat.Dense) (distance, log float64) {
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
			panic("autoencoder: a covariance of codes is not finite")
		}
		for i := range l {
			sum.SetSym(i, i, sum.At(i, i)+jitter)
		}
	}
	x := mat.NewVecDense(l, nil)
	must(chol.SolveVecTo(x, d))
	distance = mat.Dot(d, x) + chol.LogDet()
	return distance, -distance / 2
}
