package counterfactual

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// FlipOptions are the options of SmallestFlip. Nil means the defaults.
type FlipOptions struct {
	// Most is the largest number of examples to leave out; 0 means a tenth of them, and at
	// least one.
	Most int
	// Tries bounds the sets that are tried, each by a Fit; 0 means 100.
	Tries int
	// Shift is what the answer for the row is beyond the posterior mean of all examples, length C,
	// such as f(x;θ*) − f̂(x); nil for nothing. It stays whatever is left out.
	Shift []float64
	// NoRefit takes the word of Fit, without a refit of the set that is found.
	NoRefit bool
}

// A Flip is a set of training examples without which a test row has another class.
type Flip struct {
	Rows          []int     // positions of the examples, ascending
	Before, After []float64 // posterior mean f of the row, with all examples and without Rows, length C
	From, To      int       // its class before and after
	Tried         int       // sets that were fitted
	// Confirmed says that a refit without Rows, which shares nothing with the posterior, has
	// the class To as well. It is false with FlipOptions.NoRefit.
	Confirmed bool
}

// NoFlipError says that no set was found without which a test row has another class.
type NoFlipError struct {
	Left, Tried   int     // the most examples that were left out, and the sets that were tried
	Before, After float64 // how far f is from another class, with all examples and without those
}

func (e *NoFlipError) Error() string {
	return fmt.Sprintf("counterfactual: without %d training examples the class is the same, and the margin of f %.4g instead of %.4g; %d sets were tried; allow more examples to be left out", e.Left, e.After, e.Before, e.Tried)
}

const (
	// candidates is the least number of examples whose leverage is computed in a round.
	candidates = 64
	// enough is how many times the margin they lower without it, so that those that lower
	// it most are among them.
	enough = 4
	// tie is what two fits of the same mode may differ by, relative to f.
	tie = 1e-9
)

// SmallestFlip looks for a small set of training examples without which the class of x, one
// row, is another: the class of the largest output, or for one output its sign, 1 where it is
// positive. A tie, but for rounding, is no other class. It chooses greedily: the examples whose
// removal by (E15) lowers the margin of f most, until together they take it away, checks the set by Fit, goes on from the posterior
// without it where that was too few, and then puts back what is not needed. The set is
// minimal in that no one of its examples can be put back, unless FlipOptions.Tries ran out;
// a smaller one may exist.
//
// The set is confirmed by Model.Refit. Where no set is found, the error is a *NoFlipError.
func (m *Model) SmallestFlip(ctx context.Context, x *linearize.Batch, o *FlipOptions) (*Flip, error) {
	if x.Len() != 1 {
		panic("counterfactual: a flip is of one row")
	}
	s := &flipSearch{m: m, h: map[int]*mat.Dense{}}
	if o != nil {
		s.o = *o
	}
	if s.o.Most < 0 || s.o.Tries < 0 {
		panic("counterfactual: negative option")
	}
	if s.o.Most == 0 {
		s.o.Most = max(1, m.n/10)
	}
	if s.o.Tries == 0 {
		s.o.Tries = 100
	}
	s.o.Most = min(s.o.Most, m.n-1)
	var err error
	if s.x, err = m.At(ctx, x); err != nil {
		return nil, err
	}
	s.before = s.shifted(s.x.mean.RawRowView(0))
	s.from = classOf(s.before)
	found, err := s.grow(ctx)
	if err != nil {
		return nil, err
	}
	// Put back examples that are not needed, those chosen last at first.
	for i := len(found.rows) - 1; i >= 0 && len(found.rows) > 1 && s.tried < s.o.Tries; i-- {
		t, err := s.try(ctx, found, slices.Delete(slices.Clone(found.rows), i, i+1))
		if err != nil {
			return nil, err
		}
		if s.flips(t) {
			found = t
		}
	}
	flip := &Flip{Rows: slices.Sorted(slices.Values(found.rows)), Before: s.before, After: found.f, From: s.from, To: classOf(found.f), Tried: s.tried}
	if s.o.NoRefit {
		return flip, nil
	}
	refit, err := m.Refit(ctx, Without(flip.Rows...), &gp.Options{Limits: linearize.Limits{Memory: m.o.Memory}})
	if err != nil {
		return nil, err
	}
	var f mat.Dense
	if err := refit.PredictTo(ctx, &f, nil, x); err != nil {
		return nil, err
	}
	flip.Confirmed = classOf(s.shifted(f.RawRowView(0))) == flip.To
	return flip, nil
}

