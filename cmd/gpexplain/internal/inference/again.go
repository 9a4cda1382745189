package inference

import (
	"context"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
)

// FitAgain fits the posterior of a problem whose training rows are others than those of its
// file, by the method of that file and at its prior, and calibrates it as that one was, or
// not where the method of calibration is none. flag says what asked for it.
func FitAgain(ctx context.Context, c *console.Console, p *problem.Problem, flag, calibrate string) (*Posterior, error) {
	was := &p.Saved.Header.Fit
	f := Flags{Method: was.Method, Refit: was.Refit, refitGiven: true}
	switch was.Method {
	case "exact", "cg":
	case "kept":
		f.within, f.certify = float64(was.Certificate.Within), !was.Certificate.Sampled
	default:
		return nil, console.FullErrorf("%s needs a posterior of all training rows, which --method %s is not; fit another one to the rows wanted", flag, was.Method)
	}
	if was.Calibration == nil {
		calibrate = "none"
	}
	if calibrate != "none" {
		calibrate = was.Calibration.Method
	}
	return FitCalibrated(ctx, c, p, &f, Options{}, calibrate)
}
