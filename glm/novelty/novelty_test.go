package novelty_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/novelty"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// problems have inputs of 5 numbers, and the last more numbers than training examples.
func problems() []*testkit.Problem {
	all := []*testkit.Problem{
		testkit.NewProblem("one output", 1, 40, 1, glm.Bernoulli{}, 1),
		testkit.NewProblem("saturated", 2, 40, 1, glm.Bernoulli{}, 900),
		testkit.NewProblem("three outputs", 3, 40, 3, glm.Categorical{}, 1),
		testkit.NewProblem("wide inputs", 4, 30, 2, glm.Categorical{}, 1),
	}
	rng := rand.New(rand.NewPCG(22, 0))
	for i, q := range all {
		d := 5
		if i == len(all)-1 {
			d = 45
		}
		q.Train.X, q.Test.X = testkit.RandomMatrix(rng, q.N, d), testkit.RandomMatrix(rng, q.T, d)
	}
	return all
}

func allRows(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	return rows
}

// posteriors are those through which v is that of all training examples.
func posteriors(t *testing.T, q *testkit.Problem) map[string]gp.Dual {
	t.Helper()
	s, z := q.Sites(t), &sparse.Inducing{Rows: allRows(q.N), Batch: q.Train}
	exact := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, s, nil))(t)
	nystrom := testref.Must(sparse.Fit(t.Context(), q.Kernel, testkit.InTiles(q.Train, 7), s, z, nil))(t)
	rows, directions := make([]int, q.N*q.C), mat.NewDense(q.N*q.C, q.C, nil)
	for i := range rows {
		rows[i] = i / q.C
		directions.Set(i, i%q.C, 1)
	}
	pairs := testref.Must(sparse.Fit(t.Context(), q.Kernel, q.Train, s, testref.Must(sparse.GatherDirections(t.Context(), q.Train, rows, directions))(t), nil))(t)
	parameters := testref.Must(weightspace.FitSums(t.Context(), testkit.InTiles(q.Train, 9), s, q.Prior, q.Theta, nil))(t)
	return map[string]gp.Dual{"exact": exact, "nystrom": nystrom, "pairs": pairs, "parameters": parameters}
}

// relative returns tr v/√tr κ of examples with these covariances.
func relative(v, k *mat.Dense, c int) []float64 {
	n, _ := k.Dims()
	out := make([]float64, n/c)
	for i := range out {
		lo, hi := i*c, (i+1)*c
		out[i] = mat.Trace(v.Slice(lo, hi, lo, hi)) / math.Sqrt(mat.Trace(k.Slice(lo, hi, lo, hi)))
	}
	return out
}

// left returns k − cross (of + εI)⁻¹ crossᵀ.
func left(t *testing.T, k, cross, of *mat.Dense, noise float64) *mat.Dense {
	t.Helper()
	n, _ := of.Dims()
	inner := testkit.Inverse(t, testkit.Plus(of, noise, testkit.Identity(n)))
	return testkit.Plus(k, -1, testkit.Product(cross, inner, cross.T()))
}

// pick returns the entries of k in these rows and columns.
func pick(k *mat.Dense, rows, cols []int) *mat.Dense {
	m := mat.NewDense(len(rows), len(cols), nil)
	m.Apply(func(i, j int, _ float64) float64 { return k.At(rows[i], cols[j]) }, m)
	return m
}

// without returns the positions of outputs of n examples with c outputs but for example i,
// and those of i.
func without(n, c, i int) (rest, own []int) {
	for at := range n * c {
		if at/c == i {
			own = append(own, at)
		} else {
			rest = append(rest, at)
		}
	}
	return rest, own
}

