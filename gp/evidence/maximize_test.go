package evidence_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/evidence"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// random is a small random problem of a name.
func random(t *testing.T, name string) *evidence.Problem {
	t.Helper()
	for _, q := range testkit.Problems(t) {
		if q.Name == name {
			return &evidence.Problem{X: q.Train, Y: q.Targets(), Theta: q.Theta, Prior: q.Prior}
		}
	}
	t.Fatalf("no problem %q", name)
	return nil
}

// At an edge the evidence still rises, and a warning names the group.
func TestEdge(t *testing.T) {
	q := openToy(t, "categorical")
	r, err := evidence.Maximize(t.Context(), q.p, evidence.Refit, &evidence.Options{PerGroup: true, Starts: 1, Lowest: -9, Highest: 2.5})
	require.NoError(t, err)
	require.Equal(t, []int{2}, r.AtEdge)
	require.EqualValues(t, 2.5, r.LogFactor[2])
	require.Greater(t, r.Gradient[2], 0.)
	require.True(t, r.Settled)
	edge := linearize.FindWarning(r.Warnings, "variance-edge")
	require.InEpsilon(t, math.Exp(2.5), edge.Value, 1e-12)
	require.ErrorContains(t, edge, `prior variance of group "c" ended at 12.2 times the given one`)
	rows, _ := r.Curvature.Dims()
	require.Equal(t, 2-len(r.Zero), rows)
}

// Targets at the prior mean leave no use for any variance.
func TestNoVariance(t *testing.T) {
	for space := 1; space <= 2; space++ {
		p := random(t, "gaussian")
		n, c := p.X.Len(), p.X.Outputs()
		mean := make([]float64, n*c)
		ntk.New(p.Prior, p.Theta).MeanTo(mean, p.X)
		p.Y = gp.NewTargets(mat.NewDense(n, c, mean), p.Y.Likelihood)
		r := testref.Must(evidence.Maximize(t.Context(), p, evidence.Refit, evidence.Options{}.InSpace(space)))(t)
		require.Equal(t, []int{0}, r.Zero)
		require.True(t, math.IsInf(r.LogFactor[0], -1))
		require.Zero(t, r.Gradient[0])
		require.Less(t, r.Slope[0], 0.)
		require.ErrorContains(t, linearize.FindWarning(r.Warnings, "variance-zero"), `the prior variance of group "all parameters" is 0`)
		variance := make([]float64, len(p.Theta))
		r.Prior.VarianceTo(variance)
		require.Equal(t, make([]float64, len(p.Theta)), variance)
	}
}

// Of two maxima the higher is the result, and a warning tells of the other.
func TestSeveralMaxima(t *testing.T) {
	q := openToy(t, "two-moons")
	r := testref.Must(evidence.Maximize(t.Context(), q.p, evidence.Refit, nil))(t)
	require.Len(t, r.Maxima, 2)
	require.Equal(t, r.Maxima[0].LogFactor, r.LogFactor)
	require.InDelta(t, 7.88, r.Maxima[1].LogFactor[0], 0.01)
	several := linearize.FindWarning(r.Warnings, "maxima")
	require.ErrorContains(t, several, "has 2 maxima")
	require.Equal(t, r.Maxima[1].Evidence, several.Value)
}

// The prior and the likelihood of a result have the evidence of the result.
func TestResultIsConsistent(t *testing.T) {
	q := openToy(t, "gaussian-two-outputs")
	for _, form := range forms {
		r, err := evidence.Maximize(t.Context(), q.p, form, &evidence.Options{PerGroup: true, Noise: true, Starts: 1})
		require.NoError(t, err)
		require.Equal(t, form, r.Form)
		p := *q.p
		p.Prior, p.Y, p.Groups = r.Prior, p.Y.Under(r.Likelihood), nil
		x := testref.Must(evidence.Evaluate(t.Context(), &p, form, nil))(t)
		requireNumber(t, "evidence", x.Evidence.Value, r.Evidence.Value, 1e-10)
		require.Greater(t, r.Evidence.Value, r.Start.Evidence.Value)
		for g := range x.Gradient {
			require.InDelta(t, 0, x.Gradient[g], 1e-6)
		}
		m := testref.Must(evidence.New(t.Context(), &p, nil))(t)
		value := testref.Must(m.Value(t.Context(), form, []float64{0}, 0))(t)
		requireNumber(t, "evidence alone", value.Value, r.Evidence.Value, 1e-10)
		require.InDelta(t, 0, x.NoiseGradient, 1e-6)
		for _, trial := range r.Trials {
			require.LessOrEqual(t, trial.Evidence, r.Maxima[0].Evidence+1e-9*math.Abs(r.Maxima[0].Evidence))
		}
		require.Len(t, x.Groups, 3)
		for g, group := range x.Groups {
			require.Equal(t, r.Groups[g].Precision, group.Precision)
		}
	}
}

