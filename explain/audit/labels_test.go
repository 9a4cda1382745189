package audit_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/testkit"
)

func labelsOf(y *mat.Dense) []int {
	out := make([]int, y.RawMatrix().Rows)
	for i := range out {
		out[i] = int(y.At(i, 0))
	}
	return out
}

// The errors of leave-one-out are those of a ridge regression without each example, the
// smallest chooses the noise, and no number depends on the prior mean or the outputs.
func TestOfLabelsIsRidgeRegression(t *testing.T) {
	for _, c := range []int{1, 3} {
		q, _ := separated(t, c)
		labels := labelsOf(q.Y)
		found, err := audit.OfLabels(t.Context(), q.Kernel, q.Train, labels, nil)
		require.NoError(t, err)
		target := mat.NewDense(q.N*q.C, 1, nil)
		for i, label := range labels {
			for k := range q.C {
				switch {
				case c == 1:
					target.Set(i, 0, float64(label)-0.5)
				case k == label:
					target.Set(i*q.C+k, 0, 1-1/float64(c))
				default:
					target.Set(i*q.C+k, 0, -1/float64(c))
				}
			}
		}
		variance := mat.Trace(q.KTrain) / float64(q.N*q.C)
		best := found.Tried[0]
		for _, tried := range found.Tried {
			if tried.Error < best.Error {
				best = tried
			}
			sum := 0.0
			for i := range q.N {
				var rows []int
				for r := range q.N * q.C {
					if r/q.C != i {
						rows = append(rows, r)
					}
				}
				k, own, rest := mat.NewDense(len(rows), len(rows), nil), mat.NewDense(q.C, len(rows), nil), mat.NewDense(len(rows), 1, nil)
				for a, ra := range rows {
					for b, rb := range rows {
						k.Set(a, b, q.KTrain.At(ra, rb))
					}
					for r := range q.C {
						own.Set(r, a, q.KTrain.At(i*q.C+r, ra))
					}
					rest.Set(a, 0, target.At(ra, 0))
				}
				mean := testkit.Product(own, testkit.Inverse(t, testkit.Plus(k, tried.Relative*variance, testkit.Identity(len(rows)))), rest)
				for r := range q.C {
					d := mean.At(r, 0) - target.At(i*q.C+r, 0)
					sum += d * d / float64(q.N)
				}
			}
			require.InDelta(t, sum, tried.Error, 1e-8*(1+sum))
		}
		require.Equal(t, best, found.Noise)
		q.Train.F.Scale(7, q.Train.F)
		again, err := audit.OfLabels(t.Context(), q.Kernel, q.Train, labels, nil)
		require.NoError(t, err)
		require.Equal(t, found, again)
	}
}

// Wrong labels come first, with the right ones.
func TestOfLabelsFindsFlips(t *testing.T) {
	for _, c := range []int{1, 3} {
		q, flipped := separated(t, c)
		for _, rows := range [][]int{nil, {0, 1, 2, 3, 5, 8, 13, 21, 34}} {
			found, err := audit.OfLabels(t.Context(), q.Kernel, q.Train, labelsOf(q.Y), &audit.Options{Rows: rows})
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

func TestOfLabelsErrors(t *testing.T) {
	q := testkit.NewProblem("categorical", 6, 12, 3, glm.Categorical{}, 1)
	labels := labelsOf(q.Y)
	labels[4] = 3
	_, err := audit.OfLabels(t.Context(), q.Kernel, q.Train, labels, nil)
	require.ErrorContains(t, err, "training example 4 is 3")
	require.Panics(t, func() { _, _ = audit.OfLabels(t.Context(), q.Kernel, q.Train, labels[:3], nil) })
}
