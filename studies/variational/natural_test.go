package variational_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/studies/variational"
)

var toys = []string{"snelson", "two-moons", "categorical", "categorical-diagonal-prior", "poisson", "gaussian-two-outputs"}

// A ngvi is the state that one update of the references starts from.
type ngvi struct {
	state string
	rate  float64
	key   string // of the rate
}

// startOf returns q_t: the state a is N(θ*, Σ₀), b is N(0.9 θ*, Σ₀/4).
func (s ngvi) startOf(t *testing.T, q *testkit.Reference) (mean, variance []float64) {
	mean = q.Net.Theta()
	variance = make([]float64, len(mean))
	q.Prior.VarianceTo(variance)
	if s.state == "b" {
		floats.Scale(0.9, mean)
		floats.Scale(0.25, variance)
	}
	return mean, variance
}

var updates = []ngvi{{"a", 1, "1"}, {"a", 0.1, "01"}, {"b", 0.1, "01"}}

// The updates of the references with the samples that they give
// [thesis eq. 4.2–4.12, table 4.2].
func TestUpdateReferences(t *testing.T) {
	if testing.Short() {
		t.Skip("many updates of code that TestUpdatesOfLinearNetwork runs too")
	}
	for _, toy := range toys {
		t.Run(toy, func(t *testing.T) {
			q := testkit.OpenReference(t, toy)
			ref := testref.Open(t, "structures/"+toy)
			for _, u := range updates {
				start := u
				mean, variance := start.startOf(t, q)
				before, err := variational.NewGaussian(mean, variance)
				require.NoError(t, err)
				for a, name := range map[variational.Algorithm]string{variational.VOGGN: "voggn", variational.LGVA: "lgva", variational.OGGN: "oggn"} {
					v := variational.NewNatural(a, q.Net, q.Likelihood, q.Prior, u.rate)
					after, err := v.Step(t.Context(), before, ref.Matrix("ngvi_samples_"+u.state), q.X, q.Y, 1)
					require.NoError(t, err)
					requireUpdate(t, q, ref, name+"_"+u.state+"_"+u.key+"_", mean, after)
				}
			}
		})
	}
}

// requireUpdate compares a Gaussian after an update with the reference.
func requireUpdate(t *testing.T, q *testkit.Reference, ref *testref.Ref, key string, at []float64, after *variational.Gaussian) {
	t.Helper()
	const rel = 1e-9
	n := len(ref.Floats(key+"network_test")) / q.Test.Outputs()
	xs := q.Test.X.Slice(0, n, 0, dims(q.Test.X)).(*mat.Dense)
	net, err := q.Net.WithTheta(at)
	require.NoError(t, err)
	b, err := net.Linearize(t.Context(), xs)
	require.NoError(t, err)
	var mean, cov mat.Dense
	require.NoError(t, after.Linearized(at).PredictTo(t.Context(), &mean, &cov, b))
	testref.RequireClose(t, mean.RawMatrix().Data, ref.Floats(key+"mean_test"), rel, key+"mean_test")
	testref.RequireClose(t, cov.RawMatrix().Data, ref.Floats(key+"cov_test"), rel, key+"cov_test")
	net, err = q.Net.WithTheta(after.Mean())
	require.NoError(t, err)
	f, err := net.Forward(t.Context(), xs)
	require.NoError(t, err)
	testref.RequireClose(t, f.RawMatrix().Data, ref.Floats(key+"network_test"), 1e-8, key+"network_test")
	require.InEpsilon(t, ref.Scalar(key+"mean_norm"), floats.Norm(after.Mean(), 2), rel)
	require.InEpsilon(t, ref.Scalar(key+"log_det"), after.LogDet()+logDetOf(q), rel)
	if ref.Has(key + "mean") {
		testref.RequireClose(t, after.Mean(), ref.Floats(key+"mean"), rel, key+"mean")
		testref.RequireClose(t, diagonalOfSym(after.Precision()), ref.Floats(key+"precision_diagonal"), rel, key+"precision_diagonal")
	}
}

// logDetOf returns log det Σ₀.
func logDetOf(q *testkit.Reference) float64 {
	v, sum := make([]float64, q.Train.P), 0.0
	q.Prior.VarianceTo(v)
	for _, s := range v {
		sum += math.Log(s)
	}
	return sum
}

func diagonalOfSym(s *mat.SymDense) []float64 {
	d := make([]float64, s.SymmetricDim())
	for i := range d {
		d[i] = s.At(i, i)
	}
	return d
}

func dims(m *mat.Dense) int {
	_, c := m.Dims()
	return c
}