// classOf returns the class of the largest output, or of the sign of one.
func classOf(f []float64) int {
	if len(f) == 1 {
		if f[0] > 0 {
			return 1
		}
		return 0
	}
	return floats.MaxIdx(f)
}

// marginOf returns how far f is from another class than k, negative where it has one, and
// the weights w with which the margin is wᵀf.
func marginOf(f []float64, k int) (margin float64, w []float64) {
	w = make([]float64, len(f))
	if len(f) == 1 {
		w[0] = float64(2*k - 1)
		return w[0] * f[0], w
	}
	second := -1
	for c, v := range f {
		if c != k && (second < 0 || v > f[second]) {
			second = c
		}
	}
	w[k], w[second] = 1, -1
	return f[k] - f[second], w
}

// A flipSearch looks for a flip of one row.
type flipSearch struct {
	m      *Model
	o      FlipOptions
	x      *Rows
	before []float64
	from   int
	tried  int
	h      map[int]*mat.Dense // C(x_i,x_i) of examples, of the posterior of all
}

// A trial is the posterior without some examples, and f of the row there.
type trial struct {
	rows []int // in the order in which they were chosen
	post *Posterior
	f    []float64
}

// flips tells whether the class is another, by more than rounding: a tie is none.
func (s *flipSearch) flips(t *trial) bool {
	margin, _ := marginOf(t.f, s.from)
	return margin < -tie*max(floats.Norm(s.before, math.Inf(1)), floats.Norm(t.f, math.Inf(1)))
}

// try fits without these examples, from the posterior of another trial on, if not nil.
func (s *flipSearch) try(ctx context.Context, near *trial, rows []int) (*trial, error) {
	p, err := s.m.changed(ctx, Without(rows...))
	if err != nil {
		return nil, err
	}
	var from *Posterior
	if near != nil {
		from = near.post
	}
	post, err := p.climb(ctx, from)
	if err != nil {
		return nil, err
	}
	var f mat.Dense
	if err := s.x.MeanTo(ctx, &f, post); err != nil {
		return nil, err
	}
	s.tried++
	s.m.o.Show(StageFlip, s.tried, 0)
	return &trial{rows, post, s.shifted(f.RawRowView(0))}, nil
}

// shifted is f with FlipOptions.Shift.
func (s *flipSearch) shifted(f []float64) []float64 {
	f = slices.Clone(f)
	if s.o.Shift != nil {
		floats.Add(f, s.o.Shift)
	}
	return f
}

