// Package terms explains predictions by parts of the training rows, in files that are merged.
package terms

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/job"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/sparse/shard"
	"github.com/funcgp/funcgp/store"
)

// The file of a part of explanations.
const (
	kind    = "gpexplain terms"
	version = 1
)

// A Question says which terms of which predictions are wanted.
type Question struct {
	Asking problem.Asking
	Seed   uint64

	Top                        int
	Terms, Contrast, Calibrate string
}

// Kernel is that of the terms.
func (q *Question) Kernel() gp.Terms {
	if q.Terms == "raw" {
		return gp.Raw
	}
	return gp.Posterior
}

// A Header says what a part of explanations is of.
type Header struct {
	Part      shard.Part
	Examples  int    // training rows of all parts
	Posterior string // its file
	SHA       string // of that file
	Question
}

// Differs says what differs from another part, "" where nothing does.
func (h *Header) Differs(o *Header) string {
	switch {
	case h.SHA != o.SHA || h.Examples != o.Examples:
		return "the posterior"
	case h.Asking != o.Asking || h.Seed != o.Seed:
		return "the rows that are explained"
	case h.Question != o.Question:
		return "--top, --terms, --contrast or --calibrate"
	}
	return ""
}

// A Part is what some of the training rows contribute to predictions.
type Part struct {
	Header Header
	Rows   [][]explain.Explanation // of each explained row, of each target

	Covered int // training rows of the part
}

// An Answer computes the parts of a question about a posterior.
type Answer struct {
	con    *job.Job
	p      *problem.Problem
	q      *inference.Posterior
	asked  *problem.Asked
	about  *explain.Target // the contrast; nil for none
	header Header
	groups []int // of the training rows; nil for none
}

// Open opens the posterior that the flags name, with its model and data, to answer a question
// about rows that others flags ask for.
func Open(ctx context.Context, c *job.Job, common *problem.Flags, posterior *inference.Flags, which *problem.RowFlags, question Question) (*Answer, error) {
	p, err := problem.Open(ctx, c, common, posterior.File)
	if err != nil {
		return nil, err
	}
	a := &Answer{con: c, header: Header{Question: question}}
	if a.asked, err = which.Select(ctx, c, p, 1); err != nil {
		return nil, err
	}
	if a.p, a.asked.Subset, err = p.GroupedFor(ctx, c, a.asked.Subset); err != nil {
		return nil, err
	}
	if a.about, err = Contrasted(a.p, question.Contrast); err != nil {
		return nil, err
	}
	if a.q, err = inference.Answer(ctx, c, a.p, posterior, question.Calibrate); err != nil {
		return nil, err
	}
	a.groups = groups(a.p)
	h := &a.header
	h.Examples, h.Seed = a.p.Examples.Train.Len(), a.p.Limits.Seed
	if h.Asking, err = which.Asking(); err != nil {
		return nil, err
	}
	if h.Posterior, err = filepath.Abs(posterior.File); err != nil {
		return nil, err
	}
	h.SHA, err = inputfile.Sum(ctx, h.Posterior)
	return a, err
}

// Examples is the number of training rows.
func (a *Answer) Examples() int { return a.header.Examples }

// Explained is the number of rows that are explained.
func (a *Answer) Explained() int { return a.asked.Len() }

// Posterior is the SHA-256 of the posterior's file.
func (a *Answer) Posterior() string { return a.header.SHA }

// Part computes what a part of the training rows contributes.
func (a *Answer) Part(ctx context.Context, part shard.Part) (*Part, error) {
	n := a.header.Examples
	lo, hi := part.Rows(n)
	if lo == hi {
		return nil, job.FullErrorf("--shard %v: it has no rows, as there are %d training rows; split them into at most %d", part, n, n)
	}
	own := a.groups
	if own != nil {
		own = own[lo:hi]
	}
	dual := explain.Part(a.q.Dual, lo, hi)
	out := &Part{Header: a.header, Covered: hi - lo}
	out.Header.Part = part
	for i := range a.asked.Len() {
		list, err := a.explain(ctx, dual, i, own)
		if err != nil {
			return nil, err
		}
		out.Rows = append(out.Rows, list)
		a.con.Show("explain", i+1, a.asked.Len())
	}
	a.con.Clear()
	return out, nil
}

// explain explains row i of those asked for by the training rows of dual, which have these
// groups.
func (a *Answer) explain(ctx context.Context, dual gp.Dual, i int, groups []int) ([]explain.Explanation, error) {
	p, rows := a.p, a.asked
	names := problem.NamesOf(rows.Subset, i, i+1)
	if rows.File != "" && rows.Len() == 1 {
		names = problem.NamesOfFile(rows.File)
	}
	batch, err := p.Linearize(ctx, rows.Subset, i, i+1)
	if err != nil {
		return nil, names.ExplainError(err)
	}
	pred, err := a.q.Predict(ctx, p.Task, batch, predictive.DefaultLink(p.Task.Likelihood, p.Model.Outputs))
	if err != nil {
		return nil, names.ExplainError(err)
	}
	o := &explain.Options{Terms: a.header.Kernel(), Top: a.header.Top, Targets: Targets(p, pred, 0, a.about), Groups: groups, ErrorBars: true, MaxMemory: p.Limits.Memory}
	ex, err := explain.New(dual, a.q.Kernel, o)
	if err != nil {
		return nil, err
	}
	list, err := ex.Explain(ctx, batch)
	if err != nil {
		return nil, names.ExplainError(err)
	}
	return list[0], nil
}

