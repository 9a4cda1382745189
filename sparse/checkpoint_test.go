package sparse_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// chunked is a problem of several chunks, without a dense kernel.
func chunked(name string, seed uint64, n, c int, lik gp.Likelihood, scale float64) *problem {
	q := newProblem(name, seed, 8, c, lik, scale)
	rng := rand.New(rand.NewPCG(seed, 29))
	q.Train, q.N = gptest.Another(rng, q.Train, n), n
	q.Train.F.Scale(scale, q.Train.F)
	q.Train.X.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, q.Train.X)
	q.Y = targets(rng, lik, q.Train.F)
	return q
}

// interrupted have two or three chunks, the last one short. Steps of the last
// lead where there are no finite sites, and are cut short.
func interrupted() []*problem {
	poisson := chunked("poisson", 53, 2100, 1, glm.Poisson{}, 3)
	poisson.Likelihood = limited{glm.Poisson{}}
	return []*problem{
		chunked("categorical", 51, 1400, 3, glm.Categorical{}, 1),
		chunked("bernoulli-saturated", 52, 2100, 1, glm.Bernoulli{}, 900),
		poisson,
	}
}

// limited is a likelihood that is not finite everywhere.
type limited struct{ glm.Poisson }

func (l limited) Expand(residual, lambda, root, y, f []float64) float64 {
	if f[0] > limit {
		return math.NaN()
	}
	return l.Poisson.Expand(residual, lambda, root, y, f)
}

const limit = 16 // above all f(x;θ*)

// A start is a fit of a problem to be interrupted, Fit or Refit.
type start func(ctx context.Context, q *problem, x linearize.Source, z *sparse.Inducing, o *sparse.Options) (*sparse.Posterior, error)

func startFit(ctx context.Context, q *problem, x linearize.Source, z *sparse.Inducing, o *sparse.Options) (*sparse.Posterior, error) {
	s, err := gp.NewSites(q.Y, q.Train.F, q.Likelihood)
	if err != nil {
		return nil, err
	}
	return sparse.Fit(ctx, q.Kernel, x, s, z, o)
}

func startRefit(ctx context.Context, q *problem, x linearize.Source, z *sparse.Inducing, o *sparse.Options) (*sparse.Posterior, error) {
	return sparse.Refit(ctx, q.Kernel, x, q.Y, q.Likelihood, z, o)
}

// bits is all that a fit gave.
func (q *problem) bits(t *testing.T, p *sparse.Posterior) []byte {
	t.Helper()
	var mean, cov mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, q.Test))
	out, err := p.Sums().MarshalBinary()
	require.NoError(t, err)
	s, ev := p.Sites(), p.EvidenceLinearGaussian()
	numbers := [][]float64{flat(&mean), flat(&cov), p.Alpha(), p.PseudoTargets(), flat(s.F), flat(s.Residual), flat(s.Lambda), flat(s.Root),
		{s.LogLik, ev.Value, ev.LogLik, ev.Scatter, ev.LogDet, p.TraceError()}}
	if p.Refitted() {
		numbers = append(numbers, []float64{p.EvidenceRefit().Value})
	}
	for _, v := range slices.Concat(numbers...) {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(v))
	}
	for _, w := range p.Warnings() {
		out = append(out, w.Error()...)
	}
	return out
}

// A watched is a source in batches that notes where passes over it start.
type watched struct {
	testkit.Chunked
	first  int
	starts *[]int
}

func watch(q *problem, size int) watched {
	return watched{testkit.InTiles(q.Train, size), 0, new([]int)}
}

func (w watched) From(first int) linearize.Source {
	return watched{testkit.InTiles(w.B.Slice(first, w.B.Len()), w.Size), w.first + first, w.starts}
}

func (w watched) Batches(ctx context.Context, yield func(first int, b *linearize.Batch) error) error {
	*w.starts = append(*w.starts, w.first)
	return w.Chunked.Batches(ctx, yield)
}

