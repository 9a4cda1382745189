package main

import (
	"bytes"
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// A countdown is a context that is cancelled when it has been asked for its
// error a number of times: somewhere in the work, the same place every time.
type countdown struct {
	context.Context
	left atomic.Int64
	done chan struct{}
	once sync.Once
}

func newCountdown(ctx context.Context, n int64) *countdown {
	c := &countdown{Context: ctx, done: make(chan struct{})}
	c.left.Store(n)
	return c
}

func (c *countdown) Done() <-chan struct{} { return c.done }

func (c *countdown) Err() error {
	if c.left.Add(-1) >= 0 {
		return nil
	}
	c.once.Do(func() { close(c.done) })
	return context.Canceled
}

// Wherever a verb is interrupted, it says so in one line and leaves no file,
// and it does not go on for long: it asks at most once a worker and loop that
// is under way.
func TestInterrupt(t *testing.T) {
	classes, counts := openReference(t, "categorical"), openReference(t, "poisson")
	classes.writeTest(t, 4)
	for verb, args := range map[string][]string{
		"train":       {"--data", "digits:300,300", "--classes", "4,9", "--epochs", "3", "--lbfgs", "5", "--out"},
		"explain":     {"--data", "digits:1000,100", "--html"},
		"importances": {"--data", "digits:400,100", "--html"},
		"predict":     append([]string{"--refit"}, classes.args...),
		"evidence":    classes.args,
		"validate":    counts.args,
		"fit":         {"--data", "digits:400,100", "--method", "nystrom", "--inducing", "20", "--refit", "--out"},
	} {
		t.Run(verb, func(t *testing.T) {
			dir := t.TempDir()
			full := append([]string{verb}, args...)
			if last := args[len(args)-1]; last == "--out" || last == "--html" {
				full = append(full, filepath.Join(dir, "file"))
			}
			interrupted := 0
			for n := int64(0); ; n = n + n/2 + 1 {
				ctx := newCountdown(t.Context(), n)
				var stdout, stderr bytes.Buffer
				code := job.Status(&stderr, "gpexplain", option.Flags, run(ctx, &stdout, &stderr, full))
				if code == 0 {
					require.NotEmpty(t, stdout.String())
					break
				}
				interrupted++
				require.Equal(t, job.StatusInterrupted, code)
				require.Equal(t, "gpexplain: interrupted\n", stderr.String(), "after %d", n)
				require.Empty(t, listing(t, dir), "after %d", n)
				require.Less(t, -ctx.left.Load(), int64(100), "asked again and again after %d", n)
			}
			require.Greater(t, interrupted, 3)
		})
	}
}
