package lae

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/par"
)

// mostNeighbours is the largest number of neighbours that a classifier of codes chooses from, as in the released code.
const mostNeighbours = 10

// A labelling has labelled codes, M×L, and their labels from 0 on.
type labelling struct {
	codes *mat.Dense
	label []int
}

// nearest returns the labels of the mostNeighbours nearest labelled codes of z, or of all if there are fewer, in the order
// of their distances.
func (n *labelling) nearest(z []float64) []int {
	var label [mostNeighbours + 1]int
	var distance [mostNeighbours + 1]float64
	found := 0
	for i, y := range n.label {
		d := 0.0
		for j, v := range n.codes.RawRowView(i) {
			d += (z[j] - v) * (z[j] - v)
		}
		at := found
		for ; at > 0 && d < distance[at-1]; at-- {
			label[at], distance[at] = label[at-1], distance[at-1]
		}
		label[at], distance[at] = y, d
		found = min(found+1, mostNeighbours)
	}
	return append([]int(nil), label[:found]...)
}

// right counts, for k = 1, 2, … neighbours, the codes whose label most of their k nearest labelled ones have; of several
// labels as frequent, the smallest is taken.
func (n *labelling) right(ctx context.Context, codes *mat.Dense, label []int) ([mostNeighbours]int, error) {
	votes := make([][mostNeighbours]bool, len(label))
	err := par.Do(ctx, len(label), func(i int) error {
		counts := map[int]int{}
		best := math.MaxInt
		for k, y := range n.nearest(codes.RawRowView(i)) {
			if counts[y]++; k == 0 || counts[y] > counts[best] || counts[y] == counts[best] && y < best {
				best = y
			}
			votes[i][k] = best == label[i]
		}
		return nil
	})
	var sum [mostNeighbours]int
	for _, v := range votes {
		for k, ok := range v {
			if ok {
				sum[k]++
			}
		}
	}
	return sum, err
}

// part returns the codes, copies of each of the pictures one below the other, of the pictures of which of holds.
func (n *labelling) part(copies int, of func(picture int) bool) *labelling {
	to := &labelling{}
	var rows []float64
	for i, y := range n.label {
		if of(i / copies) {
			rows, to.label = append(rows, n.codes.RawRowView(i)...), append(to.label, y)
		}
	}
	_, l := n.codes.Dims()
	to.codes = mat.NewDense(len(to.label), l, rows)
	return to
}

// neighbours chooses the number of neighbours of a labelling with so many copies of each picture, of which each class has n,
// one class after the other: by two-fold cross-validation, in which each half of the pictures of each class classifies the
// other. With one picture a class it is 1.
func (n *labelling) neighbours(ctx context.Context, copies, each int) (int, error) {
	if each < 2 {
		return 1, nil
	}
	first := n.part(copies, func(p int) bool { return p%each < each/2 })
	second := n.part(copies, func(p int) bool { return p%each >= each/2 })
	best, most := 1, -1.0
	one, err := first.right(ctx, second.codes, second.label)
	if err != nil {
		return 0, err
	}
	other, err := second.right(ctx, first.codes, first.label)
	for k := range one {
		if mean := float64(one[k])/float64(len(second.label)) + float64(other[k])/float64(len(first.label)); mean > most {
			best, most = k+1, mean
		}
	}
	return best, err
}
