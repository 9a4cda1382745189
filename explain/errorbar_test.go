package explain_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// targetsOf are all outputs and, where there are several, a contrast.
func targetsOf(c int) []explain.Target {
	var list []explain.Target
	for k := range c {
		list = append(list, explain.Single(k))
	}
	if c > 1 {
		list = append(list, explain.Contrast(c-1, 0))
	}
	return list
}

// explained returns every term of every target, by position of the example.
func explained(t *testing.T, d gp.Dual, prior explain.PriorMean, x *linearize.Batch, o explain.Options) [][]explain.Explanation {
	t.Helper()
	o.Top, o.ErrorBars = d.Data().Len(), true
	o.Targets = targetsOf(x.Outputs())
	e := testref.Must(explain.New(d, prior, &o))(t)
	rows := testref.Must(e.Explain(t.Context(), x))(t)
	for _, row := range rows {
		for k := range row {
			terms := make([]explain.Term, len(row[k].Terms))
			for _, term := range row[k].Terms {
				terms[term.Index] = term
			}
			row[k].Terms = terms
		}
	}
	return rows
}

// variances returns wᵀ C(x*,x*) w of each row and target.
func variances(t *testing.T, p gp.Latent, x *linearize.Batch) [][]float64 {
	t.Helper()
	var cov mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), nil, &cov, x))
	c := x.Outputs()
	v := make([][]float64, x.Len())
	for r := range v {
		for _, to := range targetsOf(c) {
			w := mat.NewVecDense(c, nil)
			w.SetVec(to.Plus, 1)
			if to.IsContrast() {
				w.SetVec(to.Minus(), -1)
			}
			v[r] = append(v[r], mat.Inner(w, dense.Slice(&cov, r*c, (r+1)*c), w))
		}
	}
	return v
}

// sitesWithout are all sites but that of example i.
func sitesWithout(s *gp.Sites, i int) *gp.Sites {
	n, c := s.F.Dims()
	drop := func(m *mat.Dense, rows int) *mat.Dense {
		_, cols := m.Dims()
		to := mat.NewDense((n-1)*rows, cols, nil)
		at := 0
		for k := range n * rows {
			if k/rows != i {
				to.SetRow(at, m.RawRowView(k))
				at++
			}
		}
		return to
	}
	return &gp.Sites{F: drop(s.F, 1), Residual: drop(s.Residual, 1), Lambda: drop(s.Lambda, c), Root: drop(s.Root, c), LogLik: s.LogLik}
}

// TestE17VarianceReductionIsARefit compares with the variance of posteriors fitted without
// each example at the same sites, for every likelihood and method.
func TestE17VarianceReductionIsARefit(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		posts := everyPosterior(t, q)
		var err error
		posts["kept"], err = kept.Refit(t.Context(), q.Train, q.Targets(), q.Prior, q.Theta, nil)
		require.NoError(t, err)
		for name, d := range posts {
			t.Run(q.Name+"/"+name, func(t *testing.T) {
				whole := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, d.Sites(), nil))(t)
				before := variances(t, whole, q.Test)
				rows := explained(t, d, q.Kernel, q.Test, explain.Options{})
				for i := range q.N {
					x, _ := leaveOut(t, q.Train, q.Y, i)
					left := testref.Must(gp.Fit(t.Context(), q.Kernel, x, sitesWithout(d.Sites(), i), nil))(t)
					after := variances(t, left, q.Test)
					for r := range rows {
						for k := range rows[r] {
							got := rows[r][k].Terms[i]
							// the difference of two variances loses digits, and that
							// of conjugate gradients ends early
							require.InDelta(t, after[r][k]-before[r][k], got.VarianceReduction, 1e-7*after[r][k])
							require.GreaterOrEqual(t, got.VarianceReduction, 0.0)
							require.InEpsilon(t, 1+got.VarianceReduction, 1+got.SD()*got.SD(), 1e-12)
						}
					}
				}
			})
		}
	}
}

// TestE17VarianceReductionThroughInducing compares with posteriors without each example
// through the same inducing examples. Where they explain less than everything, the
// reduction is that of the part that goes through them.
func TestE17VarianceReductionThroughInducing(t *testing.T) {
	for _, q := range withoutProblems(t) {
		z, _ := gatherOf(t, q, 0, 2, 3, 7, 8, 9, 15, 16, 19)
		post := testref.Must(sparse.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), z, nil))(t)
		before := variances(t, post, q.Test)
		rows := explained(t, post, q.Kernel, q.Test, explain.Options{})
		for i := range q.N {
			x, y := leaveOut(t, q.Train, q.Y, i)
			left, err := sparse.Refit(t.Context(), q.Kernel, x, gp.NewTargets(y, q.Likelihood), &sparse.Inducing{Batch: z.Batch}, nil)
			require.NoError(t, err)
			after := variances(t, left, q.Test)
			for r := range rows {
				for k := range rows[r] {
					require.InDelta(t, after[r][k]-before[r][k], rows[r][k].Terms[i].VarianceReduction, 1e-9*after[r][k])
				}
			}
		}
	}
}

