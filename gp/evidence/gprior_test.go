package evidence_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/evidence"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// A structured is a reference with the neural g-prior.
type structured struct {
	*testref.Ref
	train, test *linearize.Batch
	y           *mat.Dense
	lik         gp.Likelihood
	theta       []float64
	isotropic   ntk.Prior
}

func openStructured(t *testing.T, name string) *structured {
	t.Helper()
	if name == "normalized" {
		r := testref.Open(t, "structures/normalized")
		net := testref.Must(network.ReadONNX(bytes.NewReader(r.Model(t)), nil))(t)
		s := &structured{Ref: r, y: r.Matrix("y_train"), lik: glm.Categorical{}, theta: net.Theta()}
		s.train = testref.Must(net.Linearize(t.Context(), r.Matrix("x_train")))(t)
		s.test = testref.Must(net.Linearize(t.Context(), r.Matrix("x_test")))(t)
		s.isotropic = testref.Must(ntk.NewIsotropic(r.Scalar("delta"), nil))(t)
		return s
	}
	r := testkit.OpenReference(t, name)
	s := &structured{Ref: testref.Open(t, "structures/"+name), train: r.Train, y: r.Y, lik: r.Likelihood, theta: r.Net.Theta(), isotropic: r.Prior}
	s.test = r.Test.Slice(0, s.Shape("gprior_mean_test")[0])
	return s
}

// The neural g-prior and its evidence: the scales, the dead parameters, the posterior
// at g = 1 and at the best g, and the best g of (E9) and (E7) are those of the
// references.
func TestNeuralGPrior(t *testing.T) {
	testref.Long(t, "takes long under the race detector; shorter tests run the same code")
	for _, name := range append([]string{"normalized"}, toys...) {
		t.Run(name, func(t *testing.T) {
			r := openStructured(t, name)
			sites := testref.Must(gp.NewSites(gp.NewTargets(r.y, r.lik), r.train.F))(t)
			diag, err := weightspace.FitStructure(t.Context(), weightspace.Diagonal, r.train, sites, r.isotropic, r.theta, nil)
			require.NoError(t, err)
			prior, err := ntk.NewGPrior(diag.(*weightspace.DiagonalPosterior).GGN(), r.train.Len(), r.theta, 1)
			require.NoError(t, err)
			testref.RequireClose(t, prior.Scale(), r.Floats("gprior_scale"), tol, "scale")
			require.Equal(t, r.Ints("gprior_dead"), append([]int{}, prior.Dead()...))
			variance := make([]float64, len(r.theta))
			prior.VarianceTo(variance)
			testref.RequireClose(t, variance, r.Floats("gprior_variance"), tol, "variance")

			p := &evidence.Problem{X: r.train, Y: gp.NewTargets(r.y, r.lik), Theta: r.theta, Prior: prior}
			at := testref.Must(evidence.Evaluate(t.Context(), p, evidence.AtTheta, nil))(t)
			requireNumber(t, "(E7)", at.Evidence.Value, r.Scalar("gprior_log_evidence_at_theta"), tol)
			r.requireFit(t, "gprior_", prior)

			best, err := evidence.Maximize(t.Context(), p, evidence.Refit, &evidence.Options{Lowest: -16, Highest: 12})
			require.NoError(t, err)
			require.True(t, best.Settled)
			requireNumber(t, "best g", best.LogFactor[0], r.Scalar("gprior_best_log_g"), 1e-8)
			requireNumber(t, "(E9)", best.Evidence.Value, r.Scalar("gprior_best_log_evidence"), tol)
			require.Len(t, best.Maxima, int(r.Scalar("gprior_local_maxima")))
			r.requireFit(t, "gprior_best_", best.Prior)
			if r.HasMeta("gprior_best_log_g_at_theta") {
				best, err = evidence.Maximize(t.Context(), p, evidence.AtTheta, &evidence.Options{Lowest: -16, Highest: 12})
				require.NoError(t, err)
				requireNumber(t, "best g at θ*", best.LogFactor[0], r.Scalar("gprior_best_log_g_at_theta"), 1e-8)
				requireNumber(t, "(E7) there", best.Evidence.Value, r.Scalar("gprior_best_log_evidence_at_theta"), tol)
			}
		})
	}
}

