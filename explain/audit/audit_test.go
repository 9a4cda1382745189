package audit_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// problems have every likelihood that an audit takes.
func problems(t *testing.T) []*testkit.Problem {
	list := testkit.Problems(t)
	return append(list, testkit.Heteroscedastic())
}

func likelihood(q *testkit.Problem) glm.Likelihood { return q.Likelihood.(glm.Likelihood) }

// rough is a link whose probabilities take little time where the posterior is wide.
func rough(q *testkit.Problem) predictive.Link {
	if l, ok := q.Likelihood.(glm.Logistic); ok && l.Softmax() {
		return predictive.Probit{}
	}
	return nil
}

func refit(t *testing.T, q *testkit.Problem) *gp.Exact {
	t.Helper()
	return testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
}

// without returns the examples and their targets without example i.
func without(t *testing.T, q *testkit.Problem, i int) (*linearize.Batch, *mat.Dense) {
	t.Helper()
	rows := slices.Delete(dense.Range(q.N), i, i+1)
	x := testref.Must(linearize.Gather(t.Context(), q.Train, rows))(t)
	y := mat.NewDense(q.N-1, q.Y.RawMatrix().Cols, nil)
	for k, r := range rows {
		y.SetRow(k, q.Y.RawRowView(r))
	}
	return x, y
}

// refits are the log densities of all targets, each by a refit without its example.
func refits(t *testing.T, q *testkit.Problem) []float64 {
	t.Helper()
	mean, cov := mat.NewDense(q.N, q.C, nil), mat.NewDense(q.N*q.C, q.C, nil)
	for i := range q.N {
		x, y := without(t, q, i)
		post := testref.Must(gp.Refit(t.Context(), q.Kernel, x, gp.NewTargets(y, q.Likelihood), nil))(t)
		require.NoError(t, post.PredictTo(t.Context(), dense.Slice(mean, i, i+1), dense.Slice(cov, i*q.C, (i+1)*q.C), q.Train.Slice(i, i+1)))
	}
	s := testref.Must(score.ScoreOf(nil, likelihood(q), q.Y, mean, cov))(t)
	return s.LogDensity
}

// The log densities are those of refits without each example: to rounding for a
// Gaussian (E17), and otherwise in the same order but for neighbours, where one Newton
// step is near enough.
func TestMislabelledIsTheOrderOfRefits(t *testing.T) {
	for _, q := range problems(t) {
		if slices.Contains([]string{"bernoulli-saturated", "categorical-saturated", "heteroscedastic"}, q.Name) {
			continue // one Newton step from a saturated mode is no refit, nor one of Fisher scoring
		}
		found, err := audit.Of(t.Context(), refit(t, q), likelihood(q), q.Y, nil)
		require.NoError(t, err, q.Name)
		want := refits(t, q)
		require.Len(t, found.Mislabelled, q.N)
		worst := found.Mislabelled[0]
		require.Equal(t, slices.Index(want, slices.Min(want)), worst, "%s: the first suspect", q.Name)
		for k, x := range found.Examples {
			require.Equal(t, k, x.Index)
			if _, gaussian := q.Likelihood.(*glm.Gaussian); gaussian {
				require.InDelta(t, want[k], x.LogDensity, 1e-7*(1+math.Abs(want[k])), q.Name)
			}
		}
		for k := 1; k < q.N; k++ {
			a, b := found.Mislabelled[k-1], found.Mislabelled[k]
			require.LessOrEqual(t, found.Examples[a].LogDensity, found.Examples[b].LogDensity)
		}
		require.Greater(t, orderly(found.Mislabelled, want), 0.95, "%s: pairs in the order of refits", q.Name)
	}
}

// orderly is the share of pairs that come in the order of a key.
func orderly(order []int, key []float64) float64 {
	good, all := 0.0, 0.0
	for i := range order {
		for j := i + 1; j < len(order); j++ {
			if all++; key[order[i]] <= key[order[j]] {
				good++
			}
		}
	}
	return good / all
}

