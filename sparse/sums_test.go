package sparse_test

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

// shardTol is the bound on what a split of the data over shards may change.
const shardTol = 1e-10

// builder returns an empty Builder.
func (q *problem) builder(t *testing.T, z *sparse.Inducing, o *sparse.Options) *sparse.Builder {
	t.Helper()
	return testref.Must(sparse.NewBuilder(t.Context(), q.Kernel, z, o))(t)
}

// rows returns some training examples with their targets' sites.
func (q *problem) rows(t *testing.T, rows []int) (*linearize.Batch, *gp.Sites) {
	t.Helper()
	b := testref.Must(q.Train.Gather(t.Context(), rows))(t)
	s := testref.Must(gp.NewSites(gp.NewTargets(pick(q.Y, rows), q.Likelihood), b.F))(t)
	return b, s
}

// Any split of the data over shards, in any order, through bytes or not,
// gives the posterior of all data.
func TestShards(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		rng := rand.New(rand.NewPCG(7, 7))
		z, o := q.some(t), linear()
		want := q.fit(t, z, o)
		for range 3 {
			rows := rng.Perm(q.N)
			total := q.builder(t, z, o)
			for lo := 0; lo < q.N; {
				hi := min(q.N, lo+1+rng.IntN(9))
				shard := q.builder(t, z, o)
				x, s := q.rows(t, rows[lo:hi])
				require.NoError(t, shard.Add(t.Context(), x, s))
				data := testref.Must(shard.Sums().MarshalBinary())(t)
				var sums sparse.Sums
				require.NoError(t, sums.UnmarshalBinary(data))
				require.NoError(t, total.Merge(&sums))
				lo = hi
			}
			got := testref.Must(total.Posterior(t.Context()))(t)
			require.Equal(t, q.N, got.Sums().Len())
			q.requireSamePosterior(t, got, want)
			dual := testref.Must(got.WithData(t.Context(), q.Train, q.Sites(t)))(t)
			requireClose(t, "α", vec(dual.Alpha()), vec(want.Alpha()), 1e-9)
		}
	})
}

func (q *problem) requireSamePosterior(t *testing.T, got, want interface {
	gp.Latent
	TraceError() float64
}) {
	t.Helper()
	evidence := func(p gp.Latent) float64 {
		if p, ok := p.(*sparse.Posterior); ok {
			return testref.Must(p.EvidenceLinearGaussian(t.Context()))(t).Value
		}
		return p.(*sparse.Projected).EvidenceLinearGaussian().Value
	}
	var mean, cov, wantMean, wantCov mat.Dense
	require.NoError(t, got.PredictTo(t.Context(), &mean, &cov, q.Test))
	require.NoError(t, want.PredictTo(t.Context(), &wantMean, &wantCov, q.Test))
	requireClose(t, "mean", &mean, &wantMean, shardTol)
	requireClose(t, "covariance", &cov, &wantCov, shardTol)
	requireNumber(t, "evidence", evidence(got), evidence(want), shardTol)
	requireNumber(t, "trace error", got.TraceError(), want.TraceError(), shardTol)
}

func seq(lo, hi int) []int {
	var s []int
	for i := lo; i < hi; i++ {
		s = append(s, i)
	}
	return s
}

// At another prior variance the posterior is that of a fit under it.
func TestAtIsRefitUnderOtherPrior(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		z := q.some(t)
		p := q.fit(t, z, linear())
		for _, factor := range []float64{0.01, 1, 7} {
			got := testref.Must(p.At(t.Context(), factor))(t)
			want, err := sparse.Fit(t.Context(), scaledKernel{q.Kernel, factor}, q.Train, q.Sites(t), z, linear())
			require.NoError(t, err)
			q.requireSamePosterior(t, got, want)
			requireNumber(t, "bound", got.EvidenceLowerBound().Value, want.EvidenceLowerBound().Value, shardTol)
			twice := testref.Must(got.At(t.Context(), 1/factor))(t)
			q.requireSamePosterior(t, twice, p)
			dual := testref.Must(got.WithData(t.Context(), q.Train, q.Sites(t)))(t)
			requireClose(t, "α", vec(dual.Alpha()), vec(want.Alpha()), 1e-9)
		}
		require.Panics(t, func() { p.At(t.Context(), 0) })
	})
}

func TestMergeRefusesOtherSums(t *testing.T) {
	q := problems(t)[5]
	sums := func(z *sparse.Inducing, o *sparse.Options) *sparse.Sums {
		b := q.builder(t, z, o)
		require.NoError(t, b.Add(t.Context(), q.Train, q.Sites(t)))
		return b.Sums()
	}
	z := q.some(t)
	want := sums(z, nil)
	e := testref.As[*sparse.MismatchError](t, want.Clone().Merge(sums(q.inducing(t, 1, 2, 3, 4, 5, 6, 7), nil)))
	require.Contains(t, e.Error(), "inducing examples")
	b := testref.Must(sparse.NewBuilder(t.Context(), scaledKernel{q.Kernel, 1.001}, z, nil))(t)
	require.ErrorContains(t, b.Merge(want), "prior")
}

