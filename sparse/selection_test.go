package sparse_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

// selectors are one of each.
func (q *problem) selectors(t *testing.T, seed uint64) map[string]sparse.Selector {
	labels := make([]int, q.N)
	for i := range labels {
		labels[i] = i % 3
	}
	return map[string]sparse.Selector{
		"uniform":    sparse.Uniform{Seed: seed},
		"stratified": sparse.Stratified{Labels: labels, Seed: seed},
		"trace":      sparse.Trace{Sites: q.Sites(t)},
		"greedy":     sparse.Greedy{},
		"rpcholesky": sparse.RandomCholesky{Seed: seed},
		"kmeans":     sparse.KMeans{Seed: seed},
	}
}

func choose(t *testing.T, how sparse.Selector, q *problem, x linearize.Source, m int) []int {
	t.Helper()
	z := testref.Must(sparse.Select(t.Context(), how, q.Kernel, x, m, nil))(t)
	require.Len(t, z.Rows, m)
	require.Equal(t, m, z.Len())
	for i, r := range z.Rows {
		require.Equal(t, q.Train.F.RawRowView(r), z.Batch.F.RawRowView(i))
	}
	return z.Rows
}

// Every selection is one of distinct examples, all of them at M = N, nested
// in M, and the same for the same seed.
func TestSelections(t *testing.T) {
	problems := append(problems(t), newProblemOf("singular", 31, 20, 3, glm.Categorical{}, 1, 4), newProblem("large", 32, 90, 2, glm.Categorical{}, 1))
	for _, q := range problems {
		for name, how := range q.selectors(t, 5) {
			t.Run(q.Name+"/"+name, func(t *testing.T) {
				all := choose(t, how, q, q.Train, q.N)
				require.Equal(t, seq(0, q.N), slices.Sorted(slices.Values(all)))
				for _, m := range []int{1, 2, 7, q.N - 1} {
					require.Equal(t, all[:m], choose(t, how, q, q.Train, m), "M = %d", m)
				}
				require.Equal(t, all, choose(t, q.selectors(t, 5)[name], q, testkit.InTiles(q.Train, 8), q.N))
				if name != "greedy" && name != "trace" {
					require.NotEqual(t, all, choose(t, q.selectors(t, 6)[name], q, q.Train, q.N))
				}
			})
		}
	}
}

func TestSelectCounts(t *testing.T) {
	q := problems(t)[0]
	for _, m := range []int{-1, 0, q.N + 1} {
		_, err := sparse.Select(t.Context(), sparse.Uniform{}, nil, q.Train, m, nil)
		require.Equal(t, &sparse.CountError{M: m, N: q.N}, err)
		require.NotEmpty(t, err.Error())
	}
}

// Greedy is what its definition says, ties aside.
func TestGreedyAgainstDense(t *testing.T) {
	for _, q := range []*problem{newProblem("one", 51, 30, 1, glm.Bernoulli{}, 1), newProblem("three", 52, 90, 3, glm.Categorical{}, 1)} {
		got := choose(t, sparse.Greedy{}, q, q.Train, 20)
		left, at := mat.DenseCopyOf(q.KTrain), []int(nil)
		for range 20 {
			best, largest := -1, 0.0
			for i := range q.N {
				trace := 0.0
				for a := i * q.C; a < (i+1)*q.C; a++ {
					trace += left.At(a, a)
				}
				if trace > largest && !slices.Contains(at, i) {
					best, largest = i, trace
				}
			}
			at = append(at, best)
			for a := best * q.C; a < (best+1)*q.C; a++ {
				row := mat.DenseCopyOf(left.Slice(a, a+1, 0, q.N*q.C))
				left = plus(left, -1/row.At(0, a), product(row.T(), row))
			}
		}
		require.Equal(t, at, got)
	}
}

// The trace error falls for nested sets, and the better selections lose less
// of the trace than a random one.
func TestSelectionsReduceTrace(t *testing.T) {
	q := newProblem("large", 61, 120, 2, glm.Categorical{}, 1)
	final := map[string]float64{}
	for name, how := range q.selectors(t, 1) {
		last := 1.0
		for _, m := range []int{5, 15, 30, 60, 120} {
			p := q.fit(t, q.inducing(t, choose(t, how, q, q.Train, m)...), nil)
			require.LessOrEqual(t, p.TraceError(), last, "%s, M = %d", name, m)
			last = p.TraceError()
			if m == 30 {
				final[name] = last
			}
		}
		require.Less(t, last, 1e-12, name)
	}
	require.Less(t, final["greedy"], final["uniform"])
	require.Less(t, final["rpcholesky"], final["uniform"])
}

// frequencies counts ordered pairs of first choices over many seeds.
func frequencies(t *testing.T, q *problem, how func(seed uint64) sparse.Selector, runs int) *mat.Dense {
	t.Helper()
	count := mat.NewDense(q.N, q.N, nil)
	for seed := range runs {
		rows := testref.Must(how(uint64(seed)).Choose(t.Context(), q.Kernel, q.Train, 2, nil))(t)
		count.Set(rows[0], rows[1], count.At(rows[0], rows[1])+1)
	}
	return count
}

