package evidence_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/gp/evidence"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

var toys = []string{"snelson", "two-moons", "categorical", "categorical-diagonal-prior", "poisson", "gaussian-two-outputs"}

// A toy is a reference network with its numbers of model selection.
type toy struct {
	*testkit.Reference
	want *testref.Ref
	p    *evidence.Problem
}

func openToy(t testing.TB, name string) *toy {
	t.Helper()
	r := testkit.OpenReference(t, name)
	q := &toy{Reference: r, want: testref.Open(t, "selection/"+name)}
	var groups []ntk.Group
	offsets := q.want.Ints("group_offsets")
	for g, lo := range offsets[:len(offsets)-1] {
		groups = append(groups, ntk.Group{Name: string(rune('a' + g)), Spans: []linearize.Span{{Offset: lo, Rows: 1, Cols: offsets[g+1] - lo}}})
	}
	q.p = &evidence.Problem{X: r.Train, Y: r.Targets(), Theta: r.Net.Theta(), Prior: r.Prior, Groups: groups}
	return q
}

// The accuracy that the references state.
const tol = 1e-9

// The derivatives of all four evidences are those of the references, which come from
// weight space. That with the sites held takes its parts from two of the others.
func TestE10References(t *testing.T) {
	for _, name := range toys {
		inBothSpaces(t, name, func(t *testing.T, o *evidence.Options) {
			q := openToy(t, name)
			if q.Train.P > 1000 && o.InWeights() {
				t.Skip("takes seconds")
			}
			at := func(form evidence.Form) *evidence.Point {
				x := testref.Must(evidence.Evaluate(t.Context(), q.p, form, o))(t)
				require.Empty(t, x.Warnings)
				return x
			}
			theta, linear, refit := at(evidence.AtTheta), at(evidence.LinearGaussian), at(evidence.Refit)
			for _, c := range []struct {
				tensor string
				got    []float64
			}{
				{"d_evidence_d_log_s", theta.Gradient}, {"d_linear_d_log_s", linear.Gradient}, {"d_refit_d_log_s", refit.Gradient},
				{"d_refit_d_log_s_implicit", refit.Moving},
				{"trace_g", linear.Trace}, {"alpha_K_alpha_g", linear.Quad}, {"refit_trace_g", refit.Trace}, {"refit_alpha_K_alpha_g", refit.Quad},
			} {
				testref.RequireClose(t, c.got, q.want.Floats(c.tensor), tol, c.tensor)
			}
			explicit := make([]float64, len(refit.Quad))
			for g := range explicit {
				explicit[g] = refit.Quad[g]/2 - refit.Trace[g]/2
			}
			testref.RequireClose(t, explicit, q.want.Floats("d_refit_d_log_s_explicit"), tol, "explicit part")
			held := at(evidence.HeldSites)
			testref.RequireClose(t, held.Quad, q.want.Floats("refit_alpha_K_alpha_g"), tol, "α of the mode")
			testref.RequireClose(t, held.Trace, q.want.Floats("trace_g"), tol, "sites of θ*")
			requireNumber(t, "sites held", held.Evidence.Value, q.want.Scalar("refit_log_evidence")+q.Scalar("refit_log_det")/2-q.Scalar("log_det")/2, tol)
			if q.want.HasMeta("d_refit_d_log_sigma2") {
				requireNumber(t, "noise, sites held", held.NoiseGradient, q.want.Scalar("d_refit_d_log_sigma2"), tol)
			}
			for _, c := range []struct {
				x         *evidence.Point
				value, by string
			}{{theta, "log_evidence", "evidence"}, {linear, "log_evidence_linear_gaussian", "linear"}, {refit, "refit_log_evidence", "refit"}} {
				requireNumber(t, c.value, c.x.Evidence.Value, q.want.Scalar(c.value), tol)
				requireNumber(t, "d_"+c.by+"_d_log_factor", sum(c.x.Gradient), q.want.Scalar("d_"+c.by+"_d_log_factor"), tol)
				key := "d_" + c.by + "_d_log_sigma2"
				require.Equal(t, q.want.HasMeta(key), !math.IsNaN(c.x.NoiseGradient))
				if q.want.HasMeta(key) {
					requireNumber(t, key, c.x.NoiseGradient, q.want.Scalar(key), tol)
				}
			}
		})
	}
}

// inBothSpaces runs a test in function space and in weight space.
func inBothSpaces(t *testing.T, name string, do func(t *testing.T, o *evidence.Options)) {
	t.Run(name+"/functions", func(t *testing.T) { do(t, evidence.Options{}.InSpace(1)) })
	t.Run(name+"/weights", func(t *testing.T) { do(t, evidence.Options{}.InSpace(2)) })
}

func requireNumber(t *testing.T, what string, got, want, rel float64) {
	t.Helper()
	require.LessOrEqual(t, math.Abs(got-want), rel*math.Max(1, math.Abs(want)), "%s: %v, want %v", what, got, want)
}

func sum(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s
}
