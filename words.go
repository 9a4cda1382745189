package funcgp

import (
	"errors"

	"github.com/funcgp/funcgp/internal/option"
)

// A callError is an error of a call of this package.
type callError struct{ err error }

func (e *callError) Error() string { return "funcgp: " + option.Word(e.err, option.Go) }

func (e *callError) Unwrap() error { return e.err }

// Message returns the message with options in braces, which other front ends can word.
func (e *callError) Message() option.Text { return option.Of(e.err) }

// named returns err, which may be nil, in the words of this package.
func named(err error) error {
	if err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	return &callError{withLessMemory(err, false)}
}

// named returns err, which may be nil, in the words of the caller that opened the posterior.
func (p *Posterior) named(err error) error {
	err = withLessMemory(err, p.problem.Saved != nil)
	if p.job.Words != option.Go {
		return err
	}
	return named(err)
}
