package console

import (
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
)

// NoteTuning says before the text of a result how --tune-prior chose, if it did.
func NoteTuning(c *job.Job, f *result.Fit) {
	if f.Tuning != nil {
		c.Note("prior precision %s", report.TuningText(f))
	}
}
