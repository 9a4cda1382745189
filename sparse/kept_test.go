package sparse_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// keep keeps the rows of the training examples with s above τ.
func (q *problem) keep(t *testing.T, threshold float64) *gp.Kept {
	t.Helper()
	return testref.Must(gp.Keep(t.Context(), q.Kernel, q.Train, q.Sites(t), &gp.KeepOptions{Strength: threshold}))(t)
}

// half keeps the stronger half of the rows.
func (q *problem) half(t *testing.T) *gp.Kept {
	t.Helper()
	all := q.keep(t, 0)
	k, err := gp.Keep(t.Context(), q.Kernel, q.Train, q.Sites(t), &gp.KeepOptions{Most: max(1, all.Len()/2)})
	require.NoError(t, err)
	require.Less(t, k.Len(), max(2, all.Len()))
	return k
}

func (q *problem) fitKept(t *testing.T, k ntk.Kernel, x linearize.Source, kept *gp.Kept, z *sparse.Inducing, o *sparse.Options) *sparse.Posterior {
	t.Helper()
	return testref.Must(sparse.FitKept(t.Context(), k, x, q.Sites(t), kept, z, o))(t)
}

// requireAlike compares all that two posteriors give, but for the trace error.
func (q *problem) requireAlike(t *testing.T, got, want *sparse.Posterior, tol float64) {
	t.Helper()
	moments := func(p *sparse.Posterior) (mean, cov, joint, self mat.Dense) {
		require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, q.Test))
		require.NoError(t, p.JointTo(t.Context(), nil, &joint, q.Test))
		require.NoError(t, p.SplitTo(t.Context(), nil, &self, nil, q.Test))
		return mean, cov, joint, self
	}
	mean, cov, joint, self := moments(got)
	wantMean, wantCov, wantJoint, wantSelf := moments(want)
	requireClose(t, "mean", &mean, &wantMean, tol)
	requireClose(t, "covariance", &cov, &wantCov, tol)
	requireClose(t, "joint covariance", &joint, &wantJoint, tol)
	requireClose(t, "k_xZ A⁻¹ k_Zx", &self, &wantSelf, tol)
	requireClose(t, "α", vec(got.Alpha()), vec(want.Alpha()), tol)
	requireClose(t, "b", vec(got.PseudoTargets()), vec(want.PseudoTargets()), tol)
	requireClose(t, "Λ̃", got.Sites().Lambda, want.Sites().Lambda, 1e-12)
	requireClose(t, "R̃R̃ᵀ", squared(got.Sites().Root, q.C), got.Sites().Lambda, 1e-12)
	left, leftCov := q.leftOut(t, got, 1, 4, q.N-1)
	wantLeft, wantLeftCov := q.leftOut(t, want, 1, 4, q.N-1)
	requireClose(t, "mean without an example", left, wantLeft, tol)
	requireClose(t, "covariance without an example", leftCov, wantLeftCov, tol)
	for name, values := range map[string][2]float64{
		"evidence (E8)":         {got.Projected.EvidenceLinearGaussian().Value, want.Projected.EvidenceLinearGaussian().Value},
		"lower bound of (E8)":   {got.EvidenceLowerBound().Value, want.EvidenceLowerBound().Value},
		"evidence (E7)":         {got.EvidenceAtTheta(2).Value, want.EvidenceAtTheta(2).Value},
		"lower bound of (E7)":   {got.EvidenceAtThetaLowerBound(2).Value, want.EvidenceAtThetaLowerBound(2).Value},
		"number of examples":    {float64(got.Sums().Len()), float64(want.Sums().Len())},
		"rank of K_ZZ":          {float64(got.Rank()), float64(want.Rank())},
		"log likelihood at θ*":  {got.Sites().LogLik, want.Sites().LogLik},
		"training examples":     {float64(got.Data().Len()), float64(want.Data().Len())},
		"prior variance scaled": {scaledEvidence(t, got), scaledEvidence(t, want)},
	} {
		requireNumber(t, name, values[0], values[1], tol)
	}
	for _, terms := range []gp.Terms{gp.PosteriorTerms, gp.RawTerms} {
		requireClose(t, "cross", crossOf(t, got, q.Test, q.Train, 7, terms), crossOf(t, want, q.Test, q.Train, 7, terms), tol)
	}
	gradient := testref.Must(got.GradientLinearGaussian(t.Context(), q.groups()))(t)
	wantGradient := testref.Must(want.GradientLinearGaussian(t.Context(), q.groups()))(t)
	requireClose(t, "gradient", vec(gradient), vec(wantGradient), 100*tol)
	require.True(t, math.IsNaN(got.TraceError()))
}

