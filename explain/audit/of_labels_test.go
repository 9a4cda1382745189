package audit_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

func labelsOf(y *mat.Dense) []int {
	out := make([]int, y.RawMatrix().Rows)
	for i := range out {
		out[i] = int(y.At(i, 0))
	}
	return out
}

// at yields linearizations.
func at(draws ...*linearize.Batch) iter.Seq2[*linearize.Batch, error] {
	return func(yield func(*linearize.Batch, error) bool) {
		for _, x := range draws {
			if !yield(x, nil) {
				return
			}
		}
	}
}

// correlationOf is ρ of a kernel whose outputs are added up.
func correlationOf(q *testkit.Problem) *mat.Dense {
	rho := mat.NewDense(q.N, q.N, nil)
	sum := func(i, j int) (v float64) {
		for r := range q.C {
			v += q.KTrain.At(i*q.C+r, j*q.C+r)
		}
		return v
	}
	rho.Apply(func(i, j int, _ float64) float64 { return sum(i, j) / math.Sqrt(sum(i, i)*sum(j, j)) }, rho)
	return rho
}

func targetsOf(labels []int, c int) *mat.Dense {
	target := mat.NewDense(len(labels), c, nil)
	for i, label := range labels {
		for k := range c {
			switch {
			case c == 1:
				target.Set(i, 0, float64(label)-0.5)
			case k == label:
				target.Set(i, k, 1-1/float64(c))
			default:
				target.Set(i, k, -1/float64(c))
			}
		}
	}
	return target
}

// ridge predicts example i from the others, with their weights.
func ridge(t *testing.T, k, target *mat.Dense, noise float64, i int) (mean, weights *mat.Dense) {
	n, c := target.Dims()
	rest, own, others := mat.NewDense(n-1, n-1, nil), mat.NewDense(1, n-1, nil), mat.NewDense(n-1, c, nil)
	without := func(a int) int {
		if a >= i {
			return a + 1
		}
		return a
	}
	for a := range n - 1 {
		for b := range n - 1 {
			rest.Set(a, b, k.At(without(a), without(b)))
		}
		own.Set(0, a, k.At(i, without(a)))
		others.SetRow(a, target.RawRowView(without(a)))
	}
	short := testkit.Product(own, testkit.Inverse(t, testkit.Plus(rest, noise, testkit.Identity(n-1))))
	weights = mat.NewDense(1, n, nil)
	for a := range n - 1 {
		weights.Set(0, without(a), short.At(0, a))
	}
	return testkit.Product(short, others), weights
}

