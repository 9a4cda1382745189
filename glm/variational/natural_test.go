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

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/variational"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
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
				before := gaussian(t, mean, variance)
				for a, name := range map[variational.Algorithm]string{variational.VOGGN: "voggn", variational.LGVA: "lgva", variational.OGGN: "oggn"} {
					v := variational.NewNatural(a, q.Net, q.Prior, u.rate)
					after, err := v.Step(t.Context(), before, ref.Matrix("ngvi_samples_"+u.state), q.X, q.Targets(), 1)
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
	net, err = q.Net.WithTheta(after.Center())
	require.NoError(t, err)
	f, err := net.Forward(t.Context(), xs)
	require.NoError(t, err)
	testref.RequireClose(t, f.RawMatrix().Data, ref.Floats(key+"network_test"), 1e-8, key+"network_test")
	require.InEpsilon(t, ref.Scalar(key+"mean_norm"), floats.Norm(after.Center(), 2), rel)
	require.InEpsilon(t, ref.Scalar(key+"log_det"), after.LogDet()+logDetOf(q), rel)
	if ref.Has(key + "mean") {
		testref.RequireClose(t, after.Center(), ref.Floats(key+"mean"), rel, key+"mean")
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
	start := gaussian(t, []float64{3, -1, 2}, []float64{0.1, 1, 5})
	for a := variational.VOGGN; a <= variational.OGGN; a++ {
		v := variational.NewNatural(a, l.net, l.prior, 1)
		v.Steps, v.Seed = 1, 3
		q, err := v.Run(t.Context(), start, l.x, l.targets())
		require.NoError(t, err)
		if a == variational.OGGN {
			require.InDeltaSlice(t, l.mean, q.Center(), 1e-12)
		}
		for i, v := range diagonalOfSym(q.Precision()) {
			require.InEpsilon(t, l.sd[i], 1/math.Sqrt(v), 1e-12)
		}
		v.Rate, v.Steps, v.Draws, v.Batch = 0.02, 600, 4, 10
		q, err = v.Run(t.Context(), q, l.x, l.targets())
		require.NoError(t, err)
		for i := range l.mean {
			require.InDelta(t, l.mean[i], q.Center()[i], 0.4*l.sd[i], a.String())
			require.InEpsilon(t, l.sd[i], 1/math.Sqrt(diagonalOfSym(q.Precision())[i]), 0.1)
		}
	}
}

// The first Gaussian has the mean that is asked for and independent parameters, with the precision of the prior raised by the
// mean of the diagonal of H̄.
func TestStart(t *testing.T) {
	l := newLine(t)
	v := variational.NewNatural(variational.VOGGN, l.net, l.prior, 0.5)
	q, err := v.Start(t.Context(), l.net.Theta(), l.x, l.targets())
	require.NoError(t, err)
	require.Equal(t, l.net.Theta(), q.Center())
	want := 0.0
	for _, sd := range l.sd {
		want += 1 / (sd * sd) / 3
	}
	for i, precision := range diagonalOfSym(q.Precision()) {
		require.InEpsilon(t, want, precision, 1e-12)
		require.Zero(t, q.Precision().At(i, (i+1)%3))
	}
	// of a batch: its first examples stand for all
	v.Batch = 10
	q, err = v.Start(t.Context(), l.net.Theta(), l.x, l.targets())
	require.NoError(t, err)
	want = 2 + 4*10/0.5/3 // of the biases
	for i := range 10 {
		want += 4 * floats.Dot(l.x.RawRowView(i), l.x.RawRowView(i)) / 0.5 / 3
	}
	require.InEpsilon(t, want, q.Precision().At(1, 1), 1e-12)
}

// A loop over Updates may end early, and what it has seen is what Run returns after so many updates.
func TestUpdatesEnd(t *testing.T) {
	l := newLine(t)
	v := variational.NewNatural(variational.VOGGN, l.net, l.prior, 0.5)
	v.Batch = 15
	start := gaussian(t, l.net.Theta(), []float64{1, 1, 1})
	var last *variational.Gaussian
	n := 0
	for q, err := range v.Updates(t.Context(), start, l.x, l.targets()) {
		require.NoError(t, err)
		if last, n = q, n+1; n == 5 {
			break
		}
	}
	v.Steps = 5
	want, err := v.Run(t.Context(), start, l.x, l.targets())
	require.NoError(t, err)
	require.Equal(t, want.Center(), last.Center())
}

// The same seed gives the same bits, for any number of processors.
func TestUpdatesRepeat(t *testing.T) {
	q := testkit.OpenReference(t, "categorical")
	mean, variance := ngvi{state: "b"}.startOf(t, q)
	start := gaussian(t, mean, variance)
	var want *variational.Gaussian
	for _, n := range []int{1, 4} {
		testref.Procs(t, n)
		v := variational.NewNatural(variational.VOGGN, q.Net, q.Prior, 0.2)
		v.Steps, v.Batch, v.Draws = 3, 50, 2
		got, err := v.Run(t.Context(), start, q.X, q.Targets())
		require.NoError(t, err)
		if want == nil {
			want = got
		}
		require.Equal(t, want.Center(), got.Center())
		require.Equal(t, want.LogDet(), got.LogDet())
	}
	require.InDeltaSlice(t, mean, start.Center(), 0) // the start has not changed
}

// Draws have the mean and the covariance of the Gaussian.
func TestGaussianSamples(t *testing.T) {
	l := newLine(t)
	start := gaussian(t, []float64{3, -1, 2}, []float64{0.1, 1, 5})
	q, err := variational.NewNatural(variational.OGGN, l.net, l.prior, 1).Step(t.Context(), start, nil, l.x, l.targets(), 1)
	require.NoError(t, err)
	const n = 20000
	draws := mat.NewDense(n, 3, nil)
	require.NoError(t, q.SampleTo(t.Context(), draws, rand.New(rand.NewPCG(1, 1))))
	var product mat.Dense
	cov := mat.NewSymDense(3, nil)
	stat.CovarianceMatrix(cov, draws, nil)
	product.Mul(cov, q.Precision())
	for i := range 3 {
		require.InDelta(t, q.Center()[i], stat.Mean(mat.Col(nil, i, draws), nil), 4*math.Sqrt(cov.At(i, i)/n))
		for j := range 3 {
			want := 0.0
			if i == j {
				want = 1
			}
			require.InDelta(t, want, product.At(i, j), 0.05)
		}
	}
}

// What a user gives is an error that names it, and what diverges one with the remedy.
func TestUpdateErrors(t *testing.T) {
	l := newLine(t)
	q := gaussian(t, l.net.Theta(), []float64{1, 1, 1})
	v := variational.NewNatural(variational.LGVA, l.net, l.prior, 0.5)
	one := mat.NewDense(1, 3, nil)
	require.Panics(t, func() { _, _ = v.Step(t.Context(), q, nil, l.x, l.targets(), 1) })
	for _, rate := range []float64{0, -1, 1.5, math.NaN()} {
		v.Rate = rate
		_, err := v.Step(t.Context(), q, one, l.x, l.targets(), 1)
		require.ErrorContains(t, err, "a rate is in (0, 1]")
	}
	v.Rate, v.Memory = 1, 100
	_, err := v.Step(t.Context(), q, one, l.x, l.targets(), 1)
	var memory *gp.MemoryError
	require.ErrorAs(t, err, &memory)
	v.Memory = 0
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = v.Run(ctx, q, l.x, l.targets())
	require.ErrorIs(t, err, context.Canceled)
	var notPD *gp.NotPDError
	for _, precision := range []mat.Symmetric{mat.NewSymDense(2, []float64{1, 2, 2, 1}), mat.NewDiagDense(2, []float64{1, -1}), mat.NewDiagDense(2, []float64{1, math.Inf(1)})} {
		_, err = variational.NewGaussian([]float64{1, 2}, precision)
		require.ErrorAs(t, err, &notPD)
	}
	_, err = variational.NewGaussian([]float64{1, math.NaN()}, mat.NewDiagDense(2, []float64{1, 1}))
	require.ErrorContains(t, err, "parameter 1 is NaN")
	same, err := variational.NewGaussian(q.Center(), q.Precision())
	require.NoError(t, err)
	require.Equal(t, q.LogDet(), same.LogDet())
	l.y.Set(4, 0, math.NaN())
	_, err = v.Step(t.Context(), q, one, l.x, l.targets(), 1)
	var notFinite *gp.NotFiniteError
	require.ErrorAs(t, err, &notFinite)
	require.Equal(t, 4, notFinite.Row)
}

// Updates of rate one from far away leave what float64 holds. The error says in which update, and
// what helps.
func TestUpdatesDiverge(t *testing.T) {
	q := testkit.OpenReference(t, "poisson")
	start, err := variational.NewPriorGaussian(q.Net.Theta(), q.Prior)
	require.NoError(t, err)
	v := variational.NewNatural(variational.VOGGN, q.Net, q.Prior, 1)
	v.Steps = 20
	huge := gp.NewTargets(q.Y, exploding{})
	_, err = v.Run(t.Context(), start, q.X, huge)
	var diverged *variational.DivergedError
	require.ErrorAs(t, err, &diverged)
	require.ErrorContains(t, err, "variational: update 0 diverged")
	require.ErrorContains(t, err, "smaller rate or more draws")
}

// exploding is a likelihood whose curvature is near the largest float64.
type exploding struct{}

func (exploding) Expand(residual, lambda, root, y, f []float64) float64 {
	for i := range residual {
		residual[i] = 1e300
	}
	for i := range lambda {
		lambda[i], root[i] = 1e308, 1e154
	}
	return 0
}
func (exploding) MeanTo(dst, f []float64) { copy(dst, f) }

// Weights of rows are powers of the likelihood (E23): a weight of 2 is that row twice, one of 0 none.
func TestUpdateOfWeightedRows(t *testing.T) {
	l := newLine(t)
	q := gaussian(t, l.net.Theta(), []float64{1, 1, 1})
	n := l.targets().Len()
	weighted, rows := l.targets(), []int{0, 0}
	weighted.Weights = make([]float64, n)
	weighted.Weights[0] = 2
	for i := 2; i < n; i++ {
		weighted.Weights[i] = 1
		rows = append(rows, i)
	}
	x := mat.NewDense(len(rows), 2, nil)
	for i, r := range rows {
		x.SetRow(i, l.x.RawRowView(r))
	}
	draws := mat.NewDense(2, 3, []float64{.1, .2, .3, 1, -1, 0})
	for a := variational.VOGGN; a <= variational.OGGN; a++ {
		v := variational.NewNatural(a, l.net, l.prior, 0.5)
		got, err := v.Step(t.Context(), q, draws, l.x, weighted, 1)
		require.NoError(t, err)
		want, err := v.Step(t.Context(), q, draws, x, l.targets().Rows(rows), 1)
		require.NoError(t, err)
		require.InDeltaSlice(t, want.Center(), got.Center(), 1e-12)
		require.InEpsilon(t, want.LogDet(), got.LogDet(), 1e-12)
	}
}

// gaussian has independent parameters.
func gaussian(t *testing.T, mean, variance []float64) *variational.Gaussian {
	t.Helper()
	precision := make([]float64, len(mean))
	for i, v := range variance {
		precision[i] = 1 / v
	}
	q, err := variational.NewGaussian(mean, mat.NewDiagDense(len(mean), precision))
	require.NoError(t, err)
	return q
}

// A line is a linear network with Gaussian data, of which the posterior is known.
type line struct {
	net   *network.Network
	x, y  *mat.Dense
	lik   *glm.Gaussian
	prior ntk.Prior
	mean  []float64
	sd    []float64 // 1/√ of the diagonal of the precision
}

func (l *line) targets() *gp.Targets { return gp.NewTargets(l.y, l.lik) }

func newLine(t *testing.T) *line {
	t.Helper()
	const n, sigma2, delta = 40, 0.5, 2.0
	rng := rand.New(rand.NewPCG(4, 4))
	l := &line{x: mat.NewDense(n, 2, nil), y: mat.NewDense(n, 1, nil)}
	var err error
	l.net, err = network.Seeded(1, network.Shape{2}, network.Dense{Units: 1})
	require.NoError(t, err)
	l.lik, err = glm.NewGaussian(sigma2)
	require.NoError(t, err)
	l.prior, err = ntk.NewIsotropic(delta, []float64{0.5})
	require.NoError(t, err)
	precision, right := mat.NewSymDense(3, nil), mat.NewVecDense(3, []float64{delta / 2, delta / 2, delta / 2})
	for i := range 3 {
		precision.SetSym(i, i, delta)
	}
	for i := range n {
		a, b := rng.NormFloat64(), rng.NormFloat64()
		y := 1 + 2*a - b + math.Sqrt(sigma2)*rng.NormFloat64()
		l.x.SetRow(i, []float64{a, b})
		l.y.Set(i, 0, y)
		j := mat.NewVecDense(3, []float64{a, b, 1})
		precision.SymRankOne(precision, 1/sigma2, j)
		right.AddScaledVec(right, y/sigma2, j)
	}
	var mean mat.VecDense
	require.NoError(t, mean.SolveVec(precision, right))
	l.mean = mean.RawVector().Data
	for i := range 3 {
		l.sd = append(l.sd, 1/math.Sqrt(precision.At(i, i)))
	}
	return l
}
