package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain"
)

func TestEvidence(t *testing.T) {
	for _, name := range toys {
		ref := openReference(t, name)
		text := ref.run(t, "evidence", "--json")
		require.Equal(t, "{at_theta linear_gaussian refit log_likelihood scatter log_det prior_precision noise_variance method bound warnings[]}", skeleton(t, text))
		require.Equal(t, 1, strings.Count(text, "\n"), "one object on one line")
		r := decode[evidenceReport](t, text)
		for _, x := range []struct {
			got  explain.Float
			want string
		}{
			{r.AtTheta, "log_evidence"}, {r.LinearGaussian, "log_evidence_linear_gaussian"}, {r.Refit, "refit_log_evidence"},
			{r.LogLikelihood, "log_likelihood"}, {r.Scatter, "scatter"}, {r.LogDet, "log_det"}, {r.PriorPrecision, "delta"},
		} {
			// 1e-8 is what the references ask of evidences.
			require.InEpsilon(t, ref.Scalar(x.want), float64(x.got), 1e-8, name+" "+x.want)
		}
		if name == "snelson" {
			require.Equal(t, ref.Scalar("sigma2"), float64(r.NoiseVariance))
		} else {
			require.Contains(t, text, `"noise_variance":null`)
		}
		require.Contains(t, ref.run(t, "evidence"), "log evidence, refit")
	}
}

// Flags come before metadata.
func TestEvidenceFlags(t *testing.T) {
	ref := openReference(t, "snelson")
	r := decode[evidenceReport](t, ref.run(t, "evidence", "--json", "--prior-precision", "3", "--noise-variance", "0.25"))
	require.EqualValues(t, 3, r.PriorPrecision)
	require.EqualValues(t, 0.25, r.NoiseVariance)
	require.NotEqual(t, ref.Scalar("log_evidence"), float64(r.AtTheta))
}