// leftOut returns tr v/√tr κ of each training example, computed without its rows.
func leftOut(t *testing.T, q *testkit.Problem, noise float64) []float64 {
	t.Helper()
	var out []float64
	for i := range q.N {
		rest, own := without(q.N, q.C, i)
		k := pick(q.KTrain, own, own)
		out = append(out, relative(left(t, k, pick(q.KTrain, own, rest), pick(q.KTrain, rest, rest), noise), k, q.C)...)
	}
	return out
}

// v of (E22) is that of the dense formula beside an exact posterior, and through all
// examples as inducing ones beside any other. Leaving out an example in closed form is
// the formula without its rows.
func TestVarianceE22(t *testing.T) {
	for _, q := range problems() {
		noise := .01 * mat.Trace(q.KTrain) / float64(q.N*q.C)
		want := relative(left(t, q.KTest, q.KCross, q.KTrain, noise), q.KTest, q.C)
		wantOut := leftOut(t, q, noise)
		slices.Sort(wantOut)
		for name, post := range posteriors(t, q) {
			d, err := novelty.Fit(t.Context(), q.Kernel, post, nil)
			require.NoError(t, err, name)
			require.InEpsilon(t, noise, d.Noise(), 1e-12)
			v := testref.Must(d.Variance(t.Context(), q.Test))(t)
			// v is a difference of numbers up to 1,000 times as large, through factors of K.
			require.InDeltaSlice(t, want, v, 1e-6*want[0], "%s, %s", q.Name, name)
			require.InDeltaSlice(t, wantOut, d.Sorted(0), 1e-6*want[0], "%s, %s", q.Name, name)
		}
	}
}

// A counted kernel counts blocks that are not of the diagonal.
type counted struct {
	ntk.Kernel
	blocks int
}

func (k *counted) BlockTo(dst *mat.Dense, a, b *linearize.Batch) {
	if a != b {
		k.blocks++
	}
	k.Kernel.BlockTo(dst, a, b)
}

// A prediction with its score has the bits of both by themselves, beside the detector's posterior and beside others.
func TestPredictTo(t *testing.T) {
	for _, q := range problems() {
		all := posteriors(t, q)
		for of, post := range all {
			d := testref.Must(novelty.Fit(t.Context(), q.Kernel, post, nil))(t)
			for by, post := range all {
				var mean, cov, bothMean, bothCov mat.Dense
				scores, both := make([]float64, q.T), make([]float64, q.T)
				require.NoError(t, post.PredictTo(t.Context(), &mean, &cov, q.Test))
				require.NoError(t, d.ScoreTo(t.Context(), scores, q.Test))
				require.NoError(t, d.PredictTo(t.Context(), post, &bothMean, &bothCov, both, q.Test))
				require.Equal(t, mean.RawMatrix().Data, bothMean.RawMatrix().Data, "%s, %s beside that of %s", q.Name, by, of)
				require.Equal(t, cov.RawMatrix().Data, bothCov.RawMatrix().Data, "%s, %s beside that of %s", q.Name, by, of)
				require.Equal(t, scores, both, "%s, %s beside that of %s", q.Name, by, of)
			}
		}
	}
}

// Beside the detector's own posterior, exact or Nyström, both take one cross-kernel.
func TestPredictToTakesOneCrossKernel(t *testing.T) {
	q := problems()[2]
	s, k := q.Sites(t), &counted{Kernel: q.Kernel}
	exact := testref.Must(gp.Fit(t.Context(), k, q.Train, s, nil))(t)
	z := &sparse.Inducing{Rows: allRows(9), Batch: q.Train.Slice(0, 9)}
	nystrom := testref.Must(sparse.Fit(t.Context(), k, q.Train, s, z, nil))(t)
	for _, post := range []gp.Dual{exact, nystrom} {
		d := testref.Must(novelty.Fit(t.Context(), k, post, nil))(t)
		var mean, cov mat.Dense
		require.NoError(t, post.PredictTo(t.Context(), &mean, &cov, q.Test)) // which prepares what it keeps
		k.blocks = 0
		require.NoError(t, post.PredictTo(t.Context(), &mean, &cov, q.Test))
		alone := k.blocks
		require.NoError(t, d.PredictTo(t.Context(), post, &mean, &cov, make([]float64, q.T), q.Test))
		require.Equal(t, 2*alone, k.blocks)
	}
}