// few are options under which not all Newton steps are made.
func few(a sparse.Approximation) *sparse.Options {
	o := linear(a)
	o.MaxIter = 3
	return o
}

// resumed reads a checkpoint.
func resumed(t testing.TB, data []byte) *sparse.Checkpoint {
	t.Helper()
	c := new(sparse.Checkpoint)
	require.NoError(t, c.UnmarshalBinary(data))
	return c
}

// keep makes o collect checkpoints, of every chunk, as bytes.
func keep(t testing.TB, o *sparse.Options, all *[][]byte) {
	o.CheckpointEvery = 1
	o.Checkpoint = func(c *sparse.Checkpoint) error {
		data, err := c.MarshalBinary()
		require.NoError(t, err)
		*all = append(*all, data)
		return nil
	}
}

var errStop = errors.New("stop here")

// Wherever a fit is interrupted, going on from its last checkpoint gives the
// same checkpoints and the same posterior to the last bit, and does not touch
// the examples that the pass has behind it.
func TestResume(t *testing.T) {
	kinds, unsummed := make(map[byte]bool), 0
	for _, q := range interrupted() {
		for name, begin := range map[string]start{"fit": startFit, "refit": startRefit} {
			for _, a := range approximations {
				t.Run(q.Name+"/"+name+"/"+a.String(), func(t *testing.T) {
					z := q.some(t)
					p, err := begin(t.Context(), q, q.Train, z, few(a))
					require.NoError(t, err)
					want := q.bits(t, p)

					var all [][]byte
					o := few(a)
					keep(t, o, &all)
					p, err = begin(t.Context(), q, q.Train, z, o)
					require.NoError(t, err)
					require.Equal(t, want, q.bits(t, p), "a fit with checkpoints")
					require.GreaterOrEqual(t, len(all), 2)
					for i, data := range all {
						kinds[data[12]] = true
						if done, _ := resumed(t, data).Examples(); done > int(binary.LittleEndian.Uint32(data[176:])) {
							unsummed++ // N of the sums is there
						}
						if testing.Short() && i%3 != 0 {
							continue
						}
						q.requireStops(t, begin, a, all[:i+1])
						q.requireResumes(t, begin, a, all[i:], want)
					}
				})
			}
		}
	}
	// A fit, and the three kinds of passes of a refit.
	require.Equal(t, map[byte]bool{0: true, 1: true, 2: true, 3: true}, kinds)
	require.Positive(t, unsummed, "steps to where there are no finite sites")
}

// requireStops interrupts a fit at its last checkpoint here: by an error at
// every second one, else by its context.
func (q *problem) requireStops(t *testing.T, begin start, a sparse.Approximation, all [][]byte) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got [][]byte
	o := few(a)
	keep(t, o, &got)
	collect, want := o.Checkpoint, errStop
	if len(all)%2 == 0 {
		want = context.Canceled
	}
	o.Checkpoint = func(c *sparse.Checkpoint) error {
		require.NoError(t, collect(c))
		if len(got) < len(all) {
			return nil
		}
		if want == errStop {
			return errStop
		}
		cancel()
		return nil
	}
	_, err := begin(ctx, q, q.Train, q.some(t), o)
	// There is nothing to cancel after the last pass of a refit.
	if err != nil || want == errStop {
		require.ErrorIs(t, err, want)
	}
	require.Equal(t, all, got)
}

func (q *problem) requireResumes(t *testing.T, begin start, a sparse.Approximation, all [][]byte, want []byte) {
	t.Helper()
	c := resumed(t, all[0])
	done, total := c.Examples()
	size := 100 + (done+7*len(all))%1000
	w, rest := watch(q, size), [][]byte{}
	o := few(a)
	keep(t, o, &rest)
	o.Resume = c
	p, err := begin(t.Context(), q, w, q.some(t), o)
	require.NoError(t, err)
	require.Equal(t, want, q.bits(t, p), "resumed at example %d with batches of %d", done, size)
	require.Equal(t, all[1:], rest)
	if done < total {
		require.Equal(t, done, (*w.starts)[0])
	}
	if !c.Refit() {
		require.LessOrEqual(t, len(*w.starts), 2, "what is left of the pass, and the pass for α")
	}
	again, err := c.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, all[0], again, "a checkpoint is not changed by what goes on from it")
}

