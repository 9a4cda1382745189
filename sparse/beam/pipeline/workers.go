package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/sparse/parts"
	"github.com/funcgp/funcgp/sparse/shard"
)

// An opened holds a value that all workers of a process share. They use it one at a time,
// because a part is computed on all processors. It keeps the value of the last options only.
type opened[O, T any] struct {
	open func(ctx context.Context, o *O) (T, error)

	mu    sync.Mutex
	last  string // the options as text; "" for no value
	value T
}

var (
	fits = opened[FitOptions, *funcgp.Pass]{open: func(ctx context.Context, o *FitOptions) (*funcgp.Pass, error) {
		return funcgp.OpenPass(ctx, o.Inducing, &o.OpenOptions)
	}}
	openings = opened[parts.TermsOptions, *parts.Terms]{open: parts.OpenTerms}
)

// with calls do with the value of the options. It opens the value if these are not the last options.
func (o *opened[O, T]) with(ctx context.Context, options string, do func(value T) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.last != options {
		o.last = ""
		given := new(O)
		if err := json.Unmarshal([]byte(options), given); err != nil {
			return err
		}
		value, err := o.open(ctx, given)
		if err != nil {
			return err
		}
		o.last, o.value = options, value
	}
	return do(o.value)
}

// text returns options as JSON. Workers get this text, because Beam cannot encode options that have a function.
func text(options any) string {
	data, err := json.Marshal(options)
	if err != nil {
		panic(fmt.Sprintf("pipeline: %v", err)) // they are texts and numbers
	}
	return string(data)
}

// forget drops the value.
func (o *opened[O, T]) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	var none T
	o.last, o.value = "", none
}

// checkPart returns an error for a part that n training rows do not have.
func checkPart(p shard.Part, n int) error {
	switch {
	case p.Of < 1 || p.Number < 0 || p.Number >= p.Of:
		return fmt.Errorf("part %v is of rows beyond the %d training rows; the parts of N are 0/N to N-1/N", p, n)
	case p.Of > n:
		return tooMany(p.Of, n)
	}
	return nil
}

func tooMany(parts, n int) error {
	return fmt.Errorf("--parts %d: there are %d training rows; split them into at most %d", parts, n, n)
}

// Runners wrap the error of a worker in lines of their own, such as stack traces. These
// marks, which occur in no message, show where the worker's message begins and ends.
const (
	begin = "\u27e6"
	end   = "\u27e7"
)

// workerError puts the marks around the error of a worker, which the runner passes on as text.
func workerError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s%s%s", begin, job.Message(option.Word(err, option.Flags)), end)
}

// A RunError says why a pipeline failed. Message is the message of a worker, if there is one.
type RunError struct {
	Runner, Message string
	Err             error // the runner's
}

func (e *RunError) Error() string { return e.Message }

func (e *RunError) Unwrap() error { return e.Err }

// runError finds the error of a worker in the error of a runner.
func runError(runner string, err error) error {
	if err == nil {
		return nil
	}
	if _, after, ok := strings.Cut(err.Error(), begin); ok {
		if message, _, ok := strings.Cut(after, end); ok {
			return &RunError{runner, message, err}
		}
	}
	return &RunError{runner, fmt.Sprintf("--runner %s: %s", runner, job.Message(err.Error())), err}
}
