package sparse_test

import (
	"math"
	"testing"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// at returns the kernel with the variance of group g times exp(h); the prior
// mean is zero shift there too.
func (q *problem) at(g int, h float64) ntk.Kernel {
	groups := q.Prior.Groups()
	groups[g].Precision *= math.Exp(-h)
	prior, err := ntk.NewLayerwise(q.Train.P, groups, []float64{0.1})
	if err != nil {
		panic(err)
	}
	return ntk.New(prior, q.Theta, nil)
}

// The derivatives in log s_g, sites fixed, are those of finite differences of
// the evidence (E10). Central differences of step 1e-4 are off by 1e-8 of the
// third derivative and 1e-12 of the evidence.
func TestE10Gradients(t *testing.T) {
	const h, tol = 1e-4, 2e-6
	both(t, func(t *testing.T, q *problem, a sparse.Approximation) {
		z, s, o := q.some(t), q.Sites(t), linear(a)
		p := q.fit(t, z, o)
		linearGaussian := testref.Must(p.GradientLinearGaussian(t.Context(), q.groups()))(t)
		scatter := make([]float64, len(linearGaussian))
		atTheta := testref.Must(p.GradientAtTheta(t.Context(), q.groups(), scatter))(t)
		for g := range linearGaussian {
			difference := func(f func(p *sparse.Posterior) float64) float64 {
				var v [2]float64
				for i, sign := range []float64{1, -1} {
					p := testref.Must(sparse.Fit(t.Context(), q.at(g, sign*h), q.Train, s, z, o))(t)
					v[i] = f(p)
				}
				return (v[0] - v[1]) / (2 * h)
			}
			requireNumber(t, "evidence", linearGaussian[g], difference(func(p *sparse.Posterior) float64 { return p.EvidenceLinearGaussian().Value }), tol)
			requireNumber(t, "at θ*", atTheta[g], difference(func(p *sparse.Posterior) float64 { return p.EvidenceAtTheta(0).Value }), tol)
		}
	})
}

// With M = N the gradients are those of the exact posterior, and with a
// subset those of the subset's.
func TestE10GradientsOfExact(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		scatter := make([]float64, len(q.groups()))
		check := func(p *sparse.Posterior, train *linearize.Batch, s *gp.Sites) {
			x := testref.Must(gp.Fit(t.Context(), q.Kernel, train, s, nil))(t)
			want := testref.Must(testkit.GradientLinearGaussian(t.Context(), x, q.groups()))(t)
			got := testref.Must(p.GradientLinearGaussian(t.Context(), q.groups()))(t)
			requireClose(t, "gradient", vec(got), vec(want), 1e-7)
			want = testref.Must(testkit.GradientAtTheta(t.Context(), x, q.groups(), scatter))(t)
			got = testref.Must(p.GradientAtTheta(t.Context(), q.groups(), scatter))(t)
			requireClose(t, "gradient at θ*", vec(got), vec(want), 1e-7)
		}
		for _, a := range approximations {
			check(q.fit(t, q.all(t), linear(a)), q.Train, q.Sites(t))
		}
		z := q.some(t)
		_, s := q.rows(t, z.Rows)
		p := testref.Must(sparse.FitSubset(t.Context(), q.Kernel, q.Train, s, z, nil))(t)
		check(p, z.Batch, s)
	})
}