// A fit that gets no further than its next checkpoint, again and again, ends.
func TestResumeAgainAndAgain(t *testing.T) {
	q := interrupted()[0]
	z := q.some(t)
	for _, begin := range []start{startFit, startRefit} {
		p, err := begin(t.Context(), q, q.Train, z, linear(sparse.FITC))
		require.NoError(t, err)
		want, stops := q.bits(t, p), 0
		o := linear(sparse.FITC)
		o.CheckpointEvery = 1
		o.Checkpoint = func(c *sparse.Checkpoint) error {
			data, err := c.MarshalBinary()
			require.NoError(t, err)
			o.Resume = resumed(t, data)
			stops++
			return errStop
		}
		for p = nil; p == nil; {
			require.Less(t, stops, 200)
			if p, err = begin(t.Context(), q, testkit.InTiles(q.Train, 50+stops), z, o); err != nil {
				require.ErrorIs(t, err, errStop)
			}
		}
		require.Equal(t, want, q.bits(t, p))
		require.GreaterOrEqual(t, stops, 3)
	}
}

// A pass that its context ends gives one more checkpoint, of its last chunk,
// unless that was given; an error that the examples cause gives none.
func TestCheckpointWhenCanceled(t *testing.T) {
	q := interrupted()[0]
	z := q.some(t)
	run := func(x linearize.Source, every int, fail error) (got []*sparse.Checkpoint, err error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err = startFit(ctx, q, x, z, &sparse.Options{
			CheckpointEvery: every,
			Checkpoint: func(c *sparse.Checkpoint) error {
				data, err := c.MarshalBinary()
				require.NoError(t, err)
				got = append(got, resumed(t, data))
				return fail
			},
			Progress: func(stage string, done, total int) {
				if stage == sparse.StageData {
					cancel()
				}
			},
		})
		return got, err
	}
	got, err := run(q.Train, 0, nil)
	require.Equal(t, context.Canceled, err)
	require.Len(t, got, 1)
	done, total := got[0].Examples()
	require.Equal(t, [2]int{682, 1400}, [2]int{done, total}, "2048 outputs are a chunk")

	got, err = run(q.Train, 1, nil)
	require.Equal(t, context.Canceled, err)
	require.Len(t, got, 1)

	_, err = run(q.Train, 0, errStop)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errStop)

	got, err = run(failing{q.Train}, 0, nil)
	require.ErrorIs(t, err, errStop)
	require.Empty(t, got)
}

// failing yields half of its examples.
type failing struct{ *linearize.Batch }

func (f failing) Batches(_ context.Context, yield func(first int, b *linearize.Batch) error) error {
	if err := yield(0, f.Slice(0, 700)); err != nil {
		return err
	}
	return errStop
}

// Checkpoints come no more often than asked for, and progress goes on where
// it was.
func TestCheckpointEvery(t *testing.T) {
	q := chunked("bernoulli", 54, 2048*5+10, 1, glm.Bernoulli{}, 1)
	z := q.some(t)
	for every, want := range map[int][]int{
		0: {10250}, 1: {2048, 4096, 6144, 8192, 10240, 10250}, 2048: {2048, 4096, 6144, 8192, 10240, 10250},
		2049: {4096, 8192, 10250}, 6000: {6144, 10250}, 1 << 40: {10250},
	} {
		var got []int
		_, err := startFit(t.Context(), q, q.Train, z, &sparse.Options{CheckpointEvery: every, Checkpoint: func(c *sparse.Checkpoint) error {
			done, total := c.Examples()
			require.Equal(t, q.N, total)
			got = append(got, done)
			return nil
		}})
		require.NoError(t, err)
		// Those of the sums, and of the pass for α.
		require.Equal(t, slices.Concat(want, want), got, "every %d", every)
	}

	var all [][]byte
	o := linear(sparse.Nystrom)
	keep(t, o, &all)
	_, err := startFit(t.Context(), q, q.Train, z, o)
	require.NoError(t, err)
	var done []int
	o = &sparse.Options{Resume: resumed(t, all[2]), Progress: func(stage string, n, total int) {
		if stage == sparse.StageData {
			require.Equal(t, q.N, total)
			done = append(done, n)
		}
	}}
	_, err = startFit(t.Context(), q, q.Train, z, o)
	require.NoError(t, err)
	require.Equal(t, []int{8192, 10240, 10250}, done)
	require.Panics(t, func() { startFit(t.Context(), q, q.Train, z, &sparse.Options{CheckpointEvery: -1}) })
}

