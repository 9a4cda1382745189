package evidence_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/evidence"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
)

// The refit's evidence with the sites of θ* held, and the parts of its derivatives, are
// those of a refit with dense matrices at these sites, and its log det is that of a fit.
func TestHeldSitesDense(t *testing.T) {
	for _, c := range everyPrior(t) {
		inBothSpaces(t, c.name, func(t *testing.T, o *evidence.Options) {
			o.PerGroup = true
			m := testref.Must(evidence.New(t.Context(), c.p, o))(t)
			groups := m.Groups()
			x, factor := make([]float64, len(groups)), make([]float64, len(groups))
			for g := range x {
				x[g] = 0.8 * math.Sin(float64(g+1))
				factor[g] = math.Exp(x[g])
			}
			p := c.p
			prior := testref.Must(ntk.NewScaled(p.Prior, len(p.Theta), groups, factor))(t)
			k := ntk.New(prior, p.Theta)
			refit := testref.Must(gp.Refit(t.Context(), k, p.X, p.Y, nil))(t)
			if _, scored := p.Y.Likelihood.(gp.Scored); scored && len(refit.Warnings()) > 0 {
				return // Fisher scoring has not settled on a mode
			}
			s := testref.Must(gp.NewSites(p.Y, p.X.F))(t)
			fit := testref.Must(gp.Fit(t.Context(), k, p.X, s, nil))(t)

			variance := make([]float64, len(p.Theta))
			prior.VarianceTo(variance)
			var j mat.Dense
			p.X.JacobianTo(&j)
			kernel := func(of func(i int) bool) *mat.Dense {
				scaled := mat.DenseCopyOf(&j)
				scaled.Apply(func(_, i int, v float64) float64 {
					if !of(i) {
						return 0
					}
					return v * variance[i]
				}, scaled)
				return testkit.Product(scaled, j.T())
			}
			root := testkit.Whole(s.Root)
			b := testkit.Product(root.T(), kernel(func(int) bool { return true }), root)
			nc, _ := b.Dims()
			b.Add(b, testkit.Identity(nc))
			inverse, alpha := testkit.Inverse(t, b), testkit.Vec(refit.Alpha())

			// A point elsewhere first, whose mode the Newton steps then start at.
			require.NoError(t, testref.Err(m.Value(t.Context(), evidence.HeldSites, make([]float64, len(x)), 0)))
			got := testref.Must(m.At(t.Context(), evidence.HeldSites, x, 0))(t)
			at := refit.EvidenceRefit()
			requireNumber(t, "log likelihood", got.Evidence.LogLik, at.LogLik, 1e-8)
			requireNumber(t, "scatter", got.Evidence.Scatter, at.Scatter, 1e-8)
			requireNumber(t, "log det", got.Evidence.LogDet, testkit.LogDet(b), 1e-9)
			requireNumber(t, "log det of a fit", got.Evidence.LogDet, fit.LogDet(), 1e-9)
			requireNumber(t, "evidence", got.Evidence.Value, at.LogLik-at.Scatter/2-testkit.LogDet(b)/2, 1e-9)
			require.Nil(t, got.Moving)
			for g, group := range groups {
				kg := kernel(func(i int) bool {
					for _, s := range group.Spans {
						if s.Offset <= i && i < s.Offset+s.Len() {
							return true
						}
					}
					return false
				})
				trace := mat.Trace(testkit.Product(inverse, root.T(), kg, root))
				quad := testkit.Product(alpha.T(), kg, alpha).At(0, 0)
				requireNumber(t, "trace", got.Trace[g], trace, 1e-8)
				requireNumber(t, "quad", got.Quad[g], quad, 1e-8)
				requireNumber(t, "gradient", got.Gradient[g], quad/2-trace/2, 1e-8)
			}
		})
	}
}

