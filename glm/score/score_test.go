package score

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/testref"
)

// leaveOneOut are the targets of a reference and its moments by leave-one-out.
type leaveOneOut struct {
	lik          glm.Likelihood
	y, mean, cov *mat.Dense
	density      []float64
	sum          float64
}

// readLeaveOneOut reads the moments of refits without each example, or those of
// first order.
func readLeaveOneOut(t *testing.T, name, kind string) leaveOneOut {
	t.Helper()
	r, q := testref.Open(t, name), testref.Open(t, "selection/"+name)
	l := leaveOneOut{y: r.Matrix("y_train"), mean: q.Matrix(kind + "_mean"), density: q.Floats(kind + "_log_density"), sum: q.Scalar(kind + "_sum")}
	n, c := l.mean.Dims()
	l.cov = mat.NewDense(n*c, c, q.Floats(kind+"_cov"))
	switch q.Meta("likelihood") {
	case "gaussian":
		g := testref.Must(glm.NewGaussian(r.Scalar("sigma2")))(t)
		l.lik = g
	case "bernoulli":
		l.lik = glm.Bernoulli{}
	case "poisson":
		l.lik = glm.Poisson{}
	case "categorical":
		l.lik = glm.Categorical{}
	}
	return l
}

// The log densities by leave-one-out are those of PyTorch, which integrates on a
// finer grid and is right to 1e-12.
func TestLeaveOneOutDensitiesOfReferences(t *testing.T) {
	for _, c := range []struct {
		name string
		tol  float64
	}{
		{"snelson", 1e-10},
		{"gaussian-two-outputs", 1e-10},
		{"two-moons", 1e-10},
		{"poisson", 1e-10},
		{"categorical", 1e-9},
		{"categorical-diagonal-prior", 1e-9},
	} {
		if testing.Short() && c.name == "categorical-diagonal-prior" {
			continue // as many nodes as categorical, by the same code
		}
		for _, kind := range []string{"loo", "loo_first_order"} {
			l := readLeaveOneOut(t, c.name, kind)
			s := testref.Must(ScoreOf(nil, l.lik, l.y, l.mean, l.cov))(t)
			testref.RequireClose(t, s.LogDensity, l.density, c.tol, c.name+" "+kind)
			require.InDelta(t, -l.sum/float64(len(l.density)), s.NLL, c.tol)
			require.InDelta(t, (&scoredRows{kept: make([]int, len(l.density))}).standardError(l.density), s.StdErr, c.tol)
			lowest := s.Surprising(3)
			require.Len(t, lowest, 3)
			for i, v := range l.density {
				require.True(t, i == lowest[0] || v >= l.density[lowest[0]])
				require.Equal(t, v < l.density[lowest[2]], i == lowest[0] || i == lowest[1])
			}
		}
	}
}

// The numbers of three rows, worked out by hand, for each likelihood.
func TestScoreByHand(t *testing.T) {
	logit := func(p float64) float64 { return math.Log(p / (1 - p)) }
	mean := mat.NewDense(3, 1, []float64{logit(0.9), logit(0.2), logit(0.4)})
	y := mat.NewDense(3, 1, []float64{1, 0, 1})
	s, err := ScoreOf(nil, glm.Bernoulli{}, y, mean, nil)
	require.NoError(t, err)
	require.InDelta(t, -(math.Log(0.9)+math.Log(0.8)+math.Log(0.4))/3, s.NLL, 1e-14)
	require.InDelta(t, 2.0/3, s.Accuracy, 1e-15)
	require.InDelta(t, (0.1+0.2+0.6)/3, s.ECE, 1e-14)
	require.InDelta(t, 2*(0.01+0.04+0.36)/3, s.Brier, 1e-14)
	require.True(t, math.IsNaN(s.RMSE))
	require.Equal(t, []int{2, 1}, s.Surprising(2))
	require.Equal(t, []int{2, 1, 0}, s.Surprising(9))
	// Fractions are no classes. Of several outputs the NLL is that of a row, and the others are those of a row a label.
	s = testref.Must(ScoreOf(nil, glm.Bernoulli{}, mat.NewDense(3, 1, []float64{1, 0.5, 1}), mean, nil))(t)
	require.True(t, math.IsNaN(s.Accuracy) && math.IsNaN(s.ECE) && math.IsNaN(s.Brier) && !math.IsNaN(s.NLL))
	s, err = ScoreOf(nil, glm.Bernoulli{}, mat.NewDense(1, 3, y.RawMatrix().Data), mat.NewDense(1, 3, mean.RawMatrix().Data), nil)
	require.NoError(t, err)
	require.InDelta(t, -(math.Log(0.9) + math.Log(0.8) + math.Log(0.4)), s.NLL, 1e-14)
	require.InDelta(t, 2.0/3, s.Accuracy, 1e-15)
	require.InDelta(t, (0.1+0.2+0.6)/3, s.ECE, 1e-14)
	require.InDelta(t, 2*(0.01+0.04+0.36)/3, s.Brier, 1e-14)
	require.True(t, math.IsNaN(s.RMSE) && math.IsNaN(s.StdErr))

	lik := testref.Must(glm.NewGaussian(4))(t)
	f := mat.NewDense(2, 1, []float64{1, 2})
	target := mat.NewDense(2, 1, []float64{4, 1})
	s, err = ScoreOf(nil, lik, target, f, nil) // N(f, σ²)
	require.NoError(t, err)
	require.InDelta(t, (9.0/8+1.0/8)/2+math.Log(8*math.Pi)/2, s.NLL, 1e-14)
	require.InDelta(t, math.Sqrt(5), s.RMSE, 1e-14)
	require.True(t, math.IsNaN(s.Accuracy) && math.IsNaN(s.ECE) && math.IsNaN(s.Brier))
	s = testref.Must(ScoreOf(nil, lik, target, f, mat.NewDense(2, 1, []float64{5, 12})))(t)
	require.InDelta(t, (9.0/18+math.Log(18*math.Pi)/2+1.0/32+math.Log(32*math.Pi)/2)/2, s.NLL, 1e-14)

	s, err = ScoreOf(predictive.Probit{}, glm.Categorical{}, mat.NewDense(2, 1, []float64{2, 0}), mat.NewDense(2, 3, []float64{0, 0, math.Log(2), 0, math.Log(3), 0}), mat.NewDense(6, 3, nil))
	require.NoError(t, err)
	require.InDelta(t, (math.Log(2)+math.Log(5))/2, s.NLL, 1e-14)
	require.Equal(t, 0.5, s.Accuracy)
	require.InDelta(t, (0.25+2.0/16+16.0/25+9.0/25+1.0/25)/2, s.Brier, 1e-14)
}

