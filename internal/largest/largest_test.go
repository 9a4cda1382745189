package largest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dense"
)

var variances = []float64{4, 4.9, 11, 60, 300, 65536, 1e7}

// moments are E softmax(f) and E softmax(f)² for one r.
func moments(n *Noise, r ...float64) (first, second []float64) {
	first, second = make([]float64, len(r)), make([]float64, len(r))
	s := NewSums(n, len(r))
	s.Add(dense.In(r, len(r), 1))
	s.To(first, second)
	return first, second
}

func TestVariances(t *testing.T) {
	for _, v := range variances {
		n := NoiseUpTo(v)
		require.Same(t, n, NoiseUpTo(v))
		require.LessOrEqual(t, n.Variance, v)
		require.Greater(t, n.Variance, .84*min(v, most))
	}
	require.Equal(t, float64(Least), NoiseUpTo(Least).Variance)
}

// Two classes are the integral of σ over one dimension.
func TestTwoClasses(t *testing.T) {
	for _, v := range variances {
		n := NoiseUpTo(v)
		sd := math.Sqrt(2 * n.Variance)
		for _, gap := range []float64{0, .3, 1, 2.5} {
			// On the grid of the tables nothing is rounded.
			m := math.Round(gap*sd/n.step*phases) * n.step / phases
			want, want2 := [2]float64{}, [2]float64{}
			step := min(.5/sd, .06)
			for z := -9.0; z < 9; z += step {
				w := step * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
				p := 1 / (1 + math.Exp(-m-sd*z))
				q := 1 / (1 + math.Exp(m+sd*z))
				want[0] += w * p
				want[1] += w * q
				want2[0] += w * p * p
				want2[1] += w * q * q
			}
			first, second := moments(n, 3+m, 3)
			require.InDeltaSlice(t, want[:], first, 1e-5, "d = %g, gap %g", v, m)
			require.InDeltaSlice(t, want2[:], second, 1e-5, "d = %g, gap %g", v, m)
		}
	}
}

// Probabilities of many classes add up to one, and equal ones are equal.
func TestManyClasses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, v := range variances {
		n := NoiseUpTo(v)
		for _, c := range []int{3, 10, 100} {
			r := make([]float64, c)
			first, _ := moments(n, r...)
			for _, p := range first {
				require.InDelta(t, 1/float64(c), p, 1e-5)
			}
			for j := range r {
				r[j] = 2 * math.Sqrt(v) * rng.NormFloat64()
			}
			first, second := moments(n, r...)
			require.InDelta(t, 1, floats.Sum(first), 1e-5, "d = %g, %d classes", v, c)
			for j, p := range first {
				require.LessOrEqual(t, p*p, second[j]*(1+1e-4))
				require.LessOrEqual(t, second[j], p)
			}
		}
	}
}