// Where each example alone fixes the function at its own input, both the reduction and the
// variance without it keep their digits: the leverage here is 1 − 1e-4 to 1 − 1e-12.
func TestVarianceReductionAtFullLeverage(t *testing.T) {
	for _, c := range []int{1, 2} {
		for _, delta := range []float64{1e-2, 1e-5, 1e-8, 1e-10} {
			rng := rand.New(rand.NewPCG(uint64(c), 6))
			const n, p = 24, 120
			x, test := wide(rng, n, c, p), wide(rng, 3, c, p)
			lik := testref.Must(glm.NewGaussian(1))(t)
			prior := testref.Must(ntk.NewIsotropic(delta, nil))(t)
			k := ntk.New(prior, make([]float64, p))
			y := normals(rng, n, c)
			post := testref.Must(gp.Refit(t.Context(), k, x, gp.NewTargets(y, lik), nil))(t)
			before := variances(t, post, test)
			rows := explained(t, post, k, test, explain.Options{})
			var got, want []float64
			for i := range n {
				without, yWithout := leaveOut(t, x, y, i)
				left := testref.Must(gp.Refit(t.Context(), k, without, gp.NewTargets(yWithout, lik), nil))(t)
				after := variances(t, left, test)
				for r := range rows {
					for o := range rows[r] {
						got, want = append(got, rows[r][o].Terms[i].VarianceReduction), append(want, after[r][o]-before[r][o])
					}
				}
			}
			testref.RequireClose(t, got, want, 1e-8, "variance reduction") // the refits' own rounding
		}
	}
}

// draws calls do with the data where the label of example i is drawn anew from what a
// refit without it predicts, by quadrature points: ±√C along each axis of the predictive
// have its mean and covariance, and a term is linear in the label.
func draws(t *testing.T, q *testkit.Problem, i int, noise *mat.SymDense, do func(post *gp.Exact)) (n int) {
	t.Helper()
	x, y := leaveOut(t, q.Train, q.Y, i)
	left := testref.Must(gp.Refit(t.Context(), q.Kernel, x, gp.NewTargets(y, q.Likelihood), nil))(t)
	var mean, cov mat.Dense
	require.NoError(t, left.PredictTo(t.Context(), &mean, &cov, q.Train.Slice(i, i+1)))
	total := mat.NewSymDense(q.C, nil)
	for a := range q.C {
		for b := a; b < q.C; b++ {
			total.SetSym(a, b, cov.At(a, b)+noise.At(a, b))
		}
	}
	var chol mat.Cholesky
	require.True(t, chol.Factorize(total))
	var l mat.TriDense
	chol.LTo(&l)
	for a := range q.C {
		for _, sign := range []float64{-1, 1} {
			drawn := mat.DenseCopyOf(q.Y)
			for b := range q.C {
				drawn.Set(i, b, mean.At(0, b)+sign*math.Sqrt(float64(q.C))*l.At(b, a))
			}
			post := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, gp.NewTargets(drawn, q.Likelihood), nil))(t)
			do(post)
			n++
		}
	}
	return n
}

// TestErrorBarsAreThoseOfLabelsDrawnAnew draws the label of every example from the
// predictive of a refit without it, and computes the terms again. Their standard deviation
// is SD, and the variance of the mean at x* is the reduction: what a label takes off the
// variance is how much it moves the mean.
func TestErrorBarsAreThoseOfLabelsDrawnAnew(t *testing.T) {
	noises := []*mat.SymDense{mat.NewSymDense(1, []float64{0.2}), mat.NewSymDense(2, []float64{0.3, 0.1, 0.1, 0.2})}
	for p, q := range withoutProblems(t) {
		post := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
		rows := explained(t, post, q.Kernel, q.Test, explain.Options{})
		for i := range q.N {
			var sums, squares, means, meanSquares [20][3]float64
			n := draws(t, q, i, noises[p], func(post *gp.Exact) {
				for r, row := range explained(t, post, q.Kernel, q.Test, explain.Options{}) {
					for k, one := range row {
						v, f := one.Terms[i].Value, one.PriorMean+one.Sum
						sums[r][k] += v
						squares[r][k] += v * v
						means[r][k] += f
						meanSquares[r][k] += f * f
					}
				}
			})
			for r := range rows {
				for k := range rows[r] {
					m, f := sums[r][k]/float64(n), means[r][k]/float64(n)
					got := rows[r][k].Terms[i]
					require.InEpsilon(t, squares[r][k]/float64(n)-m*m, got.VarianceReduction, 1e-6)
					require.InEpsilon(t, meanSquares[r][k]/float64(n)-f*f, got.VarianceReduction, 1e-6)
					require.Equal(t, math.Abs(got.Value) > 2*got.SD(), got.Distinguishable())
				}
			}
		}
	}
}

