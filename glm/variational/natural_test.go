package variational_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/variational"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
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
