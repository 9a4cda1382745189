package portable_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/portable"
	"github.com/funcgp/funcgp/glm/integral"
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
		worst, worstSD := 0.0, 0.0
		for i := range m {
			at := fmt.Sprint(c.c, " outputs, m=", m[i], " s=", s[i])
			s := math.Sqrt(s[i] * s[i])
			second, variance, _ := integral.SigmoidMoments(m[i], s)
			first, _, _ := integral.SigmoidMoments(-m[i], s)
			require.InDeltaSlice(t, []float64{first, second}, p.RawRowView(i), 1e-10, at)
			require.InDeltaSlice(t, []float64{math.Sqrt(variance), math.Sqrt(variance)}, sd.RawRowView(i), 1e-10, at)
			worst = max(worst, math.Abs(second-p.At(i, 1)))
			worstSD = max(worstSD, math.Abs(math.Sqrt(variance)-sd.At(i, 1)))
		}
		t.Log(worst, worstSD)
	}
}