// TestDistinguishable fits a line through the origin. Where the targets are noise alone,
// the share of terms that are marked is that of a normal beyond two standard deviations;
// where they lie on a steep line, those of all inputs that are not near zero are marked.
func TestDistinguishable(t *testing.T) {
	testref.Long(t, "a posterior of many rows by code that the other tests of error bars run too")
	const n, noise = 2000, .5
	rng := rand.New(rand.NewPCG(9, 6))
	lik := testref.Must(glm.NewGaussian(noise * noise))(t)
	prior := testref.Must(ntk.NewIsotropic(1e-2, nil))(t)
	k := ntk.New(prior, make([]float64, 1))
	line := func(x *mat.Dense) *linearize.Batch {
		rows, _ := x.Dims()
		return &linearize.Batch{F: mat.NewDense(rows, 1, nil), P: 1, Blocks: []linearize.Block{
			&linearize.Full{J: x, C: 1, Params: []linearize.Span{{Name: "slope", Rows: 1, Cols: 1}}}}}
	}
	x := normals(rng, n, 1)
	marked := func(slope float64) (share float64) {
		y := normals(rng, n, 1)
		y.Apply(func(i, _ int, v float64) float64 { return slope*x.At(i, 0) + noise*v }, y)
		post := testref.Must(gp.Refit(t.Context(), k, line(x), gp.NewTargets(y, lik), nil))(t)
		for i, term := range explained(t, post, k, line(mat.NewDense(1, 1, []float64{1})), explain.Options{})[0][0].Terms {
			// b_i = y_i/σ² with the standard deviation √(σ² + cov_−i)/σ²
			require.InEpsilon(t, math.Abs(y.At(i, 0))/noise, math.Abs(term.Value)/term.SD(), 1e-2)
			if term.Distinguishable() {
				share += 1. / n
			}
		}
		return share
	}
	require.InDelta(t, 2*.0228, marked(0), 4*math.Sqrt(.0456*.9544/n))
	require.Greater(t, marked(20), .9)
}

// The residual of a class label that is drawn given f has the covariance Λ, on which the
// error bars of classes rest: here over all classes, with their probabilities.
func TestResidualOfADrawnClassHasCovarianceLambda(t *testing.T) {
	f := []float64{.3, -1.2, 2, .4}
	prob := make([]float64, 4)
	glm.Categorical{}.MeanTo(prob, f)
	var lambda, got mat.Dense
	lambda.ReuseAs(4, 4)
	got.ReuseAs(4, 4)
	for y, p := range prob {
		r := make([]float64, 4)
		glm.Categorical{}.Expand(r, lambda.RawMatrix().Data, nil, []float64{float64(y)}, f)
		got.RankOne(&got, p, mat.NewVecDense(4, r), mat.NewVecDense(4, r))
	}
	testkit.RequireClose(t, "covariance", &got, &lambda, 1e-14)
}

// With rows dropped an example that keeps none has the error bar of its whole Λ_i, and the
// numbers do not depend on the number of processors.
func TestErrorBarsOfKeptRows(t *testing.T) {
	for _, q := range testkit.Problems(t)[2:] {
		post, err := kept.Refit(t.Context(), q.Train, q.Targets(), q.Prior, q.Theta, &kept.Options{Strength: .3})
		require.NoError(t, err)
		rows := explained(t, post, q.Kernel, q.Test, explain.Options{})
		cross := testkit.CrossOf(t, post, q.Test, q.Train, 7, gp.PosteriorTerms)
		var cov mat.Dense
		require.NoError(t, post.LeaveOneOutTo(t.Context(), nil, &cov, dense.Range(q.N), q.Train))
		for r := range rows {
			for k := range q.C {
				for i := range q.N {
					c := cross.Slice(r*q.C+k, r*q.C+k+1, i*q.C, (i+1)*q.C)
					lambda := dense.Slice(post.Sites().Lambda, i*q.C, (i+1)*q.C)
					moved := testkit.Product(lambda, dense.Slice(&cov, i*q.C, (i+1)*q.C), lambda)
					moved.Add(moved, lambda)
					want := testkit.Product(c, moved, c.T()).At(0, 0)
					require.InDelta(t, want, rows[r][k].Terms[i].VarianceReduction, 1e-10*(1e-10+want))
				}
			}
		}
		testref.Procs(t, 3)
		require.Equal(t, rows, explained(t, post, q.Kernel, q.Test, explain.Options{}))
	}
}

// Without Options.ErrorBars there are none.
func TestNoErrorBars(t *testing.T) {
	q := testkit.Problems(t)[0]
	post := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
	e := testref.Must(explain.New(post, q.Kernel, nil))(t)
	rows := testref.Must(e.Explain(t.Context(), q.Test))(t)
	require.Zero(t, rows[0][0].Terms[0].VarianceReduction)
	require.False(t, rows[0][0].Terms[0].Distinguishable())
	require.Nil(t, rows[0][0].Layers)
}
