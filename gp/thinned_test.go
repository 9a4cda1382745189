package gp_test

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Strengths, covariances and log determinants of kept rows are those of PyTorch at
// seven thresholds, and what is dropped only widens the posterior (E16).
func TestE16(t *testing.T) {
	for _, name := range toys {
		t.Run(name, func(t *testing.T) {
			r := openReference(t, name)
			s := r.sites(t)
			part := testref.Open(t, "selection/"+name)
			strengths, kept := part.Floats("site_strength"), part.Floats("site_kept")
			covs, logDets := part.Floats("site_kept_cov_test"), part.Floats("site_kept_log_det")
			exact := r.Floats("posterior_cov_test")
			n := r.Test.Len() * r.Test.Outputs() * r.Test.Outputs()
			c := r.Test.Outputs()
			for j, threshold := range part.Floats("site_threshold") {
				k := testref.Must(gp.Keep(t.Context(), r.Kernel, r.Train, s, &gp.KeepOptions{Strength: threshold}))(t)
				require.Equal(t, int(kept[j]), k.Len(), "rows with a strength above %v", threshold)
				var want []float64
				for _, v := range strengths {
					if v > threshold {
						want = append(want, v)
					}
				}
				testref.RequireClose(t, k.Strength, want, 1e-8, "strengths")
				thin := testref.Must(gp.FitKept(t.Context(), r.Kernel, r.Train, s, k, nil))(t)
				var mean, cov mat.Dense
				require.NoError(t, thin.PredictTo(t.Context(), &mean, &cov, r.Test))
				require.True(t, mat.Equal(r.Test.F, &mean))
				testref.RequireClose(t, flat(&cov), covs[j*n:(j+1)*n], 1e-8, "covariance")
				require.InEpsilon(t, logDets[j], thin.LogDet(), 1e-8)
				for i := range r.Test.Len() {
					wider := mat.NewSymDense(c, nil)
					for a := range c {
						for b := a; b < c; b++ {
							wider.SetSym(a, b, cov.At(i*c+a, b)-exact[(i*c+a)*c+b])
						}
					}
					var eigen mat.EigenSym
					require.True(t, eigen.Factorize(wider, false))
					require.GreaterOrEqual(t, eigen.Values(nil)[0], -1e-9*mat.Max(&cov), "test row %d", i)
				}
			}
		})
	}
}

// With all rows kept the posterior is the exact one, and so is what it predicts of each
// example without that example.
func TestThinnedOfAllRowsIsExact(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		thin, exact := q.thinned(t, nil), q.fit(t, nil)
		for what, predict := range map[string]func(l gp.Latent, mean, cov *mat.Dense) error{
			"prediction": func(l gp.Latent, mean, cov *mat.Dense) error { return l.PredictTo(t.Context(), mean, cov, q.test) },
			"joint":      func(l gp.Latent, mean, cov *mat.Dense) error { return l.JointTo(t.Context(), mean, cov, q.test) },
			"leave-one-out": func(l gp.Latent, mean, cov *mat.Dense) error {
				return l.(leaver).LeaveOneOutTo(t.Context(), mean, cov, dense.Range(q.n), q.train)
			},
		} {
			var mean, cov, wantMean, wantCov mat.Dense
			require.NoError(t, predict(thin, &mean, &cov))
			require.NoError(t, predict(exact, &wantMean, &wantCov))
			requireClose(t, what+", mean", &mean, &wantMean, 1e-9)
			requireClose(t, what+", covariance", &cov, &wantCov, 1e-9)
			var alone mat.Dense
			require.NoError(t, predict(thin, nil, &alone))
			require.True(t, mat.Equal(&cov, &alone))
		}
		var mean mat.Dense
		require.NoError(t, thin.LeaveOneOutTo(t.Context(), &mean, nil, []int{1}, q.some(t, 1)))
	})
}

