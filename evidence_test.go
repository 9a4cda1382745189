package funcgp_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// evidence is the evidence of the toy at the trained parameters by fit options.
func (r *toy) evidence(t *testing.T, fit funcgp.FitOptions, o funcgp.EvidenceOptions) *funcgp.Evidence {
	t.Helper()
	fit.AtTheta = true
	return testref.Must(r.fit(t, fit).Evidence(t.Context(), &o))(t)
}

// evidenceText is the evidence as text.
func evidenceText(t *testing.T, e *funcgp.Evidence) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, (&report.EvidencePage{Evidence: e}).WriteText(&b, 0))
	return b.String()
}

// evidencePage is the evidence as a page.
func evidencePage(t *testing.T, e *funcgp.Evidence) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, (&report.EvidencePage{Evidence: e}).WriteHTML(&b))
	return b.String()
}

func TestEvidence(t *testing.T) {
	for _, name := range toys {
		ref := openToy(t, name)
		r := ref.evidence(t, funcgp.FitOptions{}, funcgp.EvidenceOptions{})
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
			require.Contains(t, string(testref.Must(json.Marshal(r))(t)), `"noise_variance":null`)
		}
		require.Contains(t, evidenceText(t, r), "log evidence, refit, sites held")
	}
}

// heldSites is the refit's evidence with the log determinant at θ*.
func (r *toy) heldSites() float64 {
	return r.Scalar("refit_log_evidence") + r.Scalar("refit_log_det")/2 - r.Scalar("log_det")/2
}

// Options come before metadata.
func TestEvidenceOptions(t *testing.T) {
	ref := openToy(t, "snelson")
	noise := .25
	r := ref.evidence(t, funcgp.FitOptions{Prior: funcgp.Precision(3), NoiseVariance: &noise}, funcgp.EvidenceOptions{})
	require.EqualValues(t, 3, r.PriorPrecision)
	require.EqualValues(t, 0.25, r.NoiseVariance)
	require.NotEqual(t, ref.Scalar("log_evidence"), float64(r.AtTheta))
}

// With all examples inducing, and by the precision of the parameters, the evidence is the exact one, which the bounds meet.
func TestEvidenceByMethod(t *testing.T) {
	for _, name := range []string{"two-moons", "poisson", "categorical"} {
		ref := openToy(t, name)
		for _, method := range []string{"subset", "nystrom", "parameters"} {
			how := funcgp.Method{Name: method}
			if method != "parameters" {
				how.Inducing = ref.n
			}
			r := ref.evidence(t, funcgp.FitOptions{Method: how}, funcgp.EvidenceOptions{})
			require.Equal(t, method == "nystrom", r.AtThetaLower != nil && r.LinearGaussianLower != nil)
			got := map[string]result.Float{"log_evidence": r.AtTheta, "log_evidence_linear_gaussian": r.LinearGaussian, "refit_log_evidence": r.Refit}
			for what, v := range got {
				want := ref.Scalar(what)
				require.InDelta(t, want, float64(v), 1e-7*max(1, math.Abs(want)), name+" "+method+" "+what)
			}
			require.InDelta(t, ref.heldSites(), float64(r.HeldSites), 1e-7*math.Abs(ref.heldSites()), name+" "+method)
			if r.AtThetaLower != nil {
				require.Equal(t, "upper", r.Bound)
				require.InEpsilon(t, ref.Scalar("log_evidence"), float64(*r.AtThetaLower), 1e-8)
				require.InEpsilon(t, ref.Scalar("log_evidence_linear_gaussian"), float64(*r.LinearGaussianLower), 1e-8)
			}
			require.Contains(t, evidenceText(t, r), "log evidence, refit")
		}
	}
}

// of returns one number of each group.
func of(groups []result.EvidenceGroup, value func(g *result.EvidenceGroup) result.Float) []float64 {
	var out []float64
	for i := range groups {
		out = append(out, float64(value(&groups[i])))
	}
	return out
}