func scaledEvidence(t *testing.T, p *sparse.Posterior) float64 {
	t.Helper()
	at := testref.Must(p.At(t.Context(), 2))(t)
	return at.EvidenceLinearGaussian().Value
}

// squared returns the blocks R Rᵀ.
func squared(root *mat.Dense, c int) *mat.Dense {
	r, _ := root.Dims()
	out := mat.NewDense(r, c, nil)
	for lo := 0; lo < r; lo += c {
		b := root.Slice(lo, lo+c, 0, c)
		out.Slice(lo, lo+c, 0, c).(*mat.Dense).Mul(b, b.T())
	}
	return out
}

// spans are the inducing elements that tests of kept rows take.
func (q *problem) spans(t *testing.T) map[string]*sparse.Inducing {
	return map[string]*sparse.Inducing{"examples": q.some(t), "all examples": q.all(t), "pairs": q.somePairs(t)}
}

// With all rows kept the posterior is that of Fit.
func TestE16AllRowsKeptIsFit(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		for _, z := range q.spans(t) {
			for _, o := range []*sparse.Options{nil, linear()} {
				q.requireAlike(t, q.fitKept(t, q.Kernel, q.Train, q.keep(t, 0), z, o), q.fit(t, z, o), 1e-9)
			}
		}
	})
}

// With fewer rows it is that of Fit given Λ̃_i = Σ_kept λuuᵀ, formed here entry by entry,
// and no variance is smaller than with all rows.
func TestE16KeptIsFitOfTheirSites(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		for _, kept := range []*gp.Kept{q.half(t), q.keep(t, 0.1)} {
			if kept.Len() == 0 {
				continue
			}
			s := q.Sites(t)
			thin := &gp.Sites{F: s.F, Residual: s.Residual, Lambda: mat.NewDense(q.N*q.C, q.C, nil), LogLik: s.LogLik}
			for i, at := range kept.Examples {
				for a := range q.C {
					for b := range q.C {
						v := kept.Lambda[i] * kept.Directions.At(i, a) * kept.Directions.At(i, b)
						thin.Lambda.Set(at*q.C+a, b, thin.Lambda.At(at*q.C+a, b)+v)
					}
				}
			}
			thin.Root = kept.Thin(s).Root
			requireClose(t, "R̃R̃ᵀ", squared(thin.Root, q.C), thin.Lambda, 1e-12)
			for _, z := range q.spans(t) {
				p := q.fitKept(t, q.Kernel, q.Train, kept, z, linear())
				want := testref.Must(sparse.Fit(t.Context(), q.Kernel, q.Train, thin, z, linear()))(t)
				q.requireAlike(t, p, want, 1e-9)

				all := q.fit(t, z, linear())
				var cov, least mat.Dense
				require.NoError(t, p.PredictTo(t.Context(), nil, &cov, q.Test))
				require.NoError(t, all.PredictTo(t.Context(), nil, &least, q.Test))
				for i := range q.T * q.C {
					v, w := cov.At(i, i%q.C), least.At(i, i%q.C)
					require.GreaterOrEqual(t, v, w*(1-1e-9))
				}
				require.LessOrEqual(t, p.EvidenceAtTheta(2).LogDet, all.EvidenceAtTheta(2).LogDet*(1+1e-12))
			}
		}
	})
}

