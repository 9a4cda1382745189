package evidence_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/gp/evidence"
	"github.com/funcgp/funcgp/internal/testref"
)

// One factor of all prior variances, alone and with the noise variance: the optima of
// (E7) and (E9) are those of the references, right to 1e-9 there.
func TestE10CommonOptimum(t *testing.T) {
	testref.Long(t, "takes long under the race detector; shorter tests run the same code")
	for _, name := range toys {
		t.Run(name, func(t *testing.T) {
			q := openToy(t, name)
			gauss := q.want.Scalar("sigma2") != 1 || name == "gaussian-two-outputs" || name == "snelson"
			for form, prefix := range map[evidence.Form]string{evidence.AtTheta: "evidence", evidence.Refit: "refit"} {
				key := prefix + "_optimum"
				if gauss {
					key += "_fixed_noise"
				}
				r := testref.Must(evidence.Maximize(t.Context(), q.p, form, nil))(t)
				requireNumber(t, key, r.LogFactor[0], q.want.Scalar(key+"_log_factor"), 2*tol)
				requireNumber(t, key+" value", r.Evidence.Value, q.want.Scalar(key+"_log_evidence"), tol)
				require.True(t, r.Settled)
				require.Len(t, r.Maxima, int(q.want.Scalar(key+"_maxima_in_range")), key)
				if !gauss {
					continue
				}
				key = prefix + "_optimum"
				r = testref.Must(evidence.Maximize(t.Context(), q.p, form, &evidence.Options{Noise: true}))(t)
				requireNumber(t, key, r.LogFactor[0], q.want.Scalar(key+"_log_factor"), 2*tol)
				requireNumber(t, key+" noise", r.LogNoise+math.Log(q.want.Scalar("sigma2")), q.want.Scalar(key+"_log_sigma2"), 2*tol)
				requireNumber(t, key+" value", r.Evidence.Value, q.want.Scalar(key+"_log_evidence"), tol)
				require.Len(t, r.Maxima, int(q.want.Scalar(key+"_distinct_maxima")), key)
			}
		})
	}
}

// A factor for each layer: the optima of (E9) are those of the references, right to
// 1e-8 there, and the layers at zero variance are the same.
func TestE10LayerOptimum(t *testing.T) {
	testref.Long(t, "takes long under the race detector; shorter tests run the same code")
	for _, name := range toys {
		t.Run(name, func(t *testing.T) {
			q := openToy(t, name)
			for key, noise := range map[string]bool{"refit_layer_optimum": name == "snelson" || name == "gaussian-two-outputs", "refit_layer_optimum_fixed_noise": false} {
				if !q.want.HasMeta(key + "_found") {
					continue
				}
				starts := 2
				if q.want.HasMeta(key+"_other_log_evidences") && q.want.Meta(key+"_other_log_evidences") != "[]" && name != "categorical-diagonal-prior" {
					starts = 4 // some of which end elsewhere
				}
				r, err := evidence.Maximize(t.Context(), q.p, evidence.Refit, &evidence.Options{PerGroup: true, Noise: noise, Starts: starts})
				require.NoError(t, err)
				if q.want.Scalar(key+"_found") == 0 {
					// The data are separable: the evidence rises with the last layer's variance.
					require.NotEmpty(t, r.AtEdge)
					require.GreaterOrEqual(t, r.Evidence.Value, q.want.Scalar(key+"_log_evidence")-1e-5)
					continue
				}
				require.True(t, r.Settled)
				want := q.want.Floats(key + "_log_s")
				for g, w := range want {
					if math.IsInf(w, -1) {
						require.True(t, math.IsInf(r.LogFactor[g], -1), "group %d: %v", g, r.LogFactor[g])
						continue
					}
					requireNumber(t, key, r.LogFactor[g], w, 1e-8)
				}
				requireNumber(t, key+" value", r.Evidence.Value, q.want.Scalar(key+"_log_evidence"), tol)
			}
		})
	}
}
