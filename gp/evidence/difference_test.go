package evidence_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/evidence"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A case is a random problem under one kind of prior.
type problemCase struct {
	name string
	p    *evidence.Problem
}

// cases are every likelihood, also with saturated sites and one whose Λ has no slope
// of its own, under every kind of prior.
func cases(t *testing.T) []problemCase {
	t.Helper()
	problems := testkit.Problems(t)
	own := testkit.NewProblem("own-categorical", 8, 20, 3, struct{ gp.Likelihood }{glm.Categorical{}}, 1)
	own.Y = testkit.NewProblem("", 8, 20, 3, glm.Categorical{}, 1).Y
	var all []problemCase
	for _, q := range append(problems, own, testkit.Heteroscedastic()) {
		p := q.Train.P
		groups := ntk.ByLayer(ntk.Spans(q.Train), 1)
		add := func(kind string, prior ntk.Prior, g []ntk.Group) {
			all = append(all, problemCase{q.Name + "/" + kind, &evidence.Problem{X: q.Train, Y: q.Targets(), Theta: q.Theta, Prior: prior, Groups: g}})
		}
		isotropic := testref.Must(ntk.NewIsotropic(8, nil))(t)
		variance, ggn := make([]float64, p), make([]float64, p)
		for i := range variance {
			variance[i] = 0.1 * math.Exp(math.Sin(float64(i)))
			ggn[i] = 40 * (1 + math.Cos(float64(i)))
		}
		ggn[3] = 0
		diagonal := testref.Must(ntk.NewDiagonal(variance, []float64{0.05}))(t)
		g := testref.Must(ntk.NewGPrior(ggn, q.N, q.Theta, 0.1))(t)
		add("isotropic", isotropic, nil)
		add("layerwise", q.Prior, nil)
		add("diagonal", diagonal, groups)
		add("g-prior", g, groups)
	}
	return all
}

// everyPrior are the cases with half of the kinds of prior for each likelihood, in turn.
func everyPrior(t *testing.T) (half []problemCase) {
	t.Helper()
	for i, c := range cases(t) {
		if (i+i/4)%2 == 0 {
			half = append(half, c)
		}
	}
	return half
}

var forms = []evidence.Form{evidence.AtTheta, evidence.LinearGaussian, evidence.Refit, evidence.HeldSites}

// The derivatives in all log variances, and in that of the noise, are those by
// differences of the evidence, for every likelihood, prior and form, in both spaces.
func TestE10Differences(t *testing.T) {
	testref.Long(t, "takes long under the race detector; shorter tests run the same code")
	for _, c := range everyPrior(t) {
		inBothSpaces(t, c.name, func(t *testing.T, o *evidence.Options) {
			o.PerGroup = true
			m := testref.Must(evidence.New(t.Context(), c.p, o))(t)
			groups := len(m.Groups())
			for _, form := range forms {
				x := make([]float64, groups+1)
				for j := range x {
					x[j] = 0.3 * math.Cos(float64(j))
				}
				_, noisy := c.p.Y.Likelihood.(*glm.Gaussian)
				if !noisy {
					x[groups] = 0
				}
				rounding := 1e-12
				if _, ok := c.p.Y.Likelihood.(glm.Heteroscedastic); ok {
					rounding = 1e-9 // where Fisher scoring stops
				}
				at := func(x []float64) *evidence.Point {
					return testref.Must(m.At(t.Context(), form, x[:groups], x[groups]))(t)
				}
				here := at(x)
				grad := append(here.Gradient, here.NoiseGradient)
				if !noisy {
					require.True(t, math.IsNaN(here.NoiseGradient))
					grad = grad[:groups]
				}
				for k := range 2 { // along two directions, in which every variable has a part
					along := make([]float64, len(grad))
					for j := range along {
						along[j] = math.Cos(float64(1 + k + 3*j))
					}
					// Fourth order: the error is h⁴ of the fifth derivative, and the rounding
					// of the evidence over h.
					const h = 0.005
					shifted := func(steps float64) float64 {
						y := slices.Clone(x)
						floats.AddScaled(y[:len(along)], steps*h, along)
						return at(y).Evidence.Value
					}
					d, g := (8*(shifted(1)-shifted(-1))-(shifted(2)-shifted(-2)))/(12*h), floats.Dot(grad, along)
					require.InDelta(t, d, g, 1e-6*max(1, math.Abs(g))+rounding/h*math.Abs(here.Evidence.Value), "%v, direction %d", form, k)
				}
			}
		})
	}
}