// Rows with a NaN in the mean, in the covariance or in both are left out, and errors
// name the row among all.
func TestScoreLeavesOutRowsOfNaN(t *testing.T) {
	rng := testref.Rand(5)
	const n, c = 40, 3
	mean, cov := testref.Moments(rng, n, c, 1, 1)
	y := mat.NewDense(n, 1, nil)
	for i := range n {
		y.Set(i, 0, float64(rng.IntN(c)))
	}
	whole := testref.Must(ScoreOf(predictive.Probit{}, glm.Categorical{}, y, mean, cov))(t)
	mean.Set(3, 1, math.NaN())
	cov.Set(20*c, 2, math.NaN())
	cov.Set(21*c+2, 0, math.NaN()) // below the diagonal, which nothing reads
	mean.Set(39, 0, math.NaN())
	s := testref.Must(ScoreOf(predictive.Probit{}, glm.Categorical{}, y, mean, cov))(t)
	require.Equal(t, 3, s.LeftOut)
	var kept []float64
	for i, v := range s.LogDensity {
		if i == 3 || i == 20 || i == 39 {
			require.True(t, math.IsNaN(v))
			continue
		}
		require.Equal(t, whole.LogDensity[i], v)
		kept = append(kept, v)
	}
	require.Equal(t, NLL(kept), s.NLL)
	require.NotContains(t, s.Surprising(n), 3)
	require.Len(t, s.Surprising(n), n-3)

	var value *predictive.ValueError
	cov.Set(30*c+1, 1, -2)
	require.ErrorAs(t, testref.Err(ScoreOf(predictive.Probit{}, glm.Categorical{}, y, mean, cov)), &value)
	require.Equal(t, predictive.ValueError{What: "variance", Row: 30, Output: 1, Value: -2}, *value)
	y.Set(25, 0, 7)
	var target *glm.TargetError
	_, err := ScoreOf(predictive.Probit{}, glm.Categorical{}, y, mean, cov)
	require.ErrorAs(t, err, &target)
	require.ErrorContains(t, err, "row 25: ")

	var none *RowsError
	_, err = ScoreOf(nil, glm.Bernoulli{}, mat.NewDense(2, 1, nil), mat.NewDense(2, 1, []float64{math.NaN(), math.NaN()}), nil)
	require.ErrorAs(t, err, &none)
	require.Equal(t, 2, none.Rows)
}

// The score is the same to the last bit on any number of processors, and a cancelled
// context ends it.
func TestScoreOnProcessors(t *testing.T) {
	mean, cov := testref.Moments(testref.Rand(6), 101, 1, 2, 2)
	y := mat.NewDense(101, 1, nil)
	testref.Procs(t, 1)
	one := testref.Must(ScoreOfContext(t.Context(), nil, glm.Poisson{}, y, mean, cov))(t)
	for _, procs := range []int{2, 3, 16} {
		testref.Procs(t, procs)
		more := testref.Must(ScoreOfContext(t.Context(), nil, glm.Poisson{}, y, mean, cov))(t)
		require.Equal(t, one.LogDensity, more.LogDensity)
		require.Equal(t, []float64{one.NLL, one.StdErr, one.RMSE}, []float64{more.NLL, more.StdErr, more.RMSE})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testref.Err(ScoreOfContext(ctx, nil, glm.Poisson{}, y, mean, cov)), context.Canceled)
}