func TestMaximizeRefuses(t *testing.T) {
	p := random(t, "bernoulli")
	_, err := evidence.Maximize(t.Context(), p, evidence.Refit, &evidence.Options{Noise: true})
	require.ErrorContains(t, err, "has no noise variance")
	bad := *p
	bad.Y = gp.NewTargets(mat.NewDense(3, 1, nil), p.Y.Likelihood)
	_, err = evidence.Maximize(t.Context(), &bad, evidence.Refit, nil)
	require.ErrorContains(t, err, "3 rows of targets for 20 examples")
	bad = *p
	bad.Groups = []ntk.Group{{Name: "some", Spans: []linearize.Span{{Rows: 1, Cols: 3}}}}
	_, err = evidence.Maximize(t.Context(), &bad, evidence.Refit, &evidence.Options{PerGroup: true})
	require.ErrorContains(t, err, "parameter 3 belongs to no group")
	for _, o := range []*evidence.Options{{Starts: -1}, {MaxIter: -1}, {Lowest: 1, Highest: 2}, {Lowest: -1, Highest: 400}, {Tolerance: math.NaN()}} {
		require.Panics(t, func() { evidence.Maximize(t.Context(), p, evidence.Refit, o) })
	}
	bad = *p
	bad.Theta = bad.Theta[1:]
	require.Panics(t, func() { evidence.Maximize(t.Context(), &bad, evidence.Refit, nil) })
}

// A cancelled search ends with the context's error, whenever it comes.
func TestMaximizeStops(t *testing.T) {
	p := random(t, "categorical")
	for space := 1; space <= 2; space++ {
		for i, after := range []int{0, 1, 5, 30, 5, 30} {
			ctx, cancel := context.WithCancel(t.Context())
			if after == 0 {
				cancel()
			}
			o := evidence.Options{PerGroup: true, Starts: 2}.InSpace(space)
			stages := map[string]bool{}
			o.Progress = func(stage string, done, _ int) {
				stages[stage] = true
				if stage == evidence.StageEvidence && done == after {
					cancel()
				}
			}
			form := evidence.Refit
			if i > 3 {
				form = evidence.HeldSites
			}
			require.ErrorIs(t, testref.Err(evidence.Maximize(ctx, p, form, o)), context.Canceled)
			cancel()
			if after > 0 {
				require.True(t, stages[evidence.StageEvidence])
			}
		}
	}
}

// A long tolerance takes fewer evaluations and ends within it.
func TestTolerance(t *testing.T) {
	q := openToy(t, "gaussian-two-outputs")
	var exact *evidence.Result
	for _, tolerance := range []float64{0, 1e-2} {
		r, err := evidence.Maximize(t.Context(), q.p, evidence.Refit, &evidence.Options{PerGroup: true, Noise: true, Starts: 1, Tolerance: tolerance})
		require.NoError(t, err)
		require.True(t, r.Settled)
		if exact == nil {
			exact = r
			continue
		}
		require.Less(t, len(r.Trials), len(exact.Trials))
		require.Equal(t, exact.Zero, r.Zero)
		require.InDelta(t, exact.LogFactor[0], r.LogFactor[0], 1e-2)
	}
}

// A variance so large that the numbers overflow ends no search: the evidence there is
// −Inf, and the search goes elsewhere.
func TestMaximizeSurvivesOverflow(t *testing.T) {
	p := random(t, "poisson")
	m := testref.Must(evidence.New(t.Context(), p, nil))(t)
	require.Error(t, testref.Err(m.At(t.Context(), evidence.AtTheta, []float64{700}, 0)))
	r, err := evidence.Maximize(t.Context(), p, evidence.Refit, &evidence.Options{Lowest: -9, Highest: 280, Starts: 3})
	require.NoError(t, err)
	require.True(t, r.Settled)
	var memory *gp.MemoryError
	_, err = evidence.Maximize(t.Context(), p, evidence.Refit, &evidence.Options{Limits: linearize.Limits{Memory: 100}})
	require.ErrorAs(t, err, &memory)
}

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
