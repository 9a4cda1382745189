package weightspace_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
)

// A trained is a trained network with its data and PyTorch's answers.
type trained struct{ *testkit.Reference }

func (q *trained) fit(t *testing.T) *weightspace.Posterior {
	t.Helper()
	w := testref.Must(weightspace.Fit(t.Context(), q.Train, q.Sites(t), q.Prior, q.Net.Theta(), linearGaussian))(t)
	require.Empty(t, w.Warnings())
	return w
}

func (q *trained) requireNear(t *testing.T, what string, got, rel float64) {
	t.Helper()
	testref.RequireClose(t, []float64{got}, []float64{q.Scalar(what)}, rel, what)
}

func (q *trained) requirePredicts(t *testing.T, w *weightspace.Posterior, mean, cov string, rel float64) {
	t.Helper()
	var m, c mat.Dense
	require.NoError(t, w.PredictTo(t.Context(), &m, &c, q.Test))
	if mean != "" {
		testref.RequireClose(t, m.RawMatrix().Data, q.Floats(mean), rel, mean)
	}
	testref.RequireClose(t, c.RawMatrix().Data, q.Floats(cov), rel, cov)
}

// requireFit compares a posterior at the sites of θ*: (E6), (E7), (E8).
func (q *trained) requireFit(t *testing.T, w *weightspace.Posterior, mean, cov string) {
	t.Helper()
	q.requirePredicts(t, w, mean, cov, fitTol)
	q.requireNear(t, "log_det", w.LogDet(), fitTol)
	at := w.EvidenceAtTheta()
	q.requireNear(t, "log_evidence", at.Value, fitTol)
	q.requireNear(t, "log_likelihood", at.LogLik, fitTol)
	q.requireNear(t, "scatter", at.Scatter, fitTol)
}

// requireRefit compares a posterior at the mode of the linearized model: (E9).
func (q *trained) requireRefit(t *testing.T, w *weightspace.Posterior, cov string) {
	t.Helper()
	require.Empty(t, w.Warnings())
	q.requirePredicts(t, w, "refit_mean_test", cov, refitTol)
	testref.RequireClose(t, w.Mean(), q.Floats("refit_theta"), refitTol, "refit_theta")
	testref.RequireClose(t, w.Sites().F.RawMatrix().Data, q.Floats("refit_f_train"), refitTol, "refit_f_train")
	testref.RequireClose(t, w.Sites().Residual.RawMatrix().Data, q.Floats("refit_residual"), refitTol, "refit_residual")
	q.requireNear(t, "refit_log_det", w.LogDet(), refitTol)
	q.requireNear(t, "refit_log_evidence", w.EvidenceRefit().Value, refitTol)
}

// The references' own two spaces agree to 1e-8; their Newton iterations stop at
// a gradient norm of 1e-10.
const fitTol, refitTol = 1e-8, 1e-7

func TestWeightsReferences(t *testing.T) {
	for _, name := range []string{"snelson", "two-moons", "categorical", "categorical-diagonal-prior", "poisson", "gaussian-two-outputs"} {
		t.Run(name, func(t *testing.T) {
			q := &trained{testkit.OpenReference(t, name)}
			w := q.fit(t)
			q.requireFit(t, w, "linear_gaussian_mean_test", "posterior_cov_test")
			q.requireNear(t, "log_evidence_linear_gaussian", w.EvidenceLinearGaussian().Value, fitTol)
			r := testref.Must(w.Refit(t.Context(), q.Targets()))(t)
			q.requireRefit(t, r, "refit_cov_test")
		})
	}
}

// The cross-check that the command prints: both spaces by themselves, on 3000
// images and 4587 parameters, and PyTorch's weight space beside them. Refits are
// compared with PyTorch's in function space at this size, and in both below it.
func TestWeightsThesisCNN(t *testing.T) {
	testref.Long(t, "a posterior over 4587 parameters is not short")
	q := &trained{testkit.OpenReference(t, "thesis-cnn")} // 4587 parameters, 3000 images of 4 and 9
	w := q.fit(t)
	q.requireFit(t, w, "", "posterior_variance_test")
	e := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, w.Sites(), &gp.Options{Mean: gp.LinearGaussian}))(t)
	c := testref.Must(weightspace.Validate(t.Context(), e, w, q.Test, 0))(t)
	requireRows(t, c, "mean", "covariance", "log det", "log evidence at θ* (E7)", "log evidence, linear-Gaussian (E8)")
}