// Kept rows of a singular K_ZZ give what Fit gives, also where the inducing examples are
// all, so that their features come from the factor.
func TestKeptOfSingularKernel(t *testing.T) {
	q := newProblemOf("singular", 31, 20, 3, glm.Categorical{}, 1, 4)
	for _, kept := range []*gp.Kept{q.keep(t, 0), q.half(t)} {
		for _, z := range []*sparse.Inducing{q.all(t), q.shuffledPairs(t)} {
			p := q.fitKept(t, q.Kernel, q.Train, kept, z, linear())
			want, err := sparse.Fit(t.Context(), q.Kernel, q.Train, kept.Thin(q.Sites(t)), z, linear())
			require.NoError(t, err)
			require.Less(t, p.Rank(), q.N*q.C)
			requireSame(t, p, want, q)
			requireClose(t, "α", vec(p.Alpha()), vec(want.Alpha()), 1e-7)
			requireNumber(t, "evidence", p.Projected.EvidenceLinearGaussian().Value, want.Projected.EvidenceLinearGaussian().Value, tol)
		}
	}
}

// It is all that a gp.Dual promises, and its sums (E12) and (E14) over all N examples
// are its mean.
func TestKeptConformance(t *testing.T) {
	for _, q := range []*problem{problems(t)[2], problems(t)[5]} {
		t.Run(q.Name, func(t *testing.T) {
			kept := q.half(t)
			p := q.fitKept(t, q.Kernel, q.Train, kept, q.all(t), linear())
			gptest.Dual(t, gptest.DualCase{LatentCase: gptest.LatentCase{Test: q.Test, Kernel: q.Kernel, Tol: 1e-10}, Dual: p, Train: q.Train, SumTol: 1e-9})
			p = q.fitKept(t, q.Kernel, q.Train, kept, q.some(t), linear())
			gptest.Latent(t, gptest.LatentCase{Latent: p, Test: q.Test, Kernel: q.Kernel, Tol: 1e-10})
			var mean mat.Dense
			require.NoError(t, p.PredictTo(t.Context(), &mean, nil, q.Test))
			for terms, weights := range map[gp.Terms][]float64{gp.PosteriorTerms: p.PseudoTargets(), gp.RawTerms: p.Alpha()} {
				sum := plus(q.MTest, 1, product(crossOf(t, p, q.Test, q.Train, 6, terms), vec(weights)))
				requireClose(t, "m + Σ over all examples", sum, column(&mean), 1e-9)
			}
		})
	}
}

// Results are the same to the last bit for any number of processors and any batches of
// the data, gathered or not.
func TestKeptBitIdentical(t *testing.T) {
	q := newProblem("many", 41, 900, 3, glm.Categorical{}, 1)
	kept, z := q.keep(t, 1e-3), q.inducing(t, 3, 9, 100, 555, 680)
	require.Greater(t, kept.Len(), linearize.Tile(1)/2)
	run := func(x linearize.Source, procs int) []float64 {
		testref.Procs(t, procs)
		p := q.fitKept(t, q.Kernel, x, kept, z, &sparse.Options{Mean: gp.LinearGaussian})
		all := q.everything(t, p)
		return all[:len(all)-1]
	}
	want := run(q.Train, 1)
	for _, procs := range []int{2, 3} {
		require.Equal(t, want, run(q.Train, procs), "GOMAXPROCS %d", procs)
	}
	for _, size := range []int{1, 64, 341} {
		require.Equal(t, want, run(testkit.InTiles(q.Train, size), 2), "tiles of %d", size)
	}
}

// A saved posterior of kept rows is loaded as it was.
func TestKeptSaved(t *testing.T) {
	for _, q := range []*problem{problems(t)[2], problems(t)[5]} {
		t.Run(q.Name, func(t *testing.T) {
			z, o := q.some(t), linear()
			p := q.fitKept(t, q.Kernel, q.Train, q.half(t), z, o)
			gptest.Saved(t, gptest.SavedCase[*sparse.Posterior]{Posterior: p, Save: (*sparse.Posterior).Save,
				Load: func(f *store.File) (*sparse.Posterior, error) {
					return sparse.Load(t.Context(), f, q.Kernel, q.Train, z, nil)
				},
				Answers: func(t *testing.T, p *sparse.Posterior) []float64 {
					all := q.everything(t, p)
					return all[:len(all)-1]
				}})
		})
	}
}

