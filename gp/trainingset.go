package gp

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/vector"
	"github.com/funcgp/funcgp/linearize"
)

// A TrainingSet identifies the examples that a posterior was fitted to. A posterior asks it about every
// batch that it is given, so that wrong use panics and does not give a wrong number.
type TrainingSet struct {
	Examples, Outputs, Parameters int
	Model                         linearize.ModelFingerprint

	inputs *mat.Dense // of all examples, where they are in memory
	sums   []uint64   // otherwise the checksums of the inputs of each example; 0 where they are not known
}

// NewTrainingSet identifies the examples of src, whose sizes and model are those of one. It reads the
// inputs where they are not in memory. Where that would take linearizing them, they stay unknown.
func NewTrainingSet(ctx context.Context, src linearize.Source, one *linearize.Batch) (TrainingSet, error) {
	s := TrainingSet{Examples: src.Len(), Outputs: one.Outputs(), Parameters: one.P, Model: one.Model}
	if b, ok := src.(*linearize.Batch); ok {
		s.inputs = b.X
		return s, nil
	}
	known, ok := src.(linearize.InputSource)
	if !ok {
		return s, nil
	}
	err := known.Inputs(ctx, func(x *mat.Dense, _ linearize.ModelFingerprint) error {
		if x != nil {
			for i := range dense.Count(x) {
				s.sums = append(s.sums, vector.Hash(x.RawRowView(i)))
			}
		}
		return ctx.Err()
	})
	if len(s.sums) != src.Len() {
		s.sums = nil
	}
	return s, err
}

// Subset identifies the examples of src, of which those at these rows are the batch that s identifies. The
// inputs of the others stay unknown where they are not in memory: src is not read.
func (s TrainingSet) Subset(src linearize.Source, rows []int) TrainingSet {
	was := s.inputs
	s.Examples, s.inputs = src.Len(), nil
	if b, ok := src.(*linearize.Batch); ok {
		s.inputs = b.X
	} else if was != nil {
		s.sums = make([]uint64, s.Examples)
		for at, i := range rows {
			s.sums[i] = vector.Hash(was.RawRowView(at))
		}
	}
	return s
}

// Check returns the numbers of examples and outputs of x. It panics where x is of another size or
// model than the training examples.
func (s *TrainingSet) Check(x *linearize.Batch) (t, c int) {
	if t = x.Len(); t == 0 {
		return 0, s.Outputs
	}
	if x.Outputs() != s.Outputs || x.P != s.Parameters {
		panic("gp: inputs do not fit the training examples")
	}
	if d := s.Model.Mismatch(x.Model); d != "" {
		panic("gp: inputs and training examples are of two models: " + d + "; linearize both with one network")
	}
	return t, s.Outputs
}

// CheckRows checks training examples as Check does. It also panics if x does not hold as many examples as there
// are rows, or if an example has other inputs than the training example in its row, as far as both are known.
func (s *TrainingSet) CheckRows(rows []int, x *linearize.Batch) (t, c int) {
	if t, c = s.Check(x); t != len(rows) {
		panic("gp: rows and examples differ in number")
	}
	for at, i := range rows {
		s.checkRow(i, at, x)
	}
	return t, c
}

// CheckTile does what CheckRows does, for the training examples from first on.
func (s *TrainingSet) CheckTile(first int, x *linearize.Batch) (t, c int) {
	if t, c = s.Check(x); first < 0 || first+t > s.Examples {
		panic("gp: range of training examples out of bounds")
	}
	for at := range t {
		s.checkRow(first+at, at, x)
	}
	return t, c
}

// checkRow panics where example at of x has other inputs than training example i.
func (s *TrainingSet) checkRow(i, at int, x *linearize.Batch) {
	if x.X == nil || s.inputs == nil && s.sums == nil {
		return
	}
	given, same := x.X.RawRowView(at), true
	if s.inputs != nil {
		own := s.inputs.RawRowView(i)
		same = len(own) > 0 && len(given) > 0 && &own[0] == &given[0] || slices.Equal(given, own)
	} else if s.sums[i] != 0 {
		same = vector.Hash(given) == s.sums[i]
	}
	if !same {
		panic(fmt.Sprintf("gp: example %d given is not training example %d: their inputs differ; give the examples of Data at these rows", at, i))
	}
}