// The derivatives by layer and in all are those of reference/selection, and with all
// examples inducing those that are known are the same.
func TestEvidenceGradient(t *testing.T) {
	for _, name := range toys {
		ref, want := openToy(t, name), testref.Open(t, "selection/"+name)
		for _, method := range []string{"exact", "nystrom", "subset", "parameters"} {
			how := funcgp.Method{Name: method}
			if method == "subset" || method == "nystrom" {
				how.Inducing = ref.n
			}
			r := ref.evidence(t, funcgp.FitOptions{Method: how}, funcgp.EvidenceOptions{Gradient: true})
			require.Empty(t, r.Normalized)
			for _, c := range []struct {
				by, all string
				of      func(v *result.EvidenceValues) result.Float
			}{
				{"d_evidence_d_log_s", "d_evidence_d_log_factor", func(v *result.EvidenceValues) result.Float { return v.AtTheta }},
				{"d_linear_d_log_s", "d_linear_d_log_factor", func(v *result.EvidenceValues) result.Float { return v.LinearGaussian }},
				{"d_refit_d_log_s", "d_refit_d_log_factor", func(v *result.EvidenceValues) result.Float { return v.Refit }},
			} {
				got := of(r.Groups, func(g *result.EvidenceGroup) result.Float { return c.of(&g.Gradient) })
				if method != "exact" && method != "parameters" && c.by == "d_refit_d_log_s" {
					require.False(t, slices.ContainsFunc(got, func(v float64) bool { return !math.IsNaN(v) }))
					require.False(t, c.of(&r.Gradient.EvidenceValues).Finite())
					continue
				}
				tolerance := 1e-8
				if method != "exact" && method != "parameters" {
					tolerance = 1e-4 // K_ZZ⁻¹ of a kernel that is nearly singular
				}
				testref.RequireClose(t, got, want.Floats(c.by), tolerance, name+" "+method+" "+c.by)
				require.InDelta(t, want.Scalar(c.all), float64(c.of(&r.Gradient.EvidenceValues)), tolerance*math.Max(1, math.Abs(floats.Sum(want.Floats(c.by)))+10), name+" "+c.all)
			}
			held := of(r.Groups, func(g *result.EvidenceGroup) result.Float { return g.Gradient.HeldSites })
			if method != "exact" && method != "parameters" {
				require.False(t, slices.ContainsFunc(held, func(v float64) bool { return !math.IsNaN(v) }))
			} else {
				quad, trace := want.Floats("refit_alpha_K_alpha_g"), want.Floats("trace_g")
				for g := range quad {
					quad[g] = quad[g]/2 - trace[g]/2
				}
				testref.RequireClose(t, held, quad, 1e-8, name+" sites held")
				require.InDelta(t, floats.Sum(quad), float64(r.Gradient.HeldSites), 1e-8*math.Max(1, math.Abs(floats.Sum(quad))+10))
			}
			require.Equal(t, (method == "exact" || method == "parameters") && name == "snelson", r.Gradient.Noise != nil)
			if r.Gradient.Noise != nil {
				require.InEpsilon(t, want.Scalar("d_refit_d_log_sigma2"), float64(r.Gradient.Noise.HeldSites), 1e-8)
				require.InEpsilon(t, want.Scalar("d_refit_d_log_sigma2"), float64(r.Gradient.Noise.Refit), 1e-8)
				require.InEpsilon(t, want.Scalar("d_linear_d_log_sigma2"), float64(r.Gradient.Noise.LinearGaussian), 1e-8)
				require.InEpsilon(t, want.Scalar("d_evidence_d_log_sigma2"), float64(r.Gradient.Noise.AtTheta), 1e-8)
			}
		}
	}
}

// The optima over one precision, and the noise variance of a Gaussian, are those of the
// reference, and a fit under the prior that was written has their evidence.
func TestOptimize(t *testing.T) {
	for _, name := range toys {
		ref, want := openToy(t, name), testref.Open(t, "selection/"+name)
		for form, key := range map[string]string{"refit": "refit_optimum", "at-theta": "evidence_optimum"} {
			path := filepath.Join(t.TempDir(), "prior.json")
			r := ref.evidence(t, funcgp.FitOptions{}, funcgp.EvidenceOptions{Maximize: form, PriorFile: path})
			o := r.Optimum
			require.True(t, o.Settled)
			require.Greater(t, o.Iterations, 0)
			require.Equal(t, o.Start, o.Trajectory[0])
			require.InEpsilon(t, 1/ref.Scalar("delta"), float64(o.Start.Variances[0]), 1e-12)
			// 1e-6 in the log is a millionth of the variance.
			require.InDelta(t, want.Scalar(key+"_log_factor"), math.Log(float64(o.Best.Variances[0])*ref.Scalar("delta")), 1e-6, name+" "+form)
			require.InEpsilon(t, want.Scalar(key+"_log_evidence"), float64(o.Best.LogEvidence), 1e-8, name+" "+form)
			require.Equal(t, name == "snelson", o.Best.Noise != nil)
			if o.Best.Noise != nil {
				require.InDelta(t, want.Scalar(key+"_log_sigma2"), math.Log(float64(*o.Best.Noise)), 1e-6)
			}
			again := ref.evidence(t, funcgp.FitOptions{Prior: funcgp.Prior{File: path}}, funcgp.EvidenceOptions{})
			got := again.Refit
			if form == "at-theta" {
				got = again.AtTheta
			}
			require.InEpsilon(t, float64(o.Best.LogEvidence), float64(got), 1e-8)
		}
		if name == "snelson" {
			r := ref.evidence(t, funcgp.FitOptions{}, funcgp.EvidenceOptions{Maximize: "refit", KeepNoise: true})
			require.InDelta(t, want.Scalar("refit_optimum_fixed_noise_log_factor"), math.Log(float64(r.Optimum.Best.Variances[0])*ref.Scalar("delta")), 1e-6)
			require.EqualValues(t, ref.Scalar("sigma2"), *r.Optimum.Best.Noise)
		}
	}
}