// Through some inducing examples v is K_** − K_*Z(K_ZZ⁻¹ − (K_ZZ + K_Zn K_nZ/ε)⁻¹)K_Z*, and
// training examples that are no inducing ones are left out by leaving out their term.
func TestVarianceThroughInducing(t *testing.T) {
	for _, q := range problems() {
		z := []int{3, 4, 9, 15, 21}
		x := testref.Must(q.Train.Gather(t.Context(), z))(t)
		post, err := sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), &sparse.Inducing{Rows: z, Batch: x}, nil)
		require.NoError(t, err)
		d := testref.Must(novelty.Fit(t.Context(), q.Kernel, post, nil))(t)
		var at []int
		for _, i := range z {
			for c := range q.C {
				at = append(at, i*q.C+c)
			}
		}
		all, kzz := allRows(q.N*q.C), pick(q.KTrain, at, at)
		kzn := pick(q.KTrain, at, all)
		v := func(k, cross, kzn *mat.Dense) []float64 {
			inner := testkit.Inverse(t, testkit.Plus(kzz, 1/d.Noise(), testkit.Product(kzn, kzn.T())))
			difference := testkit.Plus(testkit.Inverse(t, kzz), -1, inner)
			return relative(testkit.Plus(k, -1, testkit.Product(cross, difference, cross.T())), k, q.C)
		}
		got := testref.Must(d.Variance(t.Context(), q.Test))(t)
		want := v(q.KTest, pick(q.KCross, allRows(q.T*q.C), at), kzn)
		require.InDeltaSlice(t, want, got, 1e-7*want[0], q.Name)
		var wantOut []float64
		for i := range q.N {
			if slices.Contains(z, i) {
				continue
			}
			rest, own := without(q.N, q.C, i)
			wantOut = append(wantOut, v(pick(q.KTrain, own, own), pick(q.KTrain, own, at), pick(q.KTrain, at, rest))...)
		}
		slices.Sort(wantOut)
		require.InDeltaSlice(t, wantOut, d.Sorted(0), 1e-7*want[0], q.Name)
	}
}

// Of many training examples v through inducing ones is that of 16,384 of them, among which
// are those that stand for all.
func TestVarianceOfMany(t *testing.T) {
	const n = 17_000
	rng := rand.New(rand.NewPCG(5, 0))
	x := gptest.RandomBatch(rng, n, 1, gptest.Layer{In: 3, Out: 2})
	x.X = nil
	test := gptest.Another(rng, x, 9)
	prior := testref.Must(ntk.NewIsotropic(2, nil))(t)
	k := ntk.New(prior, make([]float64, x.P))
	y := mat.NewDense(n, 1, nil)
	s := testref.Must(gp.NewSites(gp.NewTargets(y, glm.Bernoulli{}), x.F))(t)
	rows := []int{5, 600, 16_000}
	few := testref.Must(x.Gather(t.Context(), rows))(t)
	z := &sparse.Inducing{Rows: rows, Batch: few}
	post := testref.Must(sparse.Fit(t.Context(), k, x, s, z, nil))(t)
	d := testref.Must(novelty.Fit(t.Context(), k, post, nil))(t)
	got := testref.Must(d.Variance(t.Context(), test))(t)

	summed := d.Summed(n, len(rows), 0)
	require.Len(t, summed, 16_384)
	require.True(t, slices.IsSorted(summed))
	require.Len(t, slices.Compact(slices.Clone(summed)), 16_384)
	stand, _ := d.LeftOut()
	require.Len(t, stand, 4096)
	for _, i := range stand {
		_, found := slices.BinarySearch(summed, i)
		require.True(t, found, i)
		require.NotContains(t, rows, i)
	}
	of := testref.Must(linearize.Gather(t.Context(), x, summed))(t)
	b := testref.Must(sparse.NewBuilder(t.Context(), k, z, nil))(t)
	require.NoError(t, b.Add(t.Context(), of, gp.UniformSites(len(summed), 1, d.Noise())))
	p := testref.Must(b.Posterior(t.Context()))(t)
	var v, kappa mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), nil, &v, test))
	k.DiagTo(&kappa, test)
	for i := range got {
		require.InDelta(t, v.At(i, 0), got[i]*math.Sqrt(kappa.At(i, 0)), 1e-9)
	}
	// More inducing examples take more.
	require.Len(t, d.Summed(n, 2100, 0), 16_800)
	require.Len(t, d.Summed(n, 9000, 0), n)
}