// What is built with checkpoints does not go on with them, and what gives
// none ignores them.
func TestCheckpointsAreOfOneFit(t *testing.T) {
	q := problems(t)[5]
	z := q.some(t)
	calls := 0
	var last []byte
	o := linear(sparse.Nystrom)
	o.Checkpoint = func(c *sparse.Checkpoint) error {
		calls++
		var err error
		last, err = c.MarshalBinary()
		return err
	}
	p := q.fit(t, z, o)
	require.Equal(t, 2, calls)
	o.Resume = resumed(t, last)
	p2 := q.fit(t, z, o)
	require.Equal(t, 2, calls, "nothing was left of the pass")
	require.Equal(t, q.bits(t, p), q.bits(t, p2))
	more, s := q.rows(t, []int{3, 4})
	_, err := p2.Add(t.Context(), more, s)
	require.NoError(t, err)
	b := q.builder(t, z, o)
	require.NoError(t, b.Add(t.Context(), q.Train, q.Sites(t)))
	require.Equal(t, p.Sums(), b.Sums())
	require.Equal(t, 2, calls)
}

// A checkpoint that was not written down in time cannot be resumed from.
func TestCheckpointIsOfTheCall(t *testing.T) {
	q := problems(t)[0]
	var kept *sparse.Checkpoint
	o := &sparse.Options{Checkpoint: func(c *sparse.Checkpoint) error { kept = c; return nil }}
	q.fit(t, q.some(t), o)
	_, err := startFit(t.Context(), q, q.Train, q.some(t), &sparse.Options{Resume: kept})
	require.ErrorContains(t, err, "empty")
	_, err = kept.MarshalBinary()
	require.Error(t, err)
	require.Zero(t, kept.Step())
}

// another is what a checkpoint does not belong to, and what its error says.
type another struct {
	says    string
	q       *problem
	z       *sparse.Inducing
	begin   start
	o       sparse.Options
	unknown int // last checkpoints that see nothing of it
}