// By layer the optima are those of the reference, layers whose variance runs to 0 are
// named, and answers are from the prior that was found.
func TestOptimizePerLayer(t *testing.T) {
	for name, zero := range map[string][]string{"snelson": {"6", "8"}, "poisson": {"2"}} {
		ref, want := openToy(t, name), testref.Open(t, "selection/"+name)
		dir := t.TempDir()
		path, saved := filepath.Join(dir, "prior.json"), filepath.Join(dir, "a.gp")
		r := ref.evidence(t, funcgp.FitOptions{}, funcgp.EvidenceOptions{Maximize: "refit", PerLayer: true, PriorFile: path, Curve: true})
		require.Equal(t, zero, r.Optimum.Zero)
		for g, c := range want.Floats("refit_layer_optimum_log_s") {
			if math.IsInf(c, -1) {
				require.Zero(t, r.Optimum.Best.Variances[g])
				continue
			}
			require.InDelta(t, c, math.Log(float64(r.Optimum.Best.Variances[g])*ref.Scalar("delta")), 1e-6)
		}
		require.InEpsilon(t, want.Scalar("refit_layer_optimum_log_evidence"), float64(r.Optimum.Best.LogEvidence), 1e-8)
		require.NotNil(t, linearize.FindWarning(r.Warnings, "variance-zero"))
		require.Contains(t, evidencePage(t, r), "runs to 0")
		require.Contains(t, evidenceText(t, r), "runs to 0")

		given := funcgp.FitOptions{Prior: funcgp.Prior{File: path}}
		again := ref.evidence(t, given, funcgp.EvidenceOptions{})
		require.InEpsilon(t, float64(r.Optimum.Best.LogEvidence), float64(again.Refit), 1e-8)
		require.False(t, again.AtTheta.Finite(), "−∞: the trained parameters are not at 0")
		fresh := ref.fit(t, given)
		require.Equal(t, "given", fresh.Report(t.Context()).Match.Used)
		require.NoError(t, fresh.Save(t.Context(), saved, &funcgp.SaveOptions{Bundle: true}))
		requireSamePredictions(t, ref, fresh, saved)
		// From there nothing is to be gained.
		more := ref.evidence(t, given, funcgp.EvidenceOptions{Maximize: "refit"})
		require.InEpsilon(t, float64(r.Optimum.Best.LogEvidence), float64(more.Optimum.Best.LogEvidence), 1e-8)
	}
}

// requireSamePredictions checks that the posterior in a file predicts rows of a toy as the one saved does.
func requireSamePredictions(t *testing.T, ref *toy, fresh *funcgp.Posterior, saved string) {
	t.Helper()
	kept := testref.Must(funcgp.Open(t.Context(), saved, nil))(t)
	defer kept.Close()
	var answers [2]string
	for i, p := range []*funcgp.Posterior{fresh, kept} {
		list := testref.Must(p.Predict(t.Context(), testref.Must(p.Rows(t.Context(), ref.data.X.Slice(0, 3, 0, ref.data.X.RawMatrix().Cols)))(t)))(t)
		answers[i] = string(testref.Must(json.Marshal(list))(t))
	}
	require.True(t, answers[0] == answers[1])
}