// Where a second factor of all examples does not fit into memory, v is that of as many
// inducing examples as do. It is not smaller, since they leave out some of K.
func TestVarianceWithinMemory(t *testing.T) {
	q := testkit.NewProblem("", 5, 300, 1, glm.Bernoulli{}, 1)
	post := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), nil))(t)
	whole := testref.Must(novelty.Fit(t.Context(), q.Kernel, post, nil))(t)
	few, err := novelty.Fit(t.Context(), q.Kernel, post, &novelty.Options{Limits: linearize.Limits{Memory: gp.Bytes(q.N, q.C) - 1}})
	require.NoError(t, err)
	a := testref.Must(whole.Variance(t.Context(), q.Test))(t)
	b := testref.Must(few.Variance(t.Context(), q.Test))(t)
	for i := range a {
		require.Greater(t, b[i], a[i])
		require.Less(t, b[i], math.Sqrt(q.KTest.At(i, i)))
	}
	require.Less(t, len(few.Sorted(0)), len(whole.Sorted(0)))
	// A hundred inputs do not fit: distances from a few say nothing.
	alone, err := novelty.Fit(t.Context(), q.Kernel, post, &novelty.Options{Limits: linearize.Limits{Memory: 4*8*(100*3+3*3+512*(2*3+2*100)) - 1}})
	require.NoError(t, err)
	for d, distances := range map[*novelty.Detector]int{whole: 3, alone: 1} {
		var surprises mat.Dense
		require.NoError(t, d.SurprisesTo(t.Context(), &surprises, q.Test))
		require.Equal(t, distances, surprises.RawMatrix().Cols)
	}
}

// mean is that of each column of x, without a row if it is ≥ 0.
func mean(x *mat.Dense, without int) []float64 {
	n, d := x.Dims()
	out, count := make([]float64, d), 0.0
	for i := range n {
		if i == without {
			continue
		}
		count++
		for j := range d {
			out[j] += x.At(i, j)
		}
	}
	for j := range out {
		out[j] /= count
	}
	return out
}

// centered returns x less the mean of the columns of of.
func centered(of, x *mat.Dense) *mat.Dense {
	center, z := mean(of, -1), mat.DenseCopyOf(x)
	z.Apply(func(_, j int, v float64) float64 { return v - center[j] }, z)
	return z
}

// standardized returns x less the mean of the columns of of, divided by their deviation or a
// tenth of their range, whichever is larger; a column that is the same in all rows by the
// mean of what the others are divided by.
func standardized(of, x *mat.Dense) *mat.Dense {
	n, d := of.Dims()
	center, scale, constant := mean(of, -1), make([]float64, d), 0.0
	varying := 0.0
	for j := range d {
		column := mat.Col(nil, j, of)
		for _, v := range column {
			scale[j] += (v - center[j]) * (v - center[j]) / float64(n)
		}
		width := slices.Max(column) - slices.Min(column)
		if scale[j] = math.Max(math.Sqrt(scale[j]), width/10); width > 0 {
			constant, varying = constant+scale[j], varying+1
		} else {
			scale[j] = 0
		}
	}
	z := mat.DenseCopyOf(x)
	z.Apply(func(_, j int, v float64) float64 {
		if scale[j] == 0 {
			return (v - center[j]) / (constant / varying)
		}
		return (v - center[j]) / scale[j]
	}, z)
	return z
}