// others differ from a start of q in one thing each.
func (q *problem) others(t *testing.T, refit bool) []another {
	t.Helper()
	change := func(f func(p *problem)) *problem {
		c := *q.Problem
		p := &problem{&c}
		p.Train = &linearize.Batch{X: q.Train.X, F: mat.DenseCopyOf(q.Train.F), Blocks: q.Train.Blocks, P: q.Train.P}
		p.Y = mat.DenseCopyOf(q.Y)
		f(p)
		return p
	}
	label := func(p *problem) { p.Y.Set(q.N-1, 0, math.Mod(q.Y.At(q.N-1, 0)+1, 3)) }
	all := []another{
		{says: "approximation", q: q, o: sparse.Options{Approximation: sparse.FITC}},
		{says: "inducing examples", q: q, z: q.inducing(t, 9, 2, 17, 5, 0, 12, 14)},
		{says: "number of training examples, 1400 and 1399", q: change(func(p *problem) {
			p.N, p.Train, p.Y = q.N-1, q.Train.Slice(0, q.N-1), p.Y.Slice(0, q.N-1, 0, 1).(*mat.Dense)
		})},
		{says: "prior", q: change(func(p *problem) {
			groups := q.Prior.Groups()
			groups[0].Precision *= 1.0001
			prior, err := ntk.NewLayerwise(q.Train.P, groups, []float64{0.1})
			require.NoError(t, err)
			p.Kernel = ntk.New(prior, q.Theta, nil)
		})},
		{says: "prior mean or network", q: change(func(p *problem) {
			theta := slices.Clone(q.Theta)
			theta[3] += 1e-6
			p.Kernel = ntk.New(q.Prior, theta, nil)
		})},
	}
	if refit {
		return append(all,
			another{says: "kind", q: q, begin: startFit},
			another{says: "targets", q: change(label)},
			another{says: "likelihood", q: change(func(p *problem) { p.Likelihood = tempered{q.Likelihood} })},
			// After its last pass a refit looks at no example.
			another{says: "training examples", unknown: 1, q: change(func(p *problem) {
				p.Train.F.Apply(func(_, _ int, v float64) float64 { return v + 1e-6 }, p.Train.F)
			})})
	}
	return append(all,
		another{says: "kind", q: q, begin: startRefit},
		another{says: "residuals of their sites", q: change(label)},
		another{says: "function values of their sites", q: change(func(p *problem) { p.Train.F.Set(1000, 2, 1) })},
		another{says: "Λ of their sites", q: q, begin: func(ctx context.Context, q *problem, x linearize.Source, z *sparse.Inducing, o *sparse.Options) (*sparse.Posterior, error) {
			s := q.Sites(t)
			s.Lambda.Set(100, 1, s.Lambda.At(100, 1)*1.01)
			return sparse.Fit(ctx, q.Kernel, x, s, z, o)
		}})
}

// tempered is a likelihood to a power near one.
type tempered struct{ gp.Likelihood }

func (l tempered) Expand(residual, lambda, root, y, f []float64) float64 {
	return 1.001 * l.Likelihood.Expand(residual, lambda, root, y, f)
}

// Resuming with anything else than what the checkpoint was made from is an
// error that says what differs.
func TestResumeRefusesOtherProblems(t *testing.T) {
	q := interrupted()[0]
	for i, begin := range []start{startFit, startRefit} {
		var all [][]byte
		o := linear(sparse.Nystrom)
		keep(t, o, &all)
		_, err := begin(t.Context(), q, q.Train, q.some(t), o)
		require.NoError(t, err)
		for _, other := range q.others(t, i == 1) {
			z, begin := q.some(t), begin
			if other.z != nil {
				z = other.z
			}
			if other.begin != nil {
				begin = other.begin
			}
			for at, data := range all[:len(all)-other.unknown] {
				other.o.Resume = resumed(t, data)
				_, err := begin(t.Context(), other.q, other.q.Train, z, &other.o)
				var e *sparse.ResumeError
				require.ErrorAs(t, err, &e, "%s: checkpoint %d", other.says, at)
				require.Contains(t, e.Error(), other.says)
			}
		}
	}
}

// someCheckpoints are a checkpoint of each kind, of a problem with few
// numbers.
func someCheckpoints(t testing.TB) (*problem, map[byte][]byte) {
	t.Helper()
	q := chunked("poisson", 53, 2060, 1, glm.Poisson{}, 3)
	kinds := make(map[byte][]byte)
	for _, begin := range []start{startFit, startRefit} {
		var all [][]byte
		o := &sparse.Options{Approximation: sparse.FITC}
		keep(t, o, &all)
		_, err := begin(t.Context(), q, q.Train, q.two(t), o)
		require.NoError(t, err)
		for _, data := range all {
			kinds[data[12]] = data
		}
	}
	return q, kinds
}

func (q *problem) two(t testing.TB) *sparse.Inducing {
	t.Helper()
	b, err := q.Train.Gather(t.Context(), []int{3, 1})
	require.NoError(t, err)
	return &sparse.Inducing{Rows: []int{3, 1}, Batch: b}
}

// sealed is data with a right checksum.
func sealed(data []byte) []byte {
	data = slices.Clone(data)
	binary.LittleEndian.PutUint32(data[len(data)-4:], crc32.Checksum(data[:len(data)-4], crc32.MakeTable(crc32.Castagnoli)))
	return data
}

