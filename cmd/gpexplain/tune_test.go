package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
)

// tuned fits the reference with --tune-prior.
func (r *reference) tuned(t *testing.T, args ...string) result.Saved {
	t.Helper()
	return decode[result.Saved](t, r.run(t, "fit", append([]string{"--json", "--calibrate", "none", "-o", filepath.Join(t.TempDir(), "a.gp")}, args...)...))
}

// By the evidence the choice is the reference's maximizer of (E9) under a common
// factor eᶜ on the prior variances (reference/selection).
func TestTunePriorByEvidence(t *testing.T) {
	for name, c := range map[string]float64{"categorical": 1.430, "poisson": 0.542} {
		ref := openReference(t, name)
		r := ref.tuned(t, "--tune-prior", "evidence")
		require.InDelta(t, c, math.Log(ref.Scalar("delta")/float64(r.Fit.PriorPrecision)), 0.05, name)
		require.Equal(t, "tuned", r.Fit.Match.Used)
		require.Greater(t, float64(*r.Fit.Tuning.Shift), 0.0)
		require.Nil(t, r.Trials[0].NLL)
	}
}

// Without a flag, --tune-prior chooses the noise variance of a Gaussian too. By the evidence, both are the
// reference's maximizer of (E9); by either score, no other noise variance has a better precision.
func TestTunePriorAndNoise(t *testing.T) {
	ref := openReference(t, "snelson")
	for _, how := range []string{"evidence", "loo"} {
		tuned := func(args ...string) (precision, noise, best float64) {
			r := ref.tuned(t, append(args, "--tune-prior", how)...)
			best = math.Inf(1)
			for _, x := range r.Trials {
				best = min(best, x.Score())
			}
			return float64(r.Fit.PriorPrecision), float64(*r.Fit.NoiseVariance), best
		}
		precision, noise, best := tuned()
		if how == "evidence" {
			require.InDelta(t, .357, math.Log(ref.Scalar("delta")/precision), .05)
			require.InDelta(t, -2.484, math.Log(noise), .03)
		}
		for _, by := range []float64{.8, 1, 1.25} {
			at, given, other := tuned("--noise-variance", strconv.FormatFloat(by*noise, 'g', -1, 64))
			require.InEpsilon(t, by*noise, given, 1e-12)
			if by == 1 {
				require.InEpsilon(t, precision, at, 5e-2, how) // the least is flat
				require.InDelta(t, best, other, 1e-3, how)
			} else {
				require.Greater(t, other, best, how)
			}
		}
	}
}

// Every method and score chooses the best of its trials, and the posterior is the
// refit at that precision. Nyström through all examples chooses what exact does.
func TestTunePriorByRefits(t *testing.T) {
	ref := openReference(t, "poisson")
	for _, how := range []string{"loo", "evidence"} {
		chosen := map[string]float64{}
		for method, args := range map[string][]string{"exact": nil, "subset": {"--inducing", "80"}, "nystrom": {"--inducing", "80"}, "parameters": nil} {
			args = append([]string{"--method", method}, args...)
			r := ref.tuned(t, append(args, "--tune-prior", how)...)
			best := r.Trials[0]
			for _, x := range r.Trials {
				if x.Score() < best.Score() {
					best = x
				}
			}
			require.Equal(t, best.PriorPrecision, r.Fit.PriorPrecision, method)
			require.False(t, r.Fit.Tuning.Edge)
			number := strconv.FormatFloat(float64(r.Fit.PriorPrecision), 'g', -1, 64)
			same := ref.tuned(t, append(args, "--refit", "--prior-precision", number)...)
			require.InEpsilon(t, float64(same.Fit.LogEvidence), float64(r.Fit.LogEvidence), 1e-9, method)
			if how == "evidence" {
				require.InEpsilon(t, float64(same.Fit.LogEvidence), -best.Score(), 1e-7, method)
			}
			chosen[method] = float64(r.Fit.PriorPrecision)
		}
		for method, precision := range chosen {
			require.InEpsilon(t, chosen["exact"], precision, 1e-4, "%s by %s", method, how)
		}
	}
}