// The optimum with the sites held is where that evidence has no slope, and a fit under the
// prior that was written has it. For a Gaussian it is the refit's.
func TestOptimizeHeldSites(t *testing.T) {
	for _, name := range []string{"snelson", "poisson", "categorical"} {
		ref, want := openToy(t, name), testref.Open(t, "selection/"+name)
		path := filepath.Join(t.TempDir(), "prior.json")
		found := ref.evidence(t, funcgp.FitOptions{}, funcgp.EvidenceOptions{Maximize: "held-sites", PriorFile: path, Curve: true})
		o := found.Optimum
		require.Equal(t, "held-sites", o.Form)
		require.True(t, o.Settled)
		require.Empty(t, o.Edge)
		require.Contains(t, evidencePage(t, found), "of the refit with the sites held is highest here")
		again := ref.evidence(t, funcgp.FitOptions{Prior: funcgp.Prior{File: path}}, funcgp.EvidenceOptions{Gradient: true})
		require.InEpsilon(t, float64(o.Best.LogEvidence), float64(again.HeldSites), 1e-8)
		require.InDelta(t, 0, float64(again.Gradient.HeldSites), 1e-5)
		if name == "snelson" {
			require.InEpsilon(t, want.Scalar("refit_optimum_log_evidence"), float64(o.Best.LogEvidence), 1e-8)
			require.InEpsilon(t, float64(again.Refit), float64(again.HeldSites), 1e-8)
		} else {
			require.Greater(t, math.Abs(float64(again.Gradient.Refit)), 1e-3, "the refit wants another one")
		}
		require.Contains(t, evidenceText(t, found), "log evidence (held-sites)")
	}
}

// A variance that the data do not determine ends at the edge of the range, and both say so.
func TestOptimizeEdge(t *testing.T) {
	ref := openToy(t, "two-moons")
	r := ref.evidence(t, funcgp.FitOptions{}, funcgp.EvidenceOptions{Maximize: "refit", PerLayer: true, Curve: true})
	require.Equal(t, []string{"10"}, r.Optimum.Edge)
	require.NotNil(t, linearize.FindWarning(r.Warnings, "variance-edge"))
	require.Contains(t, evidencePage(t, r), "The search ended at the edge of its range for 10")
}

// Under the neural g-prior the evidences and the best g are those of reference/structures, and a file keeps it.
func TestGPrior(t *testing.T) {
	for _, name := range []string{"poisson", "categorical"} {
		ref, want := openToy(t, name), testref.Open(t, "structures/"+name)
		path := filepath.Join(t.TempDir(), "g.json")
		r := ref.evidence(t, funcgp.FitOptions{Prior: funcgp.GPrior()}, funcgp.EvidenceOptions{Maximize: "refit", PriorFile: path})
		require.InEpsilon(t, want.Scalar("gprior_log_evidence"), float64(r.Refit), 1e-8)
		require.InEpsilon(t, want.Scalar("gprior_log_evidence_at_theta"), float64(r.AtTheta), 1e-8)
		require.Equal(t, "g", r.Optimum.Kind)
		require.InDelta(t, want.Scalar("gprior_best_log_g"), math.Log(float64(r.Optimum.Best.Variances[0])), 1e-6)
		require.InEpsilon(t, want.Scalar("gprior_best_log_evidence"), float64(r.Optimum.Best.LogEvidence), 1e-8)
		require.Equal(t, len(want.Ints("gprior_dead")), r.Optimum.Held)
		again := ref.evidence(t, funcgp.FitOptions{Prior: funcgp.Prior{File: path}}, funcgp.EvidenceOptions{})
		require.InEpsilon(t, float64(r.Optimum.Best.LogEvidence), float64(again.Refit), 1e-8)
		saved := filepath.Join(t.TempDir(), "a.gp")
		fresh := ref.fit(t, funcgp.FitOptions{Prior: funcgp.Prior{File: path}, Calibrate: "none"})
		require.NoError(t, fresh.Save(t.Context(), saved, &funcgp.SaveOptions{Bundle: true}))
		requireSamePredictions(t, ref, fresh, saved)
	}
}

