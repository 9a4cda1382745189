package gp_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// An own row passes and another panics, whether the inputs are in memory, are read from a source, or
// are those of a subset alone. What is not known passes.
func TestTrainingSet(t *testing.T) {
	x := line(0, 1, 2, 3)
	one := x.Slice(0, 1)
	gather := func(rows ...int) *linearize.Batch {
		b := testref.Must(x.Gather(t.Context(), rows))(t)
		return b
	}
	of := func(src linearize.Source) gp.TrainingSet {
		s := testref.Must(gp.NewTrainingSet(t.Context(), src, one))(t)
		return s
	}
	few := of(gather(1, 3))
	for name, s := range map[string]gp.TrainingSet{
		"memory": of(x), "stream": of(testkit.InTiles(x, 3)), "subset": few.Subset(testkit.InTiles(x, 3), []int{1, 3}), "subset of memory": few.Subset(x, []int{1, 3}),
	} {
		t.Run(name, func(t *testing.T) {
			n, c := s.CheckRows([]int{1, 3}, gather(1, 3))
			require.Equal(t, []int{2, 1}, []int{n, c})
			s.CheckTile(2, gather(2, 3))
			require.PanicsWithValue(t, "gp: example 1 given is not training example 3: their inputs differ; give the examples of Data at these rows", func() { s.CheckRows([]int{1, 3}, gather(1, 2)) })
			require.Panics(t, func() { s.CheckTile(2, gather(2, 1)) }, "another row in a tile")
			require.PanicsWithValue(t, "gp: range of training examples out of bounds", func() { s.CheckTile(3, gather(2, 3)) })
			require.PanicsWithValue(t, "gp: rows and examples differ in number", func() { s.CheckRows([]int{1}, gather(1, 2)) })
			wide := *x
			wide.X = mat.NewDense(4, 2, nil)
			require.Panics(t, func() { s.CheckTile(0, &wide) }, "inputs of another width")
		})
	}
	unread := few.Subset(testkit.InTiles(x, 3), []int{1, 3})
	unread.CheckRows([]int{0}, gather(2))
	hidden := *x
	hidden.X = nil
	for _, s := range []gp.TrainingSet{of(&hidden), of(testkit.InTiles(&hidden, 3)), of(struct{ linearize.Source }{x}), of(linearize.Chain(linearize.Rebatch(struct{ linearize.Source }{x}, 2)))} {
		s.CheckRows([]int{0}, gather(2))
	}
	all := of(x)
	all.CheckRows([]int{0}, hidden.Slice(2, 3))
}
