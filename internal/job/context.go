package job

import (
	"context"
)

// key is the key of the job in a context.
type key struct{}

// NewContext returns a context that carries a job: calls of the library under it tell the job's listener of their
// progress and notes, and keep their warnings and times in it.
func NewContext(ctx context.Context, j *Job) context.Context { return context.WithValue(ctx, key{}, j) }

// Carried tells whether a context carries a job.
func Carried(ctx context.Context) bool { return ctx.Value(key{}) != nil }

// FromContext is the job that a context carries, or a new one that nobody listens to.
func FromContext(ctx context.Context) *Job {
	if j, ok := ctx.Value(key{}).(*Job); ok {
		return j
	}
	return New(nil)
}
