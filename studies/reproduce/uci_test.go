package reproduce

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/glm/variational"
	"github.com/funcgp/funcgp/internal/testref"
)

// quick runs a study at its reduced size and returns its page and its directory.
func quick(t *testing.T, s *Study, only ...string) (page, dir string) {
	t.Helper()
	dir = t.TempDir()
	path, err := Run(t.Context(), io.Discard, s, dir, &Options{Quick: true, Only: only}, Part{})
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "A quick run")
	return string(text), dir
}

func TestUCIQuick(t *testing.T) {
	page, dir := quick(t, uci, "australian", "glass")
	for _, want := range []string{"MFVI", "GLM diagonal", "ours", "glass", "<svg"} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "ionosphere</td>")
	require.NotContains(t, page, "published</td>", "the data are not those of the source")
	text, err := os.ReadFile(filepath.Join(dir, "uci-nll.csv"))
	require.NoError(t, err)
	require.Contains(t, string(text), "set,training rows,splits,MAP,MAP standard error,MFVI")
	require.Contains(t, string(text), "\nglass,72,2,")
}

// trainedJob is a network of a job on synthetic clusters.
func trainedJob(t *testing.T, classes int, hidden ...int) *linearized {
	t.Helper()
	size := uciQuick
	size.hidden, size.iterations = hidden, 500
	j := &uciJob{set: uciSet{name: "clusters", classes: classes}, size: &size, precision: 0.5, o: &Options{Quick: true}}
	data, err := j.read(t.Context())
	require.NoError(t, err)
	m, err := newLinearized(t.Context(), data, j, func(int, int) {})
	require.NoError(t, err)
	return m
}

// The moments by leave-one-out in weight space are those in function space, and so is
// the posterior at the mode of the linearized model.
func TestRefitInBothSpaces(t *testing.T) {
	for _, classes := range []int{2, 4} {
		// few parameters take the weights, many the functions
		small, large := trainedJob(t, classes, 2), trainedJob(t, classes, 40)
		require.False(t, small.inFunctionSpace())
		require.True(t, large.inFunctionSpace())
		for _, m := range []*linearized{small, large} {
			exact, byFunctions, err := m.functionRefit(t.Context())
			require.NoError(t, err)
			weights, byWeights, err := m.weightRefit(t.Context())
			require.NoError(t, err)
			var a, b, covA, covB mat.Dense
			require.NoError(t, exact.PredictTo(t.Context(), &a, &covA, m.held))
			require.NoError(t, weights.PredictTo(t.Context(), &b, &covB, m.held))
			// θ* counts as the mode where a Newton step moves no value by more
			require.True(t, mat.EqualApprox(&a, &b, 2*stationary))
			require.True(t, mat.EqualApprox(&covA, &covB, 2*stationary*mat.Norm(&covA, math.Inf(1))))
			for _, m := range []*mat.Dense{&a, &b, &covA, &covB} {
				m.Reset()
			}
			rows := []int{0, 3, 7, 20}
			require.NoError(t, byFunctions(&a, &covA, rows))
			require.NoError(t, byWeights(&b, &covB, rows))
			require.True(t, mat.EqualApprox(&a, &b, 1e-2*mat.Norm(&a, math.Inf(1))))
			require.True(t, mat.EqualApprox(&covA, &covB, 1e-2*mat.Norm(&covA, math.Inf(1))))
		}
	}
}

// A pointMass draws the same parameters always.
type pointMass []float64

func (q pointMass) SampleTo(_ context.Context, dst *mat.Dense, _ *rand.Rand) error {
	n, _ := dst.Dims()
	for i := range n {
		dst.SetRow(i, q)
	}
	return nil
}