// The slope at a variance of 0 is the derivative in the variance itself, from above.
func TestE10SlopeAtZero(t *testing.T) {
	testref.Long(t, "differences of evidences that other tests compute too")
	for _, c := range everyPrior(t) {
		inBothSpaces(t, c.name, func(t *testing.T, o *evidence.Options) {
			o.PerGroup = true
			m := testref.Must(evidence.New(t.Context(), c.p, o))(t)
			groups := len(m.Groups())
			for _, form := range forms[1:] {
				g := groups - 1
				at := func(factor float64) *evidence.Point {
					x := make([]float64, groups)
					x[g] = math.Log(factor)
					return testref.Must(m.At(t.Context(), form, x, 0))(t)
				}
				zero := at(0)
				require.Zero(t, zero.Gradient[g])
				// One-sided, of the second order. Parts of a small slope may cancel, whose third
				// derivatives do not: a larger step errs by more than the slope's tolerance.
				h, rounding := 1e-6/max(1, math.Abs(zero.Slope[g])), 2e-13
				_, scored := c.p.Y.Likelihood.(gp.Scored)
				if scored {
					// Fisher scoring ends where steps gain nothing, before the value is exact to rounding.
					h, rounding = 1e-6, 4e-12
				}
				one, two := at(h), at(2*h)
				if scored && len(zero.Warnings)+len(one.Warnings)+len(two.Warnings) > 0 {
					continue // Fisher scoring has not settled on a mode
				}
				v0, v1, v2 := zero.Evidence.Value, one.Evidence.Value, two.Evidence.Value
				d := (4*v1 - v2 - 3*v0) / (2 * h)
				require.InDelta(t, d, zero.Slope[g], 1e-5*max(1, math.Abs(d))+rounding/h*max(1, math.Abs(v0)), "%v", form)
			}
		})
	}
}

// Weight space and function space give the same evidence, derivatives and parts.
func TestSpacesAgree(t *testing.T) {
	for _, c := range everyPrior(t) {
		for _, form := range forms {
			var points []*evidence.Point
			for space := 1; space <= 2; space++ {
				x := testref.Must(evidence.Evaluate(t.Context(), c.p, form, evidence.Options{}.InSpace(space)))(t)
				points = append(points, x)
			}
			f, w := points[0], points[1]
			requireNumber(t, c.name, w.Evidence.Value, f.Evidence.Value, 1e-9)
			requireNumber(t, c.name+" log likelihood", w.Evidence.LogLik, f.Evidence.LogLik, 1e-8)
			requireNumber(t, c.name+" log det", w.Evidence.LogDet, f.Evidence.LogDet, 1e-9)
			for g := range f.Gradient {
				requireNumber(t, c.name+" gradient", w.Gradient[g], f.Gradient[g], 1e-8)
				requireNumber(t, c.name+" trace", w.Trace[g], f.Trace[g], 1e-9)
				requireNumber(t, c.name+" quad", w.Quad[g], f.Quad[g], 1e-8)
			}
		}
	}
}

// Kernels that do not fit into memory are formed again, with the same results.
func TestKernelsFormedAgain(t *testing.T) {
	for _, c := range cases(t)[:12] {
		n, outputs := c.p.X.Len(), c.p.X.Outputs()
		o := evidence.Options{PerGroup: true}.InSpace(1)
		held := testref.Must(evidence.Evaluate(t.Context(), c.p, evidence.Refit, o))(t)
		o.Memory = evidence.FunctionBytes(n, outputs)
		again := testref.Must(evidence.Evaluate(t.Context(), c.p, evidence.Refit, o))(t)
		requireNumber(t, c.name, again.Evidence.Value, held.Evidence.Value, 1e-10)
		for g := range held.Gradient {
			requireNumber(t, c.name, again.Gradient[g], held.Gradient[g], 1e-9)
		}
		o.Memory--
		memory := testref.As[*gp.MemoryError](t, testref.Err(evidence.Evaluate(t.Context(), c.p, evidence.Refit, o)))
		require.Less(t, memory.Largest, n)
		o = evidence.Options{Limits: linearize.Limits{Memory: 1000}}.InSpace(2)
		require.ErrorAs(t, testref.Err(evidence.Evaluate(t.Context(), c.p, evidence.Refit, o)), &memory)
		require.Equal(t, gp.Parameters, memory.Unit)
	}
}

// Results are the same to the last bit for any number of processors.
func TestAnyProcessors(t *testing.T) {
	for name, groups := range map[string]int{"poisson": 3, "gaussian-two-outputs": 3} {
		q := openToy(t, name)
		require.Len(t, q.p.Groups, groups)
		for space := 1; space <= 2; space++ {
			form := evidence.Refit
			if (name == "poisson") == (space == 1) {
				form = evidence.HeldSites
			}
			var want *evidence.Result
			for _, procs := range []int{1, 2, 7} {
				testref.Procs(t, procs)
				o := evidence.Options{PerGroup: true, Starts: 2, Noise: name != "poisson"}.InSpace(space)
				r, err := evidence.Maximize(t.Context(), q.p, form, o)
				require.NoError(t, err)
				if want == nil {
					want = r
					continue
				}
				require.Equal(t, want.Trials, r.Trials)
				require.Equal(t, want.Gradient, r.Gradient)
				require.Equal(t, want.Maxima, r.Maxima)
			}
		}
	}
}