// mahalanobis returns √(uᵀ(Σ(z − mean)(z − mean)ᵀ + λI)⁻¹u) for u = x − mean, and the least one for u = x − z, without row i
// of z in mean, sum and least.
func mahalanobis(t *testing.T, z *mat.Dense, x []float64, i int, ridge float64) (far, near float64) {
	t.Helper()
	n, d := z.Dims()
	center := mean(z, i)
	s := mat.NewDense(d, d, nil)
	difference := func(row []float64) *mat.Dense { return testkit.Plus(testkit.Vec(row), -1, testkit.Vec(center)) }
	for k := range n {
		if k != i {
			u := difference(z.RawRowView(k))
			s.Add(s, testkit.Product(u, u.T()))
		}
	}
	inner := testkit.Inverse(t, testkit.Plus(s, ridge, testkit.Identity(d)))
	length := func(u *mat.Dense) float64 { return math.Sqrt(testkit.Product(u.T(), inner, u).At(0, 0)) }
	near = math.Inf(1)
	for k := range n {
		if k != i {
			near = min(near, length(testkit.Plus(testkit.Vec(x), -1, testkit.Vec(z.RawRowView(k)))))
		}
	}
	return length(difference(x)), near
}

// chord returns the least distance between the directions of x and of a row of z but row i.
func chord(z *mat.Dense, x []float64, i int) float64 {
	n, _ := z.Dims()
	least := 2.0
	unit := func(row []float64) *mat.VecDense {
		v := mat.VecDenseCopyOf(mat.NewVecDense(len(row), row))
		v.ScaleVec(1/mat.Norm(v, 2), v)
		return v
	}
	for k := range n {
		if k != i {
			var diff mat.VecDense
			diff.SubVec(unit(x), unit(z.RawRowView(k)))
			least = min(least, mat.Norm(&diff, 2))
		}
	}
	return least
}

// The distances of the inputs, with more rows than columns and with fewer, of new rows and of
// training rows that are left out, are those of sums over rows.
func TestInputDistances(t *testing.T) {
	for k, q := range problems() {
		q.Train.X.SetCol(2, make([]float64, q.N)) // a column that never changes
		post := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), nil))(t)
		o, scaled := &novelty.Options{Standardize: k > 0}, centered
		if o.Standardize {
			scaled = standardized
		}
		d := testref.Must(novelty.Fit(t.Context(), q.Kernel, post, o))(t)
		z, x := scaled(q.Train.X, q.Train.X), scaled(q.Train.X, q.Test.X)
		_, cols := z.Dims()
		ridge := 1e-3 * math.Pow(mat.Norm(z, 2), 2) / float64(cols)
		near, angle, err := d.InputDistances(t.Context(), q.Test)
		require.NoError(t, err)
		old := testref.Must(novelty.Load(t.Context(), testkit.Written(t, d.SaveFromMean), q.Kernel, post, o))(t)
		far, _, err := old.InputDistances(t.Context(), q.Test)
		require.NoError(t, err)
		for i := range q.T {
			// With fewer rows than columns it is a difference.
			wantFar, wantNear := mahalanobis(t, z, x.RawRowView(i), -1, ridge)
			require.InEpsilon(t, wantFar, far[i], 1e-7, q.Name)
			require.InEpsilon(t, wantNear, near[i], 1e-7, q.Name)
			require.InEpsilon(t, chord(z, x.RawRowView(i), -1), angle[i], 1e-9, q.Name)
		}
		var ownNear, ownAngle []float64
		for i := range q.N {
			_, own := mahalanobis(t, z, z.RawRowView(i), i, ridge)
			ownNear = append(ownNear, own)
			ownAngle = append(ownAngle, chord(z, z.RawRowView(i), i))
		}
		// The scores are in the order of the rows.
		ownV := leftOut(t, q, d.Noise())
		_, scores := d.LeftOut()
		for i, score := range scores {
			want := (surprise(d.Sorted(0), ownV[i]) + surprise(d.Sorted(1), ownNear[i]) + surprise(d.Sorted(2), ownAngle[i])) / 3
			// Rounding moves a distance across one that it is equal to, which counts half.
			require.InDelta(t, want, score, .1, q.Name)
		}
		slices.Sort(ownNear)
		slices.Sort(ownAngle)
		for i := range q.N {
			// With fewer rows than columns 1 − cq loses digits.
			require.InEpsilon(t, ownNear[i], d.Sorted(1)[i], 1e-6, q.Name)
			require.InEpsilon(t, ownAngle[i], d.Sorted(2)[i], 1e-9, q.Name)
		}
	}
}