// The leverages are the diagonal blocks' traces of I − B⁻¹ (E4), whose sum is the
// effective number of parameters.
func TestLeverageIsTheEffectiveNumberOfParameters(t *testing.T) {
	for _, q := range problems(t) {
		post := refit(t, q)
		found, err := audit.Of(t.Context(), post, likelihood(q), q.Y, &audit.Options{Link: rough(q)})
		require.NoError(t, err, q.Name)
		root := testkit.Whole(post.Sites().Root)
		b := testkit.Plus(testkit.Identity(q.N*q.C), 1, testkit.Product(root.T(), q.KTrain, root))
		inverse := testkit.Inverse(t, b)
		sum := 0.0
		for i, x := range found.Examples {
			want := float64(q.C)
			for r := range q.C {
				want -= inverse.At(i*q.C+r, i*q.C+r)
			}
			require.InDelta(t, want, x.Leverage, 1e-7, "%s: example %d", q.Name, i)
			sum += want
		}
		require.InDelta(t, sum, found.Effective, 1e-6, q.Name)
		for k := 1; k < q.N; k++ {
			require.GreaterOrEqual(t, found.Examples[found.Leverage[k-1]].Leverage, found.Examples[found.Leverage[k]].Leverage)
		}
	}
}

// With the sites held, the terms are those of the posterior without the example, and add
// up to its prediction there: wᵀ f_−i = wᵀ m + Σ_{j≠i} wᵀ C_−i(x_i,x_j) b_j.
func TestSupportsAreTermsWithoutTheExample(t *testing.T) {
	for _, q := range problems(t) {
		post := refit(t, q)
		terms, weights, err := audit.Terms(t.Context(), post, likelihood(q), q.Y, &audit.Options{Top: q.N, Link: rough(q)})
		require.NoError(t, err, q.Name)
		if q.Name != "bernoulli-saturated" && q.Name != "categorical-saturated" {
			require.NotEmpty(t, terms, q.Name)
		}
		var mean, cov mat.Dense
		require.NoError(t, post.LeaveOneOutTo(t.Context(), &mean, &cov, dense.Range(q.N), q.Train))
		for i, column := range terms {
			w := mat.NewVecDense(q.C, weights[i])
			// C_−i(x_i, ·) of the sites without i, by dense algebra.
			rows := slices.Delete(dense.Range(q.N), i, i+1)
			var at []int
			for _, r := range rows {
				for k := range q.C {
					at = append(at, r*q.C+k)
				}
			}
			root := mat.NewDense(len(at), len(at), nil)
			whole := testkit.Whole(post.Sites().Root)
			k, own := mat.NewDense(len(at), len(at), nil), mat.NewDense(q.C, len(at), nil)
			for a, ia := range at {
				for b, ib := range at {
					root.Set(a, b, whole.At(ia, ib))
					k.Set(a, b, q.KTrain.At(ia, ib))
				}
				for r := range q.C {
					own.Set(r, a, q.KTrain.At(i*q.C+r, ia))
				}
			}
			inner := testkit.Inverse(t, testkit.Plus(testkit.Identity(len(at)), 1, testkit.Product(root.T(), k, root)))
			c := testkit.Plus(own, -1, testkit.Product(own, root, inner, root.T(), k))
			scale := 1.0
			for _, v := range column {
				scale = math.Max(scale, math.Abs(v))
			}
			sum := 0.0
			for a, r := range rows {
				var want mat.VecDense
				want.MulVec(c.Slice(0, q.C, a*q.C, (a+1)*q.C), mat.NewVecDense(q.C, post.PseudoTargets()[r*q.C:(r+1)*q.C]))
				require.InDelta(t, mat.Dot(w, &want), column[r], 1e-6*scale, "%s: %d in %d", q.Name, r, i)
				sum += column[r]
			}
			m := mat.NewVecDense(q.C, testkit.Flat(q.MTrain)[i*q.C:(i+1)*q.C])
			require.InDelta(t, mat.Dot(w, mean.RowView(i)), mat.Dot(w, m)+sum, 1e-6*scale*float64(q.N), "%s: sum of %d", q.Name, i)
		}
	}
}