type leaver interface {
	LeaveOneOutTo(ctx context.Context, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error
}

// thinned is the posterior of the rows that o keeps.
func (q *problem) thinned(t *testing.T, o *gp.KeepOptions) *gp.Thinned {
	t.Helper()
	s := q.sites(t)
	k := testref.Must(gp.Keep(t.Context(), q.kernel, q.train, s, o))(t)
	return testref.Must(gp.FitKept(t.Context(), q.kernel, q.train, s, k, nil))(t)
}

// Leaving out an example is to take its rows out of those that are kept, also where it
// keeps none.
func TestThinnedLeaveOneOutRemovesOwnRows(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		s := q.sites(t)
		thin := q.thinned(t, &gp.KeepOptions{Most: q.n * q.c / 2})
		require.LessOrEqual(t, thin.Kept().Len(), q.n*q.c/2)
		rows := dense.Range(min(q.n, 12))
		var mean, cov mat.Dense
		require.NoError(t, thin.LeaveOneOutTo(t.Context(), &mean, &cov, rows, q.train.Slice(0, len(rows))))
		for _, i := range rows {
			rest := withoutExample(thin.Kept(), i)
			again := testref.Must(gp.FitKept(t.Context(), q.kernel, q.train, s, rest, nil))(t)
			x := q.some(t, i)
			var want, step mat.Dense
			require.NoError(t, again.PredictTo(t.Context(), nil, &want, x))
			requireClose(t, "covariance", cov.Slice(i*q.c, (i+1)*q.c, 0, q.c), &want, 1e-9)
			step.Mul(&want, s.Residual.RowView(i))
			step.Sub(q.train.F.RowView(i), &step)
			requireClose(t, "mean", mean.RowView(i), &step, 1e-9)
		}
	})
}

func withoutExample(k *gp.Kept, i int) *gp.Kept {
	to := &gp.Kept{Total: k.Total}
	var directions []float64
	for j, at := range k.Examples {
		if at == i {
			continue
		}
		to.Examples, to.Lambda, to.Strength = append(to.Examples, at), append(to.Lambda, k.Lambda[j]), append(to.Strength, k.Strength[j])
		directions = append(directions, k.Directions.RawRowView(j)...)
	}
	_, c := k.Directions.Dims()
	to.Directions = mat.NewDense(len(to.Examples), c, directions)
	return to
}

// The strongest rows are kept; their traces and those of the others add up to tr Λ, and
// directions of an example are orthonormal.
func TestKeep(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		s := q.sites(t)
		all := testref.Must(gp.Keep(t.Context(), q.kernel, q.train, s, nil))(t)
		trace := 0.0
		for i := range q.n {
			trace += mat.Trace(s.Lambda.Slice(i*q.c, (i+1)*q.c, 0, q.c))
		}
		require.InEpsilon(t, trace, all.Total, 1e-12)
		require.InEpsilon(t, trace, all.Trace, 1e-12)
		for i, at := range all.Examples {
			for j := range i + 1 {
				if all.Examples[j] == at {
					want := map[bool]float64{true: 1}[i == j]
					require.InDelta(t, want, mat.Dot(all.Directions.RowView(i), all.Directions.RowView(j)), 1e-12)
				}
			}
		}
		most := max(1, all.Len()/3)
		some := testref.Must(gp.Keep(t.Context(), q.kernel, q.train, s, &gp.KeepOptions{Most: most}))(t)
		require.Equal(t, most, some.Len())
		require.IsNonDecreasing(t, some.Examples)
		require.Less(t, some.Trace, some.Total*(1+1e-12))
		requireStrongest(t, all, some, most)
	})
}

// requireStrongest checks that some are the strongest of the 2·most rows of all with the largest λ.
func requireStrongest(t *testing.T, all, some *gp.Kept, most int) {
	t.Helper()
	by := dense.Range(all.Len())
	slices.SortStableFunc(by, func(i, j int) int { return cmp.Compare(all.Lambda[j], all.Lambda[i]) })
	by = by[:min(len(by), 2*most)]
	slices.SortFunc(by, func(i, j int) int { return cmp.Compare(all.Strength[j], all.Strength[i]) })
	var want []float64
	for _, i := range by[:most] {
		want = append(want, all.Strength[i])
	}
	got := slices.Clone(some.Strength)
	slices.SortFunc(got, func(a, b float64) int { return cmp.Compare(b, a) })
	require.InDeltaSlice(t, want, got, 1e-12*want[0])
}

