package shard_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/sparse/shard"
)

// shardTol is the bound on what a split of the data over shards may change: sums of a few
// dozen terms in another order.
const shardTol = 1e-10

// A task is a problem with inducing examples.
type task struct {
	*testkit.Problem
	z    *sparse.Inducing
	o    *sparse.Options
	base *sparse.Projected
	move []float64 // v* − θ*, at which the sites are; nil for θ*
}

func newTask(t *testing.T, q *testkit.Problem) *task {
	t.Helper()
	rows := []int{9, 2, 17, 5, 0}
	b := testref.Must(q.Train.Gather(t.Context(), rows))(t)
	s := &task{Problem: q, z: &sparse.Inducing{Rows: rows, Batch: b}, o: &sparse.Options{Mean: gp.LinearGaussian}}
	builder := testref.Must(sparse.NewBuilder(t.Context(), q.Kernel, s.z, s.o))(t)
	s.base = testref.Must(builder.Posterior(t.Context()))(t)
	return s
}

// withOtherPrior is the problem under another prior.
func withOtherPrior(t *testing.T, q *testkit.Problem) *testkit.Problem {
	t.Helper()
	other := *q
	other.Kernel = ntk.New(testref.Must(ntk.NewIsotropic(3, nil))(t), q.Theta)
	return &other
}

func (s *task) identity() shard.Identity {
	return shard.Identity{Prior: s.Kernel.Fingerprint(), Method: "nystrom", Likelihood: s.Likelihood.(glm.Likelihood).Name(), Examples: s.N}
}

// compute computes a part.
func (s *task) compute(t *testing.T, p shard.Part) *shard.Shard {
	t.Helper()
	lo, hi := p.Rows(s.N)
	_, width := s.Y.Dims()
	got, err := shard.Compute(t.Context(), s.base, s.move, s.Train.Slice(lo, hi), gp.NewTargets(s.Y.Slice(lo, hi, 0, width).(*mat.Dense), s.Likelihood))
	require.NoError(t, err)
	got.Part, got.Identity = p, s.identity()
	return got
}

// write computes and writes all of n parts, and returns their files.
func (s *task) write(t *testing.T, dir string, n int) []string {
	t.Helper()
	var paths []string
	for i := range n {
		path := filepath.Join(dir, fmt.Sprintf("%d-%d.sums", n, i))
		require.NoError(t, shard.Write(path, s.compute(t, shard.Part{Number: i, Of: n}), nil))
		paths = append(paths, path)
	}
	return paths
}

// sites joins the sites of all parts.
func sites(t *testing.T, set *shard.Set, c int) *gp.Sites {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sites")
	require.NoError(t, store.Write(path, "test", 1, func(w *store.Writer) error { return set.SaveSites(t.Context(), w, "") }))
	f := testref.Must(store.Open(path, "test", 1))(t)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	r := f.Reader("")
	joined := gp.LoadSites(r, set.Len(), c)
	require.NoError(t, r.Err())
	return joined
}

// Any number of parts, merged in any order, gives the posterior and evidence of one
// pass over all data, and the order of the files does not change one bit.
func TestMergeIsOnePass(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		t.Run(q.Name, func(t *testing.T) {
			s := newTask(t, q)
			want := testref.Must(sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), s.z, s.o))(t)
			for _, n := range []int{1, 2, 7} {
				if n == 7 { // at another point than θ*
					s.move = make([]float64, q.Train.P)
					for i := range s.move {
						s.move[i] = .1 * math.Sin(float64(i))
					}
					moved := testref.Must(gp.SitesMoved(t.Context(), q.Train, s.move, q.Targets()))(t)
					want = testref.Must(sparse.Fit(t.Context(), q.Kernel, q.Train, moved, s.z, s.o))(t)
				}
				paths := s.write(t, t.TempDir(), n)
				var first []byte
				for range 2 {
					set := testref.Must(shard.Open(paths))(t)
					p := testref.Must(set.Merge(t.Context(), s.base))(t)
					data := testref.Must(p.Sums().MarshalBinary())(t)
					if first == nil {
						first = data
					}
					require.Equal(t, first, data, "the order of the files changes the sums")
					got := testref.Must(p.WithData(t.Context(), q.Train, sites(t, set, q.C)))(t)
					requireSame(t, q, got, want)
					slices.Reverse(paths)
				}
			}
		})
	}
}