// What is listed are the largest positive terms, for the first suspects alone.
func TestSupportsAreTheLargestTerms(t *testing.T) {
	q := testkit.NewProblem("categorical", 6, 20, 3, glm.Categorical{}, 1)
	post, o := refit(t, q), &audit.Options{Top: 3, Supports: 2}
	found := testref.Must(audit.Of(t.Context(), post, likelihood(q), q.Y, o))(t)
	terms, _, err := audit.Terms(t.Context(), post, likelihood(q), q.Y, o)
	require.NoError(t, err)
	suspects := 0
	for _, k := range found.Mislabelled {
		x := &found.Examples[k]
		require.Equal(t, x.Suspect() && suspects < 3, x.Supports != nil)
		if x.Supports == nil {
			continue
		}
		suspects++
		require.LessOrEqual(t, len(x.Supports), 2)
		for s, v := range x.Supports {
			require.NotEqual(t, x.Index, v.Index)
			require.Equal(t, terms[x.Index][v.Index], v.Value)
			above := 0
			for j, other := range terms[x.Index] {
				if j != x.Index && other > v.Value {
					above++
				}
			}
			require.Equal(t, s, above)
		}
	}
	require.Equal(t, 3, suspects)
}

// Probabilities, entropy and margin are of the prediction without the example, and a
// label is kept where no class is more probable.
func TestClassScores(t *testing.T) {
	for _, name := range []string{"bernoulli", "categorical"} {
		q := problemNamed(t, name)
		post := refit(t, q)
		found := testref.Must(audit.Of(t.Context(), post, likelihood(q), q.Y, nil))(t)
		for _, x := range found.Examples {
			sum, top, second, entropy := 0.0, 0.0, 0.0, 0.0
			for _, p := range x.Probability {
				sum, entropy = sum+p, entropy-p*math.Log(p)
				if p > top {
					top, second = p, top
				} else if p > second {
					second = p
				}
			}
			require.InDelta(t, 1, sum, 1e-9)
			require.InDelta(t, entropy, x.Entropy, 1e-12)
			require.InDelta(t, top-second, x.Margin, 1e-12)
			require.Equal(t, top, x.Probability[x.Suggested])
			require.Equal(t, int(q.Y.At(x.Index, 0)), x.Label)
			// 1e-4 is the tolerance of the integrals of several classes.
			require.InDelta(t, x.LogDensity, math.Log(x.Probability[x.Label]), 1e-3)
		}
		for k := 1; k < q.N; k++ {
			require.GreaterOrEqual(t, found.Examples[found.Boundary[k-1]].Entropy, found.Examples[found.Boundary[k]].Entropy)
		}
	}
}

func problemNamed(t *testing.T, name string) *testkit.Problem {
	for _, q := range problems(t) {
		if q.Name == name {
			return q
		}
	}
	t.Fatal(name)
	return nil
}

// A Gaussian's residual is (y − mean_−i)/√(var_−i + σ²).
func TestResiduals(t *testing.T) {
	q := problemNamed(t, "gaussian")
	post := refit(t, q)
	found, err := audit.Of(t.Context(), post, likelihood(q), q.Y, &audit.Options{Calibration: &score.Calibration{Scale: 0.5, NoiseScale: 2}})
	require.NoError(t, err)
	var mean, cov mat.Dense
	require.NoError(t, post.LeaveOneOutTo(t.Context(), &mean, &cov, dense.Range(q.N), q.Train))
	for i, x := range found.Examples {
		want := (q.Y.At(i, 0) - mean.At(i, 0)) / math.Sqrt(0.5*cov.At(i, 0)+2*0.2)
		require.InDelta(t, want, x.Residual[0], 1e-9)
		require.Equal(t, -1, x.Label)
		require.False(t, x.Suspect())
	}
	require.Nil(t, found.Boundary)
	// Of counts with their rates kept it is (y − e^m)/√(e^m + e^{2m}(e^{sv} − 1)).
	q = problemNamed(t, "poisson")
	post = refit(t, q)
	found, err = audit.Of(t.Context(), post, likelihood(q), q.Y, &audit.Options{Calibration: &score.Calibration{Scale: 0.5, RateKept: true}})
	require.NoError(t, err)
	mean.Reset()
	cov.Reset()
	require.NoError(t, post.LeaveOneOutTo(t.Context(), &mean, &cov, dense.Range(q.N), q.Train))
	for i, x := range found.Examples {
		for j, got := range x.Residual {
			rate, v := math.Exp(mean.At(i, j)), 0.5*cov.At(i*q.C+j, j)
			require.InDelta(t, (q.Y.At(i, j)-rate)/math.Sqrt(rate+rate*rate*math.Expm1(v)), got, 1e-9)
		}
	}
	for _, name := range []string{"poisson", "heteroscedastic", "gaussian-full-covariance"} {
		q := problemNamed(t, name)
		found := testref.Must(audit.Of(t.Context(), refit(t, q), likelihood(q), q.Y, nil))(t)
		require.Len(t, found.Examples[0].Residual, likelihood(q).Targets(q.C), name)
	}
}

