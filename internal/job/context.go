package job

import (
	"context"
)

// key is the key of the job in a context.
type key struct{}

// NewContext returns a context that carries a job. Calls of the library with this context report progress and
// notes to the job's listener, and record warnings and times in the job.
func NewContext(ctx context.Context, j *Job) context.Context { return context.WithValue(ctx, key{}, j) }

// Carried tells whether a context carries a job.
func Carried(ctx context.Context) bool { return ctx.Value(key{}) != nil }

// FromContext returns the job that a context carries, or a new job without a listener.
func FromContext(ctx context.Context) *Job {
	if j, ok := ctx.Value(key{}).(*Job); ok {
		return j
	}
	return New(nil)
}
