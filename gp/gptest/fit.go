package gptest

import (
	"testing"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A FitCase is a way to fit posteriors to examples of a network, to be checked for wrong use.
type FitCase struct {
	Prior ntk.Prior
	Theta []float64 // θ*, at which the examples are linearized
	// Fit fits a posterior that has the mean given, and returns its warnings.
	Fit func(prior ntk.Prior, theta []float64, mean gp.Mean) (warnings []error, err error)
}

// Fit checks that θ* other than that of the examples panics, and that a posterior whose mean is f(x;θ*)
// has a warning (untrained) where θ* is the prior mean of the parameters.
func Fit(t *testing.T, c FitCase) {
	t.Run("OtherTheta", func(t *testing.T) {
		other := append([]float64(nil), c.Theta...)
		other[0]++
		requirePanic(t, "a fit at other parameters", func() { c.Fit(c.Prior, other, gp.Network) })
	})
	t.Run("Untrained", func(t *testing.T) {
		start, err := ntk.NewIsotropic(1, c.Theta)
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range []struct {
			prior ntk.Prior
			mean  gp.Mean
			warns bool
		}{{start, gp.Network, true}, {start, gp.LinearGaussian, false}, {c.Prior, gp.Network, false}} {
			warnings, err := c.Fit(of.prior, c.Theta, of.mean)
			if err != nil {
				t.Fatal(err)
			}
			if got := linearize.FindWarning(warnings, "untrained") != nil; got != of.warns {
				t.Errorf("warned of an untrained model: %v, want %v; warnings %v", got, of.warns, warnings)
			}
		}
	})
}