// Parts whose sums are added apart from their files, in any order, give the same posterior
// as parts with their sums. Neither is taken for the other.
func TestSumsApart(t *testing.T) {
	q := testkit.Problems(t)[2]
	s, dir := newTask(t, q), t.TempDir()
	whole := testref.Must(shard.Open(s.write(t, dir, 3)))(t)
	want := testref.Must(whole.Merge(t.Context(), s.base))(t)
	var paths []string
	sums := s.base.Builder().Sums()
	for _, i := range []int{2, 0, 1} {
		part := s.compute(t, shard.Part{Number: i, Of: 3})
		require.NoError(t, sums.Merge(part.Sums))
		part.Sums = nil
		paths = append(paths, filepath.Join(dir, fmt.Sprint(i, ".rows")))
		require.NoError(t, shard.Write(paths[len(paths)-1], part, nil))
	}
	apart := testref.Must(shard.OpenApart(paths, sums))(t)
	got := testref.Must(apart.Merge(t.Context(), s.base))(t)
	var mean, cov, wantMean, wantCov mat.Dense
	require.NoError(t, got.PredictTo(t.Context(), &mean, &cov, q.Test))
	require.NoError(t, want.PredictTo(t.Context(), &wantMean, &wantCov, q.Test))
	testkit.RequireClose(t, "mean", &mean, &wantMean, shardTol)
	testkit.RequireClose(t, "covariance", &cov, &wantCov, shardTol)
	require.Equal(t, sites(t, whole, q.C), sites(t, apart, q.C))

	require.ErrorContains(t, testref.Err(shard.Open(paths)), paths[0]+": its sums are not in the file")
	_, err := shard.OpenApart(whole.Paths(), sums)
	require.ErrorContains(t, err, whole.Paths()[0]+": its sums are in the file")
	_, err = shard.OpenApart(paths, s.compute(t, shard.Part{Number: 0, Of: 3}).Sums)
	require.ErrorContains(t, err, "the sums added apart are of 6 examples, and the parts of 20")
	other := testref.Must(shard.OpenApart(paths, sums))(t)
	_, err = other.Merge(t.Context(), newTask(t, withOtherPrior(t, q)).base)
	require.ErrorContains(t, err, "the sums added apart: sparse: the sums differ in their prior")
}

func requireSame(t *testing.T, q *testkit.Problem, got, want *sparse.Posterior) {
	t.Helper()
	var mean, cov, wantMean, wantCov mat.Dense
	require.NoError(t, got.PredictTo(t.Context(), &mean, &cov, q.Test))
	require.NoError(t, want.PredictTo(t.Context(), &wantMean, &wantCov, q.Test))
	testkit.RequireClose(t, "mean", &mean, &wantMean, shardTol)
	testkit.RequireClose(t, "covariance", &cov, &wantCov, shardTol)
	testkit.RequireClose(t, "α", testkit.Vec(got.Alpha()), testkit.Vec(want.Alpha()), 1e-9)
	testkit.RequireNumber(t, "evidence", got.Projected.EvidenceLinearGaussian().Value, want.Projected.EvidenceLinearGaussian().Value, shardTol)
	testkit.RequireNumber(t, "log likelihood", got.Sites().LogLik, want.Sites().LogLik, shardTol)
}

// A part that is missing, doubled, damaged, cut short or of another pass is refused by
// the name of its file, with what differs.
func TestRefusals(t *testing.T) {
	q := testkit.Problems(t)[2]
	s, dir := newTask(t, q), t.TempDir()
	paths := s.write(t, dir, 4)
	refused := func(problem string, paths ...string) {
		t.Helper()
		_, err := shard.Open(paths)
		e := testref.As[*store.Error](t, err)
		require.Contains(t, err.Error(), problem)
		require.NotEmpty(t, e.Remedy)
	}
	refused("part 1/4: 2 of 4 parts are missing, this one first", paths[0], paths[2])
	refused(paths[2]+": part 2/4 is in "+paths[2]+" too", append(paths, paths[2])...)
	other := filepath.Join(dir, "other.sums")
	for what, change := range map[string]func(*shard.Shard){
		"the prior":             func(p *shard.Shard) { p.Identity.Prior[0]++ },
		"the graph":             func(p *shard.Shard) { p.Identity.Model.Graph[0]++ },
		"the parameters":        func(p *shard.Shard) { p.Identity.Model.Parameters[0]++ },
		"the likelihood":        func(p *shard.Shard) { p.Identity.Likelihood = "poisson" },
		"the method":            func(p *shard.Shard) { p.Identity.Method = "subset" },
		"the files":             func(p *shard.Shard) { p.Identity.Files[0]++ },
		"which rows":            func(p *shard.Shard) { p.Identity.Rows[0]++ },
		"the targets":           func(p *shard.Shard) { p.Identity.Targets[0]++ },
		"the inducing examples": func(p *shard.Shard) { p.Identity.Inducing[0]++ },
		"the mode":              func(p *shard.Shard) { p.Identity.Mode[0]++ },
	} {
		part := s.compute(t, shard.Part{Number: 0, Of: 4})
		change(part)
		require.NoError(t, shard.Write(other, part, nil))
		// also where the foreign one is the first
		refused(other+": part 0/4 is of another pass than "+paths[1]+": they differ in "+what, other, paths[1], paths[2], paths[3])
	}
	refused("they differ in the number of parts, 3 and 4", append(s.write(t, dir, 3)[:1], paths[1:]...)...)
	content := testref.Must(os.ReadFile(paths[1]))(t)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		bad := slices.Clone(content)
		if cut := rng.IntN(2) == 0; cut {
			bad = bad[:rng.IntN(len(bad))]
		} else {
			bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		}
		require.NoError(t, os.WriteFile(other, bad, 0o600))
		set, err := shard.Open([]string{paths[0], other, paths[2], paths[3]})
		if err == nil {
			if _, err = set.Merge(t.Context(), s.base); err == nil {
				err = store.Write(filepath.Join(dir, "sites"), "test", 1, func(w *store.Writer) error { return set.SaveSites(t.Context(), w, "") })
			}
		}
		require.ErrorContains(t, err, other)
	}
	require.Error(t, testref.Err(shard.Open(nil)))
}