// A score is the mean of −log of the shares of training examples that have larger distances.
// Rows far out in the inputs have larger scores than all training examples and keep their
// order.
func TestScore(t *testing.T) {
	for _, q := range problems() {
		for name, post := range posteriors(t, q) {
			d := testref.Must(novelty.Fit(t.Context(), q.Kernel, post, nil))(t)
			novel := make([]float64, q.T)
			require.NoError(t, d.ScoreTo(t.Context(), novel, q.Test))
			v := testref.Must(d.Variance(t.Context(), q.Test))(t)
			near, angle, err := d.InputDistances(t.Context(), q.Test)
			require.NoError(t, err)
			for i := range novel {
				want := (surprise(d.Sorted(0), v[i]) + surprise(d.Sorted(1), near[i]) + surprise(d.Sorted(2), angle[i])) / 3
				require.InEpsilon(t, want, novel[i], 1e-12, name)
			}
			require.Len(t, d.Training(), q.N)
			rows, scores := d.LeftOut()
			require.Equal(t, allRows(q.N), rows)
			require.Equal(t, d.Training(), score.SortedScores(scores))
			var away []float64
			for _, by := range []float64{20, 40, 80} {
				x := *q.Test
				x.X = mat.DenseCopyOf(x.X)
				x.X.Scale(by, x.X)
				require.NoError(t, d.ScoreTo(t.Context(), novel, &x))
				away = append(away, novel[0])
			}
			require.Greater(t, away[0], d.Training()[q.N-1])
			require.True(t, slices.IsSorted(away) && away[0] < away[1] && away[1] < away[2])
		}
	}
}

// surprise is −log of the share of the numbers above v: half an equal one counts. From the
// number at four fifths on, the excess over it has an exponential distribution.
func surprise(sorted []float64, v float64) float64 {
	n := float64(len(sorted))
	from := int(n * .8)
	if v < sorted[from] {
		above := 0.0
		for _, s := range sorted {
			if s > v {
				above++
			} else if s == v {
				above += .5
			}
		}
		return -math.Log(above / n)
	}
	excess, count := 0.0, n-float64(from)
	for _, s := range sorted[from:] {
		excess += (s - sorted[from]) / count
	}
	return -math.Log(count/n) + (v-sorted[from])/excess
}

// Without inputs the variance stands alone.
func TestFunctionAlone(t *testing.T) {
	q := problems()[0]
	score, without := make([]float64, q.T), make([]float64, q.T)
	post := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), nil))(t)
	d := testref.Must(novelty.Fit(t.Context(), q.Kernel, post, &novelty.Options{FunctionAlone: true}))(t)
	require.NoError(t, d.ScoreTo(t.Context(), score, q.Test))
	v := testref.Must(d.Variance(t.Context(), q.Test))(t)
	for i := range v {
		require.InDelta(t, surprise(d.Sorted(0), v[i]), score[i], 1e-12)
	}
	q.Train.X, q.Test.X = nil, nil
	post = testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), nil))(t)
	d = testref.Must(novelty.Fit(t.Context(), q.Kernel, post, nil))(t)
	require.NoError(t, d.ScoreTo(t.Context(), without, q.Test))
	require.Equal(t, score, without)
}