// TestKeepOfManyExamples keeps rows of more examples than are listed at once.
func TestKeepOfManyExamples(t *testing.T) {
	const n = 40000
	rng := rand.New(rand.NewPCG(1, 2))
	x := gptest.RandomBatch(rng, n, 2, gptest.Layer{In: 2, Out: 3})
	s := testref.Must(gp.NewSites(gp.NewTargets(testkit.Targets(rng, glm.Categorical{}, x.F), glm.Categorical{}), x.F))(t)
	kernel := ntk.New(testref.Must(ntk.NewIsotropic(1, nil))(t), make([]float64, x.P))
	all := testref.Must(gp.Keep(t.Context(), kernel, x, s, nil))(t)
	require.Greater(t, all.Len(), n-100, "one direction for each example that is not sure")
	some := testref.Must(gp.Keep(t.Context(), kernel, x, s, &gp.KeepOptions{Most: 100}))(t)
	require.Equal(t, all.Total, some.Total)
	requireStrongest(t, all, some, 100)
	dropped := testref.Must(some.Dropped(t.Context(), s))(t)
	require.InDelta(t, all.Len()-100, dropped.Len(), 100)
}

// Among restricts the rows to some examples. A bound of the prior variance changes nothing
// where it holds.
func TestKeepAmongAndBound(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		s := q.sites(t)
		keep := func(o gp.KeepOptions) *gp.Kept {
			return testref.Must(gp.Keep(t.Context(), q.kernel, q.train, s, &o))(t)
		}
		all := keep(gp.KeepOptions{})
		among := []int{1, 4, q.n - 1}
		var want []float64
		bound := 0.0
		for i, at := range all.Examples {
			if slices.Contains(among, at) {
				want = append(want, all.Strength[i])
			}
			bound = max(bound, all.Strength[i]/all.Lambda[i])
		}
		some := keep(gp.KeepOptions{Among: among})
		require.Equal(t, want, some.Strength)
		require.LessOrEqual(t, some.Total, all.Total)
		tau := all.Strength[all.Len()/2]
		require.Equal(t, keep(gp.KeepOptions{Strength: tau}), keep(gp.KeepOptions{Strength: tau, PriorVariance: 1.001 * bound}))
		small := 0.1 * bound
		for i, v := range keep(gp.KeepOptions{Strength: tau, PriorVariance: small}).Lambda {
			require.Greater(t, v*small, tau, "row %d", i)
		}
	})
}

// The first columns of H are those of the posterior of the first rows alone, and all of
// them give the covariance.
func TestHalfTo(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		thin := q.thinned(t, nil)
		var h, prior, cov mat.Dense
		require.NoError(t, thin.HalfTo(t.Context(), &h, q.test))
		rows, n := h.Dims()
		require.Equal(t, thin.Kept().Len(), n)
		prior.ReuseAs(rows, q.c)
		q.kernel.DiagTo(&prior, q.test)
		for _, first := range []int{n, n / 2} {
			k := thin.Kept()
			some := &gp.Kept{Examples: k.Examples[:first], Directions: k.Directions.Slice(0, first, 0, q.c).(*mat.Dense), Lambda: k.Lambda[:first], Strength: k.Strength[:first]}
			part := testref.Must(gp.FitKept(t.Context(), q.kernel, q.train, q.sites(t), some, nil))(t)
			require.NoError(t, part.PredictTo(t.Context(), nil, &cov, q.test))
			for i := range rows {
				sum := 0.0
				for j := range first {
					sum += h.At(i, j) * h.At(i, j)
				}
				require.InDelta(t, cov.At(i, i%q.c), prior.At(i, i%q.c)-sum, 1e-9*prior.At(i, i%q.c), "output %d", i)
			}
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, thin.HalfTo(done, new(mat.Dense), q.test), context.Canceled)
		require.Panics(t, func() { _ = thin.HalfTo(t.Context(), new(mat.Dense), &linearize.Batch{F: mat.NewDense(1, q.c, nil)}) })
	})
}

