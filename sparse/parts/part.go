package parts

import (
	"bytes"
	"context"
	"encoding"
	"encoding/gob"
	"errors"
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/sparse/shard"
)

// Kinds and version of the files with a part of explanations or of an audit.
const (
	kind      = "gpexplain terms"
	auditKind = "gpexplain audit"
	version   = 1
)

// A header identifies a part of explanations or of an audit, its posterior and its question.
type header struct {
	Part      shard.Part
	Examples  int    // training rows of all parts
	Posterior string // file of the posterior
	SHA       string // SHA-256 of that file
	Question
}

// differs says what differs from another part, "" where nothing does.
func (h *header) differs(o *header) string {
	switch {
	case h.SHA != o.SHA || h.Examples != o.Examples:
		return "the posterior"
	case h.Rows != o.Rows:
		return "the rows that are explained"
	case h.Question != o.Question:
		return "top, terms, contrast or calibrate"
	}
	return ""
}

func (h *header) possible() bool {
	return h.Part.Possible() && h.Examples >= 1
}

// A TermsPart has the terms that some of the training rows contribute to predictions.
type TermsPart struct {
	header  header
	rows    [][]explain.Explanation // for each explained row, an explanation of each target
	covered int                     // number of training rows added
}

// Len returns the number of training rows that were added.
func (a *TermsPart) Len() int { return a.covered }

// Question returns the question that the part answers, and the file of the posterior that it explains.
func (a *TermsPart) Question() (q Question, posterior string) {
	return a.header.Question, a.header.Posterior
}

// Explanations returns, for each explained row, an explanation of each of its targets.
func (a *TermsPart) Explanations() [][]explain.Explanation { return a.rows }

// Add merges a and b: it returns the sums over the training rows of both, and the largest of
// their listed terms, as many as the question asks for.
func (a *TermsPart) Add(b *TermsPart) (*TermsPart, error) {
	if d := a.header.differs(&b.header); d != "" {
		return nil, fmt.Errorf("parts %v and %v of an explanation differ in %s; compute them again", a.header.Part, b.header.Part, d)
	}
	return sum(a, b)
}

// sum merges parts. Positions in the result count from the first training row. The result is named
// part 0/1 even if it has only some of the parts.
func sum(parts ...*TermsPart) (*TermsPart, error) {
	out := &TermsPart{header: parts[0].header}
	out.header.Part = shard.Part{Number: 0, Of: 1}
	first := make([]int, len(parts))
	for i, part := range parts {
		first[i], _ = part.header.Part.Rows(part.header.Examples)
		out.covered += part.covered
	}
	o := &explain.Options{Top: out.header.Top, Terms: out.header.Kernel()}
	for row, targets := range parts[0].rows {
		var list []explain.Explanation
		for k := range targets {
			var each []explain.Explanation
			for _, part := range parts {
				if len(part.rows) != len(parts[0].rows) || len(part.rows[row]) != len(targets) {
					return nil, errors.New("the parts are of other rows than those explained; compute them again")
				}
				each = append(each, part.rows[row][k])
			}
			one, err := explain.Merge(each, first, o)
			if err != nil {
				return nil, err
			}
			list = append(list, one)
		}
		out.rows = append(out.rows, list)
	}
	return out, nil
}

// MergeTerms returns the sum of all parts in files, which Write wrote, in any order.
func MergeTerms(ctx context.Context, files []string) (*TermsPart, error) {
	list, err := readAll(ctx, files, ReadTerms)
	if err != nil {
		return nil, err
	}
	return sum(list...)
}

// readAll reads all parts of one posterior from files, and returns them in their order.
func readAll[P interface{ head() *header }](ctx context.Context, files []string, read func(path string) (P, error)) ([]P, error) {
	all, numbers := make([]P, len(files)), make([]shard.Part, len(files))
	for i, path := range files {
		var err error
		if all[i], err = read(path); err != nil {
			return nil, err
		}
		numbers[i] = all[i].head().Part
	}
	order, err := shard.Order(files, numbers, func(i, j int) string { return all[i].head().differs(all[j].head()) })
	if err != nil {
		return nil, err
	}
	var list []P
	for _, i := range order {
		list = append(list, all[i])
	}
	h := list[0].head()
	if now, err := inputfile.Sum(ctx, h.Posterior); err != nil || now != h.SHA {
		return nil, job.FullErrorf("%s: the posterior of the parts is not there or has changed; compute the parts again", h.Posterior)
	}
	return list, nil
}

func (a *TermsPart) head() *header { return &a.header }

var (
	_ encoding.BinaryMarshaler   = (*TermsPart)(nil)
	_ encoding.BinaryUnmarshaler = (*TermsPart)(nil)
)

// MarshalBinary implements encoding.BinaryMarshaler.
func (a *TermsPart) MarshalBinary() ([]byte, error) {
	var text bytes.Buffer
	e := gob.NewEncoder(&text)
	err := errors.Join(e.Encode(a.header), e.Encode(a.rows), e.Encode(a.covered))
	return text.Bytes(), err
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (a *TermsPart) UnmarshalBinary(data []byte) error {
	d := gob.NewDecoder(bytes.NewReader(data))
	var p TermsPart
	if d.Decode(&p.header) != nil || d.Decode(&p.rows) != nil || d.Decode(&p.covered) != nil || !p.header.possible() {
		return errors.New("these are no part of an explanation")
	}
	*a = p
	return nil
}

// Write writes the part to a file, for MergeTerms and gpexplain merge, which prints the explanation
// of all parts.
func (a *TermsPart) Write(path string) error {
	return write(path, kind, "explanations", &a.header, a.rows)
}

// IsTerms tells whether a file holds a part of explanations.
func IsTerms(path string) bool { return hasKind(path, kind) }

// ReadTerms reads the part that a file holds.
func ReadTerms(path string) (*TermsPart, error) {
	p := new(TermsPart)
	if err := read(path, kind, "explanations", &p.header, &p.rows); err != nil {
		return nil, err
	}
	lo, hi := p.header.Part.Rows(p.header.Examples)
	p.covered = hi - lo
	return p, nil
}

// write writes a part to a file of a kind. name is the name of its content in the file.
func write(path, kind, name string, h *header, content any) error {
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(content); err != nil {
		return err
	}
	return store.Write(path, kind, version, func(w *store.Writer) error {
		w.JSON("about", h)
		w.Bytes(name, text.Bytes())
		return nil
	})
}

// hasKind tells whether a file is of a kind.
func hasKind(path, kind string) bool {
	f, err := store.Open(path, kind, version)
	return err == nil && f.Close() == nil
}

// read reads a part that write wrote.
func read(path, kind, name string, h *header, content any) error {
	f, err := store.Open(path, kind, version)
	if err != nil {
		return err
	}
	fill := func() error {
		if err := f.JSON("about", h); err != nil {
			return err
		}
		text, err := f.Bytes(name)
		if err != nil {
			return err
		}
		if gob.NewDecoder(bytes.NewReader(slices.Clone(text))).Decode(content) != nil || !h.possible() {
			return &store.Error{File: path, Problem: "holds an impossible part", Remedy: "compute it again"}
		}
		return nil
	}
	return errors.Join(fill(), f.Close())
}