// On a linear network with Gaussian noise all algorithms have the exact posterior as
// their fixed point, and reach it in one update of rate one. Minibatches reach it on
// average.
func TestUpdatesOfLinearNetwork(t *testing.T) {
	l := newLine(t)
	start, err := variational.NewGaussian([]float64{3, -1, 2}, []float64{0.1, 1, 5})
	require.NoError(t, err)
	for a := variational.VOGGN; a <= variational.OGGN; a++ {
		q, err := variational.NewNatural(a, l.net, l.lik, l.prior, 1).Run(t.Context(), start, l.x, l.y, &variational.RunOptions{Steps: 1, Seed: 3})
		require.NoError(t, err)
		if a == variational.OGGN {
			require.InDeltaSlice(t, l.mean, q.Mean(), 1e-12)
		}
		for i, v := range diagonalOfSym(q.Precision()) {
			require.InEpsilon(t, l.sd[i], 1/math.Sqrt(v), 1e-12)
		}
		q, err = variational.NewNatural(a, l.net, l.lik, l.prior, 0.02).Run(t.Context(), q, l.x, l.y, &variational.RunOptions{Steps: 600, Samples: 4, Batch: 10, Seed: 3})
		require.NoError(t, err)
		for i := range l.mean {
			require.InDelta(t, l.mean[i], q.Mean()[i], 0.4*l.sd[i], a.String())
			require.InEpsilon(t, l.sd[i], 1/math.Sqrt(diagonalOfSym(q.Precision())[i]), 0.1)
		}
	}
}

// The same seed gives the same bits, for any number of processors.
func TestUpdatesRepeat(t *testing.T) {
	q := testkit.OpenReference(t, "categorical")
	mean, variance := ngvi{state: "b"}.startOf(t, q)
	start, err := variational.NewGaussian(mean, variance)
	require.NoError(t, err)
	var want *variational.Gaussian
	for _, n := range []int{1, 4} {
		testref.Procs(t, n)
		v := variational.NewNatural(variational.VOGGN, q.Net, q.Likelihood, q.Prior, 0.2)
		got, err := v.Run(t.Context(), start, q.X, q.Y, &variational.RunOptions{Steps: 3, Batch: 50, Samples: 2})
		require.NoError(t, err)
		if want == nil {
			want = got
		}
		require.Equal(t, want.Mean(), got.Mean())
		require.Equal(t, want.LogDet(), got.LogDet())
	}
	require.InDeltaSlice(t, mean, start.Mean(), 0) // the start has not changed
}

// Draws have the mean and the covariance of the Gaussian.
func TestGaussianSamples(t *testing.T) {
	l := newLine(t)
	start, err := variational.NewGaussian([]float64{3, -1, 2}, []float64{0.1, 1, 5})
	require.NoError(t, err)
	q, err := variational.NewNatural(variational.OGGN, l.net, l.lik, l.prior, 1).Step(t.Context(), start, nil, l.x, l.y, 1)
	require.NoError(t, err)
	const n = 20000
	draws := mat.NewDense(n, 3, nil)
	require.NoError(t, q.SampleTo(t.Context(), draws, rand.New(rand.NewPCG(1, 1))))
	var product mat.Dense
	cov := mat.NewSymDense(3, nil)
	stat.CovarianceMatrix(cov, draws, nil)
	product.Mul(cov, q.Precision())
	for i := range 3 {
		require.InDelta(t, q.Mean()[i], stat.Mean(mat.Col(nil, i, draws), nil), 4*math.Sqrt(cov.At(i, i)/n))
		for j := range 3 {
			want := 0.0
			if i == j {
				want = 1
			}
			require.InDelta(t, want, product.At(i, j), 0.05)
		}
	}
}

func TestUpdateErrors(t *testing.T) {
	l := newLine(t)
	q, err := variational.NewGaussian(l.net.Theta(), []float64{1, 1, 1})
	require.NoError(t, err)
	v := variational.NewNatural(variational.LGVA, l.net, l.lik, l.prior, 0.5)
	require.Panics(t, func() { _, _ = v.Step(t.Context(), q, nil, l.x, l.y, 1) })
	v.Rate = 0
	require.Panics(t, func() { _, _ = v.Step(t.Context(), q, mat.NewDense(1, 3, nil), l.x, l.y, 1) })
	v.Rate, v.MaxMemory = 1, 100
	_, err = v.Step(t.Context(), q, mat.NewDense(1, 3, nil), l.x, l.y, 1)
	var memory *gp.MemoryError
	require.ErrorAs(t, err, &memory)
	v.MaxMemory = 0
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = v.Run(ctx, q, l.x, l.y, nil)
	require.ErrorIs(t, err, context.Canceled)
	var notPD *gp.NotPDError
	_, err = variational.NewGaussianOf([]float64{1, 2}, mat.NewSymDense(2, []float64{1, 2, 2, 1}))
	require.ErrorAs(t, err, &notPD)
	same, err := variational.NewGaussianOf(q.Mean(), q.Precision())
	require.NoError(t, err)
	require.Equal(t, q.LogDet(), same.LogDet())
	_, err = variational.NewGaussian([]float64{1, 2}, []float64{1, -1})
	require.ErrorContains(t, err, "parameter 1 is -1")
	l.y.Set(4, 0, math.NaN())
	_, err = v.Step(t.Context(), q, mat.NewDense(1, 3, nil), l.x, l.y, 1)
	var notFinite *gp.NotFiniteError
	require.ErrorAs(t, err, &notFinite)
	require.Equal(t, 4, notFinite.Row)
}