// The results do not depend on the number of processors, and a done context ends each of
// them.
func TestThinnedProcessorsAndCancel(t *testing.T) {
	q := problems(t)[4]
	s := q.sites(t)
	var before [3]mat.Dense
	for at, procs := range []int{1, 2, 5} {
		testref.Procs(t, procs)
		k := testref.Must(gp.Keep(t.Context(), q.kernel, q.train, s, &gp.KeepOptions{Most: q.n}))(t)
		thin := testref.Must(gp.FitKept(t.Context(), q.kernel, q.train, s, k, nil))(t)
		var got [3]mat.Dense
		require.NoError(t, thin.LeaveOneOutTo(t.Context(), &got[0], &got[1], dense.Range(q.n), q.train))
		require.NoError(t, thin.PredictTo(t.Context(), nil, &got[2], q.test))
		for i := range got {
			require.True(t, at == 0 || mat.Equal(&before[i], &got[i]), "%d processors", procs)
		}
		before = got

		done, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, testref.Err(gp.Keep(done, q.kernel, q.train, s, nil)), context.Canceled)
		require.ErrorIs(t, testref.Err(gp.FitKept(done, q.kernel, q.train, s, k, nil)), context.Canceled)
		require.ErrorIs(t, thin.LeaveOneOutTo(done, new(mat.Dense), nil, []int{0}, q.some(t, 0)), context.Canceled)
	}
}

func TestKeepRefusals(t *testing.T) {
	q := problems(t)[0]
	s := q.sites(t)
	// Of saturated examples none is kept.
	zero := *s
	zero.Lambda = mat.NewDense(q.n*q.c, q.c, nil)
	none := testref.Must(gp.Keep(t.Context(), q.kernel, q.train, &zero, nil))(t)
	require.Zero(t, none.Len())
	require.ErrorIs(t, testref.Err(gp.FitKept(t.Context(), q.kernel, q.train, &zero, none, nil)), gp.ErrNoExamples)
	k := testref.Must(gp.Keep(t.Context(), q.kernel, q.train, s, nil))(t)
	var memory *gp.MemoryError
	_, err := gp.FitKept(t.Context(), q.kernel, q.train, s, k, &gp.Options{Limits: linearize.Limits{Memory: 100}})
	require.ErrorAs(t, err, &memory)
	for _, o := range []gp.KeepOptions{{Strength: -1}, {Most: -1}, {PriorVariance: -1}} {
		require.Panics(t, func() { _, _ = gp.Keep(t.Context(), q.kernel, q.train, s, &o) })
	}
	require.Panics(t, func() { _, _ = gp.FitKept(t.Context(), q.kernel, q.train, s, k, &gp.Options{Mean: gp.LinearGaussian}) })
}

// Kept and dropped rows together are all rows.
func TestDropped(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		s := q.sites(t)
		all := q.thinned(t, nil).Kept()
		thin := q.thinned(t, &gp.KeepOptions{Most: max(1, all.Len()/2)})
		d := testref.Must(thin.Kept().Dropped(t.Context(), s))(t)
		require.Equal(t, all.Len(), d.Len()+thin.Kept().Len())
		require.InEpsilon(t, all.Total, d.Trace+thin.Kept().Trace, 1e-12)
		for j, i := range d.Examples {
			at := slices.IndexFunc(dense.Range(all.Len()), func(k int) bool {
				return all.Examples[k] == i && mat.Equal(all.Directions.RowView(k), d.Directions.RowView(j))
			})
			require.GreaterOrEqual(t, at, 0)
			require.Equal(t, all.Lambda[at], d.Lambda[j])
		}
		none := *s
		none.Lambda = mat.NewDense(q.n*q.c, q.c, nil)
		require.Panics(t, func() { _, _ = thin.Kept().Dropped(t.Context(), &none) })
	})
}

// Rows are drawn in proportion to their λ: the counts differ from what is expected by
// no more than five standard deviations.
func TestKeptDraw(t *testing.T) {
	k := &gp.Kept{Examples: []int{0, 0, 1, 4}, Lambda: []float64{1, 0, 3, 0.5}}
	const n = 10000
	counts := make([]float64, k.Len())
	for _, row := range k.Draw(n, rand.New(rand.NewPCG(1, 2))) {
		counts[row]++
	}
	for i, lambda := range k.Lambda {
		p := lambda / 4.5
		require.InDelta(t, n*p, counts[i], 5*math.Sqrt(n*p*(1-p)))
	}
}