// For a Gaussian the sites do not move: the value and all derivatives, also in the
// noise variance, are those of the refit and of the linear-Gaussian model.
func TestHeldSitesGaussian(t *testing.T) {
	checked := 0
	for _, c := range cases(t) {
		if _, gaussian := c.p.Y.Likelihood.(*glm.Gaussian); !gaussian {
			continue
		}
		checked++
		inBothSpaces(t, c.name, func(t *testing.T, o *evidence.Options) {
			o.PerGroup = true
			m := testref.Must(evidence.New(t.Context(), c.p, o))(t)
			x := make([]float64, len(m.Groups()))
			for g := range x {
				x[g] = 0.5 * math.Cos(float64(g))
			}
			held := testref.Must(m.At(t.Context(), evidence.HeldSites, x, 0.4))(t)
			for _, form := range []evidence.Form{evidence.Refit, evidence.LinearGaussian} {
				want := testref.Must(m.At(t.Context(), form, x, 0.4))(t)
				requireNumber(t, form.String(), held.Evidence.Value, want.Evidence.Value, 1e-10)
				requireNumber(t, "noise", held.NoiseGradient, want.NoiseGradient, 1e-9)
				for g := range x {
					requireNumber(t, "gradient", held.Gradient[g], want.Gradient[g], 1e-9)
					requireNumber(t, "slope", held.Slope[g], want.Slope[g], 1e-9)
				}
			}
		})
	}
	require.Equal(t, 8, checked)
}

// The best common factor is where MacKay's update δ = γ/‖v*−μ₀‖², with γ at the sites
// of θ* and v* found anew each time, stands still.
func TestHeldSitesMacKay(t *testing.T) {
	testref.Long(t, "maximizes anew for every step of MacKay's update, by code that TestAnyProcessors runs too")
	for _, c := range []string{"bernoulli", "poisson", "categorical", "heteroscedastic"} {
		q := testkit.Heteroscedastic()
		p := &evidence.Problem{X: q.Train, Y: q.Targets(), Theta: q.Theta, Prior: q.Prior}
		if c != "heteroscedastic" {
			p = random(t, c)
		}
		inBothSpaces(t, c, func(t *testing.T, o *evidence.Options) {
			best := testref.Must(evidence.Maximize(t.Context(), p, evidence.HeldSites, o))(t)
			require.True(t, best.Settled)
			require.Empty(t, best.Zero)
			require.Empty(t, best.AtEdge)
			require.InDelta(t, 0, best.Gradient[0], 1e-6)
			requireNumber(t, "γ", best.Trace[0], best.Evidence.Scatter, 1e-6)
			for _, trial := range best.Trials {
				require.LessOrEqual(t, trial.Evidence, best.Evidence.Value+1e-9*math.Abs(best.Evidence.Value))
			}
			one := best.Prior.Groups()
			s := testref.Must(gp.NewSites(p.Y, p.X.F))(t)
			factor := math.Exp(best.LogFactor[0] + 0.1)
			for range 400 {
				prior := testref.Must(ntk.NewScaled(p.Prior, len(p.Theta), one, []float64{factor}))(t)
				k := ntk.New(prior, p.Theta)
				refit := testref.Must(gp.Refit(t.Context(), k, p.X, p.Y, nil))(t)
				fit := testref.Must(gp.Fit(t.Context(), k, p.X, s, nil))(t)
				terms := testref.Must(fit.GroupTerms(t.Context(), []ntk.Kernel{k}))(t)
				// ‖v*−μ₀‖² in units of the variances at a factor of 1, over γ
				next := factor * refit.EvidenceRefit().Scatter / terms.Trace[0]
				if math.Abs(next/factor-1) < 1e-9 {
					break
				}
				factor = next
			}
			require.InDelta(t, best.LogFactor[0], math.Log(factor), 1e-6)
		})
	}
}

func TestFormNames(t *testing.T) {
	seen := map[string]bool{}
	for _, form := range forms {
		seen[form.String()] = true
	}
	require.Len(t, seen, 4)
}
