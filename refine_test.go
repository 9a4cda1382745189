package funcgp_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
)

// variationalDigits is the variational posterior of the digits by a method, with the built-in network.
func variationalDigits(t *testing.T, method string) *funcgp.Posterior {
	t.Helper()
	model := funcgp.Model{Freeze: []string{"Dense1.weight"}} // its largest matrix is taken as it is
	o := &funcgp.FitOptions{Inference: "variational", Method: funcgp.Method{Name: method}}
	p := testref.Must(funcgp.Fit(t.Context(), model, funcgp.Data{TrainCount: 60}, o))(t)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// near compares numbers by the largest of them.
func near(t *testing.T, want, got []result.Float, tolerance float64, name string) {
	t.Helper()
	require.Len(t, got, len(want), name)
	most := 0.
	for _, v := range want {
		most = math.Max(most, math.Abs(float64(v)))
	}
	for i, v := range want {
		require.InDelta(t, float64(v), float64(got[i]), tolerance*most, name)
	}
}

// The posterior q is the same by the kernel of the training rows and by the precision of the parameters, and its terms
// add up to its mean, which is that of the answers (E26).
func TestVariationalByBothSolvers(t *testing.T) {
	exact, parameters := variationalDigits(t, "exact"), variationalDigits(t, "parameters")
	a, b := exact.Report(t.Context()), parameters.Report(t.Context())
	require.Equal(t, "variational", a.Inference)
	require.True(t, a.Refit)
	require.Equal(t, "lower", a.Bound)
	require.Equal(t, a.ELBO.Value, a.LogEvidence)
	require.InEpsilon(t, float64(a.ELBO.Value), float64(a.ELBO.ExpectedLogLikelihood-a.ELBO.KL), 1e-14)
	require.InEpsilon(t, float64(a.ELBO.Value), float64(b.ELBO.Value), 1e-9)
	rows := testref.Must(exact.TestRows(t.Context(), 6, 7, 14))(t)
	same := testref.Must(parameters.TestRows(t.Context(), 6, 7, 14))(t)
	p, q := testref.Must(exact.Predict(t.Context(), rows))(t), testref.Must(parameters.Predict(t.Context(), same))(t)
	for i := range p {
		near(t, p[i].Mean, q[i].Mean, 1e-7, "mean")
		near(t, p[i].Covariance[0], q[i].Covariance[0], 1e-7, "covariance")
		near(t, p[i].Probability, q[i].Probability, 1e-7, "probability")
	}
	x, y := testref.Must(exact.Explain(t.Context(), rows, nil))(t)[0], testref.Must(parameters.Explain(t.Context(), same, nil))(t)[0]
	for i, o := range x.Outputs {
		require.LessOrEqual(t, math.Abs(float64(o.Residual)), float64(o.Tolerance), "the terms add up")
		require.InDelta(t, 0, float64(o.Remainder), 1e-9*math.Abs(float64(o.ContributionSum)))
		require.InDelta(t, float64(x.Prediction.Mean[i]), float64(o.PriorMean+o.ContributionSum), 1e-9*math.Abs(float64(o.ContributionSum)))
		for k, c := range o.Contributions {
			require.Equal(t, c.Index, y.Outputs[i].Contributions[k].Index)
			near(t, []result.Float{c.Value, c.Removal}, []result.Float{y.Outputs[i].Contributions[k].Value, y.Outputs[i].Contributions[k].Removal}, 1e-7, "term")
		}
	}
	_, err := exact.Explain(t.Context(), rows, &funcgp.ExplainOptions{Influence: true})
	require.ErrorContains(t, err, "this one is by FitOptions.Inference variational; give FitOptions.Inference laplace")
}

// Of a Gaussian likelihood q is Laplace's posterior, and its bound the evidence.
func TestVariationalGaussian(t *testing.T) {
	ref := openToy(t, "snelson")
	for _, method := range []string{"exact", "parameters"} {
		of := func(o funcgp.FitOptions) (*funcgp.Posterior, []funcgp.Prediction) {
			o.Method.Name = method
			p := ref.fit(t, o)
			return p, testref.Must(p.Predict(t.Context(), testref.Must(p.Rows(t.Context(), mat.NewDense(3, 1, []float64{-1, .5, 7})))(t)))(t)
		}
		laplace, want := of(funcgp.FitOptions{Refit: true})
		p, got := of(funcgp.FitOptions{Inference: "variational"})
		for i := range want {
			near(t, want[i].Mean, got[i].Mean, 1e-8, "mean")
			near(t, want[i].Covariance[0], got[i].Covariance[0], 1e-8, "covariance")
		}
		require.InEpsilon(t, float64(laplace.Report(t.Context()).LogEvidence), float64(p.Report(t.Context()).ELBO.Value), 1e-8)
		e := ref.evidence(t, funcgp.FitOptions{Inference: "variational", Method: funcgp.Method{Name: method}}, funcgp.EvidenceOptions{})
		require.InEpsilon(t, float64(e.Refit), float64(e.ELBO.Value), 1e-8)
		require.Contains(t, evidenceText(t, e), "ELBO")
	}
}

// The file of a variational posterior answers as before it was saved, and is fitted by the same inference with other rows.
func TestVariationalFile(t *testing.T) {
	for _, method := range []string{"exact", "parameters"} {
		p := variationalDigits(t, method)
		path := filepath.Join(t.TempDir(), "q.gp")
		require.NoError(t, p.Save(t.Context(), path, nil))
		open := &funcgp.OpenOptions{Model: funcgp.Model{Freeze: []string{"Dense1.weight"}}, Fit: funcgp.FitOptions{Inference: "variational"}}
		q := testref.Must(funcgp.Open(t.Context(), path, open))(t)
		rows := testref.Must(p.TestRows(t.Context(), 6, 7))(t)
		same := testref.Must(q.TestRows(t.Context(), 6, 7))(t)
		want, got := testref.Must(p.Predict(t.Context(), rows))(t), testref.Must(q.Predict(t.Context(), same))(t)
		for i := range want {
			near(t, want[i].Mean, got[i].Mean, 1e-12, "mean")
			near(t, want[i].Probability, got[i].Probability, 1e-12, "probability")
		}
		require.Equal(t, p.Report(t.Context()).ELBO, q.Report(t.Context()).ELBO)
		require.InEpsilon(t, float64(q.Report(t.Context()).ELBO.Value), float64(testref.Must(q.Evidence(t.Context(), nil))(t).ELBO.Value), 1e-9)
		fewer := testref.Must(q.WithoutRows(t.Context(), []int{4}))(t)
		r := fewer.Report(t.Context())
		require.Equal(t, "variational", r.Inference)
		require.Equal(t, 59, r.Examples)
		require.NoError(t, fewer.Close())
		require.NoError(t, q.Close())
		open.Fit.Inference = "laplace"
		_, err := funcgp.Open(t.Context(), path, open)
		require.ErrorContains(t, err, "FitOptions.Inference laplace is not what it was fitted with, which says variational")
	}
}

// Variational posteriors over the parameters have a bound that is smaller with less structure.
func TestVariationalStructures(t *testing.T) {
	last := math.Inf(1)
	for _, structure := range []string{"full", "block", "diag"} {
		o := &funcgp.FitOptions{Inference: "variational", Structure: structure}
		p := testref.Must(funcgp.Fit(t.Context(), funcgp.Model{Freeze: []string{"Dense1.weight"}}, funcgp.Data{TrainCount: 20}, o))(t)
		r := p.Report(t.Context())
		require.Equal(t, structure, r.Structure)
		require.Less(t, float64(r.ELBO.Value), last)
		last = float64(r.ELBO.Value)
		require.NoError(t, p.Close())
	}
}

// Where the kernel of all rows does not fit, the remedies are those that variational inference has.
func TestVariationalMemory(t *testing.T) {
	for _, o := range []struct {
		freeze []string
		want   string
	}{
		{[]string{"Dense1.weight", "Conv2D2.weight", "Dense2.weight"}, "take all rows by the precision of the parameters: Method.Name parameters; or give Data.TrainCount"},
		{nil, "rows fit; give Data.TrainCount"},
	} {
		fit := &funcgp.FitOptions{Inference: "variational", Limits: funcgp.Limits{Memory: 5 << 20}}
		_, err := funcgp.Fit(t.Context(), funcgp.Model{Freeze: o.freeze}, funcgp.Data{Source: "digits:3000,10"}, fit)
		require.ErrorContains(t, err, o.want)
		require.NotContains(t, err.Error(), "nystrom")
	}
	fit := &funcgp.FitOptions{Inference: "variational", Method: funcgp.Method{Name: "parameters"}, Limits: funcgp.Limits{Memory: 5 << 20}}
	_, err := funcgp.Fit(t.Context(), funcgp.Model{}, funcgp.Data{Source: "digits:3000,10"}, fit)
	require.ErrorContains(t, err, "raise Limits.Memory, or leave FitOptions.Inference out")
}

// What variational inference does not have is refused by name.
func TestVariationalRefusals(t *testing.T) {
	for want, o := range map[string]funcgp.FitOptions{
		"FitOptions.Inference variational is for Method.Name exact or parameters, not kept":          {Method: funcgp.Method{Name: "kept"}},
		"FitOptions.Inference variational takes all training rows; leave Method.Within":              {Method: funcgp.Method{Within: .1}},
		"FitOptions.Inference variational is for FitOptions.Structure full, block or diag, not kfac": {Structure: "kfac"},
		"leave one of them out": {Predictive: "linear"},
		"that of heteroscedastic is the Fisher information; leave": {Likelihood: "heteroscedastic"},
	} {
		o.Inference = "variational"
		_, err := funcgp.Fit(t.Context(), funcgp.Model{File: "none.onnx"}, funcgp.Data{}, &o)
		require.ErrorContains(t, err, want)
	}
}