// Wrong labels among examples of well separated classes come first, with the right
// label, whatever rows are audited.
func TestFlippedLabelsComeFirst(t *testing.T) {
	for _, c := range []int{1, 3} {
		q, flipped := separated(t, c)
		found := testref.Must(audit.Of(t.Context(), refit(t, q), likelihood(q), q.Y, nil))(t)
		for _, k := range found.Mislabelled[:len(flipped)] {
			x := &found.Examples[k]
			was, ok := flipped[x.Index]
			require.True(t, ok, "example %d is not mislabelled", x.Index)
			require.True(t, x.Suspect())
			require.Equal(t, was, x.Suggested)
			for _, s := range x.Supports {
				if _, wrong := flipped[s.Index]; !wrong {
					require.Contains(t, []int{was, x.Label}, int(q.Y.At(s.Index, 0)), "a row of another class")
				}
			}
		}
		var rows []int
		for i := range flipped {
			rows = append(rows, i)
		}
		slices.Sort(rows)
		part := testref.Must(audit.Of(t.Context(), refit(t, q), likelihood(q), q.Y, &audit.Options{Rows: rows}))(t)
		for k, i := range rows {
			require.InDelta(t, found.Examples[i].LogDensity, part.Examples[k].LogDensity, 1e-9)
			require.InDelta(t, found.Examples[i].Leverage, part.Examples[k].Leverage, 1e-9)
			require.Equal(t, found.Examples[i].Suggested, part.Examples[k].Suggested)
		}
	}
}

// separated has classes whose Jacobians point in different directions, and a few wrong
// labels. flipped gives the right ones.
func separated(t *testing.T, c int) (q *testkit.Problem, flipped map[int]int) {
	var lik gp.Likelihood = glm.Categorical{}
	if c == 1 {
		lik = glm.Bernoulli{}
	}
	q = testkit.NewProblem("separated", 11, 40, c, lik, 0)
	classes := max(2, c)
	rng := rand.New(rand.NewPCG(3, 3))
	rows := make([]int, q.N)
	for i := range rows {
		// Every example has the input of one of the first, one a class, beside its own.
		rows[i] = i % classes
		q.Y.Set(i, 0, float64(i%classes))
	}
	near := testref.Must(linearize.Gather(t.Context(), q.Train, rows))(t)
	blend(q.Train, near, 0.2)
	q.Fill()
	flipped = map[int]int{}
	for len(flipped) < 4 {
		i := classes + rng.IntN(q.N-classes)
		if _, ok := flipped[i]; ok {
			continue
		}
		flipped[i] = i % classes
		q.Y.Set(i, 0, float64((i+1)%classes))
	}
	return q, flipped
}

// blend moves the Jacobians of x to those of near, of which a share is left.
func blend(x, near *linearize.Batch, share float64) {
	for k, b := range x.Blocks {
		mix := func(a, b *mat.Dense) {
			a.Scale(share, a)
			a.Add(a, b)
		}
		switch b := b.(type) {
		case *linearize.Outer:
			to := near.Blocks[k].(*linearize.Outer)
			mix(b.A, to.A)
			mix(b.G, to.G)
		case *linearize.Full:
			mix(b.J, near.Blocks[k].(*linearize.Full).J)
		default:
			panic("audit: a block of another kind")
		}
	}
}

