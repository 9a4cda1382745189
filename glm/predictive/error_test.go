package predictive

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/testref"
)

// The errors that the docs of Probit, Bridge and MonteCarlo state.
func TestMeasuredErrorsOfOtherLinks(t *testing.T) {
	y := openToy(t, "categorical", 30)
	few, fewCov := testref.Posterior(1, 60, 10, 0.3)
	many, manyCov := testref.Posterior(1, 60, 10, 3)
	for _, tc := range []struct {
		name   string
		f, cov *mat.Dense
		exact  *mat.Dense
		// mean and largest error of each link, as documented
		probit, bridge, mc [2]float64
	}{
		{"toy", y.f, y.cov, y.ref.Matrix("predictive_probability"), [2]float64{0.039, 0.24}, [2]float64{0.11, 0.58}, [2]float64{0.007, 0.024}},
		{"toy, 25 times", y.f, scaledMatrix(y.cov, 25), y.ref.Matrix("wide_probability"), [2]float64{0.056, 0.15}, [2]float64{0.3, 0.76}, [2]float64{0.009, 0.023}},
		{"variance 0.09", few, fewCov, nil, [2]float64{0.0013, 0.014}, [2]float64{0.048, 0.44}, [2]float64{0.0004, 0.004}},
		{"variance 9", many, manyCov, nil, [2]float64{0.029, 0.21}, [2]float64{0.056, 0.45}, [2]float64{0.004, 0.02}},
	} {
		if tc.exact == nil {
			tc.exact, _ = predict(t, QMC{Tol: 1e-3}, glm.Categorical{}, tc.f, tc.cov)
		}
		for l, want := range map[Link][2]float64{Probit{}: tc.probit, Bridge{}: tc.bridge, MonteCarlo{}: tc.mc} {
			p, _ := predict(t, l, glm.Categorical{}, tc.f, tc.cov)
			p.Sub(p, tc.exact)
			p.Apply(func(_, _ int, v float64) float64 { return math.Abs(v) }, p)
			n, c := p.Dims()
			at := fmt.Sprintf("%T, %s", l, tc.name)
			require.InEpsilon(t, want[0], mat.Sum(p)/float64(n*c), 0.15, at)
			require.InEpsilon(t, want[1], mat.Max(p), 0.15, at)
		}
	}
}