// A byte changed, a byte less or more, and another version are errors that
// leave the receiver as it was.
func TestSumsBinaryIsChecked(t *testing.T) {
	q := problems(t)[0]
	b := q.builder(t, q.some(t), nil)
	require.NoError(t, b.Add(t.Context(), q.Train, q.Sites(t)))
	data := testref.Must(b.Sums().MarshalBinary())(t)
	var s sparse.Sums
	require.NoError(t, s.UnmarshalBinary(data))
	require.Equal(t, b.Sums(), &s)

	before := *s.Clone()
	for i := range data {
		bad := append([]byte(nil), data...)
		bad[i] ^= 0x10
		require.Error(t, s.UnmarshalBinary(bad), "byte %d", i)
	}
	require.Error(t, s.UnmarshalBinary(nil))
	require.Error(t, s.UnmarshalBinary(data[:len(data)-1]))
	require.Error(t, s.UnmarshalBinary(append(data[:len(data):len(data)], 0)))
	// With a right checksum: another version, and a rank that is not there.
	for _, at := range []int{8, 28, 32} {
		bad := append([]byte(nil), data...)
		binary.LittleEndian.PutUint32(bad[at:], 1<<30)
		binary.LittleEndian.PutUint32(bad[len(bad)-4:], crc32.Checksum(bad[:len(bad)-4], crc32.MakeTable(crc32.Castagnoli)))
		require.Error(t, s.UnmarshalBinary(bad), "at %d", at)
	}
	require.Equal(t, before, s)
}

// scaledKernel is a kernel times a factor, by nothing but BlockTo.
type scaledKernel struct {
	k interface {
		MeanTo(dst []float64, b *linearize.Batch)
		BlockTo(dst *mat.Dense, a, b *linearize.Batch)
		DiagTo(dst *mat.Dense, b *linearize.Batch)
	}
	factor float64
}

func (s scaledKernel) MeanTo(dst []float64, b *linearize.Batch) { s.k.MeanTo(dst, b) }

func (s scaledKernel) BlockTo(dst *mat.Dense, a, b *linearize.Batch) {
	s.k.BlockTo(dst, a, b)
	dst.Scale(s.factor, dst)
}

func (s scaledKernel) DiagTo(dst *mat.Dense, b *linearize.Batch) {
	s.k.DiagTo(dst, b)
	dst.Scale(s.factor, dst)
}

// To add nothing changes nothing, and a posterior of no data has no training examples.
func TestNoExamples(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		none := q.Train.Slice(0, 0)
		for _, s := range []*gp.Sites{nil, {}} {
			b := q.builder(t, q.some(t), linear())
			require.NoError(t, b.Add(t.Context(), q.Train, q.Sites(t)))
			require.NoError(t, b.Add(t.Context(), none, s))
			require.Equal(t, q.N, b.Sums().Len())
		}
		_, err := q.emptied(t).WithData(t.Context(), none, &gp.Sites{})
		require.ErrorContains(t, err, "no training examples")
	})
}

// emptied is a posterior of no data.
func (q *problem) emptied(t *testing.T) *sparse.Projected {
	b := q.builder(t, q.some(t), linear())
	return testref.Must(b.Posterior(t.Context()))(t)
}

// The zero Inducing is reported as no inducing examples by all that take one.
func TestZeroInducing(t *testing.T) {
	q := problems(t)[2]
	saved := written(t, q.fit(t, q.some(t), nil).Save)
	for _, z := range []*sparse.Inducing{{}, {Batch: new(linearize.Batch)}} {
		for name, f := range map[string]func() error{
			"Fit": func() error {
				_, err := sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), z, nil)
				return err
			},
			"Refit": func() error {
				_, err := sparse.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), z, nil)
				return err
			},
			"FitSubset": func() error {
				_, err := sparse.FitSubset(t.Context(), q.Kernel, q.Train, q.Sites(t), z, nil)
				return err
			},
			"RefitSubset": func() error {
				_, err := sparse.RefitSubset(t.Context(), q.Kernel, q.Train, q.Targets(), z, nil)
				return err
			},
			"NewBuilder": func() error {
				_, err := sparse.NewBuilder(t.Context(), q.Kernel, z, nil)
				return err
			},
			"LoadProjected": func() error {
				_, err := sparse.LoadProjected(t.Context(), saved, q.Kernel, z, nil)
				return err
			},
			"Load": func() error {
				_, err := sparse.Load(t.Context(), saved, q.Kernel, q.Train, z, nil)
				return err
			},
		} {
			var count *sparse.CountError
			require.ErrorAs(t, f(), &count, name)
			require.Zero(t, count.M, name)
			require.Contains(t, count.Error(), "at least one is needed", name)
		}
		require.Zero(t, z.Len())
		require.False(t, z.Pairs())
	}
}

// Missing sites say so.
func TestZeroValues(t *testing.T) {
	q := problems(t)[2]
	const missing = "sites: the sites of the examples are missing"
	for _, s := range []*gp.Sites{nil, {}} {
		require.PanicsWithValue(t, missing, func() { _, _ = sparse.Fit(t.Context(), q.Kernel, q.Train, s, q.some(t), nil) })
	}
	require.PanicsWithValue(t, "sparse: the sites of the examples are missing",
		func() { _, _ = sparse.Trace{}.Choose(t.Context(), nil, q.Train, 3, nil) })
}
