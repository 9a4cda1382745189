package parts

import (
	"context"
	"path/filepath"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/sparse/shard"
)

// An AuditPart has the scores of some of the training rows.
type AuditPart struct {
	header   header
	examples []audit.Example
	scores   []result.AuditScores // scores of a part that NewAuditPart computed; else nil
}

func (a *AuditPart) head() *header { return &a.header }

// NewAuditPart scores a part of the training rows of a posterior that was opened from a file. top is the number
// of rows that the audit lists, and calibrate is the option with which the posterior was opened. A part without
// rows is an error.
func NewAuditPart(ctx context.Context, post *funcgp.Posterior, part shard.Part, top int, calibrate string) (*AuditPart, error) {
	n := post.Info().Examples
	lo, hi := part.Rows(n)
	if lo == hi {
		return nil, noRows(part, n)
	}
	a := &AuditPart{header: header{Part: part, Examples: n, Question: Question{Top: top, Calibrate: calibrate}}}
	if err := a.header.setPosterior(ctx, post.File()); err != nil {
		return nil, err
	}
	var err error
	a.examples, a.scores, err = post.AuditPart(ctx, lo, hi)
	return a, err
}

// setPosterior sets the posterior of a part to the file at path.
func (h *header) setPosterior(ctx context.Context, path string) (err error) {
	if h.Posterior, err = filepath.Abs(path); err != nil {
		return err
	}
	h.SHA, err = inputfile.Sum(ctx, h.Posterior)
	return err
}

// noRows returns the error for a part without rows, where there are n training rows.
func noRows(part shard.Part, n int) error {
	return job.FullErrorf("{shard=%v}: it has no rows, as there are %d training rows; split them into at most %d", part, n, n)
}

// Question returns a Question with the Top and the Calibrate of the audit, and the file of the posterior.
func (a *AuditPart) Question() (q Question, posterior string) {
	return a.header.Question, a.header.Posterior
}

// Examples returns the scored training rows, in their order.
func (a *AuditPart) Examples() []audit.Example { return a.examples }

// Scores returns the scores of a part that NewAuditPart computed, for a table, and nil for a part that was read.
func (a *AuditPart) Scores() []result.AuditScores { return a.scores }

// Write writes the part to a file, for MergeAudit and gpexplain merge, which prints the audit of all parts.
func (a *AuditPart) Write(path string) error {
	return write(path, auditKind, "scores", &a.header, a.examples)
}

// IsAudit tells whether a file holds a part of an audit.
func IsAudit(path string) bool { return hasKind(path, auditKind) }

// ReadAudit reads the part that a file holds.
func ReadAudit(path string) (*AuditPart, error) {
	a := new(AuditPart)
	if err := read(path, auditKind, "scores", &a.header, &a.examples); err != nil {
		return nil, err
	}
	lo, hi := a.header.Part.Rows(a.header.Examples)
	for k := range a.examples {
		x := &a.examples[k]
		if x.Index < lo || x.Index >= hi || k > 0 && x.Index <= a.examples[k-1].Index || min(x.Label, x.Suggested) < -1 || max(x.Label, x.Suggested) >= len(x.Probability) {
			return nil, &store.Error{File: path, Problem: "holds impossible scores", Remedy: "compute it again"}
		}
	}
	return a, nil
}

// MergeAudit returns the scores of all parts in files, which Write wrote, in any order.
func MergeAudit(ctx context.Context, files []string) (*AuditPart, error) {
	list, err := readAll(ctx, files, ReadAudit)
	if err != nil {
		return nil, err
	}
	all := &AuditPart{header: list[0].header}
	for _, a := range list {
		all.examples = append(all.examples, a.examples...)
	}
	return all, nil
}
