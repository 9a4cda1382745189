package score

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/testref"
)

// shiftedRows draws rows with logits N(0, 3²), and labels by these logits plus a shift.
func shiftedRows(lik glm.Likelihood, c, n int, shift []float64) (y, mean, cov *mat.Dense) {
	rng := rand.New(rand.NewPCG(uint64(c), uint64(n)))
	y, mean, cov = mat.NewDense(n, 1, nil), mat.NewDense(n, c, nil), mat.NewDense(n*c, c, nil)
	for i := range n {
		f, p := mean.RawRowView(i), make([]float64, c)
		for j := range f {
			f[j] = 3 * rng.NormFloat64()
			cov.Set(i*c+j, j, .5)
		}
		lik.MeanTo(p, floats.AddTo(make([]float64, c), f, shift))
		if c == 1 {
			p = []float64{1 - p[0], p[0]}
		}
		u, k := rng.Float64(), 0
		for ; u > p[k] && k < len(p)-1; k++ {
			u -= p[k]
		}
		y.Set(i, 0, float64(k))
	}
	return y, mean, cov
}

// The shift makes each class as frequent as its label, up to its prior (E25), and is the one that the labels were drawn
// with. Without a shift there is none.
func TestWithShift(t *testing.T) {
	for c, lik := range map[int]glm.Likelihood{1: glm.Bernoulli{}, 2: glm.Categorical{}, 4: glm.Categorical{}} {
		drawn := []float64{1.4, -.6, -.5, -.3}[:c]
		if c == 2 {
			drawn = []float64{.7, -.7}
		}
		y, mean, cov := shiftedRows(lik, c, 1500, drawn)
		mean.Set(7, 0, math.NaN()) // is left out
		for _, tau := range []float64{1, .5} {
			unshifted := &Calibration{Scale: .1, Temperature: tau}
			got := testref.Must(unshifted.WithShift(t.Context(), nil, lik, y, mean, mean, cov, nil))(t)
			require.Nil(t, unshifted.Shift)
			// Outputs with the right shares have none.
			right := mat.DenseCopyOf(mean)
			for i := range right.RawMatrix().Rows {
				floats.Add(right.RawRowView(i), drawn)
			}
			require.Same(t, unshifted, testref.Must(unshifted.WithShift(t.Context(), nil, lik, y, right, mean, cov, nil))(t))
			require.Len(t, got.Shift, c)
			if tau == 1 {
				require.InDeltaSlice(t, drawn, got.Shift, .25, "%d outputs", c)
			}
			scaled, f, v, err := got.Apply(lik, mean, cov)
			require.NoError(t, err)
			p, labels := ClassProbabilities(lik, y, testref.Must(ScoreOf(nil, scaled, y, f, v))(t).Response)
			_, k := p.Dims()
			off := make([]float64, k)
			for i, label := range labels {
				if i != 7 {
					off[label]++
					floats.Sub(off, p.RawRowView(i))
				}
			}
			if c == 1 {
				require.InDelta(t, got.Shift[0]/(2*shiftSpread*shiftSpread), off[1], 1e-4) // half of it for each class
			} else {
				require.InDeltaSlice(t, floats.ScaleTo(make([]float64, k), 1/(shiftSpread*shiftSpread), got.Shift), off, 1e-3)
			}
		}
		y, mean, cov = shiftedRows(lik, c, 1500, make([]float64, c))
		plain := &Calibration{Scale: .1, Temperature: 1}
		require.Same(t, plain, testref.Must(plain.WithShift(t.Context(), nil, lik, y, mean, mean, cov, nil))(t))
	}
	y, mean, cov := mat.NewDense(2, 1, []float64{3, 0}), mat.NewDense(2, 1, nil), mat.NewDense(2, 1, nil)
	counts := &Calibration{}
	require.Same(t, counts, testref.Must(counts.WithShift(t.Context(), nil, glm.Poisson{}, y, mean, mean, cov, nil))(t))
}

// TestWithShiftOfLabels checks that several labels are shifted as each would be by itself.
func TestWithShiftOfLabels(t *testing.T) {
	const n = 800
	drawn := []float64{1.4, -1, .9}
	y, mean, cov := mat.NewDense(n, 3, nil), mat.NewDense(n, 3, nil), mat.NewDense(3*n, 3, nil)
	var want []float64
	for j, shift := range drawn {
		a, f, v := shiftedRows(glm.Bernoulli{}, 1, n+j, []float64{shift})
		a, f, v = a.Slice(0, n, 0, 1).(*mat.Dense), f.Slice(0, n, 0, 1).(*mat.Dense), v.Slice(0, n, 0, 1).(*mat.Dense)
		one := testref.Must((&Calibration{Scale: .3, Temperature: .8}).WithShift(t.Context(), nil, glm.Bernoulli{}, a, f, f, v, nil))(t)
		want = append(want, one.Shift...)
		for i := range n {
			y.Set(i, j, a.At(i, 0))
			mean.Set(i, j, f.At(i, 0))
			cov.Set(3*i+j, j, v.At(i, 0))
		}
	}
	c := &Calibration{Scale: .3, Temperature: .8}
	got := testref.Must(c.WithShift(t.Context(), nil, glm.Bernoulli{}, y, mean, mean, cov, nil))(t)
	require.Len(t, want, 3)
	require.InDeltaSlice(t, want, got.Shift, 1e-6)
	y, mean, _ = shiftedRows(glm.Bernoulli{}, 1, n, []float64{0})
	y, mean = mat.NewDense(n/2, 2, y.RawMatrix().Data), mat.NewDense(n/2, 2, mean.RawMatrix().Data)
	cov = mat.NewDense(n, 2, nil)
	require.Same(t, c, testref.Must(c.WithShift(t.Context(), nil, glm.Bernoulli{}, y, mean, mean, cov, nil))(t))
}
