package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/funcgp/funcgp/cmd/gpexplain/parts"
	"github.com/funcgp/funcgp/sparse/shard"
)

// An opened value is one that all workers of a process share, and use one at a time: a part
// is computed on all processors. Those with other arguments than the last ones are let go.
type opened[T any] struct {
	open func(ctx context.Context, args []string) (T, error)

	mu    sync.Mutex
	args  []string
	value T
	there bool
}

var (
	fits     = opened[*parts.Fit]{open: func(ctx context.Context, args []string) (*parts.Fit, error) { return parts.OpenFit(ctx, args, nil) }}
	openings = opened[*parts.Terms]{open: func(ctx context.Context, args []string) (*parts.Terms, error) {
		return parts.OpenTerms(ctx, args, nil)
	}}
)

// with calls do with the value of the arguments. It opens the value where it is another.
func (o *opened[T]) with(ctx context.Context, args []string, do func(value T) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if !o.there || !slices.Equal(o.args, args) {
		o.there = false
		value, err := o.open(ctx, args)
		if err != nil {
			return err
		}
		o.args, o.value, o.there = args, value, true
	}
	return do(o.value)
}

// forget lets the value go.
func (o *opened[T]) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	var none T
	o.value, o.there = none, false
}

// checkPart refuses a part that n training rows do not have.
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

// Runners wrap the error of a worker in lines of their own, of which some are stacks.
// These marks, which no message holds, tell where the worker's begins and ends.
const (
	begin = "\u27e6"
	end   = "\u27e7"
)

// A workerError is the error of a worker, which the runner hands on as text.
func workerError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s%s%s", begin, parts.Message(err), end)
}

// A RunError says what made a pipeline fail: what a worker said, if one did.
type RunError struct {
	Runner, Message string
	Err             error // the runner's
}

func (e *RunError) Error() string { return e.Message }

func (e *RunError) Unwrap() error { return e.Err }

// runError finds the error of a worker in that of a runner.
func runError(runner string, err error) error {
	if err == nil {
		return nil
	}
	if _, after, ok := strings.Cut(err.Error(), begin); ok {
		if message, _, ok := strings.Cut(after, end); ok {
			return &RunError{runner, message, err}
		}
	}
	return &RunError{runner, fmt.Sprintf("--runner %s: %s", runner, parts.Message(err)), err}
}