// Inputs whose squares are no numbers say nothing.
func TestHugeInputs(t *testing.T) {
	q := problems()[0]
	q.Train.X.Scale(1e200, q.Train.X)
	post := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), nil))(t)
	d := testref.Must(novelty.Fit(t.Context(), q.Kernel, post, nil))(t)
	alone := testref.Must(novelty.Fit(t.Context(), q.Kernel, post, &novelty.Options{FunctionAlone: true}))(t)
	require.Equal(t, alone.Training(), d.Training())
	// Divided by their deviation they do.
	d = testref.Must(novelty.Fit(t.Context(), q.Kernel, post, &novelty.Options{Standardize: true}))(t)
	require.NotEqual(t, alone.Training(), d.Training())
}

// A loaded detector gives the numbers of the saved one, whatever the route, and is refused
// beside a posterior of another kind.
func TestSave(t *testing.T) {
	for _, q := range problems() {
		posts := posteriors(t, q)
		for name, post := range posts {
			d := testref.Must(novelty.Fit(t.Context(), q.Kernel, post, &novelty.Options{Seed: 3}))(t)
			f := testkit.Written(t, d.Save)
			again, err := novelty.Load(t.Context(), f, q.Kernel, post, nil)
			require.NoError(t, err, name)
			a, b := make([]float64, q.T), make([]float64, q.T)
			require.NoError(t, d.ScoreTo(t.Context(), a, q.Test))
			require.NoError(t, again.ScoreTo(t.Context(), b, q.Test))
			require.Equal(t, a, b, "%s, %s", q.Name, name)
			require.Equal(t, d.Training(), again.Training())
			rows, scores := d.LeftOut()
			rowsAgain, scoresAgain := again.LeftOut()
			require.Equal(t, rows, rowsAgain)
			require.Equal(t, scores, scoresAgain)
			if name == "exact" || name == "nystrom" {
				testref.As[*store.Error](t, testref.Err(novelty.Load(t.Context(), f, q.Kernel, posts["parameters"], nil)))
			}
		}
	}
}

// A score has the same bits whatever rows it is computed with.
func TestScoreAlone(t *testing.T) {
	for _, q := range problems() {
		for name, post := range posteriors(t, q) {
			d := testref.Must(novelty.Fit(t.Context(), q.Kernel, post, nil))(t)
			all, one := make([]float64, q.T), make([]float64, 1)
			require.NoError(t, d.ScoreTo(t.Context(), all, q.Test))
			for i := range all {
				require.NoError(t, d.ScoreTo(t.Context(), one, q.Test.Slice(i, i+1)))
				require.Equal(t, all[i], one[0], "%s, %s, row %d", q.Name, name, i)
			}
		}
	}
}

// A context that is done ends a fit and a score.
func TestCancel(t *testing.T) {
	q := problems()[0]
	for name, post := range posteriors(t, q) {
		testkit.Stops(t, name+": Fit", 3, func(ctx context.Context) error {
			_, err := novelty.Fit(ctx, q.Kernel, post, nil)
			return err
		})
		d := testref.Must(novelty.Fit(t.Context(), q.Kernel, post, nil))(t)
		require.NoError(t, d.ScoreTo(t.Context(), make([]float64, q.T), q.Test)) // which keeps what later scores need
		testkit.Stops(t, name+": ScoreTo", 2, func(ctx context.Context) error {
			return d.ScoreTo(ctx, make([]float64, q.T), q.Test)
		})
	}
}