// grow leaves out more and more examples until the class is another, and returns the
// shortest beginning of the last ones with which it is.
func (s *flipSearch) grow(ctx context.Context) (*trial, error) {
	at, err := s.try(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	first, _ := marginOf(at.f, s.from)
	for len(at.rows) < s.o.Most && s.tried < s.o.Tries {
		more, err := s.next(ctx, at)
		if err != nil {
			return nil, err
		}
		if len(more) == 0 {
			break
		}
		to, err := s.try(ctx, at, append(slices.Clone(at.rows), more...))
		if err != nil {
			return nil, err
		}
		if s.flips(to) {
			// Look for as few of these examples, from the first on, as flip the class: none does not, and all do.
			lo, hi := 0, len(more)
			for hi-lo > 1 && s.tried < s.o.Tries {
				mid := (lo + hi) / 2
				t, err := s.try(ctx, to, append(slices.Clone(at.rows), more[:mid]...))
				if err != nil {
					return nil, err
				}
				if s.flips(t) {
					hi, to = mid, t
				} else {
					lo = mid
				}
			}
			return to, nil
		}
		at = to
	}
	margin, _ := marginOf(at.f, s.from)
	return nil, &NoFlipError{Left: len(at.rows), Tried: s.tried, Before: first, After: margin}
}

// next returns the examples to leave out next: those whose removal lowers the margin most,
// as many as take it away together to first order, or as may be.
func (s *flipSearch) next(ctx context.Context, at *trial) ([]int, error) {
	margin, w := marginOf(at.f, s.from)
	// Compute wᵀC(x*,·) with all training examples, N·C, given the examples that are left at the sites of
	// all.
	cross := make([]float64, s.m.n*s.m.c)
	for j, v := range w {
		dense.Axpy(cross, v, s.x.raw.RawRowView(j))
	}
	// C_*n = K_*n − K_*n W K
	u := mat.NewDense(1, len(cross), slices.Clone(cross))
	if err := at.post.p.solveTo(ctx, u); err != nil {
		return nil, err
	}
	var explained mat.Dense
	if err := at.post.p.mulKernelTo(ctx, &explained, u); err != nil {
		return nil, err
	}
	dense.Axpy(cross, -1, explained.RawRowView(0))
	c := s.m.c
	list := make([]scored, 0, s.m.n)
	for i := range s.m.n {
		if !at.post.p.gone(i) {
			// What C(x*,x_i) r_i is without the leverage of the example
			list = append(list, scored{i, dense.Dot(cross[i*c:(i+1)*c], at.post.alpha[i*c:(i+1)*c])})
		}
	}
	slices.SortStableFunc(list, byScore)
	most := s.o.Most - len(at.rows)
	n := 0
	for lowered := 0.0; n < len(list) && (n < candidates || n < 2*most && lowered < enough*margin); n++ {
		lowered += list[n].score
	}
	list = list[:n]
	if err := s.learn(ctx, list); err != nil {
		return nil, err
	}
	for k := range list {
		list[k].score = s.removal(at, list[k].row, cross)
	}
	slices.SortStableFunc(list, byScore)
	var rows []int
	for _, l := range list[:min(len(list), most)] {
		if !(l.score > 0) {
			break
		}
		rows = append(rows, l.row)
		if margin -= l.score; margin < 0 {
			break
		}
	}
	return rows, nil
}

// A scored example lowers the margin by its score on being left out.
type scored struct {
	row   int
	score float64
}

// byScore orders examples, the largest score first.
func byScore(a, b scored) int { return cmp.Compare(b.score, a.score) }

// learn computes C(x_i,x_i) of the examples of the list that it is not known of.
func (s *flipSearch) learn(ctx context.Context, list []scored) error {
	var rows []int
	for _, l := range list {
		if s.h[l.row] == nil {
			rows = append(rows, l.row)
		}
	}
	if slices.Sort(rows); len(rows) == 0 {
		return nil
	}
	x, err := linearize.Gather(ctx, s.m.base.Data(), rows)
	if err != nil {
		return fmt.Errorf("counterfactual: training example %d and others: %w", rows[0], err)
	}
	var h, q mat.Dense
	if err := s.m.base.InfluenceTo(ctx, &h, &q, rows, x); err != nil {
		return err
	}
	for k, i := range rows {
		s.h[i] = mat.DenseCopyOf(dense.Slice(&h, k*s.m.c, (k+1)*s.m.c))
	}
	return nil
}

// removal returns by how much leaving out example i lowers the margin, to first order, with
// its leverage given all examples. It is −Inf where that cannot be told.
func (s *flipSearch) removal(at *trial, i int, cross []float64) float64 {
	m := s.m
	c := m.c
	root := mat.NewDense(c, c, nil)
	m.y.Expand(i, nil, nil, root.RawMatrix().Data, at.post.f[i*c:(i+1)*c])
	q := make([]float64, c)
	gp.RemovalFrom(q, s.h[i], root, nil, at.post.alpha[i*c:(i+1)*c])
	// C(x*,x_i) (I − Λ_i h_i)⁻¹ r_i (E15)
	if v := dense.Dot(cross[i*c:(i+1)*c], q); !math.IsNaN(v) {
		return v
	}
	return math.Inf(-1)
}