// A byte changed, a byte less or more, another version, and a header that
// does not fit are errors that leave the receiver as it was.
func TestCheckpointBinaryIsChecked(t *testing.T) {
	_, kinds := someCheckpoints(t)
	require.Len(t, kinds, 4)
	for kind, data := range kinds {
		c := resumed(t, data)
		again, err := c.MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, data, again)
		var b bytes.Buffer
		n, err := c.WriteTo(&b)
		require.NoError(t, err)
		require.Equal(t, int64(b.Len()), n)
		require.Equal(t, data, b.Bytes())
		require.Equal(t, kind > 0, c.Refit())

		bad := slices.Clone(data)
		for i := range data {
			if i > 2000 && i%61 > 0 {
				continue // far into the vectors all bytes are alike
			}
			bad[i] ^= 0x10
			require.Error(t, c.UnmarshalBinary(bad), "byte %d", i)
			bad[i] ^= 0x10
		}
		for _, n := range []int{0, 7, 12, 200, len(data) / 2, len(data) - 1} {
			require.Error(t, c.UnmarshalBinary(data[:n]), "%d bytes", n)
			require.Error(t, c.UnmarshalBinary(sealed(append(data[:n:n], 0, 0, 0, 0))), "%d bytes with a checksum", n)
		}
		require.Error(t, c.UnmarshalBinary(append(data[:len(data):len(data)], 0)))
		// The version, and each number of the header.
		for at := 8; at < 68; at += 4 {
			for _, v := range []uint32{0, 1, 3, 77, 1 << 11, 1 << 30, 1 << 31, 1<<32 - 1} {
				if v == binary.LittleEndian.Uint32(data[at:]) || kind > 0 && (at == 60 && v < 1<<31 || at == 12 && v%2 == 1) {
					continue // any step will do, and finished passes of two kinds are alike
				}
				bad := slices.Clone(data)
				binary.LittleEndian.PutUint32(bad[at:], v)
				require.Error(t, c.UnmarshalBinary(sealed(bad)), "%d at %d of kind %d", v, at, kind)
			}
		}
		require.Equal(t, resumed(t, data), c)
	}
}

// An error of the writer is returned, wherever it comes.
func TestCheckpointWriteErrors(t *testing.T) {
	_, kinds := someCheckpoints(t)
	for _, data := range kinds {
		c := resumed(t, data)
		for _, n := range []int{0, 10, len(data) / 2, len(data) - 1} {
			_, err := c.WriteTo(&full{n})
			require.ErrorIs(t, err, io.ErrShortWrite)
		}
	}
}

// full takes n bytes.
type full struct{ n int }

func (f *full) Write(b []byte) (int, error) {
	if len(b) > f.n {
		return f.n, io.ErrShortWrite
	}
	f.n -= len(b)
	return len(b), nil
}

// Whatever the bytes, with a right checksum too, reading them and going on
// from them end without a panic, and what is read is what is written again.
func FuzzCheckpoint(f *testing.F) {
	q, kinds := someCheckpoints(f)
	for _, data := range kinds {
		f.Add(data)
	}
	f.Add([]byte("fgpckpt\x00"))
	z := q.two(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var c sparse.Checkpoint
		if c.UnmarshalBinary(data) != nil {
			if len(data) < 4 {
				return
			}
			if data = sealed(data); c.UnmarshalBinary(data) != nil {
				return
			}
		}
		again, err := c.MarshalBinary()
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, again))
		for _, begin := range []start{startFit, startRefit} {
			for _, a := range approximations {
				_, err := begin(t.Context(), q, q.Train, z, &sparse.Options{Approximation: a, Resume: &c, MaxIter: 1})
				require.False(t, err != nil && !strings.HasPrefix(err.Error(), "sparse: ") && !strings.HasPrefix(err.Error(), "gp: "), "%v", err)
			}
		}
	})
}
