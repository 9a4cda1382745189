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
	scores   []result.AuditScores // of a part that was just computed
}

func (a *AuditPart) head() *header { return &a.header }

// NewAuditPart scores a part of the training rows of a posterior of a file, for a list of the top rows.
// calibrate says how it was opened. A part without rows is an error.
func NewAuditPart(ctx context.Context, post *funcgp.Posterior, part shard.Part, top int, calibrate string) (*AuditPart, error) {
	n := post.Info().Examples
	lo, hi := part.Rows(n)
	if lo == hi {
		return nil, noRows(part, n)
	}
	a := &AuditPart{header: header{Part: part, Examples: n, Question: Question{Top: top, Calibrate: calibrate}}}
	if err := a.header.of(ctx, post.File()); err != nil {
		return nil, err
	}
	var err error
	a.examples, a.scores, err = post.AuditPart(ctx, lo, hi)
	return a, err
}

// of sets the posterior of a part to that of a file.
func (h *header) of(ctx context.Context, path string) (err error) {
	if h.Posterior, err = filepath.Abs(path); err != nil {
		return err
	}
	h.SHA, err = inputfile.Sum(ctx, h.Posterior)
	return err
}

// noRows is the error of a part of n training rows that has none.
func noRows(part shard.Part, n int) error {
	return job.FullErrorf("{shard=%v}: it has no rows, as there are %d training rows; split them into at most %d", part, n, n)
}

// Question has the Top and the Calibrate of the audit, and posterior is the file of the posterior.
func (a *AuditPart) Question() (q Question, posterior string) {
	return a.header.Question, a.header.Posterior
}

// Examples are the scored training rows, in their order.
func (a *AuditPart) Examples() []audit.Example { return a.examples }

// Scores are those of a part that NewAuditPart has computed, for a table.
func (a *AuditPart) Scores() []result.AuditScores { return a.scores }

// Write writes the part to a file, for MergeAudit and gpexplain merge, which prints the audit of all parts.
func (a *AuditPart) Write(path string) error {
	return write(path, auditKind, "scores", &a.header, a.examples)
}

// IsAudit tells whether a file is of a part of an audit.
func IsAudit(path string) bool { return is(path, auditKind) }

// ReadAudit reads the part in a file.
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