// Networks drawn from a point mass at θ* predict what the network does, and those from
// the Laplace posterior the mean of draws one by one.
func TestDrawNetworks(t *testing.T) {
	m := trainedJob(t, 3, 5)
	response, logp, err := DrawNetworks(t.Context(), m.net, pointMass(m.theta), m.lik, 5, 1, m.heldRows, func(int, int) {})
	require.NoError(t, err)
	s, err := score.ScoreOf(nil, m.lik, m.heldRows.Y, m.held.F, nil)
	require.NoError(t, err)
	require.True(t, mat.EqualApprox(s.Response, response, 1e-14))
	require.InDeltaSlice(t, s.LogDensity, logp, 1e-13)

	const samples = 300
	full, err := m.fullPosterior(t.Context())
	require.NoError(t, err)
	response, logp, err = DrawNetworks(t.Context(), m.net, full, m.lik, samples, 1, m.heldRows, func(int, int) {})
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 0xd4a3))
	n, p := count(m.heldRows.X), len(m.theta)
	want, density := mat.NewDense(n, 3, nil), make([]float64, n)
	for _, size := range []int{128, 128, 44} {
		thetas := mat.NewDense(size, p, nil)
		require.NoError(t, full.SampleTo(t.Context(), thetas, rng))
		for s := range size {
			net, err := m.net.WithTheta(thetas.RawRowView(s))
			require.NoError(t, err)
			f, err := net.Forward(t.Context(), m.heldRows.X)
			require.NoError(t, err)
			for i := range n {
				g := make([]float64, 3)
				m.lik.MeanTo(g, f.RawRowView(i))
				for c, v := range g {
					want.Set(i, c, want.At(i, c)+v/samples)
				}
				density[i] += g[int(m.heldRows.Y.At(i, 0))] / samples
			}
		}
	}
	require.True(t, mat.EqualApprox(want, response, 1e-13))
	for i, v := range density {
		require.InDelta(t, math.Log(v), logp[i], 1e-12)
	}
}

// Each method takes the precision with its smallest validation NLL, ours that with the
// smallest by leave-one-out before or after scaling.
func TestChoice(t *testing.T) {
	result := func(precision, valid, test, unscaled, out float64) uciResult {
		s := methodScores{Valid: ClassScores{NLL: result.Float(valid)}, Test: ClassScores{NLL: result.Float(test)}}
		return uciResult{Precision: result.Float(precision), Methods: map[string]methodScores{"glm": s, ours: s},
			LeaveOneOut: leftOutScores{NLL: result.Float(out), Unscaled: result.Float(unscaled), Scale: result.Float(precision / 2)}}
	}
	table := &uciTable{results: [][]uciResult{
		{result(1, 0.3, 0.5, 0.3, 0.1), result(10, 0.2, 0.6, 0.2, 0.4)},
		{result(1, 0.1, 0.7, 0.4, 0.9), result(10, 0.2, 0.8, 0.7, 0.2)},
	}}
	columns := map[string]uciColumn{}
	for _, c := range uciColumns() {
		columns[c.title] = c
	}
	require.Equal(t, []float64{0.6, 0.7}, table.test(columns["GLM"], nllOf))
	require.Equal(t, []float64{0.6, 0.7}, table.test(columns["ours"], nllOf))
	require.Equal(t, []float64{0.5, 0.8}, table.test(columns["ours, jointly"], nllOf))
	require.InDelta(t, math.Sqrt(10), geometric(table.choose(columns["GLM"]), func(c uciChoice) float64 { return c.precision }), 1e-12)
	require.InDelta(t, math.Sqrt(10)/2, geometric(table.choose(columns["ours"]), func(c uciChoice) float64 { return c.scale }), 1e-12)
}

func TestECE(t *testing.T) {
	// bins (.5, .6] and (.9, 1]: |1 + 0 − .6 − .55|/4 and |2 − .95 − 1|/4
	prob := mat.NewDense(4, 2, []float64{0.6, 0.4, 0.45, 0.55, 0.05, 0.95, 0, 1})
	require.InDelta(t, (0.15+0.05)/4, ECE(prob, []int{0, 0, 1, 1}, 10), 1e-15)
	rng := rand.New(rand.NewPCG(1, 2))
	many, labels := mat.NewDense(200, 3, nil), make([]int, 200)
	for i := range labels {
		a, b, c := rng.Float64(), rng.Float64(), rng.Float64()
		many.SetRow(i, []float64{a / (a + b + c), b / (a + b + c), c / (a + b + c)})
		labels[i] = rng.IntN(3)
	}
	require.InDelta(t, score.ECE(many, labels), ECE(many, labels, 15), 1e-13)
}

