package parts

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/sparse/shard"
)

// TermsOptions are the options of explanations in parts.
type TermsOptions struct {
	funcgp.OpenOptions
	Posterior string // file that gpexplain fit or merge wrote
	Question
}

// A Question says which terms of which predictions are wanted.
type Question struct {
	Rows      Rows   `json:"Asking"`
	Top       int    // terms to list; 0 is 8
	Terms     string // posterior or raw; "" is posterior
	Contrast  string // "A,B" explains why class A rather than B; "" compares the predicted class and the runner-up
	Calibrate string // none leaves the covariance of the posterior as it is; "" is loo
}

// Rows say which rows are explained. The zero value is the first kept test row.
type Rows struct {
	Index, TestIndex string // test rows such as 24 or 1,2,5-9, or a file that lists them, one a line
	Input, Invert    string // a file of new rows; yes or no says whether its pictures are dark ink on light paper
	All              bool   // all test rows
}

// checked returns the question with its defaults, and its rows as a query. It returns an error for wrong values.
func (q Question) checked() (Question, funcgp.Query, error) {
	q.Top, q.Terms, q.Calibrate = cmp.Or(q.Top, result.DefaultTop), cmp.Or(q.Terms, "posterior"), cmp.Or(q.Calibrate, "loo")
	which := funcgp.Query(q.Rows)
	switch {
	case q.Top < 1:
		return q, which, job.Usagef("{top=%d} must be at least 1", q.Top)
	case q.Terms != "posterior" && q.Terms != "raw":
		return q, which, job.NotOneOf("terms", q.Terms, []string{"posterior", "raw"})
	case !slices.Contains(option.Values("calibrate"), q.Calibrate):
		return q, which, job.NotOneOf("calibrate", q.Calibrate, option.Values("calibrate"))
	}
	return q, which, which.Check()
}

// Kernel is the kernel of the terms.
func (q *Question) Kernel() gp.Terms {
	if q.Terms == "raw" {
		return gp.RawTerms
	}
	return gp.PosteriorTerms
}

// Terms explains predictions of a posterior, a part of the training rows at a time.
type Terms struct {
	post   *funcgp.Posterior
	opened bool // OpenTerms opened the posterior, and Close closes it
	rows   *funcgp.Rows
	header header
}

// OpenTerms opens a posterior with its model and data to answer a question.
func OpenTerms(ctx context.Context, o *TermsOptions) (*Terms, error) {
	if o.Posterior == "" {
		return nil, job.Usagef("{posterior} FILE is needed: what gpexplain fit or merge wrote")
	}
	q, _, err := o.checked()
	if err := errors.Join(err, funcgp.CheckContrast(o.Data, o.Posterior, o.Contrast)); err != nil {
		return nil, &flagsError{err}
	}
	c := job.New(nil)
	c.Words = option.Flags
	with := o.OpenOptions
	if q.Calibrate == "none" {
		with.Fit.Calibrate = q.Calibrate
	}
	post, err := funcgp.Open(job.NewContext(ctx, c), o.Posterior, &with)
	if err != nil {
		return nil, &flagsError{err}
	}
	t, err := NewTerms(ctx, post, q)
	if err != nil {
		return nil, &flagsError{errors.Join(err, post.Close())}
	}
	t.opened = true
	return t, nil
}

// NewTerms answers a question about a posterior that was opened from a file. Close leaves it open.
// Calibrate of the question is the option with which it was opened.
func NewTerms(ctx context.Context, post *funcgp.Posterior, question Question) (*Terms, error) {
	q, which, err := question.checked()
	if err != nil {
		return nil, err
	}
	if post.File() == "" {
		return nil, errors.New("parts: the posterior is of no file, which all parts have in common; save it and open the file")
	}
	t := &Terms{post: post}
	if t.rows, err = post.Select(ctx, &which, 1); err != nil {
		return nil, err
	}
	asking, err := which.Absolute()
	if err != nil {
		return nil, err
	}
	q.Rows = Rows(asking)
	t.header = header{Examples: post.Info().Examples, Question: q}
	return t, t.header.setPosterior(ctx, post.File())
}

// Close closes the files that OpenTerms opened. The Terms must not be used any more.
func (t *Terms) Close() error {
	if !t.opened {
		return nil
	}
	return t.post.Close()
}

// Len returns the number of training rows.
func (t *Terms) Len() int { return t.header.Examples }

// Posterior returns the SHA-256 of the posterior's file in hex.
func (t *Terms) Posterior() string { return t.header.SHA }

// Part computes the terms of a part of the training rows. A part without rows is an error.
func (t *Terms) Part(ctx context.Context, part shard.Part) (*TermsPart, error) {
	n := t.header.Examples
	lo, hi := part.Rows(n)
	if lo == hi {
		return nil, noRows(part, n)
	}
	q := &t.header.Question
	out := &TermsPart{header: t.header, covered: hi - lo}
	out.header.Part = part
	o := &funcgp.ExplainOptions{Top: q.Top, Raw: q.Terms == "raw"}
	err := o.Contrast(q.Contrast)
	if err == nil {
		out.rows, err = t.post.ExplainPart(ctx, t.rows, lo, hi, o)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// A flagsError is an error whose text names options by the flags of the command.
type flagsError struct{ err error }

func (e *flagsError) Error() string { return option.Word(e.err, option.Flags) }

func (e *flagsError) Unwrap() error { return e.err }

// Message returns the text with options.
func (e *flagsError) Message() option.Text { return option.Of(e.err) }
