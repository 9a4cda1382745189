package funcgp_test

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// toys are the references that come with their data and one target a row.
var toys = []string{"two-moons", "snelson", "poisson", "categorical"}

// A toy is a folder of testdata/reference in memory.
type toy struct {
	*testref.Ref
	model funcgp.Model
	data  funcgp.Data
	n     int
}

// openToy reads a reference, whose network says of its training what the reference does.
func openToy(t *testing.T, name string) *toy {
	t.Helper()
	r := testref.Open(t, name)
	net := testref.Must(network.ReadONNX(bytes.NewReader(r.Model(t)), nil))(t)
	meta := map[string]string{"funcgp.likelihood": r.Meta("likelihood"), "funcgp.prior_precision": r.Meta("delta")}
	if r.HasMeta("sigma2") {
		meta["funcgp.noise_variance"] = r.Meta("sigma2")
	}
	n := int(r.Scalar("N"))
	return &toy{r, funcgp.Model{Network: net.WithMetadata(meta)}, funcgp.Data{X: r.Matrix("x_train"), Y: mat.NewDense(n, 1, r.Floats("y_train"))}, n}
}

// fit fits the toy, whose inputs are as they are. The test closes it.
func (r *toy) fit(t *testing.T, o funcgp.FitOptions) *funcgp.Posterior {
	t.Helper()
	o.Standardize = "no"
	p := testref.Must(funcgp.Fit(t.Context(), r.model, r.data, &o))(t)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// The lists are the first rows of the scores of all rows, in their order, for classes and for regressions.
func TestAudit(t *testing.T) {
	for _, name := range toys {
		r := openToy(t, name)
		a := testref.Must(r.fit(t, funcgp.FitOptions{}).Audit(t.Context(), 5))(t)
		require.Len(t, a.Scores, r.n, name)
		require.Equal(t, r.n, a.Examples)
		scores, sum, suspects := map[result.Index]*result.AuditScores{}, 0., 0
		for i := range a.Scores {
			x := &a.Scores[i]
			scores[x.Index] = x
			sum += float64(x.Leverage)
			if x.Suggested.Finite() && x.Suggested != x.Label {
				suspects++
			}
		}
		require.InDelta(t, float64(a.Effective), sum, 1e-9*(1+sum), name)
		classes := a.Suspects != nil
		if classes {
			require.Equal(t, suspects, *a.Suspects, name)
			require.Len(t, a.Mislabelled, min(5, suspects), name)
			require.Len(t, a.Boundary, 5)
		} else {
			require.Len(t, a.Mislabelled, 5)
			require.Empty(t, a.Boundary)
		}
		above := math.Inf(-1)
		for _, x := range a.Mislabelled {
			own := scores[x.Index]
			require.Equal(t, own.LogDensity, x.LogDensity)
			require.GreaterOrEqual(t, float64(x.LogDensity), above)
			above = float64(x.LogDensity)
			if classes {
				require.NotEqual(t, x.Label, *x.Suggested)
				require.Greater(t, *x.SuggestedProbability, *x.LabelProbability)
			} else {
				largest := slices.MaxFunc(x.Residual, func(a, b result.Float) int { return int(math.Copysign(1, math.Abs(float64(a))-math.Abs(float64(b)))) })
				require.Equal(t, own.Residual, largest)
			}
			for k, s := range x.Supports {
				require.Positive(t, float64(s.Value))
				require.NotEqual(t, x.Index, s.Index)
				require.True(t, k == 0 || s.Value <= x.Supports[k-1].Value)
			}
		}
		for k, x := range a.Leverage {
			require.True(t, k == 0 || x.Leverage <= a.Leverage[k-1].Leverage)
			require.Equal(t, scores[x.Index].Leverage, x.Leverage)
		}
	}
}

// A saved posterior gives the same audit, and other methods audit what they can leave out.
func TestAuditOfOtherPosteriors(t *testing.T) {
	fit := func(o funcgp.FitOptions) *funcgp.Posterior {
		model := funcgp.Model{Freeze: []string{"Dense1.weight"}} // which leaves 1387 parameters
		p := testref.Must(funcgp.Fit(t.Context(), model, funcgp.Data{TrainCount: 60}, &o))(t)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		return p
	}
	p, file := fit(funcgp.FitOptions{}), filepath.Join(t.TempDir(), "a.gp")
	want := testref.Must(p.Audit(t.Context(), 0))(t)
	require.NoError(t, p.Save(t.Context(), file, nil))
	again := testref.Must(funcgp.Open(t.Context(), file, nil))(t)
	defer again.Close()
	got := testref.Must(again.Audit(t.Context(), 20))(t)
	require.Equal(t, len(want.Mislabelled), len(got.Mislabelled))
	for k := range want.Mislabelled {
		require.Equal(t, want.Mislabelled[k].Index, got.Mislabelled[k].Index)
		require.InDelta(t, float64(want.Mislabelled[k].LogDensity), float64(got.Mislabelled[k].LogDensity), 1e-6)
	}
	require.ErrorContains(t, testref.Err(p.Audit(t.Context(), -1)), "0 for 20")
	for _, method := range []funcgp.Method{{Name: "nystrom", Inducing: 20}, {Name: "subset", Inducing: 20}, {Name: "parameters"}, {Name: "kept", Within: .05}} {
		a := testref.Must(fit(funcgp.FitOptions{Method: method, Calibrate: "none"}).Audit(t.Context(), 0))(t)
		if method.Name == "subset" { // of the other rows it knows nothing
			require.Equal(t, 20, a.Examples)
			require.Equal(t, want.Mislabelled, a.Mislabelled)
			require.EqualValues(t, 20, linearize.FindWarning(a.Fit.Warnings, "rows-sampled").Value)
		} else {
			require.Equal(t, 60, a.Examples, fmt.Sprint(method))
		}
	}
}

// Labels are judged by a regression of them, which is the same for every posterior, and counts by the posterior.
func TestAuditByLabels(t *testing.T) {
	for _, name := range toys {
		r := openToy(t, name)
		a := testref.Must(r.fit(t, funcgp.FitOptions{}).Audit(t.Context(), 7))(t)
		if name == "poisson" {
			require.Equal(t, "posterior", a.By)
			require.Nil(t, a.Noise)
			continue
		}
		require.Equal(t, "labels", a.By)
		require.Positive(t, float64(*a.Noise))
		require.Equal(t, r.n, a.Examples)
		other := testref.Must(r.fit(t, funcgp.FitOptions{Prior: funcgp.Stated()}).Audit(t.Context(), 7))(t)
		require.Equal(t, a.Mislabelled, other.Mislabelled)
	}
}