// requireFit compares the posterior of a refit under the prior, in function space and
// as the parameters v* = μ₀ + Σ₀Jᵀα.
func (r *structured) requireFit(t *testing.T, prefix string, prior ntk.Prior) {
	t.Helper()
	e := testref.Must(gp.Refit(t.Context(), ntk.New(prior, r.theta), r.train, gp.NewTargets(r.y, r.lik), nil))(t)
	ev := e.EvidenceRefit()
	for key, got := range map[string]float64{"log_likelihood": ev.LogLik, "scatter": ev.Scatter, "log_det": ev.LogDet, "log_evidence": ev.Value} {
		requireNumber(t, prefix+key, got, r.Scalar(prefix+key), 1e-8)
	}
	var mean, cov mat.Dense
	require.NoError(t, e.PredictTo(t.Context(), &mean, &cov, r.test))
	testref.RequireClose(t, mean.RawMatrix().Data, r.Floats(prefix+"mean_test"), 1e-8, prefix+"mean_test")
	testref.RequireClose(t, cov.RawMatrix().Data, r.Floats(prefix+"cov_test"), 1e-8, prefix+"cov_test")
	testref.RequireClose(t, e.Sites().F.RawMatrix().Data, r.Floats(prefix+"f_train"), 1e-8, prefix+"f_train")
	v, variance := make([]float64, len(r.theta)), make([]float64, len(r.theta))
	r.train.MulTransVecTo(v, e.Alpha())
	prior.VarianceTo(variance)
	mu := make([]float64, len(r.theta))
	prior.MeanTo(mu)
	for i := range v {
		v[i] = mu[i] + variance[i]*v[i]
	}
	testref.RequireClose(t, v, r.Floats(prefix+"v"), 1e-8, prefix+"v")
}

// Networks with normalization: the evidences and the best isotropic precision with v*
// and with θ* are those of the references.
func TestNormalizedEvidence(t *testing.T) {
	r := openStructured(t, "normalized")
	p := &evidence.Problem{X: r.train, Y: gp.NewTargets(r.y, r.lik), Theta: r.theta, Prior: r.isotropic}
	for form, key := range map[evidence.Form]string{evidence.AtTheta: "log_evidence_at_theta", evidence.LinearGaussian: "log_evidence_linear_gaussian", evidence.Refit: "refit_log_evidence"} {
		x := testref.Must(evidence.Evaluate(t.Context(), p, form, nil))(t)
		requireNumber(t, key, x.Evidence.Value, r.Scalar(key), tol)
	}
	held := testref.Must(evidence.Evaluate(t.Context(), p, evidence.HeldSites, nil))(t)
	requireNumber(t, "sites held", held.Evidence.Value, r.Scalar("refit_log_likelihood")-r.Scalar("refit_scatter")/2-r.Scalar("log_det_at_theta")/2, tol)
	for form, suffix := range map[evidence.Form]string{evidence.AtTheta: "_at_theta", evidence.Refit: ""} {
		best := testref.Must(evidence.Maximize(t.Context(), p, form, nil))(t)
		requireNumber(t, "variance"+suffix, best.LogFactor[0], r.Scalar("isotropic_best_log_variance"+suffix), 1e-8)
		requireNumber(t, "evidence"+suffix, best.Evidence.Value, r.Scalar("isotropic_best_log_evidence"+suffix), tol)
	}
}

// Joint predictions over eight inputs at θ* and after a refit are those of the
// references.
func TestJointReferences(t *testing.T) {
	for _, name := range toys {
		q := openToy(t, name)
		e := q.Exact(t)
		refit := testref.Must(e.Refit(t.Context(), q.Targets()))(t)
		for tensor, post := range map[string]*gp.Exact{"joint_cov_test": e, "refit_joint_cov_test": refit} {
			var cov mat.Dense
			require.NoError(t, post.JointTo(t.Context(), nil, &cov, q.Test.Slice(0, 8)))
			testref.RequireClose(t, cov.RawMatrix().Data, q.want.Floats(tensor), tol, name+" "+tensor)
		}
	}
}