// groups are those of the training rows by their labels, nil for none.
func groups(p *problem.Problem) []int {
	train := p.Examples.Train
	if train.Set.Width() != 1 {
		return nil
	}
	return result.Rows{Label: problem.Labels(train), Classes: p.Task.Labels()}.Groups()
}

// Contrasted is the contrast that was asked for, nil for none.
func Contrasted(p *problem.Problem, contrast string) (*explain.Target, error) {
	if contrast == "" {
		return nil, nil
	}
	if p.Model.Outputs == 1 {
		return nil, fmt.Errorf("--contrast %s: %s has one output, which already weighs its two classes against each other; leave --contrast out", contrast, p.Model.Name)
	}
	a, b, err := p.Contrasted(contrast)
	if err != nil {
		return nil, err
	}
	t := explain.Contrast(a, b)
	return &t, nil
}

// Targets are what is explained of row i: all outputs, then the contrast that was asked for. Without one it is
// that of the predicted class and the runner-up, where each class has an output:
// a softmax compares outputs, and by itself none means anything.
func Targets(p *problem.Problem, pred *inference.Predictions, i int, asked *explain.Target) []explain.Target {
	var list []explain.Target
	for k := range p.Model.Outputs {
		list = append(list, explain.Single(k))
	}
	switch {
	case asked != nil:
		list = append(list, *asked)
	case p.Task.Classes != nil && p.Model.Outputs > 1:
		list = append(list, explain.Contrast(pred.Best(i), pred.RunnerUp(i)))
	}
	return list
}

// Add returns the part that is a and b together, whose positions count from the first
// training row. It is part 0/1 also where it is not yet all of that. a may be nil.
func Add(a, b *Part) (*Part, error) {
	parts := []*Part{b}
	if a != nil {
		parts = []*Part{a, b}
		if d := a.Header.Differs(&b.Header); d != "" {
			return nil, fmt.Errorf("parts %v and %v of an explanation differ in %s; compute them again", a.Header.Part, b.Header.Part, d)
		}
	}
	out := &Part{Header: b.Header}
	out.Header.Part = shard.Part{Number: 0, Of: 1}
	for _, part := range parts {
		out.Covered += part.Covered
	}
	for i := range b.Rows {
		list, err := Merge(parts, i, &explain.Options{Top: b.Header.Top, Terms: b.Header.Kernel()})
		if err != nil {
			return nil, err
		}
		out.Rows = append(out.Rows, list)
	}
	return out, nil
}

// ErrRows reports parts of other rows or targets.
var ErrRows = errors.New("the parts are of other rows than those explained; compute them again")

// Merge merges the explanations of one row by all parts. The explanations of the result have
// no targets.
func Merge(parts []*Part, row int, o *explain.Options) ([]explain.Explanation, error) {
	first := make([]int, len(parts))
	targets := 0
	for i, part := range parts {
		first[i], _ = part.Header.Part.Rows(part.Header.Examples)
		if row >= len(part.Rows) || i > 0 && len(part.Rows[row]) != targets {
			return nil, ErrRows
		}
		targets = len(part.Rows[row])
	}
	var list []explain.Explanation
	for k := range targets {
		var each []explain.Explanation
		for _, part := range parts {
			each = append(each, part.Rows[row][k])
		}
		one, err := explain.Merge(each, first, o)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// Encode returns the part as bytes for Decode.
func (p *Part) Encode() ([]byte, error) {
	var text bytes.Buffer
	err := gob.NewEncoder(&text).Encode(p)
	return text.Bytes(), err
}

// Decode returns the part of bytes that Encode returned.
func Decode(data []byte) (*Part, error) {
	p := new(Part)
	if gob.NewDecoder(bytes.NewReader(data)).Decode(p) != nil || !p.possible() {
		return nil, errors.New("these are no part of an explanation")
	}
	return p, nil
}

func (p *Part) possible() bool {
	h := &p.Header
	return h.Part.Of >= 1 && h.Part.Number >= 0 && h.Part.Number < h.Part.Of && h.Examples >= 1
}

// Write writes the part to a file.
func (p *Part) Write(path string) error {
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(p.Rows); err != nil {
		return err
	}
	return store.Write(path, kind, version, func(w *store.Writer) error {
		w.JSON("about", p.Header)
		w.Bytes("explanations", text.Bytes())
		return nil
	})
}

// Is tells whether a file is of a part.
func Is(path string) bool {
	f, err := store.Open(path, kind, version)
	return err == nil && f.Close() == nil
}

// Read reads the part in a file.
func Read(path string) (*Part, error) {
	f, err := store.Open(path, kind, version)
	if err != nil {
		return nil, err
	}
	p := new(Part)
	read := func() error {
		if err := f.JSON("about", &p.Header); err != nil {
			return err
		}
		text, err := f.Bytes("explanations")
		if err != nil {
			return err
		}
		if gob.NewDecoder(bytes.NewReader(slices.Clone(text))).Decode(&p.Rows) != nil || !p.possible() {
			return &store.Error{File: path, Problem: "holds an impossible part", Remedy: "compute it again"}
		}
		lo, hi := p.Header.Part.Rows(p.Header.Examples)
		p.Covered = hi - lo
		return nil
	}
	return p, errors.Join(read(), f.Close())
}
