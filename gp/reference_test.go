package gp_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A reference is a trained network with its data, and PyTorch's answers.
type reference struct{ *testkit.Reference }

func openReference(t *testing.T, name string) *reference {
	t.Helper()
	return &reference{testkit.OpenReference(t, name)}
}

// The tolerances are those of the project's acceptance, relative to the
// largest entry: 1e-8 for what is computed at θ*, 1e-7 after the refit, which
// in the reference ended at a gradient norm below 1e-10 of its own, and 1e-8
// for the closure of sums.
const (
	tolTheta   = 1e-8
	tolRefit   = 1e-7
	tolClosure = 1e-8
)

var referenceNames = []string{
	"snelson", "two-moons", "categorical", "categorical-diagonal-prior",
	"poisson", "gaussian-two-outputs", "mnist10-mlp", "thesis-cnn",
}

func TestReferences(t *testing.T) {
	for _, name := range referenceNames {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && (name == "mnist10-mlp" || name == "thesis-cnn") {
				t.Skip("some seconds")
			}
			r := openReference(t, name)
			s := r.sites(t)
			e := testref.Must(gp.Fit(t.Context(), r.Kernel, r.Train, s, &gp.Options{Mean: gp.LinearGaussian}))(t)
			require.Empty(t, e.Warnings())
			r.posterior(t, e)
			r.evidence(t, e)
			if r.Has("refit_mean_test") {
				r.refit(t, e)
			}
		})
	}
}

func (r *reference) sites(t *testing.T) *gp.Sites {
	t.Helper()
	s := r.Sites(t)
	testref.RequireClose(t, flat(s.Residual), r.Floats("residual"), tolTheta, "residual")
	if r.Has("lambda_") {
		testref.RequireClose(t, flat(s.Lambda), r.Floats("lambda_"), tolTheta, "Λ")
	}
	if r.HasMeta("grad_norm") && !r.Has("prior_variance") {
		// A gradient of 1e-6 is a difference of terms of size 1.
		got := gp.GradientNorm(r.Train, s, r.Prior, r.Net.Theta())
		require.InDelta(t, r.Scalar("grad_norm"), got, 1e-8+1e-8*r.Scalar("grad_norm"), "gradient norm")
	}
	return s
}

func (r *reference) posterior(t *testing.T, e *gp.Exact) {
	t.Helper()
	var mean, cov mat.Dense
	require.NoError(t, e.PredictTo(t.Context(), &mean, &cov, r.Test))
	for _, tensor := range []string{"posterior_cov_test", "posterior_variance_test"} {
		if r.Has(tensor) {
			testref.RequireClose(t, flat(&cov), r.Floats(tensor), tolTheta, tensor)
		}
	}
	if r.Has("linear_gaussian_mean_test") {
		testref.RequireClose(t, flat(&mean), r.Floats("linear_gaussian_mean_test"), tolTheta, "linear-Gaussian mean")
	}
	r.requireSums(t, e, &mean)
}

func (r *reference) evidence(t *testing.T, e *gp.Exact) {
	t.Helper()
	scatter := gp.Scatter(r.Prior, r.Net.Theta())
	at, linear := e.EvidenceAtTheta(scatter), linearGaussian(t, e)
	for _, c := range []struct {
		key string
		got float64
	}{
		{"log_likelihood", at.LogLik}, {"scatter", at.Scatter}, {"log_det", at.LogDet},
		{"log_evidence", at.Value}, {"log_evidence_linear_gaussian", linear.Value},
	} {
		if r.HasMeta(c.key) {
			testref.RequireClose(t, []float64{c.got}, []float64{r.Scalar(c.key)}, tolTheta, c.key)
		}
	}
	if key := "d_log_evidence_d_log_prior_variance"; r.HasMeta(key) {
		got := testref.Must(testkit.GradientAtTheta(t.Context(), e, []ntk.Kernel{r.Kernel}, []float64{scatter}))(t)
		// The reference is a central difference of step 1e-4: its error is
		// 1e-8 of the third derivative and 1e-12 of the evidence over 1e-4.
		testref.RequireClose(t, got, []float64{r.Scalar(key)}, 1e-7, key)
	}
}