// Kept rows of parts of the data add up to those of all.
func TestKeptShards(t *testing.T) {
	q := problems(t)[5]
	z, kept := q.some(t), q.half(t)
	b := q.builder(t, z, linear())
	for _, part := range [][2]int{{0, 9}, {9, q.N}} {
		own := &gp.Kept{Directions: new(mat.Dense)}
		var rows []int
		for i, e := range kept.Examples {
			if e >= part[0] && e < part[1] {
				rows = append(rows, i)
				own.Examples, own.Lambda = append(own.Examples, e-part[0]), append(own.Lambda, kept.Lambda[i])
			}
		}
		own.Directions = pick(kept.Directions, rows)
		x, s := q.rows(t, seq(part[0], part[1]))
		require.NoError(t, b.AddKept(t.Context(), x, s, own))
	}
	got := testref.Must(b.Posterior(t.Context()))(t)
	dual := testref.Must(got.WithKept(t.Context(), q.Train, q.Sites(t), kept))(t)
	q.requireAlike(t, dual, q.fitKept(t, q.Kernel, q.Train, kept, z, linear()), 1e-9)
}

func TestKeptRefusals(t *testing.T) {
	q := problems(t)[5]
	fit := func(ctx context.Context, k ntk.Kernel, kept *gp.Kept, o *sparse.Options) error {
		_, err := sparse.FitKept(ctx, k, q.Train, q.Sites(t), kept, q.some(t), o)
		return err
	}
	kept := q.half(t)
	require.ErrorIs(t, fit(t.Context(), q.Kernel, &gp.Kept{Directions: new(mat.Dense)}, nil), gp.ErrNoExamples)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, fit(ctx, q.Kernel, kept, nil), context.Canceled)
	other := *kept
	other.Examples = append([]int{q.N}, kept.Examples[1:]...)
	require.Panics(t, func() { _ = fit(t.Context(), q.Kernel, &other, nil) })

	// The example is named, not the row.
	last := kept.Examples[kept.Len()-1]
	e := testref.As[*gp.NotFiniteError](t, fit(t.Context(), brokenFor{q.Kernel, q.Train.X.RawRowView(last)}, kept, nil))
	require.Equal(t, last, e.Row)
}

// brokenFor is a kernel whose entries of one example are NaN.
type brokenFor struct {
	*ntk.NTK
	x []float64
}

func (k brokenFor) BlockTo(dst *mat.Dense, a, b *linearize.Batch) {
	k.NTK.BlockTo(dst, a, b)
	c := a.Outputs()
	for i := range a.Len() {
		if a.X.At(i, 0) != k.x[0] {
			continue
		}
		for r := i * c; r < (i+1)*c; r++ {
			for j := range b.Len() * b.Outputs() {
				dst.Set(r, j, math.NaN())
			}
		}
	}
}