// Representatives have the weights with which their sums have the mean of the sums over all rows, and where all
// rows are taken the posterior is that of all rows. Own rows are left out of a prediction without an example, and
// representatives are not.
func TestE16Represent(t *testing.T) {
	represented := 0
	each(t, func(t *testing.T, q *problem) {
		s := q.sites(t)
		all := q.thinned(t, nil)
		own := q.thinned(t, &gp.KeepOptions{Most: max(1, all.Kept().Len()/2)})
		rest := testref.Must(own.Kept().Dropped(t.Context(), s))(t)
		if rest.Len() < 2 {
			return // the sites are saturated: no more than one row is left
		}
		represented++
		exact := own.Kept().Represent(rest, rest.Len(), 0)
		require.Equal(t, rest.Len(), exact.Representatives)
		require.Equal(t, own.Kept().Len(), exact.Own())
		post := testref.Must(gp.FitKept(t.Context(), q.kernel, q.train, s, exact, nil))(t)
		var got, want mat.Dense
		require.NoError(t, post.PredictTo(t.Context(), nil, &got, q.test))
		require.NoError(t, all.PredictTo(t.Context(), nil, &want, q.test))
		require.True(t, mat.EqualApprox(&got, &want, 1e-9*mat.Max(&want)))
		require.InDelta(t, all.LogDet(), post.LogDet(), 1e-9*(1+all.LogDet()))
		require.InDelta(t, own.LogDet(), post.LogDetOwn(), 1e-9*(1+own.LogDet()))
		d := testref.Must(post.Dimension(t.Context()))(t)
		require.Greater(t, d, 0.0)
		require.Less(t, d, float64(rest.Len()))

		// Σ λ̃ over the rows of every example, by many draws
		for _, measure := range [][]float64{nil, slices.Repeat([]float64{1}, rest.Len())} {
			rest.Strength = measure
			const draws = 2000
			n := rest.Len() / 2
			mean, square := make([]float64, q.n), make([]float64, q.n)
			for seed := range uint64(draws) {
				k := own.Kept().Represent(rest, n, seed)
				require.LessOrEqual(t, k.Representatives, n)
				require.True(t, slices.IsSorted(k.Examples[k.Own():]))
				of := make([]float64, q.n)
				for i, at := range k.Representing().Examples {
					of[at] += k.Representing().Lambda[i]
				}
				for i, v := range of {
					mean[i] += v / draws
					square[i] += v * v / draws
				}
				if measure == nil {
					require.InEpsilon(t, rest.Trace, floats.Sum(k.Representing().Lambda), 1e-9)
				}
			}
			sum := make([]float64, q.n)
			for i, at := range rest.Examples {
				sum[at] += rest.Lambda[i]
			}
			for i := range sum {
				require.InDelta(t, sum[i], mean[i], 1e-9+5*math.Sqrt(max(0, square[i]-mean[i]*mean[i])/draws))
			}
		}

		// Without an example
		k := own.Kept().Represent(rest, rest.Len()/2, 1)
		some := testref.Must(gp.FitKept(t.Context(), q.kernel, q.train, s, k, nil))(t)
		for i := range q.n {
			var left, is mat.Dense
			require.NoError(t, some.LeaveOneOutTo(t.Context(), nil, &left, []int{i}, q.train.Slice(i, i+1)))
			var with []int
			for j, at := range k.Examples {
				if at != i || j >= k.Own() {
					with = append(with, j)
				}
			}
			less := &gp.Kept{Total: k.Total, Representatives: k.Representatives, Directions: mat.NewDense(len(with), q.c, nil)}
			for j, at := range with {
				less.Examples, less.Lambda, less.Strength = append(less.Examples, k.Examples[at]), append(less.Lambda, k.Lambda[at]), append(less.Strength, k.Strength[at])
				less.Directions.SetRow(j, k.Directions.RawRowView(at))
			}
			other := testref.Must(gp.FitKept(t.Context(), q.kernel, q.train, s, less, nil))(t)
			require.NoError(t, other.PredictTo(t.Context(), nil, &is, q.train.Slice(i, i+1)))
			require.True(t, mat.EqualApprox(&left, &is, 1e-8*mat.Max(&is)))
		}
	})
	require.GreaterOrEqual(t, represented, 7)
}