// The errors of leave-one-out are those of a ridge regression without each example
// [rw 5.4.2], the smallest chooses power and noise, and probabilities, leverages, supports
// and pairs are those of it. No number depends on the outputs or the number of processors.
func TestOfLabelsIsRidgeRegression(t *testing.T) {
	for _, c := range []int{1, 3} {
		q, _ := separated(t, c)
		labels := labelsOf(q.Y)
		o := &audit.Options{LeastCorrelation: 1e-6, Top: q.N * q.N, Supports: q.N}
		found := testref.Must(audit.OfLabels(t.Context(), q.Kernel, at(q.Train, q.Train), q.Y, max(2, c), o))(t)
		target, rho := targetsOf(labels, c), correlationOf(q)
		best := found.Tried[0]
		power := func(p int) *mat.Dense {
			var k mat.Dense
			k.Apply(func(_, _ int, v float64) float64 { return math.Pow(v, float64(p)) }, rho)
			return &k
		}
		for _, tried := range found.Tried {
			if tried.Error < best.Error {
				best = tried
			}
			sum := 0.0
			for i := range q.N {
				mean, _ := ridge(t, power(tried.Power), target, tried.Noise, i)
				for r := range q.C {
					d := mean.At(0, r) - target.At(i, r)
					sum += d * d / float64(q.N)
				}
			}
			require.InDelta(t, sum, tried.Error, 1e-8*(1+sum))
		}
		require.Equal(t, best, found.Regression)

		k := power(best.Power)
		hat := testkit.Product(k, testkit.Inverse(t, testkit.Plus(k, best.Noise, testkit.Identity(q.N)))) // h/σ²
		for i := range found.Examples {
			x := &found.Examples[i]
			mean, weights := ridge(t, k, target, best.Noise, i)
			require.InDelta(t, float64(q.C)*hat.At(i, i), x.Leverage, 1e-8)
			for a := range x.Probability {
				// log p_a − log p_0 is the difference of the predictions over T.
				gap := 2 * mean.At(0, 0) * float64(a)
				if c > 1 {
					gap = mean.At(0, a) - mean.At(0, 0)
				}
				require.InDelta(t, gap/found.Temperature, math.Log(x.Probability[a]/x.Probability[0]), 1e-6*(1+math.Abs(gap/found.Temperature)))
			}
			require.Equal(t, math.Log(x.Probability[x.Label]), x.LogDensity)
			for _, s := range x.Supports {
				term := target.At(s.Index, 0) * float64(x.Suggested-x.Label)
				if c > 1 {
					term = target.At(s.Index, x.Suggested) - target.At(s.Index, x.Label)
				}
				require.InDelta(t, weights.At(0, s.Index)*term, s.Value, 1e-8)
				require.NotEqual(t, i, s.Index)
			}
			require.Equal(t, x.Suspect(), len(x.Supports) > 0)
		}
		listed := 0
		for i := range q.N {
			for j := range i {
				v := hat.At(i, j) / math.Sqrt(hat.At(i, i)*hat.At(j, j))
				at := slices.IndexFunc(found.Duplicates, func(p audit.Pair) bool { return p.First == j && p.Second == i })
				if v < 1e-6 {
					continue
				}
				listed++
				require.InDelta(t, v, found.Duplicates[at].Correlation, 1e-7)
				require.Equal(t, labels[i] != labels[j], found.Duplicates[at].Conflict)
			}
		}
		require.InDelta(t, listed, len(found.Duplicates), 1)

		q.Train.F.Scale(7, q.Train.F)
		for _, procs := range []int{1, 5} {
			testref.Procs(t, procs)
			again := testref.Must(audit.OfLabels(t.Context(), q.Kernel, at(q.Train, q.Train), q.Y, max(2, c), o))(t)
			require.Equal(t, found, again)
		}
	}
}

// Wrong labels come first, with the right ones.
func TestOfLabelsFindsFlips(t *testing.T) {
	for _, c := range []int{1, 3} {
		q, flipped := separated(t, c)
		for _, rows := range [][]int{nil, {0, 1, 2, 3, 5, 8, 13, 21, 34}} {
			found, err := audit.OfLabels(t.Context(), q.Kernel, at(q.Train), q.Y, max(2, c), &audit.Options{Rows: rows})
			require.NoError(t, err)
			wrong := 0
			for _, x := range found.Examples {
				if _, ok := flipped[x.Index]; ok {
					wrong++
				}
			}
			for _, k := range found.Mislabelled[:wrong] {
				x := &found.Examples[k]
				require.Equal(t, flipped[x.Index], x.Suggested)
				require.Contains(t, flipped, x.Index)
				require.Positive(t, x.Leverage)
				sum := 0.0
				for _, p := range x.Probability {
					sum += p
				}
				require.InDelta(t, 1, sum, 1e-12)
			}
		}
	}
}

// A draw has the elements of each tensor in another order, another one for each draw and
// seed, and leaves θ as it is.
func TestShuffles(t *testing.T) {
	params := []linearize.Param{{Shape: []int{10, 10}}, {Shape: []int{50}, Offset: 100}}
	theta := make([]float64, 150)
	for i := range theta {
		theta[i] = float64(i)
	}
	var draws [][]float64
	take := func(v []float64) (*linearize.Batch, error) {
		draws = append(draws, v)
		return nil, nil
	}
	for seed := range uint64(2) {
		for _, err := range audit.Shuffles(theta, params, 3, seed, take) {
			require.NoError(t, err)
		}
	}
	require.Len(t, draws, 6)
	for k, v := range draws {
		for _, other := range append(draws[:k:k], theta) {
			require.NotEqual(t, other, v)
		}
		require.Equal(t, theta[:100], slices.Sorted(slices.Values(v[:100])))
		require.Equal(t, theta[100:], slices.Sorted(slices.Values(v[100:])))
	}
}