func (r *reference) refit(t *testing.T, e *gp.Exact) {
	t.Helper()
	e = testref.Must(e.Refit(t.Context(), r.Targets()))(t)
	require.Empty(t, e.Warnings())
	s := e.Sites()
	testref.RequireClose(t, flat(s.F), r.Floats("refit_f_train"), tolRefit, "f̂")
	testref.RequireClose(t, flat(s.Residual), r.Floats("refit_residual"), tolRefit, "residual at f̂")
	testref.RequireClose(t, e.Alpha(), r.Floats("refit_residual"), tolRefit, "α")
	testref.RequireClose(t, e.PseudoTargets(), r.Floats("refit_pseudo_target"), tolRefit, "b")
	var mean, cov mat.Dense
	require.NoError(t, e.PredictTo(t.Context(), &mean, &cov, r.Test))
	testref.RequireClose(t, flat(&mean), r.Floats("refit_mean_test"), tolRefit, "mean")
	for _, tensor := range []string{"refit_cov_test", "refit_variance_test"} {
		if r.Has(tensor) {
			testref.RequireClose(t, flat(&cov), r.Floats(tensor), tolRefit, tensor)
		}
	}
	evidence := e.EvidenceRefit()
	testref.RequireClose(t, []float64{evidence.Value, evidence.LogDet},
		[]float64{r.Scalar("refit_log_evidence"), r.Scalar("refit_log_det")}, tolRefit, "evidence and log det")
	r.requireSums(t, e, &mean)
	r.requireContributions(t, e)
}

// requireSums checks that both sums are the mean less the prior mean.
func (r *reference) requireSums(t *testing.T, e *gp.Exact, mean *mat.Dense) {
	t.Helper()
	n, c := r.Train.Len(), r.Train.Outputs()
	m := make([]float64, r.Test.Len()*c)
	r.Kernel.MeanTo(m, r.Test)
	if r.Has("prior_mean_test") {
		testref.RequireClose(t, m, r.Floats("prior_mean_test"), tolTheta, "prior mean")
	}
	rows := min(r.Test.Len(), 300) // is enough where there are 1991
	want, raw, post := flat(mean)[:rows*c], slices.Clone(m[:rows*c]), slices.Clone(m[:rows*c])
	cross := testref.Must(e.Cross(t.Context(), r.Test.Slice(0, rows)))(t)
	for lo := 0; lo < n; lo += 50 {
		hi := min(lo+50, n)
		addTerms(t, raw, cross, lo, r.Train.Slice(lo, hi), gp.RawTerms, e.Alpha()[lo*c:hi*c])
		addTerms(t, post, cross, lo, r.Train.Slice(lo, hi), gp.PosteriorTerms, e.PseudoTargets()[lo*c:hi*c])
	}
	testref.RequireClose(t, raw, want, tolClosure, "m + Σ κα")
	testref.RequireClose(t, post, want, tolClosure, "m + Σ Cb")
}

func addTerms(t *testing.T, dst []float64, cross gp.Cross, first int, train *linearize.Batch, terms gp.Terms, v []float64) {
	t.Helper()
	var tile mat.Dense
	require.NoError(t, cross.TileTo(t.Context(), &tile, first, train, terms))
	var sum mat.VecDense
	sum.MulVec(&tile, mat.NewVecDense(len(v), v))
	for i := range dst {
		dst[i] += sum.AtVec(i)
	}
}

// requireContributions compares the terms themselves for the first test rows.
func (r *reference) requireContributions(t *testing.T, e *gp.Exact) {
	t.Helper()
	n, c := r.Train.Len(), r.Train.Outputs()
	head := r.Shape("refit_contribution_head")[0]
	cross := testref.Must(e.Cross(t.Context(), r.Test.Slice(0, head)))(t)
	for _, k := range []struct {
		tensor string
		terms  gp.Terms
		v      []float64
	}{
		{"refit_contribution_head", gp.RawTerms, e.Alpha()},
		{"refit_posterior_contribution_head", gp.PosteriorTerms, e.PseudoTargets()},
	} {
		var tile mat.Dense
		require.NoError(t, cross.TileTo(t.Context(), &tile, 0, r.Train, k.terms))
		got := make([]float64, 0, head*c*n)
		for i := range head * c {
			row := tile.RawRowView(i)
			for j := range n {
				sum := 0.0
				for o := range c {
					sum += row[j*c+o] * k.v[j*c+o]
				}
				got = append(got, sum)
			}
		}
		testref.RequireClose(t, got, r.Floats(k.tensor), tolRefit, k.tensor)
	}
}
