package gp_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// unsloped hides the methods of a likelihood but those of gp.Likelihood.
type unsloped struct{ gp.Likelihood }

// The total derivative of (E9), the mode moving, is that by differences of refits,
// with the slope of Λ that the likelihood gives and with differences of Λ.
func TestE10Refit(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		groups := []denseKernel{q.group(0, 5), q.group(5, 17), q.group(17, q.p)}
		kernels := make([]ntk.Kernel, len(groups))
		for g, k := range groups {
			kernels[g] = k
		}
		e := q.refit(t, nil)
		grad := testref.Must(testkit.GradientRefit(t.Context(), e, kernels, gp.NewTargets(q.y, q.lik)))(t)
		slow := grad
		if _, scored := q.lik.(gp.Scored); !scored {
			slow = testref.Must(testkit.GradientRefit(t.Context(), e, kernels, gp.NewTargets(q.y, unsloped{q.lik})))(t)
		}
		for g, k := range groups {
			value := func(shift float64) float64 {
				up := q.withGroup(k, math.Exp(shift))
				e := testref.Must(gp.Refit(t.Context(), up.kernel, q.train, gp.NewTargets(q.y, q.lik), nil))(t)
				return e.EvidenceRefit().Value
			}
			// The error is h⁴ of the fifth derivative, and the rounding of the evidence over h.
			const h = 0.005
			d := (8*(value(h)-value(-h)) - (value(2*h) - value(-2*h))) / (12 * h)
			allowed := 1e-6*max(1, math.Abs(d)) + 1e-12/h*math.Abs(value(0))
			require.InDelta(t, d, grad[g], allowed, "group %d", g)
			requireNumber(t, "without a slope", slow[g], grad[g], 1e-8)
		}
	})
	q := problems(t)[0]
	require.PanicsWithValue(t, "gp: the mode moves only in a refit", func() { testkit.GradientRefit(t.Context(), q.fit(t, nil), nil, gp.NewTargets(q.y, q.lik)) })
}

// The derivatives of tr(CΛ) are those by differences, from SlopeTo and without it.
func TestCurvatureSlope(t *testing.T) {
	for _, q := range problems(t) {
		cov := make([]float64, q.c*q.c)
		for a := range q.c {
			for b := range q.c {
				cov[a*q.c+b] = 0.3
			}
			cov[a*q.c+a] = 1 + float64(a)
		}
		got, slow := make([]float64, q.c), make([]float64, q.c)
		for i := range q.n {
			f := q.train.F.RawRowView(i)
			gp.NewTargets(q.y, q.lik).SlopeTo(got, i, f, cov)
			gp.NewTargets(q.y, unsloped{q.lik}).SlopeTo(slow, i, f, cov)
			for j := range got {
				require.InDelta(t, slow[j], got[j], 1e-9*max(1, math.Abs(slow[j])), "%s, example %d", q.name, i)
			}
		}
	}
}

// A posterior in the memory of another is the same, and the other is used up.
func TestReuse(t *testing.T) {
	for _, q := range problems(t) {
		other := q.withGroup(q.group(0, 9), 3)
		s := q.sites(t)
		want := q.fit(t, nil)
		from := testref.Must(gp.Fit(t.Context(), other.kernel, q.train, s, nil))(t)
		got, err := gp.Fit(t.Context(), q.kernel, q.train, s, &gp.Options{Reuse: from, Limits: linearize.Limits{Memory: 1}})
		require.NoError(t, err, "it takes no memory")
		require.Equal(t, want.Alpha(), got.Alpha())
		require.Equal(t, linearGaussian(t, want), linearGaussian(t, got))
		require.Panics(t, func() { gp.Fit(t.Context(), q.kernel, q.train, s, &gp.Options{Reuse: from}) })

		// A refit starts at the mode of the other, and ends at its own.
		from = testref.Must(gp.Refit(t.Context(), other.kernel, q.train, gp.NewTargets(q.y, q.lik), nil))(t)
		again := testref.Must(gp.Refit(t.Context(), q.kernel, q.train, gp.NewTargets(q.y, q.lik), &gp.Options{Reuse: from}))(t)
		cold := q.refit(t, nil)
		requireClose(t, q.name+": f", column(again.Sites().F), column(cold.Sites().F), 1e-9)
		requireNumber(t, q.name+": evidence", again.EvidenceRefit().Value, cold.EvidenceRefit().Value, 1e-9)
		var mean, coldMean mat.Dense
		require.NoError(t, again.PredictTo(context.Background(), &mean, nil, q.test))
		require.NoError(t, cold.PredictTo(context.Background(), &coldMean, nil, q.test))
		requireClose(t, q.name+": mean", &mean, &coldMean, 1e-8)

		// So does one that was moved to other sites in between.
		from = testref.Must(gp.Refit(t.Context(), other.kernel, q.train, gp.NewTargets(q.y, q.lik), nil))(t)
		for range 2 {
			from = testref.Must(from.Recondition(t.Context(), s))(t)
		}
		moved := testref.Must(gp.Refit(t.Context(), q.kernel, q.train, gp.NewTargets(q.y, q.lik), &gp.Options{Reuse: from}))(t)
		require.Equal(t, again.Alpha(), moved.Alpha())
		require.Equal(t, again.EvidenceRefit(), moved.EvidenceRefit())
	}
}
