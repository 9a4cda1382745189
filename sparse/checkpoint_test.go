package sparse_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
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
	poisson := chunked("poisson", 58, 2100, 1, glm.Poisson{}, 3)
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

const limit = 16 // above all f(x;θ*), the prior mean and the mode

// A start is a fit of a problem to be interrupted, Fit or Refit.
type start func(ctx context.Context, q *problem, x linearize.Source, z *sparse.Inducing, o *sparse.Options) (*sparse.Posterior, error)

func startFit(ctx context.Context, q *problem, x linearize.Source, z *sparse.Inducing, o *sparse.Options) (*sparse.Posterior, error) {
	s, err := gp.NewSites(q.Targets(), q.Train.F)
	if err != nil {
		return nil, err
	}
	return sparse.Fit(ctx, q.Kernel, x, s, z, o)
}

func startRefit(ctx context.Context, q *problem, x linearize.Source, z *sparse.Inducing, o *sparse.Options) (*sparse.Posterior, error) {
	return sparse.Refit(ctx, q.Kernel, x, q.Targets(), z, o)
}

// bits is all that a fit gave.
func (q *problem) bits(t *testing.T, p *sparse.Posterior) []byte {
	t.Helper()
	var mean, cov mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, q.Test))
	out := testref.Must(p.Sums().MarshalBinary())(t)
	s, ev := p.Sites(), p.Projected.EvidenceLinearGaussian()
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
func few() *sparse.Options {
	o := linear()
	o.MaxIter = 3
	return o
}

// stored is what is saved to a store.
func stored(t testing.TB, save func(w *store.Writer) error) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.check")
	require.NoError(t, store.Write(path, "test", 1, save))
	data := testref.Must(os.ReadFile(path))(t)
	return data
}

// resumed opens a checkpoint.
func resumed(t testing.TB, data []byte) *store.File {
	t.Helper()
	f := testref.Must(store.Read(bytes.NewReader(data), "a.check", "test", 1, math.MaxInt64))(t)
	return f
}

// A state is what a checkpoint says of itself.
type state struct {
	Of               string
	N                int
	Done, Kind, Step int
	Dual             bool
}

func stateOf(t testing.TB, data []byte) (s state) {
	t.Helper()
	f := resumed(t, data)
	require.NoError(t, f.JSON("checkpoint.fit", &s))
	require.NoError(t, f.JSON("checkpoint.about", &s))
	return s
}

// keep makes o collect checkpoints, of every chunk, as bytes.
func keep(t testing.TB, o *sparse.Options, all *[][]byte) {
	o.CheckpointEvery = 1
	o.Checkpoint = func(done, total int, save func(w *store.Writer) error) error {
		*all = append(*all, stored(t, save))
		s := stateOf(t, (*all)[len(*all)-1])
		require.Equal(t, [2]int{s.Done, s.N}, [2]int{done, total})
		return nil
	}
}

var errStop = errors.New("stop here")

// Wherever a fit is interrupted, going on from its last checkpoint gives the
// same checkpoints and the same posterior to the last bit, and does not touch
// the examples that the pass has behind it.
func TestResume(t *testing.T) {
	kinds, unsummed, fits := make(map[string]bool), 0, 0
	for _, q := range interrupted() {
		for name, begin := range map[string]start{"fit": startFit, "refit": startRefit} {
			t.Run(q.Name+"/"+name, func(t *testing.T) {
				z := q.some(t)
				p := testref.Must(begin(t.Context(), q, q.Train, z, few()))(t)
				want := q.bits(t, p)

				var all [][]byte
				o := few()
				keep(t, o, &all)
				p = testref.Must(begin(t.Context(), q, q.Train, z, o))(t)
				require.Equal(t, want, q.bits(t, p), "a fit with checkpoints")
				require.GreaterOrEqual(t, len(all), 2)
				for i, data := range all {
					now := stateOf(t, data)
					kinds[fmt.Sprint(now.Of, now.Dual, now.Kind)] = true
					if r := resumed(t, data).Reader("checkpoint."); now.Done > sparse.LoadSums(r, "sums").Len() {
						unsummed++
					}
					if (i+fits)%3 != 0 { // each fit at a third of its checkpoints, others in turn
						continue
					}
					q.requireStops(t, begin, all[:i+1])
					q.requireResumes(t, begin, all[i:], want)
				}
				fits++
			})
		}
	}
	require.Len(t, kinds, 5, "the two passes of a fit, and the three kinds of passes of a refit")
	require.Positive(t, unsummed, "steps to where there are no finite sites")
}