// The layers before a normalization are named, with a warning that the evidence at the
// trained parameters says nothing, and they can have a variance of their own.
func TestEvidenceOfNormalized(t *testing.T) {
	ref := openToy(t, "structures/normalized")
	path := filepath.Join(t.TempDir(), "prior.json")
	r := ref.evidence(t, funcgp.FitOptions{}, funcgp.EvidenceOptions{Maximize: "refit", NormalizedApart: true, PriorFile: path})
	require.Equal(t, []string{"0", "1", "3"}, r.Normalized, "what a LayerNormalization and a BatchNormalization follow")
	require.InEpsilon(t, ref.Scalar("refit_log_evidence"), float64(r.Refit), 1e-8)
	require.InEpsilon(t, ref.Scalar("log_evidence_at_theta"), float64(r.AtTheta), 1e-8)
	require.NotNil(t, linearize.FindWarning(r.Warnings, "scale-free-layers"))
	require.Equal(t, []string{"normalized layers", "other layers"}, r.Optimum.Groups)
	require.Greater(t, float64(r.Optimum.Best.LogEvidence), ref.Scalar("isotropic_best_log_evidence")-1e-6)
	var f struct {
		Groups []struct{ Tensors []struct{ Name string } }
	}
	require.NoError(t, json.Unmarshal(testref.Must(os.ReadFile(path))(t), &f))
	for _, x := range f.Groups[0].Tensors {
		require.True(t, slices.ContainsFunc(r.Normalized, func(l string) bool { return strings.HasPrefix(x.Name, l) }), x.Name)
	}
	one := ref.evidence(t, funcgp.FitOptions{}, funcgp.EvidenceOptions{Maximize: "refit"})
	require.InDelta(t, ref.Scalar("isotropic_best_log_variance"), math.Log(float64(one.Optimum.Best.Variances[0])), 1e-6)
	require.InEpsilon(t, ref.Scalar("isotropic_best_log_evidence"), float64(one.Optimum.Best.LogEvidence), 1e-8)
}

// A search that begins at a prior that was found ends where the first did, also for a
// factor by layer on a g-prior.
func TestOptimizeFromFile(t *testing.T) {
	ref := openToy(t, "poisson")
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.json"), filepath.Join(dir, "two.json")
	layers := funcgp.EvidenceOptions{Maximize: "refit", PerLayer: true}
	direct := ref.evidence(t, funcgp.FitOptions{Prior: funcgp.GPrior()}, layers)
	ref.evidence(t, funcgp.FitOptions{Prior: funcgp.GPrior()}, funcgp.EvidenceOptions{Maximize: "refit", PriorFile: one})
	layers.PriorFile = two
	byLayer := ref.evidence(t, funcgp.FitOptions{Prior: funcgp.Prior{File: one}}, layers)
	require.InEpsilon(t, float64(direct.Optimum.Best.LogEvidence), float64(byLayer.Optimum.Best.LogEvidence), 1e-8)
	require.Equal(t, direct.Optimum.Zero, byLayer.Optimum.Zero)
	for g, v := range direct.Optimum.Best.Variances {
		require.InDelta(t, float64(v), float64(byLayer.Optimum.Best.Variances[g]), 1e-5*float64(v))
	}
	given := funcgp.FitOptions{Prior: funcgp.Prior{File: two}, AtTheta: true}
	again := ref.evidence(t, given, funcgp.EvidenceOptions{})
	require.InEpsilon(t, float64(direct.Optimum.Best.LogEvidence), float64(again.Refit), 1e-8)
	apart := &funcgp.EvidenceOptions{Maximize: "refit", NormalizedApart: true}
	require.ErrorContains(t, testref.Err(ref.fit(t, funcgp.FitOptions{AtTheta: true}).Evidence(t.Context(), apart)), "none lies before a normalization")
	require.ErrorContains(t, testref.Err(ref.fit(t, given).Evidence(t.Context(), apart)), "has groups of its own")
}

// The evidence of a saved posterior is that of the fit that the file is of.
func TestEvidenceOfPosterior(t *testing.T) {
	ref := openToy(t, "poisson")
	for _, method := range []string{"exact", "parameters"} {
		o := funcgp.FitOptions{Method: funcgp.Method{Name: method}, Prior: funcgp.Precision(3)}
		want := ref.evidence(t, o, funcgp.EvidenceOptions{})
		file := filepath.Join(t.TempDir(), "posterior.gp")
		p := ref.fit(t, o)
		require.NoError(t, p.Save(t.Context(), file, &funcgp.SaveOptions{Bundle: true}))
		saved := testref.Must(funcgp.Open(t.Context(), file, nil))(t)
		for _, of := range []*funcgp.Posterior{p, saved} {
			got := testref.Must(of.Evidence(t.Context(), nil))(t)
			require.Equal(t, want.EvidenceValues, got.EvidenceValues, method)
			require.EqualValues(t, 3, got.PriorPrecision)
			require.Equal(t, want.LogDet, got.LogDet)
		}
		require.NoError(t, saved.Close())
	}
}
