package main

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/internal/dataset"
)

// A question is the row that is explained.
type question struct {
	place   place
	x       *mat.Dense // 1×D
	input   report.Input
	picture report.Picture
}

// question finds the row that the flags ask for.
func (e *explainFlags) question(ctx context.Context, s *session) (*question, error) {
	if e.input != "" {
		return e.ownInput(ctx, s)
	}
	o := dataset.SelectOptions{Count: 1}
	if e.row {
		o = dataset.SelectOptions{Rows: []int{e.index}, From: "--index"}
	}
	sub, err := s.selectTest(o)
	if err != nil {
		return nil, err
	}
	return &question{place: rowsOf(sub, 0, 1), x: s.inputs(sub), picture: s.picture(sub, 0),
		input: report.Input{Split: sub.Set.Part, Index: report.Index(sub.Rows[0]), Label: report.Float(label(sub, 0))}}, nil
}

// ownInput reads a file of the user's.
func (e *explainFlags) ownInput(ctx context.Context, s *session) (*question, error) {
	in, err := dataset.ReadInput(ctx, e.input, &dataset.InputOptions{Shape: s.opened.Shape, Columns: s.opened.Columns, Invert: e.invert})
	if err != nil {
		return nil, err
	}
	if in.Light && !e.invert {
		s.warn(fmt.Errorf("%s has a light border, the training pictures are light ink on black: add --invert if it is dark ink on paper", e.input))
	}
	q := &question{place: fileOf(e.input), input: report.Input{Split: "file", Index: -1, Label: report.Undefined(), File: e.input}}
	if in.Pixels != nil {
		q.picture = s.gray(in.Pixels)
	} else {
		q.picture = report.Picture{Names: s.opened.Columns, Values: slices.Clone(in.X)}
	}
	q.x = mat.NewDense(1, len(in.X), in.X)
	s.scaling.Apply(q.x)
	return q, nil
}