// Through kept rows as inducing elements everything is (E13) with their combinations of
// the rows of K, against explicit inverses.
func TestKeptRowsInduceE13(t *testing.T) {
	for _, q := range pairProblems(t) {
		t.Run(q.Name, func(t *testing.T) {
			kept := q.half(t)
			for _, how := range []sparse.Selector{nil, sparse.Greedy{}, sparse.Uniform{Seed: 3}} {
				m := min(kept.Len(), 9)
				z := testref.Must(sparse.SelectKept(t.Context(), how, q.Kernel, q.Train, kept, m, nil))(t)
				require.True(t, z.Pairs())
				require.Equal(t, m, z.Len())
				u := mat.NewDense(m, q.N*q.C, nil) // which rows of K, with which weights
				for i, at := range z.Rows {
					for a := range q.C {
						u.Set(i, at*q.C+a, z.Directions.At(i, a))
					}
				}
				p := q.fitKept(t, q.Kernel, q.Train, kept, z, linear())
				zz, zn, zt := product(u, q.KTrain, u.T()), product(u, q.KTrain), product(u, q.KCross.T())
				a := plus(zz, 1, product(zn, whole(p.Sites().Lambda), zn.T()))
				inv := inverse(t, a)
				var mean, cov mat.Dense
				require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, q.Test))
				requireClose(t, "mean", column(&mean), plus(q.MTest, 1, product(zt.T(), inv, zn, vec(p.PseudoTargets()))), 1e-7)
				want := plus(q.KTest, -1, product(zt.T(), plus(inverse(t, zz), -1, inv), zt))
				requireClose(t, "covariance", &cov, diagonalBlocks(want, q.C), 1e-7)
				want1, err := sparse.Fit(t.Context(), q.Kernel, q.Train, p.Sites(), z, linear())
				require.NoError(t, err)
				requireClose(t, "α", vec(p.Alpha()), vec(want1.Alpha()), 1e-8)
			}
		})
	}
}

// Where all kept rows are inducing elements the variances are those of the exact
// posterior of the kept rows, and with the first rows they are those of the first.
func TestAllKeptRowsInduceIsExact(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		for _, kept := range []*gp.Kept{q.half(t), q.keep(t, 0)} {
			x := testref.Must(gp.FitKept(t.Context(), q.Kernel, q.Train, q.Sites(t), kept, nil))(t)
			z := testref.Must(sparse.SelectKept(t.Context(), nil, q.Kernel, q.Train, kept, kept.Len(), nil))(t)
			p := q.fitKept(t, q.Kernel, q.Train, kept, z, nil)
			var cov, want mat.Dense
			require.NoError(t, p.PredictTo(t.Context(), nil, &cov, q.Test))
			require.NoError(t, x.PredictTo(t.Context(), nil, &want, q.Test))
			requireClose(t, "covariance", &cov, &want, 1e-7)
			require.InDelta(t, x.LogDet(), p.EvidenceAtTheta(0).LogDet, 1e-6*(1+math.Abs(x.LogDet())))
		}
	})
}

// A posterior through kept rows is loaded as it was, and through other rows not at all.
func TestKeptRowsInduceSaved(t *testing.T) {
	for _, q := range []*problem{problems(t)[2], problems(t)[5]} {
		t.Run(q.Name, func(t *testing.T) {
			kept := q.half(t)
			z := testref.Must(sparse.SelectKept(t.Context(), nil, q.Kernel, q.Train, kept, 5, nil))(t)
			p := q.fitKept(t, q.Kernel, q.Train, kept, z, linear())
			for name, given := range map[string]*sparse.Inducing{"gathered": nil, "given": z} {
				t.Run(name, func(t *testing.T) {
					s := q.saved(t.Context(), p, given)
					s.Answers = func(t *testing.T, p *sparse.Posterior) []float64 {
						all := q.everything(t, p)
						return all[:len(all)-1]
					}
					gptest.Saved(t, s)
				})
			}
			other := *z
			other.Directions = mat.DenseCopyOf(z.Directions)
			other.Directions.Scale(-1, other.Directions)
			path := t.TempDir() + "/posterior.gp"
			require.NoError(t, store.Write(path, "test", 1, p.Save))
			f := testref.Must(store.Open(path, "test", 1))(t)
			defer f.Close()
			for _, z := range []*sparse.Inducing{&other, q.pairs(t, 1, 2, 3, 4, 5), q.inducing(t, 1, 2, 3, 4, 5)} {
				_, err := sparse.Load(t.Context(), f, q.Kernel, q.Train, z, nil)
				require.ErrorContains(t, err, "inducing")
			}
			first := testref.Must(p.Leading(t.Context(), 3))(t)
			require.Equal(t, 3, first.Rank())
		})
	}
	q := problems(t)[5]
	_, err := sparse.SelectKept(t.Context(), nil, q.Kernel, q.Train, q.half(t), 1000, nil)
	testref.As[*sparse.CountError](t, err)
}