// A part of other inputs than those of the data is refused.
func TestCheck(t *testing.T) {
	s := newTask(t, testkit.Problems(t)[2])
	rows := func(lo, hi int) linearize.Source { return s.Train.Slice(lo, hi) }
	set := testref.Must(shard.Open(s.write(t, t.TempDir(), 2)))(t)
	require.NoError(t, set.Check(t.Context(), rows))
	err := set.Check(t.Context(), func(lo, hi int) linearize.Source { return rows(lo, hi-1) })
	require.ErrorContains(t, err, "the inputs of rows 0 to 9 of the training examples are not those that part 0/2 was computed from")
}

// Sums with another prior cannot be merged, although the identity does not tell.
func TestOtherSums(t *testing.T) {
	q := testkit.Problems(t)[2]
	s, other := newTask(t, q), newTask(t, withOtherPrior(t, q))
	paths := s.write(t, t.TempDir(), 2)
	set := testref.Must(shard.Open(paths))(t)
	_, err := set.Merge(t.Context(), other.base)
	require.ErrorContains(t, err, paths[0]+": sparse: the sums differ in their prior")
	_, err = shard.Compute(t.Context(), s.base, nil, testkit.InTiles(q.Train.Slice(0, 0), 1), gp.NewTargets(mat.NewDense(1, 1, nil), q.Likelihood))
	require.ErrorIs(t, err, gp.ErrNoExamples)
}

// The parts of any number of rows are all rows once, in order, and of sizes that differ
// by one.
func TestParts(t *testing.T) {
	for _, n := range []int{1, 2, 19, 64, 1000, 1 << 40} {
		for _, of := range []int{1, 2, 7, 64} {
			next := 0
			for i := range of {
				p := shard.Part{Number: i, Of: of}
				lo, hi := p.Rows(n)
				require.Equal(t, next, lo)
				require.LessOrEqual(t, hi-lo, (n+of-1)/of)
				require.GreaterOrEqual(t, hi-lo, n/of)
				next = hi
				again := testref.Must(shard.ParsePart(p.String()))(t)
				require.Equal(t, p, again)
			}
			require.Equal(t, n, next)
		}
	}
	for text, problem := range map[string]string{"4/3": "the parts of 3 are 0/3 to 2/3", "3/3": "0/3 to 2/3", "-1/3": "0/3 to 2/3", "0/0": "there can be 1 to", "1": "no part", "a/b": "no part", "": "no part", "0/9999999999": "there can be"} {
		require.ErrorContains(t, testref.Err(shard.ParsePart(text)), problem, text)
	}
}

func FuzzParsePart(f *testing.F) {
	for _, text := range []string{"0/1", "3/64", "4/3", "/", "1/-1", "007/9"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := shard.ParsePart(text)
		if err != nil {
			return
		}
		lo, hi := p.Rows(1000)
		require.True(t, 0 <= lo && lo <= hi && hi <= 1000)
	})
}

// Whatever a file says of itself, Open refuses it or Merge finds that its sections are
// of other sizes.
func FuzzAbout(f *testing.F) {
	for _, text := range []string{`{}`, `{"Number":0,"Of":1,"Identity":{"Examples":3},"First":0,"N":3,"C":1}`, `{"Number":1,"Of":1}`, `{"Number":0,"Of":1048576,"Identity":{"Examples":9223372036854775807},"First":0,"N":8796093022207,"C":9223372036854775807}`, `[`, `null`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "a.sums")
		require.NoError(t, store.Write(path, shard.Kind, shard.Version, func(w *store.Writer) error {
			w.Bytes("shard.about", text)
			w.Bytes("shard.sums", nil)
			for _, name := range []string{"loglik", "f", "residual", "lambda", "root"} {
				w.Floats("shard."+name, []float64{1, 2, 3})
			}
			return nil
		}))
		set, err := shard.Open([]string{path})
		if err != nil {
			return
		}
		if len(set.Paths()) > 0 && set.Identity().Examples < 1<<20 {
			_ = store.Write(path+".sites", "test", 1, func(w *store.Writer) error { return set.SaveSites(t.Context(), w, "") })
		}
	})
}
