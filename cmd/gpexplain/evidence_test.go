package main

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

func TestEvidence(t *testing.T) {
	for _, name := range toys {
		ref := openReference(t, name)
		text := ref.run(t, "evidence", "--json")
		requireSchema(t, "evidence", text)
		r := decode[evidenceReport](t, text)
		for _, x := range []struct {
			got  result.Float
			want string
		}{
			{r.AtTheta, "log_evidence"}, {r.LinearGaussian, "log_evidence_linear_gaussian"}, {r.Refit, "refit_log_evidence"},
			{r.LogLikelihood, "log_likelihood"}, {r.Scatter, "scatter"}, {r.LogDet, "log_det"}, {r.PriorPrecision, "delta"},
		} {
			// 1e-8 is what the references ask of evidences.
			require.InEpsilon(t, ref.Scalar(x.want), float64(x.got), 1e-8, name+" "+x.want)
		}
		require.InEpsilon(t, ref.heldSites(), float64(r.HeldSites), 1e-8, name)
		if name == "snelson" {
			require.Equal(t, ref.Scalar("sigma2"), float64(r.NoiseVariance))
		} else {
			require.Contains(t, text, `"noise_variance":null`)
		}
		require.Contains(t, ref.run(t, "evidence"), "log evidence, refit, sites held")
	}
}

// heldSites is the refit's evidence with the log determinant at θ*.
func (r *reference) heldSites() float64 {
	return r.Scalar("refit_log_evidence") + r.Scalar("refit_log_det")/2 - r.Scalar("log_det")/2
}

// Flags come before metadata.
func TestEvidenceFlags(t *testing.T) {
	ref := openReference(t, "snelson")
	r := decode[evidenceReport](t, ref.run(t, "evidence", "--json", "--prior-precision", "3", "--noise-variance", "0.25", "--quiet"))
	require.EqualValues(t, 3, r.PriorPrecision)
	require.EqualValues(t, 0.25, r.NoiseVariance)
	require.NotEqual(t, ref.Scalar("log_evidence"), float64(r.AtTheta))
}

// With all examples inducing the evidence is the exact one, which the bounds
// meet; by conjugate gradients it is within five standard errors.
func TestEvidenceByMethod(t *testing.T) {
	for _, name := range []string{"two-moons", "poisson", "categorical"} {
		ref := openReference(t, name)
		for _, method := range []string{"subset", "nystrom", "fitc", "cg"} {
			args := []string{"--json", "--method", method}
			if method != "cg" {
				args = append(args, "--inducing", strconv.Itoa(ref.n))
			}
			text := ref.run(t, "evidence", args...)
			requireSchema(t, "evidence", text)
			r := decode[evidenceReport](t, text)
			require.Equal(t, method == "nystrom", r.AtThetaLower != nil && r.LinearGaussianLower != nil)
			require.Equal(t, method == "cg", r.SE != nil)
			se := 0.0
			if r.SE != nil {
				se = float64(*r.SE)
			}
			got := map[string]result.Float{"log_evidence": r.AtTheta, "log_evidence_linear_gaussian": r.LinearGaussian, "refit_log_evidence": r.Refit}
			for what, v := range got {
				want := ref.Scalar(what)
				require.InDelta(t, want, float64(v), 1e-7*max(1, math.Abs(want))+5*se, name+" "+method+" "+what)
			}
			require.InDelta(t, ref.heldSites(), float64(r.HeldSites), 1e-7*math.Abs(ref.heldSites())+5*se, name+" "+method)
			if r.AtThetaLower != nil {
				require.Equal(t, "upper", r.Bound)
				require.InEpsilon(t, ref.Scalar("log_evidence"), float64(*r.AtThetaLower), 1e-8)
				require.InEpsilon(t, ref.Scalar("log_evidence_linear_gaussian"), float64(*r.LinearGaussianLower), 1e-8)
			}
			require.Contains(t, ref.run(t, "evidence", args[1:]...), "log evidence, refit")
		}
	}
}
