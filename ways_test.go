package funcgp_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/testref"
)

// What there is not, and what does not go together, is refused by name before anything is read.
func TestWaysOfAFit(t *testing.T) {
	method := func(m funcgp.Method) funcgp.FitOptions { return funcgp.FitOptions{Method: m} }
	for want, o := range map[string]funcgp.FitOptions{
		`Calibrate "foo" must be loo, heldout or none`:                                                         {Calibrate: "foo"},
		`FitOptions.Structure "foo" must be full`:                                                              {Structure: "foo"},
		`FitOptions.Predictive "foo" must be glm`:                                                              {Predictive: "foo"},
		`FitOptions.Samples -3 must be at least 1`:                                                             {Samples: -3},
		`Method.Name "foo" must be exact`:                                                                      method(funcgp.Method{Name: "foo"}),
		`Method.Within -1 must be above 0`:                                                                     method(funcgp.Method{Within: -1}),
		`Method.Certify is for Method.Name kept`:                                                               method(funcgp.Method{Certify: true}),
		`Method.Inducing is for Method.Name subset or nystrom, not exact`:                                      method(funcgp.Method{Inducing: 5}),
		`Prior and Tuned exclude each other`:                                                                   {Prior: funcgp.Prior{At: "match", Tune: "loo"}},
		`Prior and Precision exclude each other`:                                                               {Prior: funcgp.Prior{At: "3", Precision: new(2.)}},
		`Method.Name is for posteriors over functions, and FitOptions.Structure full is one over parameters`:   {Structure: "full", Method: funcgp.Method{Name: "nystrom"}},
		`Calibrate loo takes a posterior over functions, and FitOptions.Predictive bnn is one over parameters`: {Predictive: "bnn", Calibrate: "loo"},
		`FitOptions.AtTheta is for posteriors over functions`:                                                  {Structure: "full", AtTheta: true},
		`FitOptions.Checkpoint is for Method.Name kept or nystrom, not exact`:                                  {Checkpoint: "c"},
		`FitOptions.InputMean: give numbers or a file`:                                                         {InputMean: funcgp.Numbers{Values: []float64{1}, File: "a.json"}},
	} {
		_, err := funcgp.Fit(t.Context(), funcgp.Model{File: "none.onnx"}, funcgp.Data{}, &o)
		require.ErrorContains(t, err, want)
	}
}

// A posterior over the parameters predicts, and refuses what takes one over functions.
func TestPosteriorOverParameters(t *testing.T) {
	for _, o := range []funcgp.FitOptions{{Structure: "diag"}, {Predictive: "bnn", Samples: 20}} {
		p := testref.Must(funcgp.Fit(t.Context(), funcgp.Model{}, funcgp.Data{TrainCount: 20}, &o))(t)
		rows := testref.Must(p.TestRows(t.Context(), 6))(t)
		require.Len(t, testref.Must(p.Predict(t.Context(), rows))(t), 1)
		require.Nil(t, p.Dual())
		require.Equal(t, "weights", p.Info().Method)
		testref.Must(p.Card(t.Context()))(t)
		for name, ask := range map[string]func() error{
			"Explain": func() error { return testref.Err(p.Explain(t.Context(), rows, nil)) },
			"influence": func() error {
				return testref.Err(p.Explain(t.Context(), rows, &funcgp.ExplainOptions{Influence: true}))
			},
			"Terms":               func() error { return testref.Err(p.Terms(t.Context(), rows, nil)) },
			"Audit":               func() error { return testref.Err(p.Audit(t.Context(), 2)) },
			"Importances":         func() error { return testref.Err(p.Importances(t.Context(), 2)) },
			"Evidence":            func() error { return testref.Err(p.Evidence(t.Context(), nil)) },
			"Validate":            func() error { return testref.Err(p.Validate(t.Context(), 0)) },
			"Without":             func() error { return testref.Err(p.Without(t.Context(), rows, 4)) },
			"WithoutToFirstOrder": func() error { return testref.Err(p.WithoutToFirstOrder(t.Context(), rows, 4)) },
			"WithoutRows":         func() error { return testref.Err(p.WithoutRows(t.Context(), []int{4})) },
			"Distance":            func() error { return testref.Err(p.Distance(t.Context())) },
			"Prepare":             func() error { return testref.Err(p.Prepare(t.Context())) },
			"Save":                func() error { return p.Save(t.Context(), filepath.Join(t.TempDir(), "a.gp"), nil) },
		} {
			require.ErrorContains(t, ask(), "this one is over the parameters; leave FitOptions.Structure and FitOptions.Predictive out of the fit", name)
		}
		require.NoError(t, p.Close())
	}
}

// A deferred posterior is made by the first question, whichever it is.
func TestDeferred(t *testing.T) {
	for _, ask := range []func(p *funcgp.Posterior, rows *funcgp.Rows) error{
		func(p *funcgp.Posterior, rows *funcgp.Rows) error {
			return testref.Err(p.Without(t.Context(), rows, 4))
		},
		func(p *funcgp.Posterior, _ *funcgp.Rows) error { return testref.Err(p.Audit(t.Context(), 2)) },
		func(p *funcgp.Posterior, _ *funcgp.Rows) error { return testref.Err(p.Card(t.Context())) },
		func(p *funcgp.Posterior, rows *funcgp.Rows) error {
			return testref.Err(p.Terms(t.Context(), rows, nil))
		},
		func(p *funcgp.Posterior, _ *funcgp.Rows) error {
			return p.Save(t.Context(), filepath.Join(t.TempDir(), "a.gp"), nil)
		},
	} {
		s := testref.Must(funcgp.Start(t.Context(), funcgp.Model{}, funcgp.Data{TrainCount: 20}, nil))(t)
		rows := testref.Must(s.Select(t.Context(), &funcgp.Query{Index: "6"}, 1))(t)
		p := testref.Must(s.Deferred(t.Context(), rows))(t)
		require.Empty(t, p.Info().Method)
		require.Panics(t, func() { p.Dual() })
		require.NoError(t, ask(p, rows))
		require.Equal(t, "exact", p.Info().Method)
		require.NoError(t, p.Close())
		s.Close() // which leaves nothing to close
	}
}