// Where the network was trained at this precision, answers stay there. At another that a flag orders
// they are there too, and a line names the match.
func TestAnswersAtAnOrder(t *testing.T) {
	ref := openReference(t, "two-moons")
	fit := func(args ...string) (result.Fit, string) {
		_, sum := predicted(t, ref.run(t, "predict", append([]string{"--json"}, args...)...))
		return sum.Fit, fmt.Sprint(sum.Fit.Warnings, sum.Fit.Remarks)
	}
	f, says := fit()
	require.EqualValues(t, .13, f.PriorPrecision)
	require.NotContains(t, says, "Answers are at")
	f, says = fit("--prior-precision", "10")
	require.Equal(t, "given", f.Match.Used)
	require.EqualValues(t, 10, f.PriorPrecision)
	require.InDelta(t, .13, float64(f.Match.Precision), .02)
	require.Contains(t, says, "Answers are at δ = 10 as given. The linearized model fits the training rows as the network does at δ = 0.1")
	f, _ = fit("--at", "0.5")
	require.EqualValues(t, .5, f.PriorPrecision)
	require.EqualValues(t, .13, *f.StatedPrecision)
	for _, args := range [][]string{{"--at", "0"}, {"--at", "mtach"}, {"--at", "stated", "--prior-precision", "2"}} {
		require.Contains(t, refuse(t, 2, append(append([]string{"predict"}, ref.args...), args...)...), "--at")
	}
}

func TestJoinTune(t *testing.T) {
	for in, want := range map[string]string{
		"fit --tune-prior loo -o a":   "fit --tune-prior=loo -o a",
		"fit --tune-prior -o a":       "fit --tune-prior -o a",
		"fit -o a --tune-prior":       "fit -o a --tune-prior",
		"fit -- --tune-prior loo":     "fit -- --tune-prior loo",
		"fit --tune-prior=loo --json": "fit --tune-prior=loo --json",
	} {
		require.Equal(t, strings.Fields(want), flags.JoinTune(strings.Fields(in)), in)
	}
}

// The match, ordered by its own number, has the answers of the default, and the noise variance of a regression too. At
// another number σ² is the same (E21).
func TestOrderedMatch(t *testing.T) {
	cases := frontCases(t)
	for _, method := range []string{"kept", "nystrom", "parameters"} { // of a regression
		c := cases[slices.IndexFunc(cases, func(c frontCase) bool { return c.name == "house-prices" })]
		c.name, c.fit.Method.Name, c.args = method+" of a regression", method, slices.Concat(c.args, []string{"--method", method})
		cases = append(cases, c)
	}
	for _, c := range cases {
		if c.name == "precision" { // ordered already
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			predict := func(args ...string) ([]prediction, result.Fit) {
				rows, summary := linesOf[prediction](t, succeed(t, slices.Concat([]string{"predict", "--json", "--quiet"}, c.args, args)...))
				return rows, summary.Fit
			}
			want, byDefault := predict()
			delta := float64(byDefault.PriorPrecision)
			if byDefault.Match.Used == "match" {
				require.Equal(t, byDefault.PriorPrecision, byDefault.Match.Precision)
			}
			typed := strconv.FormatFloat(delta, 'g', -1, 64)
			near := func(want, got []result.Float, what string) {
				require.Len(t, got, len(want))
				for j, v := range want {
					require.InDelta(t, float64(v), float64(got[j]), 1e-9*max(1, math.Abs(float64(v))), what)
				}
			}
			for _, flag := range []string{"--at", "--prior-precision"} {
				got, fit := predict(flag, typed)
				require.Equal(t, "given", fit.Match.Used)
				for i, x := range got {
					near(want[i].Mean, x.Mean, "mean")
					near(want[i].Probability, x.Probability, "probability")
					near(want[i].ObservationSD, x.ObservationSD, "observation sd")
					near(want[i].Covariance[0], x.Covariance[0], "covariance")
				}
				if byDefault.NoiseVariance != nil {
					near([]result.Float{*byDefault.NoiseVariance}, []result.Float{*fit.NoiseVariance}, "noise variance")
					_, fit := predict(flag, strconv.FormatFloat(8*delta, 'g', -1, 64))
					near([]result.Float{*byDefault.NoiseVariance}, []result.Float{*fit.NoiseVariance}, "noise variance")
					require.InEpsilon(t, 8*delta, float64(fit.PriorPrecision), 1e-12)
					if byDefault.Match.Used == "match" {
						require.InEpsilon(t, delta, float64(fit.Match.Precision), 1e-12)
					}
				}
			}
			c.fit.Prior = funcgp.Precision(delta)
			p, err := funcgp.Fit(t.Context(), c.model, c.data, &c.fit)
			require.NoError(t, err)
			defer p.Close()
			for i, x := range testref.Must(p.Predict(t.Context(), testref.Must(p.TestRows(t.Context()))(t)))(t) {
				near(want[i].Mean, x.Mean, "mean")
				near(want[i].Probability, x.Probability, "probability")
				near(want[i].ObservationSD, x.ObservationSD, "observation sd")
			}
		})
	}
}