// Equal inputs are found, with their conflicts, and a nearly equal one has nearly the
// correlation 1.
func TestDuplicates(t *testing.T) {
	q := testkit.NewProblem("categorical", 6, 20, 3, glm.Categorical{}, 1)
	rows := dense.Range(q.N)
	rows[7], rows[12], rows[15] = 2, 2, 4
	x := testref.Must(linearize.Gather(t.Context(), q.Train, rows))(t)
	x = linearize.Concat(x)
	x.X = mat.DenseCopyOf(x.X)
	x.X.Set(15, 0, x.X.At(15, 0)+1) // another input with the same Jacobian
	q.Train = x
	q.Y.Set(7, 0, q.Y.At(2, 0))
	q.Y.Set(12, 0, math.Mod(q.Y.At(2, 0)+1, 3))
	q.Fill()
	post := refit(t, q)
	for _, procs := range []int{1, 3} {
		testref.Procs(t, procs)
		found := testref.Must(audit.Of(t.Context(), post, likelihood(q), q.Y, nil))(t)
		require.GreaterOrEqual(t, len(found.Duplicates), 3)
		require.Equal(t, audit.Pair{First: 2, Second: 7, Correlation: 1, Equal: true}, found.Duplicates[0])
		require.Equal(t, audit.Pair{First: 2, Second: 12, Correlation: 1, Equal: true, Conflict: true}, found.Duplicates[1])
		near := found.Duplicates[2]
		require.Equal(t, [2]int{4, 15}, [2]int{near.First, near.Second})
		require.False(t, near.Equal)
		require.InDelta(t, 1, near.Correlation, 1e-6)
	}
	// All pairs against the joint covariance.
	all, err := audit.Of(t.Context(), post, likelihood(q), q.Y, &audit.Options{Top: 1000, LeastCorrelation: 1e-9})
	require.NoError(t, err)
	var cov mat.Dense
	require.NoError(t, post.JointTo(t.Context(), nil, &cov, q.Train))
	block := func(i, j int) (sum float64) {
		for r := range q.C {
			sum += cov.At(i*q.C+r, j*q.C+r)
		}
		return sum
	}
	positive := 2
	for i := range q.N {
		for j := i + 1; j < q.N; j++ {
			if i != 7 && i != 12 && j != 7 && j != 12 && block(i, j) > 1e-9*math.Sqrt(block(i, i)*block(j, j)) {
				positive++
			}
		}
	}
	require.Len(t, all.Duplicates, positive)
	for _, p := range all.Duplicates {
		require.InDelta(t, block(p.First, p.Second)/math.Sqrt(block(p.First, p.First)*block(p.Second, p.Second)), p.Correlation, 1e-7)
	}
	few := testref.Must(audit.Of(t.Context(), post, likelihood(q), q.Y, &audit.Options{MostPaired: 10}))(t)
	require.Len(t, few.Duplicates, 2, "equal inputs alone")
	testkit.RequireWarnings(t, few.Warnings, "only-equal-pairs")
}

// All kept rows are the exact posterior, so the audit is the same, from a stream too.
func TestOtherPosteriorsAgree(t *testing.T) {
	for _, name := range []string{"gaussian", "categorical"} {
		q := problemNamed(t, name)
		want := testref.Must(audit.Of(t.Context(), refit(t, q), likelihood(q), q.Y, nil))(t)
		post, err := kept.Refit(t.Context(), testkit.InTiles(q.Train, 7), q.Targets(), q.Prior, q.Theta, nil)
		require.NoError(t, err)
		got := testref.Must(audit.Of(t.Context(), post, likelihood(q), q.Y, nil))(t)
		for i, x := range got.Examples {
			require.InDelta(t, want.Examples[i].LogDensity, x.LogDensity, 1e-5, name)
			require.InDelta(t, want.Examples[i].Leverage, x.Leverage, 1e-5, name)
			require.Equal(t, want.Examples[i].Suggested, x.Suggested)
			// A posterior of kept rows sums over combined outputs.
			require.Len(t, x.Supports, len(want.Examples[i].Supports))
			for k, s := range x.Supports {
				require.Equal(t, want.Examples[i].Supports[k].Index, s.Index)
				require.InDelta(t, want.Examples[i].Supports[k].Value, s.Value, 1e-5, name)
			}
		}
		require.Equal(t, len(want.Duplicates), len(got.Duplicates))
	}
}