// The splits of the source are read, standardized by their training rows.
func TestReadSplit(t *testing.T) {
	dir := filepath.Join(filepath.Dir(testref.MNIST(t)), "uci")
	e, err := ReadSplit(t.Context(), dir, "glass", 3)
	require.NoError(t, err)
	require.Equal(t, 214, count(e.Train.X)+count(e.Valid.X)+count(e.Test.X))
	for j := range 9 {
		m, sd := 0.0, 0.0
		for _, v := range mat.Col(nil, j, e.Train.X) {
			m, sd = m+v, sd+v*v
		}
		require.InDelta(t, 0, m/float64(count(e.Train.X)), 1e-12)
		require.InDelta(t, 1, sd/float64(count(e.Train.X)), 1e-12)
	}
	require.Equal(t, 5.0, mat.Max(e.Train.Y))
	_, err = ReadSplit(t.Context(), dir, "nothing", 0)
	require.ErrorContains(t, err, "nothing.csv")
	_, err = uci.Plan(t.Context(), &Options{Data: dir + "/no", Only: []string{"glass"}})
	require.ErrorContains(t, err, "glass.csv")
}

// The mean over splits stands beside the published figure, with the difference in its
// standard errors, and the BNN beside the GLM.
func TestComparison(t *testing.T) {
	result := func(glm, bnn float64) uciResult {
		of := func(v float64) methodScores {
			return methodScores{Valid: ClassScores{NLL: 1}, Test: ClassScores{NLL: result.Float(v)}}
		}
		return uciResult{Precision: 1, Examples: 5, Methods: map[string]methodScores{"glm": of(glm), "bnn": of(bnn)}}
	}
	set := uciSet{name: "a", published: map[string]float64{"glm": 0.1}}
	tables := []*uciTable{{set: set, results: [][]uciResult{{result(0.3, 0.5)}, {result(0.5, 0.4)}}}}
	s := comparisonUCI(tables)
	row := s.Tables[0].Rows[0]
	require.Equal(t, "GLM", row[1].text)
	require.InDelta(t, 0.4, row[2].Value(), 1e-15)
	require.InDelta(t, 0.3, row[4].Value(), 1e-15)
	require.InDelta(t, 3, row[5].Value(), 1e-12) // the deviation of .3 and .5 is .2/√2
	require.InDelta(t, 0.05, s.Tables[1].Rows[0][1].Value(), 1e-15)
	require.Equal(t, "1 of 2", s.Tables[1].Rows[0][2].text)
	nll := scoresUCI(tables).Tables[0]
	require.Len(t, nll.Rows, 2)
	require.Equal(t, "a, published", nll.Rows[1][0].text)
}

func TestRefineQuick(t *testing.T) {
	page, dir := quick(t, refine, "australian", "waveform")
	require.Contains(t, page, "GLM refine d")
	text, err := os.ReadFile(filepath.Join(dir, "refine-nll.csv"))
	require.NoError(t, err)
	require.Contains(t, string(text), "refine d − GLM")
}

// Refinements to the tolerance of the study predict as those to a small one.
func TestRefineTolerance(t *testing.T) {
	m := trainedJob(t, 3, 40)
	o := m.refineOptions()
	var a, b, covA, covB mat.Dense
	loose, err := variational.Refine(t.Context(), m.train, m.targets(), m.prior, m.theta, o)
	require.NoError(t, err)
	require.NoError(t, loose.PredictTo(t.Context(), &b, &covB, m.held))
	o.Tolerance = 1e-8
	precise, err := variational.Refine(t.Context(), m.train, m.targets(), m.prior, m.theta, o)
	require.NoError(t, err)
	require.NoError(t, precise.PredictTo(t.Context(), &a, &covA, m.held))
	for i, v := range a.RawMatrix().Data {
		require.InDelta(t, v, b.RawMatrix().Data[i], 0.05*math.Sqrt(covA.At(i, i%3)))
	}
}

// The drawn rows are the same in each split, which has each once, in the shares of the source.
func TestWaveformSplit(t *testing.T) {
	a, err := waveformSplit(0)
	require.NoError(t, err)
	b, err := waveformSplit(1)
	require.NoError(t, err)
	for _, e := range []*Examples{a, b} {
		require.InDelta(t, 700, count(e.Train.X), 3)
		require.InDelta(t, 150, count(e.Valid.X), 3)
		require.Equal(t, 1000, count(e.Train.X)+count(e.Valid.X)+count(e.Test.X))
		require.Equal(t, 2.0, mat.Max(e.Train.Y))
	}
	require.InDelta(t, mat.Sum(a.Train.Y), mat.Sum(b.Train.Y), 0, "stratified")
	require.False(t, mat.Equal(a.Train.X, b.Train.X))
}