// requireFrequencies compares counts with probabilities: all within five
// standard deviations of their counts.
func requireFrequencies(t *testing.T, count, prob *mat.Dense, runs int) {
	t.Helper()
	n, _ := prob.Dims()
	require.InDelta(t, 1, mat.Sum(prob), 1e-9)
	for i := range n {
		for j := range n {
			p := prob.At(i, j)
			want := p * float64(runs)
			require.InDelta(t, want, count.At(i, j), 5*math.Sqrt(want*(1-p))+1e-9, "choice of %d, then %d", i, j)
		}
	}
}

// Choosing in pools with rejection has the distribution of choosing one by
// one, each with probability proportional to its residual trace.
func TestRandomCholeskyDistribution(t *testing.T) {
	testref.Long(t, "thousands of selections that other tests make once")
	t.Parallel()
	const runs = 2000
	q := newProblemOf("few", 71, 5, 2, glm.Categorical{}, 1, 4)
	trace := func(k *mat.Dense, i int) float64 { return k.At(2*i, 2*i) + k.At(2*i+1, 2*i+1) }
	prob := mat.NewDense(q.N, q.N, nil)
	for i := range q.N {
		rows := pick(q.KTrain, []int{2 * i, 2*i + 1})
		left := plus(q.KTrain, -1, product(rows.T(), inverse(t, rows.Slice(0, 2, 2*i, 2*i+2)), rows))
		total := mat.Trace(left)
		for j := range q.N {
			if j != i {
				prob.Set(i, j, trace(q.KTrain, i)/mat.Trace(q.KTrain)*trace(left, j)/total)
			}
		}
	}
	requireFrequencies(t, frequencies(t, q, func(s uint64) sparse.Selector { return sparse.RandomCholesky{Seed: s} }, runs), prob, runs)
}

// The second choice of k-means++ is proportional to the squared distance from
// the first.
func TestKMeansDistribution(t *testing.T) {
	testref.Long(t, "thousands of selections that other tests make once")
	t.Parallel()
	const runs = 2000
	q := newProblemOf("few", 72, 5, 2, glm.Categorical{}, 1, 4)
	distance := func(i, j int) float64 {
		d := 0.0
		for a := range 2 {
			d += q.KTrain.At(2*i+a, 2*i+a) + q.KTrain.At(2*j+a, 2*j+a) - 2*q.KTrain.At(2*i+a, 2*j+a)
		}
		return d
	}
	prob := mat.NewDense(q.N, q.N, nil)
	for i := range q.N {
		total := 0.0
		for j := range q.N {
			total += distance(i, j)
		}
		for j := range q.N {
			prob.Set(i, j, distance(i, j)/total/float64(q.N))
		}
	}
	requireFrequencies(t, frequencies(t, q, func(s uint64) sparse.Selector { return sparse.KMeans{Seed: s} }, runs), prob, runs)
}

// At every M no class is off its share by one example or more.
func TestStratifiedShares(t *testing.T) {
	q := newProblem("large", 81, 100, 1, glm.Bernoulli{}, 1)
	rng := rand.New(rand.NewPCG(3, 4))
	labels, count := make([]int, q.N), make([]int, 4)
	for i := range labels {
		labels[i] = min(3, rng.IntN(7)) // the last class is the largest
		count[labels[i]]++
	}
	rows := choose(t, sparse.Stratified{Labels: labels, Seed: 2}, q, q.Train, q.N)
	taken := make([]int, 4)
	for m, r := range rows {
		taken[labels[r]]++
		for k := range taken {
			share := float64(count[k]) * float64(m+1) / float64(q.N)
			require.Less(t, math.Abs(float64(taken[k])-share), 1.2, "class %d of %d", k, m+1)
		}
	}
	require.Panics(t, func() { choose(t, sparse.Stratified{Labels: labels[1:]}, q, q.Train, 3) })
}

func TestTraceIsLargestLambda(t *testing.T) {
	q := problems(t)[5]
	s := q.Sites(t)
	trace := func(i int) float64 {
		sum := 0.0
		for a := range q.C {
			sum += s.Lambda.At(i*q.C+a, a)
		}
		return sum
	}
	rows := choose(t, sparse.Trace{Sites: s}, q, q.Train, q.N)
	for i := range q.N - 1 {
		require.GreaterOrEqual(t, trace(rows[i]), trace(rows[i+1]))
	}
}

func TestCholeskyPlansMemory(t *testing.T) {
	q := problems(t)[0]
	for _, how := range []sparse.Selector{sparse.Greedy{}, sparse.RandomCholesky{}} {
		_, err := sparse.Select(t.Context(), how, q.Kernel, q.Train, 10, &sparse.Options{Limits: linearize.Limits{Memory: 5 * 8 * (20 + 2048)}})
		e := testref.As[*gp.MemoryError](t, err)
		require.Equal(t, 5, e.Largest)
	}
}
