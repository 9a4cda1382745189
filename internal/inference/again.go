package inference

import (
	"context"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
)

// FitAgain fits the posterior of a problem whose training rows are others than those of its
// file, by the method of that file and at its prior, and calibrates it as that one was, or
// not where the method of calibration is none. flag says what asked for it, and old is the problem of
// the file as it is.
func FitAgain(ctx context.Context, c *job.Job, old, p *problem.Problem, flag, calibrate string) (*Posterior, error) {
	h := &p.Saved.Header
	was := &h.Fit
	if err := Changeable(flag, was.Method, h.Network || was.Refit); err != nil && was.Method != "cg" {
		return nil, err
	}
	f := Flags{Method: was.Method, Refit: was.Refit, At: AtStated}
	switch was.Method {
	case "exact", "cg":
	case "kept":
		f.Within, f.Certify = float64(was.Certificate.Within), !was.Certificate.Sampled
	}
	if was.Calibration == nil {
		calibrate = "none"
	}
	if calibrate != "none" {
		calibrate = was.Calibration.Method
	}
	q, err := FitCalibrated(ctx, c, p, &f, Options{}, calibrate)
	if err != nil {
		return nil, err
	}
	// The match belongs to the network and the rows that it was found with.
	if was.Match != nil {
		q.settled = &settlement{stated: float64(*was.StatedPrecision), match: *was.Match}
	}
	if !q.network {
		return q, nil
	}
	before, err := load(ctx, c, old)
	if err == nil {
		q.anchor, err = before.anchored(ctx, old)
	}
	return q, err
}