// requireStops interrupts a fit at its last checkpoint here: by an error at
// every second one, else by its context.
func (q *problem) requireStops(t *testing.T, begin start, all [][]byte) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got [][]byte
	o := few()
	keep(t, o, &got)
	collect, want := o.Checkpoint, errStop
	if len(all)%2 == 0 {
		want = context.Canceled
	}
	o.Checkpoint = func(done, total int, save func(w *store.Writer) error) error {
		require.NoError(t, collect(done, total, save))
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

func (q *problem) requireResumes(t *testing.T, begin start, all [][]byte, want []byte) {
	t.Helper()
	now := stateOf(t, all[0])
	size := 100 + (now.Done+7*len(all))%1000
	w, rest := watch(q, size), [][]byte{}
	o := few()
	keep(t, o, &rest)
	o.Resume = resumed(t, all[0])
	p := testref.Must(begin(t.Context(), q, w, q.some(t), o))(t)
	require.Equal(t, want, q.bits(t, p), "resumed at example %d with batches of %d", now.Done, size)
	require.Equal(t, all[1:], rest)
	if now.Done < now.N {
		require.Equal(t, now.Done, (*w.starts)[0])
	}
	if now.Of == "sparse.Fit" {
		require.LessOrEqual(t, len(*w.starts), 2, "what is left of the pass, and the pass for α")
	}
	require.NoError(t, o.Resume.Check(), "a checkpoint is not changed by what goes on from it")
}

// A fit that gets no further than its next checkpoint, again and again, ends.
func TestResumeAgainAndAgain(t *testing.T) {
	q := interrupted()[0]
	z := q.some(t)
	for _, begin := range []start{startFit, startRefit} {
		p, err := begin(t.Context(), q, q.Train, z, linear())
		require.NoError(t, err)
		want, stops := q.bits(t, p), 0
		o := linear()
		o.CheckpointEvery = 1
		o.Checkpoint = func(_, _ int, save func(w *store.Writer) error) error {
			o.Resume = resumed(t, stored(t, save))
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
	run := func(x linearize.Source, every int, fail error) (got [][2]int, err error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err = startFit(ctx, q, x, z, &sparse.Options{
			CheckpointEvery: every,
			Checkpoint: func(done, total int, save func(w *store.Writer) error) error {
				require.NotEmpty(t, stored(t, save), "though the context is done")
				got = append(got, [2]int{done, total})
				return fail
			},
			Limits: linearize.Limits{Progress: func(stage string, done, total int) {
				if stage == sparse.StageData {
					cancel()
				}
			}},
		})
		return got, err
	}
	got, err := run(q.Train, 0, nil)
	require.Equal(t, context.Canceled, err)
	require.Len(t, got, 1)
	require.Equal(t, [2]int{682, 1400}, got[0], "2048 outputs are a chunk")

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
		_, err := startFit(t.Context(), q, q.Train, z, &sparse.Options{CheckpointEvery: every, Checkpoint: func(done, total int, _ func(w *store.Writer) error) error {
			require.Equal(t, q.N, total)
			got = append(got, done)
			return nil
		}})
		require.NoError(t, err)
		// Those of the sums, and of the pass for α.
		require.Equal(t, slices.Concat(want, want), got, "every %d", every)
	}

	var all [][]byte
	o := linear()
	keep(t, o, &all)
	require.NoError(t, testref.Err(startFit(t.Context(), q, q.Train, z, o)))
	var done []int
	o = &sparse.Options{Resume: resumed(t, all[2]), Limits: linearize.Limits{Progress: func(stage string, n, total int) {
		if stage == sparse.StageData {
			require.Equal(t, q.N, total)
			done = append(done, n)
		}
	}}}
	require.NoError(t, testref.Err(startFit(t.Context(), q, q.Train, z, o)))
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
	o := linear()
	o.Checkpoint = func(_, _ int, save func(w *store.Writer) error) error {
		calls++
		last = stored(t, save)
		return nil
	}
	p := q.fit(t, z, o)
	require.Equal(t, 2, calls)
	o.Resume = resumed(t, last)
	p2 := q.fit(t, z, o)
	require.Equal(t, 2, calls, "nothing was left of the pass")
	require.Equal(t, q.bits(t, p), q.bits(t, p2))
	b := q.builder(t, z, o)
	require.NoError(t, b.Add(t.Context(), q.Train, q.Sites(t)))
	require.Equal(t, p.Sums(), b.Sums())
	require.Equal(t, 2, calls)
}

// A checkpoint is saved in the call.
func TestCheckpointIsOfTheCall(t *testing.T) {
	q := problems(t)[0]
	var late func(w *store.Writer) error
	q.fit(t, q.some(t), &sparse.Options{Checkpoint: func(_, _ int, save func(w *store.Writer) error) error { late = save; return nil }})
	require.ErrorContains(t, store.Write(filepath.Join(t.TempDir(), "a"), "test", 1, late), "had returned")
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
		{says: "inducing examples", q: q, z: q.inducing(t, 9, 2, 17, 5, 0, 12, 14)},
		{says: "number of training examples, 1400 and not 1399", q: change(func(p *problem) {
			p.N, p.Train, p.Y = q.N-1, q.Train.Slice(0, q.N-1), p.Y.Slice(0, q.N-1, 0, 1).(*mat.Dense)
		})},
		{says: "prior", q: change(func(p *problem) {
			groups := q.Prior.Groups()
			groups[0].Precision *= 1.0001
			prior := testref.Must(ntk.NewLayerwise(q.Train.P, groups, []float64{0.1}))(t)
			p.Kernel = ntk.New(prior, q.Theta)
		})},
		{says: "the prior is another", q: change(func(p *problem) {
			theta := slices.Clone(q.Theta)
			theta[3] += 1e-6
			p.Kernel = ntk.New(q.Prior, theta)
		})},
	}
	if refit {
		return append(all,
			another{says: "kind, sparse.Refit and not sparse.Fit", q: q, begin: startFit},
			another{says: "targets", q: change(label)},
			another{says: "likelihood", q: change(func(p *problem) { p.Likelihood = tempered{q.Likelihood} })},
			// After its last pass a refit looks at no example.
			another{says: "training examples", unknown: 1, q: change(func(p *problem) {
				p.Train.F.Apply(func(_, _ int, v float64) float64 { return v + 1e-6 }, p.Train.F)
			})})
	}
	return append(all,
		another{says: "kind, sparse.Fit and not sparse.Refit", q: q, begin: startRefit},
		another{says: "residuals of the sites", q: change(label)},
		another{says: "function values of the sites", q: change(func(p *problem) { p.Train.F.Set(1000, 2, 1) })},
		another{says: "Λ of the sites", q: q, begin: func(ctx context.Context, q *problem, x linearize.Source, z *sparse.Inducing, o *sparse.Options) (*sparse.Posterior, error) {
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
		o := linear()
		keep(t, o, &all)
		require.NoError(t, testref.Err(begin(t.Context(), q, q.Train, q.some(t), o)))
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
				var e *store.Error
				require.ErrorAs(t, err, &e, "%s: checkpoint %d", other.says, at)
				require.Contains(t, e.Error(), other.says)
				require.Equal(t, "a.check", e.File)
				require.Contains(t, e.Remedy, "start again without it")
			}
		}
	}
}

// someCheckpoints are a checkpoint of each kind, of a problem with few numbers, and how it is begun.
func someCheckpoints(t testing.TB) (q *problem, z *sparse.Inducing, kinds map[string][]byte) {
	t.Helper()
	q = chunked("poisson", 53, 2060, 1, glm.Poisson{}, 3)
	b := testref.Must(q.Train.Gather(t.Context(), []int{3, 1}))(t)
	z, kinds = &sparse.Inducing{Rows: []int{3, 1}, Batch: b}, make(map[string][]byte)
	for _, begin := range []start{startFit, startRefit} {
		var all [][]byte
		o := new(sparse.Options)
		keep(t, o, &all)
		require.NoError(t, testref.Err(begin(t.Context(), q, q.Train, z, o)))
		for _, data := range all {
			now := stateOf(t, data)
			kinds[fmt.Sprint(now.Of, "/", now.Dual, now.Kind)] = data
		}
	}
	return q, z, kinds
}

// A resumption is a checkpoint, with the posterior of the fit that goes on from it.
type resumption struct {
	file *store.File
	post *sparse.Posterior
}

// resumption is what gptest checks of a checkpoint.
func (q *problem) resumption(t testing.TB, name string, data []byte, z *sparse.Inducing) gptest.SavedCase[resumption] {
	begin, o := startFit, sparse.Options{MaxIter: 100}
	if strings.HasPrefix(name, "sparse.Refit") {
		begin = startRefit
	}
	load := func(f *store.File) (resumption, error) {
		with := o
		with.Resume = f
		p, err := begin(context.Background(), q, q.Train, z, &with)
		return resumption{f, p}, err
	}
	r := testref.Must(load(resumed(t, data)))(t)
	return gptest.SavedCase[resumption]{
		Posterior: r, Load: load, Answers: func(t *testing.T, r resumption) []float64 { return q.everything(t, r.post) },
		Save: func(r resumption, w *store.Writer) error {
			for _, name := range r.file.Sections() {
				b, err := r.file.Bytes(name)
				if err != nil {
					return err
				}
				w.Bytes(name, b)
			}
			return nil
		},
	}
}

// A fit goes on from a checkpoint in another process too, and damage of any section is an error.
func TestCheckpointsConform(t *testing.T) {
	q, z, kinds := someCheckpoints(t)
	require.Len(t, kinds, 5)
	for name, data := range kinds {
		t.Run(name, func(t *testing.T) { gptest.Saved(t, q.resumption(t, name, data, z)) })
	}
}

// Whatever is in the sections, going on from them ends without a panic.
func FuzzCheckpoint(f *testing.F) {
	q, z, kinds := someCheckpoints(f)
	var cases []gptest.SavedCase[resumption]
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		cases = append(cases, q.resumption(f, name, kinds[name], z))
	}
	gptest.FuzzSaved(f, func(resumption) error { return nil }, cases...)
}
