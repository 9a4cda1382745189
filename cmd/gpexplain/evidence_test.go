package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

func TestEvidence(t *testing.T) {
	for _, name := range toys {
		ref := openReference(t, name)
		text := ref.run(t, "evidence", "--json")
		requireSchema(t, "evidence", text)
		r := decode[result.Evidence](t, text)
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
	r := decode[result.Evidence](t, ref.run(t, "evidence", "--json", "--prior-precision", "3", "--noise-variance", "0.25", "--quiet"))
	require.EqualValues(t, 3, r.PriorPrecision)
	require.EqualValues(t, 0.25, r.NoiseVariance)
	require.NotEqual(t, ref.Scalar("log_evidence"), float64(r.AtTheta))
}

// With all examples inducing, and by the precision of the parameters, the evidence is the exact one, which the bounds meet.
func TestEvidenceByMethod(t *testing.T) {
	for _, name := range []string{"two-moons", "poisson", "categorical"} {
		ref := openReference(t, name)
		for _, method := range []string{"subset", "nystrom", "parameters"} {
			args := []string{"--json", "--method", method}
			if method != "parameters" {
				args = append(args, "--inducing", strconv.Itoa(ref.n))
			}
			text := ref.run(t, "evidence", args...)
			requireSchema(t, "evidence", text)
			r := decode[result.Evidence](t, text)
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
			require.Contains(t, ref.run(t, "evidence", args[1:]...), "log evidence, refit")
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
		ref, want := openReference(t, name), testref.Open(t, "selection/"+name)
		for _, method := range []string{"exact", "nystrom", "subset", "parameters"} {
			args := []string{"--json", "--method", method}
			if problem.IsSparse(method) {
				args = append(args, "--inducing", strconv.Itoa(ref.n))
			}
			text := ref.run(t, "evidence", args...)
			requireSchema(t, "evidence", text)
			r := decode[result.Evidence](t, text)
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
				closeTo(t, got, want.Floats(c.by), tolerance, name+" "+method+" "+c.by)
				require.InDelta(t, want.Scalar(c.all), float64(c.of(&r.Gradient.EvidenceValues)), tolerance*math.Max(1, math.Abs(sum(want.Floats(c.by)))+10), name+" "+c.all)
			}
			held := of(r.Groups, func(g *result.EvidenceGroup) result.Float { return g.Gradient.HeldSites })
			if method != "exact" && method != "parameters" {
				require.False(t, slices.ContainsFunc(held, func(v float64) bool { return !math.IsNaN(v) }))
			} else {
				quad, trace := want.Floats("refit_alpha_K_alpha_g"), want.Floats("trace_g")
				for g := range quad {
					quad[g] = quad[g]/2 - trace[g]/2
				}
				closeTo(t, held, quad, 1e-8, name+" sites held")
				require.InDelta(t, sum(quad), float64(r.Gradient.HeldSites), 1e-8*math.Max(1, math.Abs(sum(quad))+10))
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
		ref, want := openReference(t, name), testref.Open(t, "selection/"+name)
		for form, key := range map[string]string{"refit": "refit_optimum", "at-theta": "evidence_optimum"} {
			path := filepath.Join(t.TempDir(), "prior.json")
			text := ref.run(t, "evidence", "--json", "--quiet", "--optimize", "--form", form, "-o", path)
			requireSchema(t, "evidence", text)
			r := decode[result.Evidence](t, text)
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
			again := decode[result.Evidence](t, ref.run(t, "evidence", "--json", "--quiet", "--prior", path))
			got := again.Refit
			if form == "at-theta" {
				got = again.AtTheta
			}
			require.InEpsilon(t, float64(o.Best.LogEvidence), float64(got), 1e-8)
		}
		if name == "snelson" {
			r := decode[result.Evidence](t, ref.run(t, "evidence", "--json", "--quiet", "--optimize", "--keep-noise"))
			require.InDelta(t, want.Scalar("refit_optimum_fixed_noise_log_factor"), math.Log(float64(r.Optimum.Best.Variances[0])*ref.Scalar("delta")), 1e-6)
			require.EqualValues(t, ref.Scalar("sigma2"), *r.Optimum.Best.Noise)
		}
	}
}

// By layer the optima are those of the reference, layers whose variance runs to 0 are
// named, and all verbs answer from the prior that was found.
func TestOptimizePerLayer(t *testing.T) {
	for name, zero := range map[string][]string{"snelson": {"6", "8"}, "poisson": {"2"}} {
		ref, want := openReference(t, name), testref.Open(t, "selection/"+name)
		dir := t.TempDir()
		path, page, saved := filepath.Join(dir, "prior.json"), filepath.Join(dir, "page.html"), filepath.Join(dir, "a.gp")
		text := ref.run(t, "evidence", "--json", "--quiet", "--optimize", "--per-layer", "-o", path, "--html", page)
		requireSchema(t, "evidence", text)
		r := decode[result.Evidence](t, text)
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
		require.Contains(t, read(t, page), "runs to 0")
		require.Contains(t, ref.run(t, "evidence", "--quiet", "--optimize", "--per-layer"), "runs to 0")

		again := decode[result.Evidence](t, ref.run(t, "evidence", "--json", "--quiet", "--prior", path))
		require.InEpsilon(t, float64(r.Optimum.Best.LogEvidence), float64(again.Refit), 1e-8)
		require.False(t, again.AtTheta.Finite(), "−∞: the trained parameters are not at 0")
		fresh, sum := rows(t, ref.run(t, "predict", "--json", "--quiet", "--all", "--prior", path))
		require.Equal(t, "given", sum.Fit.Match.Used)
		ref.run(t, "fit", "--quiet", "--prior", path, "-o", saved)
		kept, _ := rows(t, ref.run(t, "predict", "--json", "--quiet", "--all", "--posterior", saved))
		require.True(t, fresh == kept)
		for _, verb := range []string{"explain", "importances"} {
			requireSchema(t, verb, ref.run(t, verb, "--json", "--quiet", "--prior", path))
		}
		// From there nothing is to be gained.
		more := decode[result.Evidence](t, ref.run(t, "evidence", "--json", "--quiet", "--optimize", "--prior", path))
		require.InEpsilon(t, float64(r.Optimum.Best.LogEvidence), float64(more.Optimum.Best.LogEvidence), 1e-8)
	}
}

// The optimum with the sites held is where that evidence has no slope, and a fit under the
// prior that was written has it. For a Gaussian it is the refit's.
func TestOptimizeHeldSites(t *testing.T) {
	for _, name := range []string{"snelson", "poisson", "categorical"} {
		ref, want := openReference(t, name), testref.Open(t, "selection/"+name)
		path, page := filepath.Join(t.TempDir(), "prior.json"), filepath.Join(t.TempDir(), "page.html")
		text := ref.run(t, "evidence", "--json", "--quiet", "--optimize", "--form", "held-sites", "-o", path, "--html", page)
		requireSchema(t, "evidence", text)
		o := decode[result.Evidence](t, text).Optimum
		require.Equal(t, "held-sites", o.Form)
		require.True(t, o.Settled)
		require.Empty(t, o.Edge)
		require.Contains(t, read(t, page), "of the refit with the sites held is highest here")
		text = ref.run(t, "evidence", "--json", "--quiet", "--prior", path)
		requireSchema(t, "evidence", text)
		again := decode[result.Evidence](t, text)
		require.InEpsilon(t, float64(o.Best.LogEvidence), float64(again.HeldSites), 1e-8)
		require.InDelta(t, 0, float64(again.Gradient.HeldSites), 1e-5)
		if name == "snelson" {
			require.InEpsilon(t, want.Scalar("refit_optimum_log_evidence"), float64(o.Best.LogEvidence), 1e-8)
			require.InEpsilon(t, float64(again.Refit), float64(again.HeldSites), 1e-8)
		} else {
			require.Greater(t, math.Abs(float64(again.Gradient.Refit)), 1e-3, "the refit wants another one")
		}
		require.Contains(t, ref.run(t, "evidence", "--quiet", "--optimize", "--form", "held-sites"), "log evidence (held-sites)")
	}
}

// A variance that the data do not determine ends at the edge of the range, and both say so.
func TestOptimizeEdge(t *testing.T) {
	ref := openReference(t, "two-moons")
	page := filepath.Join(t.TempDir(), "page.html")
	r := decode[result.Evidence](t, ref.run(t, "evidence", "--json", "--quiet", "--optimize", "--per-layer", "--html", page))
	require.Equal(t, []string{"10"}, r.Optimum.Edge)
	require.NotNil(t, linearize.FindWarning(r.Warnings, "variance-edge"))
	require.Contains(t, read(t, page), "The search ended at the edge of its range for 10")
}

// The page shows the four evidences over the precision without --optimize too, and
// loads nothing.
func TestEvidencePage(t *testing.T) {
	ref := openReference(t, "two-moons")
	for _, args := range [][]string{nil, {"--optimize"}, {"--optimize", "--g-prior"}} {
		page := filepath.Join(t.TempDir(), "page.html")
		ref.run(t, "evidence", append(args, "--quiet", "--html", page)...)
		text := read(t, page)
		require.Equal(t, 4, strings.Count(text, `class="curveline`))
		require.Equal(t, 4-3*min(1, len(args)), strings.Count(text, "<circle"))
		require.NotRegexp(t, `<script|http://|https://`, text)
	}
}

// Under the neural g-prior the evidences and the best g are those of
// reference/structures, and validate finds the same posterior in weight space.
func TestGPrior(t *testing.T) {
	for _, name := range []string{"poisson", "categorical"} {
		ref, want := openReference(t, name), testref.Open(t, "structures/"+name)
		path := filepath.Join(t.TempDir(), "g.json")
		text := ref.run(t, "evidence", "--json", "--quiet", "--optimize", "--g-prior", "-o", path)
		requireSchema(t, "evidence", text)
		r := decode[result.Evidence](t, text)
		require.InEpsilon(t, want.Scalar("gprior_log_evidence"), float64(r.Refit), 1e-8)
		require.InEpsilon(t, want.Scalar("gprior_log_evidence_at_theta"), float64(r.AtTheta), 1e-8)
		require.Equal(t, "g", r.Optimum.Kind)
		require.InDelta(t, want.Scalar("gprior_best_log_g"), math.Log(float64(r.Optimum.Best.Variances[0])), 1e-6)
		require.InEpsilon(t, want.Scalar("gprior_best_log_evidence"), float64(r.Optimum.Best.LogEvidence), 1e-8)
		require.Equal(t, len(want.Ints("gprior_dead")), r.Optimum.Held)
		again := decode[result.Evidence](t, ref.run(t, "evidence", "--json", "--quiet", "--prior", path))
		require.InEpsilon(t, float64(r.Optimum.Best.LogEvidence), float64(again.Refit), 1e-8)
		require.Contains(t, ref.run(t, "validate", "--quiet", "--prior", path), "refit log evidence")
		saved := filepath.Join(t.TempDir(), "a.gp")
		ref.run(t, "fit", "--quiet", "--calibrate", "none", "--prior", path, "-o", saved)
		fresh, _ := rows(t, ref.run(t, "predict", "--json", "--quiet", "--index", "1-3", "--calibrate", "none", "--prior", path))
		kept, _ := rows(t, ref.run(t, "predict", "--json", "--quiet", "--index", "1-3", "--calibrate", "none", "--posterior", saved))
		require.True(t, fresh == kept)
	}
}

// The layers before a normalization are named, with a warning that the evidence at the
// trained parameters says nothing, and they can have a variance of their own.
func TestEvidenceOfNormalized(t *testing.T) {
	ref := openReference(t, "structures/normalized")
	path := filepath.Join(t.TempDir(), "prior.json")
	r := decode[result.Evidence](t, ref.run(t, "evidence", "--json", "--quiet", "--optimize", "--normalized-apart", "-o", path))
	require.Equal(t, []string{"0", "1", "3"}, r.Normalized, "what a LayerNormalization and a BatchNormalization follow")
	require.InEpsilon(t, ref.Scalar("refit_log_evidence"), float64(r.Refit), 1e-8)
	require.InEpsilon(t, ref.Scalar("log_evidence_at_theta"), float64(r.AtTheta), 1e-8)
	require.NotNil(t, linearize.FindWarning(r.Warnings, "scale-free-layers"))
	require.Equal(t, []string{"normalized layers", "other layers"}, r.Optimum.Groups)
	require.Greater(t, float64(r.Optimum.Best.LogEvidence), ref.Scalar("isotropic_best_log_evidence")-1e-6)
	var f problem.PriorFile
	require.NoError(t, json.Unmarshal([]byte(read(t, path)), &f))
	for _, x := range f.Groups[0].Tensors {
		require.True(t, slices.ContainsFunc(r.Normalized, func(l string) bool { return strings.HasPrefix(x.Name, l) }), x.Name)
	}
	one := decode[result.Evidence](t, ref.run(t, "evidence", "--json", "--quiet", "--optimize"))
	require.InDelta(t, ref.Scalar("isotropic_best_log_variance"), math.Log(float64(one.Optimum.Best.Variances[0])), 1e-6)
	require.InEpsilon(t, ref.Scalar("isotropic_best_log_evidence"), float64(one.Optimum.Best.LogEvidence), 1e-8)
}

// A search that begins at a prior that was found ends where the first did, also for a
// factor by layer on a g-prior.
func TestOptimizeFromFile(t *testing.T) {
	ref := openReference(t, "poisson")
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.json"), filepath.Join(dir, "two.json")
	direct := decode[result.Evidence](t, ref.run(t, "evidence", "--json", "--quiet", "--optimize", "--g-prior", "--per-layer"))
	ref.run(t, "evidence", "--quiet", "--optimize", "--g-prior", "-o", one)
	byLayer := decode[result.Evidence](t, ref.run(t, "evidence", "--json", "--quiet", "--optimize", "--per-layer", "--prior", one, "-o", two))
	require.InEpsilon(t, float64(direct.Optimum.Best.LogEvidence), float64(byLayer.Optimum.Best.LogEvidence), 1e-8)
	require.Equal(t, direct.Optimum.Zero, byLayer.Optimum.Zero)
	for g, v := range direct.Optimum.Best.Variances {
		require.InDelta(t, float64(v), float64(byLayer.Optimum.Best.Variances[g]), 1e-5*float64(v))
	}
	again := decode[result.Evidence](t, ref.run(t, "evidence", "--json", "--quiet", "--prior", two))
	require.InEpsilon(t, float64(direct.Optimum.Best.LogEvidence), float64(again.Refit), 1e-8)
	require.Contains(t, refuse(t, 1, slices.Concat([]string{"evidence", "--quiet", "--optimize", "--normalized-apart"}, ref.args)...), "none lies before a normalization")
	require.Contains(t, refuse(t, 1, slices.Concat([]string{"evidence", "--quiet", "--optimize", "--normalized-apart", "--prior", two}, ref.args)...), "has groups of its own")
}

func TestOptimizeRefused(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--per-layer", "--per-layer is for --optimize"},
		{"-o a.json", "--out is for --optimize"},
		{"--keep-noise", "--keep-noise is for --optimize"},
		{"--form refit", "--form is for --optimize"},
		{"--optimize --form x", "--form"},
		{"--optimize --form=", "--form is empty"},
		{"--optimize --per-layer --normalized-apart", "exclude each other"},
		{"--optimize --g-prior --prior a.json", "exclude each other"},
		{"--optimize --method parameters", "--optimize is for --method exact"},
		{"--html a.html --method nystrom", "--html is for --method exact"},
		{"--optimize -o a.json --html a.json", "both name"},
		{"--optimize -o -", "standard output is for text"},
	} {
		require.Contains(t, refuse(t, 2, append([]string{"evidence"}, strings.Fields(c.args)...)...), c.want)
	}
}