// Scores in parts and their lists are the audit of all examples at once.
func TestScoresInParts(t *testing.T) {
	for _, q := range problems(t) {
		post, o := refit(t, q), &audit.Options{Link: rough(q), Top: 5}
		want, err := audit.Of(t.Context(), post, likelihood(q), q.Y, o)
		if err != nil { // a likelihood that no audit takes
			continue
		}
		var examples []audit.Example
		for lo := 0; lo < q.N; lo += 7 {
			part := *o
			part.Rows = dense.Range(min(lo+7, q.N))[lo:]
			scored := testref.Must(audit.Scores(t.Context(), post, likelihood(q), q.Y, &part))(t)
			require.Nil(t, scored.Mislabelled)
			require.Nil(t, scored.Duplicates)
			examples = append(examples, scored.Examples...)
		}
		got := testref.Must(audit.List(t.Context(), post, likelihood(q), q.Y, examples, o))(t)
		require.Equal(t, want.Mislabelled, got.Mislabelled, q.Name)
		require.Equal(t, want.Boundary, got.Boundary)
		require.Equal(t, want.Leverage, got.Leverage)
		require.Equal(t, want.Duplicates, got.Duplicates)
		require.InDelta(t, want.Effective, got.Effective, 1e-9)
		for i, x := range got.Examples {
			require.InDelta(t, want.Examples[i].LogDensity, x.LogDensity, 1e-9)
			require.Equal(t, want.Examples[i].EqualTo, x.EqualTo)
			require.Len(t, x.Supports, len(want.Examples[i].Supports))
			for k, s := range x.Supports {
				require.Equal(t, want.Examples[i].Supports[k].Index, s.Index)
				require.InDelta(t, want.Examples[i].Supports[k].Value, s.Value, 1e-9*(1+math.Abs(s.Value)))
			}
		}
	}
	q := testkit.NewProblem("categorical", 6, 40, 3, glm.Categorical{}, 1)
	require.Error(t, testref.Err(audit.List(t.Context(), refit(t, q), likelihood(q), q.Y, nil, nil)))
}

// The result is the same for any number of processors.
func TestProcessors(t *testing.T) {
	q := testkit.NewProblem("categorical", 6, 40, 3, glm.Categorical{}, 1)
	post := refit(t, q)
	testref.Procs(t, 1)
	one, err := audit.Of(t.Context(), post, likelihood(q), q.Y, &audit.Options{LeastCorrelation: 0.01})
	require.NoError(t, err)
	testref.Procs(t, 5)
	many, err := audit.Of(t.Context(), post, likelihood(q), q.Y, &audit.Options{LeastCorrelation: 0.01})
	require.NoError(t, err)
	require.Equal(t, one, many)
}

func TestErrors(t *testing.T) {
	shares := testkit.NewProblem("shares", 5, 10, 1, glm.Bernoulli{}, 1)
	shares.Y.Set(3, 0, .25)
	_, err := audit.Of(t.Context(), refit(t, shares), likelihood(shares), shares.Y, nil)
	unsupported := testref.As[*audit.UnsupportedError](t, err)
	require.Equal(t, 1, unsupported.Outputs)

	q := problemNamed(t, "categorical")
	post := refit(t, q)
	var memory *gp.MemoryError
	_, err = audit.Of(t.Context(), post, likelihood(q), q.Y, &audit.Options{Limits: linearize.Limits{Memory: 100}})
	require.ErrorAs(t, err, &memory)
	var none *score.RowsError
	_, err = audit.Of(t.Context(), post, likelihood(q), q.Y, &audit.Options{Rows: []int{}})
	require.ErrorAs(t, err, &none)
	require.Panics(t, func() { _, _ = audit.Of(t.Context(), post, likelihood(q), q.Y, &audit.Options{Rows: []int{3, 1}}) })
	testkit.Stops(t, "an audit", 4, func(ctx context.Context) error {
		_, err := audit.Of(ctx, post, likelihood(q), q.Y, nil)
		return err
	})
}
