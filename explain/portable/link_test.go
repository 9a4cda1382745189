package portable_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/portable"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// linked runs the link of the graph alone for rows of means and covariances.
func linked(t *testing.T, link portable.Link, c int, x *mat.Dense) (probability, sd *mat.Dense) {
	t.Helper()
	data := testref.Must(portable.LinkModel(link, c).Encode())(t)
	read := func(output string) *mat.Dense {
		n := testref.Must(network.ReadONNX(bytes.NewReader(data), &network.ReadOptions{Output: output}))(t)
		return testref.Must(n.Forward(t.Context(), x))(t)
	}
	return read("probability"), read("probability_sd")
}

// TestE11LinkOfAnyWidth compares probabilities of one output and of two with the exact integrals, for means and standard
// deviations from 0 to the largest.
func TestE11LinkOfAnyWidth(t *testing.T) {
	var m, s []float64
	for _, sd := range []float64{0, 1e-200, 1e-8, .01, .5, 1, 3, 8, 11, 13, 13.999, 14, 14.001, 14.5, 16, 20, 50, 1e3, 1e8, 1e16, 1e100, 1e150} {
		for _, x := range []float64{0, 1e-9, .1, .5, 1, 1.8443, 2, 3, 4, 5, 6, 8, 10, 20, 37, 41, 1e3, 1e100} {
			for _, mean := range []float64{x * sd, -x * sd, x, -x} {
				m, s = append(m, mean), append(s, sd)
			}
		}
	}
	one, two := mat.NewDense(len(m), 2, nil), mat.NewDense(len(m), 6, nil)
	for i := range m {
		v := s[i] * s[i]
		one.SetRow(i, []float64{m[i], v})
		two.SetRow(i, []float64{-m[i] / 4, .75 * m[i], .375 * v, -.125 * v, -.125 * v, .375 * v})
	}
	for _, c := range []struct {
		link portable.Link
		c    int
		x    *mat.Dense
	}{{portable.Binary, 1, one}, {portable.Softmax, 2, two}} {
		p, sd := linked(t, c.link, c.c, c.x)
		for i := range m {
			at := fmt.Sprint(c.c, " outputs, m=", m[i], " s=", s[i])
			s := math.Sqrt(s[i] * s[i])
			second, variance, _ := integral.SigmoidMoments(m[i], s)
			first, _, _ := integral.SigmoidMoments(-m[i], s)
			require.InDeltaSlice(t, []float64{first, second}, p.RawRowView(i), 1e-10, at)
			require.InDeltaSlice(t, []float64{math.Sqrt(variance), math.Sqrt(variance)}, sd.RawRowView(i), 1e-10, at)
		}
	}
}

// TestE11LinkOfLabels compares the probabilities of three labels with the exact integrals, whatever their covariance.
func TestE11LinkOfLabels(t *testing.T) {
	rng := testref.Rand(6)
	const n, c = 40, 3
	x := mat.NewDense(n, c+c*c, nil)
	for i := range n {
		a := testkit.RandomMatrix(rng, c, 1+i%c)
		a.Scale(math.Pow(10, float64(i%5)-2), a)
		var v mat.Dense
		v.Mul(a, a.T())
		copy(x.RawRowView(i)[c:], v.RawMatrix().Data)
		for j := range c {
			x.Set(i, j, 4*rng.NormFloat64())
		}
	}
	p, sd := linked(t, portable.Labels, c, x)
	for i := range n {
		for j := range c {
			mean, variance, _ := integral.SigmoidMoments(x.At(i, j), math.Sqrt(x.At(i, c+c*j+j)))
			require.InDelta(t, mean, p.At(i, j), 1e-10)
			require.InDelta(t, math.Sqrt(variance), sd.At(i, j), 1e-10)
		}
	}
}

// TestE20LinkWithinBounds compares probabilities of three outputs and more with those of package predictive, for covariances
// of any rank and width: narrow ones to many digits, and all within the bounds that are stated.
func TestE20LinkWithinBounds(t *testing.T) {
	rng := testref.Rand(5)
	const n = 30
	for _, c := range []int{3, 4, 6} {
		layer := testref.Must(network.Sequential(network.Shape{1}, network.Dense{Units: c}))(t)
		bounds := (&portable.Answer{Network: layer, Link: portable.Softmax}).Bounds()
		for _, width := range []float64{.1, 3, 1e4} {
			x, f, cov := mat.NewDense(n, c+c*c, nil), mat.NewDense(n, c, nil), mat.NewDense(n*c, c, nil)
			for i := range n {
				a := testkit.RandomMatrix(rng, c, 1+i%c)
				a.Scale(width, a)
				v := cov.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense)
				v.Mul(a, a.T())
				for j := range c {
					f.Set(i, j, width*rng.NormFloat64())
				}
				copy(x.RawRowView(i), f.RawRowView(i))
				copy(x.RawRowView(i)[c:], mat.DenseCopyOf(v).RawMatrix().Data)
			}
			p, sd := linked(t, portable.Softmax, c, x)
			var want, wantSD mat.Dense
			require.NoError(t, predictive.QMC{}.PredictTo(&want, &wantSD, glm.Categorical{}, f, cov))
			limit := bounds["probability"]
			if width == .1 {
				limit = 1e-4
			}
			for i := range n {
				require.InDeltaSlice(t, want.RawRowView(i), p.RawRowView(i), limit, "%d outputs, width %v", c, width)
				require.InDeltaSlice(t, wantSD.RawRowView(i), sd.RawRowView(i), bounds["probability_sd"], "%d outputs, width %v", c, width)
			}
		}
	}
}

// TestLinkWithoutAnswer: a mean or a covariance that is too large for a number has NaN in all outputs, which package
// network refuses.
func TestLinkWithoutAnswer(t *testing.T) {
	for _, c := range []int{1, 2, 3} {
		link := portable.Softmax
		if c == 1 {
			link = portable.Binary
		}
		x := mat.NewDense(1, c+c*c, nil)
		p, sd := linked(t, link, c, x)
		require.InDelta(t, 1/float64(max(c, 2)), p.At(0, 0), 1e-12)
		require.InDelta(t, 0, sd.At(0, 0), 1e-12)
		data := testref.Must(portable.LinkModel(link, c).Encode())(t)
		for _, output := range []string{"probability", "probability_sd"} {
			n := testref.Must(network.ReadONNX(bytes.NewReader(data), &network.ReadOptions{Output: output}))(t)
			for _, at := range []int{0, c} {
				x.Zero()
				x.Set(0, at, math.MaxFloat64)
				require.ErrorContains(t, testref.Err(n.Forward(t.Context(), x)), "is NaN", "%s of %d outputs", output, c)
			}
		}
	}
}