// Real targets are predicted by a ridge regression of each column, and their residuals and densities are those of its
// variance without the row, scaled to a mean square of 1; a sample chooses the regression of many.
func TestOfRealTargets(t *testing.T) {
	q := testkit.NewProblem("gaussian", 3, 25, 1, testref.Must(glm.NewGaussian(0.2))(t), 1)
	y := mat.NewDense(q.N, 2, nil)
	for i := range q.N {
		y.SetRow(i, []float64{10 + 3*q.Y.At(i, 0), math.Sin(float64(7 * i))})
	}
	rho := correlationOf(q)
	for _, most := range []int{q.N, 15} {
		audit.SetMostTried(t, most)
		found := testref.Must(audit.OfLabels(t.Context(), q.Kernel, at(q.Train), y, 0, &audit.Options{Top: q.N, Supports: q.N}))(t)
		var k mat.Dense
		k.Apply(func(_, _ int, v float64) float64 { return math.Pow(v, float64(found.Regression.Power)) }, rho)
		target, sds := mat.NewDense(q.N, 2, nil), make([]float64, 2)
		for j := range 2 {
			mean, sd := stat.PopMeanStdDev(mat.Col(nil, j, y), nil)
			sds[j] = sd
			for i := range q.N {
				target.Set(i, j, (y.At(i, j)-mean)/sd)
			}
		}
		// The variance of row i given the others, k_ii + σ² − kᵀ(K + σ²I)⁻¹k.
		variance, error := make([]float64, q.N), mat.NewDense(q.N, 2, nil)
		size, weights := make([]float64, 2), make([]*mat.Dense, q.N)
		for i := range q.N {
			var mean *mat.Dense
			mean, weights[i] = ridge(t, &k, target, found.Regression.Noise, i)
			variance[i] = 1 + found.Regression.Noise
			for a := range q.N {
				variance[i] -= weights[i].At(0, a) * k.At(i, a)
			}
			for j := range 2 {
				error.Set(i, j, target.At(i, j)-mean.At(0, j))
				size[j] += error.At(i, j) * error.At(i, j) / variance[i] / float64(q.N)
			}
		}
		require.Len(t, found.Examples, q.N)
		for i, x := range found.Examples {
			density := 0.0
			for j := range 2 {
				sd := math.Sqrt(size[j] * variance[i])
				require.InDelta(t, error.At(i, j)/sd, x.Residual[j], 1e-7)
				density += distuv.Normal{Sigma: sd * sds[j]}.LogProb(error.At(i, j) * sds[j])
			}
			require.InDelta(t, density, x.LogDensity, 1e-7)
			require.Equal(t, -1, x.Label)
			// Supports pull the prediction away from the target of the largest residual, in its unit.
			j := 0
			if math.Abs(x.Residual[1]) > math.Abs(x.Residual[0]) {
				j = 1
			}
			for _, s := range x.Supports {
				require.InDelta(t, -math.Copysign(1, x.Residual[j])*weights[i].At(0, s.Index)*target.At(s.Index, j)*sds[j], s.Value, 1e-7)
			}
		}
		require.NotEmpty(t, found.Examples[found.Mislabelled[0]].Supports)
		require.Zero(t, found.Temperature)
	}
}

func TestOfLabelsErrors(t *testing.T) {
	q := testkit.NewProblem("categorical", 6, 12, 3, glm.Categorical{}, 1)
	_, err := audit.OfLabels(t.Context(), q.Kernel, at(q.Train), q.Y, 3, &audit.Options{Limits: linearize.Limits{Memory: 1000}})
	testref.As[*gp.MemoryError](t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testref.Err(audit.OfLabels(ctx, q.Kernel, at(q.Train), q.Y, 3, nil)), context.Canceled)
	failed := errors.New("no batch")
	_, err = audit.OfLabels(t.Context(), q.Kernel, audit.Shuffles(nil, nil, 2, 0, func([]float64) (*linearize.Batch, error) { return nil, failed }), q.Y, 3, nil)
	require.ErrorIs(t, err, failed)
	require.Panics(t, func() {
		_, _ = audit.OfLabels(t.Context(), q.Kernel, at(q.Train), mat.DenseCopyOf(q.Y.Slice(0, 3, 0, 1)), 3, nil)
	})
	require.Panics(t, func() { _, _ = audit.OfLabels(t.Context(), q.Kernel, at(q.Train, q.Train.Slice(0, 5)), q.Y, 3, nil) })
	require.Panics(t, func() { _, _ = audit.OfLabels(t.Context(), q.Kernel, at(), q.Y, 3, nil) })
	q.Y.Set(4, 0, 3)
	_, err = audit.OfLabels(t.Context(), q.Kernel, at(q.Train), q.Y, 3, nil)
	require.ErrorContains(t, err, "training example 4 is 3")
}
