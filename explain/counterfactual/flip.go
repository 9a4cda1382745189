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
	// Most is the largest number of examples to leave out; 0 means a tenth of them, and at least one.
	Most int
	// Tries is the largest number of sets that are tried, each with one Fit; 0 means 100.
	Tries int
	// Shift is added to the posterior mean of the row to give its outputs, length C, such as
	// f(x;θ*) − f̂(x); nil adds nothing. It stays the same whichever examples are left out.
	Shift []float64
	// NoRefit returns the set that Fit found without confirming it by a refit.
	NoRefit bool
}

// A Flip is a set of training examples whose removal changes the class of a test row.
type Flip struct {
	Rows          []int     // positions of the examples, ascending
	Before, After []float64 // posterior mean f of the row, with all examples and without Rows, length C
	From, To      int       // its class before and after
	Tried         int       // sets that were fitted
	// Confirmed says that a refit from scratch without Rows gives the class To as well. It is false with
	// FlipOptions.NoRefit.
	Confirmed bool
}

// NoFlipError says that no set was found whose removal changes the class of a test row.
type NoFlipError struct {
	Left, Tried   int     // the most examples that were left out, and the sets that were tried
	Before, After float64 // margin of f, with all examples and without the Left examples
}

func (e *NoFlipError) Error() string {
	return fmt.Sprintf("counterfactual: without %d training examples the class is the same, and the margin of f %.4g instead of %.4g; %d sets were tried; allow more examples to be left out", e.Left, e.After, e.Before, e.Tried)
}

const (
	// candidates is the least number of examples whose leverage is computed in a round.
	candidates = 64
	// enough is the multiple of the margin by which the examples of a round, before their leverage is known, must
	// lower it together, so that those that lower it most are among them.
	enough = 4
	// tie is the relative difference in f that two fits of the same mode may have.
	tie = 1e-9
)

// SmallestFlip looks for a small set of training examples whose removal changes the class of x, which is one row. The
// class is the index of the largest output, or for a single output 1 where it is positive and 0 otherwise. A tie up
// to rounding does not count as a change. The search is greedy. It adds the examples whose removal lowers the margin
// of f most by (E15), until together they remove the margin, and checks the set by Fit. If the class is still the
// same, it continues from the posterior without the set. At last it puts back examples that are not needed. No single
// example of the result can be put back, unless FlipOptions.Tries ran out; a smaller set may exist.
//
// The set is confirmed by Model.Refit. If no set is found, the error is a *NoFlipError.
func (m *Model) SmallestFlip(ctx context.Context, x *linearize.Batch, o *FlipOptions) (*Flip, error) {
	if x.Len() != 1 {
		panic("counterfactual: a flip is of one row")
	}
	if m.astray != nil {
		return nil, m.astray
	}
	s := &flipSearch{m: m, prior: make([]float64, m.c)}
	if o != nil {
		s.o = *o
	}
	if s.o.Most < 0 || s.o.Tries < 0 {
		panic("counterfactual: negative option")
	}
	n := 0 // examples that count
	for i := range m.y.Len() {
		if m.y.Weight(i) > 0 {
			n++
		}
	}
	s.o.Most, s.o.Tries = min(cmp.Or(s.o.Most, max(1, n/10)), n-1), cmp.Or(s.o.Tries, 100)
	m.kernel.MeanTo(s.prior, x)
	if s.o.Shift != nil {
		floats.Add(s.prior, s.o.Shift)
	}
	var err error
	if s.cross, err = m.cross(ctx, x); err != nil {
		return nil, err
	}
	whole := s.trial(nil, m.whole)
	s.before, s.from = whole.f, classOf(whole.f)
	found, err := s.grow(ctx, whole)
	if err != nil {
		return nil, err
	}
	// Put back examples that are not needed, beginning with those chosen last.
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
	refit, err := m.Refit(ctx, m.y.Without(flip.Rows...), nil, &gp.Options{Limits: linearize.Limits{Memory: m.limits.Memory}})
	if err != nil {
		return nil, err
	}
	var f mat.Dense
	if err := refit.PredictTo(ctx, &f, nil, x); err != nil {
		return nil, err
	}
	if s.o.Shift != nil {
		floats.Add(f.RawRowView(0), s.o.Shift)
	}
	flip.Confirmed = classOf(f.RawRowView(0)) == flip.To
	return flip, nil
}

// classOf returns the index of the largest output, or for a single output 1 where it is positive and 0 otherwise.
func classOf(f []float64) int {
	if len(f) == 1 {
		f = []float64{0, f[0]}
	}
	return floats.MaxIdx(f)
}

// A flipSearch looks for a flip of one row.
type flipSearch struct {
	m      *Model
	o      FlipOptions
	prior  []float64  // m of the row plus FlipOptions.Shift
	cross  *mat.Dense // kernel of the row with the training examples, C×N·C
	before []float64  // f of the row with all examples
	from   int        // its class
	tried  int
}

// A trial is the posterior without some examples, and f of the row there.
type trial struct {
	rows []int // in the order in which they were chosen
	post *Posterior
	f    []float64
}

func (s *flipSearch) trial(rows []int, post *Posterior) *trial {
	t := &trial{rows, post, slices.Clone(s.prior)}
	for k := range t.f {
		t.f[k] += dense.Dot(s.cross.RawRowView(k), post.alpha) // m + K_*n α (E6)
	}
	return t
}

// try fits without these examples, starting from the posterior of another trial.
func (s *flipSearch) try(ctx context.Context, near *trial, rows []int) (*trial, error) {
	post, err := s.m.fit(ctx, s.m.y.Without(rows...), nil, near.post)
	if err != nil {
		return nil, err
	}
	s.tried++
	s.m.limits.Show(StageFlip, s.tried, 0)
	return s.trial(rows, post), nil
}

// weights returns the w of the margin wᵀf, which is how far f is from any class other than the original one.
func (s *flipSearch) weights(f []float64) []float64 {
	w := make([]float64, len(f))
	if len(f) == 1 {
		w[0] = float64(2*s.from - 1)
		return w
	}
	second := -1
	for c, v := range f {
		if c != s.from && (second < 0 || v > f[second]) {
			second = c
		}
	}
	w[s.from], w[second] = 1, -1
	return w
}

// margin returns the margin of f.
func (s *flipSearch) margin(f []float64) float64 { return floats.Dot(s.weights(f), f) }

// flips tells whether the class has changed by more than rounding.
func (s *flipSearch) flips(t *trial) bool {
	return s.margin(t.f) < -tie*max(floats.Norm(s.before, math.Inf(1)), floats.Norm(t.f, math.Inf(1)))
}

// grow leaves out more and more examples until the class changes. Of the examples added last it keeps the shortest
// prefix that changes the class.
func (s *flipSearch) grow(ctx context.Context, at *trial) (*trial, error) {
	for len(at.rows) < s.o.Most && s.tried < s.o.Tries {
		more, err := s.next(ctx, at)
		if err != nil {
			return nil, err
		}
		if len(more) == 0 {
			break
		}
		to, err := s.try(ctx, at, slices.Concat(at.rows, more))
		if err != nil {
			return nil, err
		}
		if !s.flips(to) {
			at = to
			continue
		}
		// Find by bisection how many of these examples, from the first on, change the class. The first lo do not,
		// and the first hi do.
		lo, hi := 0, len(more)
		for hi-lo > 1 && s.tried < s.o.Tries {
			mid := (lo + hi) / 2
			t, err := s.try(ctx, to, slices.Concat(at.rows, more[:mid]))
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
	return nil, &NoFlipError{Left: len(at.rows), Tried: s.tried, Before: s.margin(s.before), After: s.margin(at.f)}
}

// next returns the examples to leave out next: those whose removal lowers the margin most, as many as remove it
// together to first order, or as FlipOptions.Most allows.
func (s *flipSearch) next(ctx context.Context, at *trial) ([]int, error) {
	m, c, margin := s.m, s.m.c, s.margin(at.f)
	var w mat.Dense
	w.Mul(dense.RowOf(s.weights(at.f)), s.cross)
	given, err := at.post.given(ctx, &w)
	if err != nil {
		return nil, err
	}
	cross := given.RawRowView(0) // wᵀC(x*,X), N·C
	var rows []int
	lowers := make([]float64, m.y.Len()) // by how much the removal of each example lowers the margin
	for i := range lowers {
		if at.post.y.Weight(i) > 0 {
			rows = append(rows, i)
			lowers[i] = dense.Dot(cross[i*c:(i+1)*c], at.post.alpha[i*c:(i+1)*c]) // without the leverage of the example
		}
	}
	largestFirst := func() {
		slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(lowers[b], lowers[a]) })
	}
	largestFirst()
	most, n := s.o.Most-len(at.rows), 0
	for sum := 0.0; n < len(rows) && (n < candidates || n < 2*most && sum < enough*margin); n++ {
		sum += lowers[rows[n]]
	}
	rows = rows[:n]
	slices.Sort(rows)
	x, err := linearize.Gather(ctx, m.base.Data(), rows)
	if err != nil {
		return nil, fmt.Errorf("counterfactual: training examples that may be left out: %w", err)
	}
	var h mat.Dense // C(x_i,x_i) given all examples
	if err := m.base.InfluenceTo(ctx, &h, new(mat.Dense), rows, x); err != nil {
		return nil, err
	}
	q := make([]float64, c)
	for k, i := range rows {
		// wᵀC(x*,x_i) (I − Λ_i h_i)⁻¹ r_i (E15)
		gp.RemovalFrom(q, dense.Slice(&h, k*c, (k+1)*c), dense.Slice(at.post.sites.Root, i*c, (i+1)*c), nil, at.post.alpha[i*c:(i+1)*c])
		lowers[i] = dense.Dot(cross[i*c:(i+1)*c], q) // NaN sorts last
	}
	largestFirst()
	for n = 0; n < min(len(rows), most) && lowers[rows[n]] > 0 && margin >= 0; n++ {
		margin -= lowers[rows[n]]
	}
	return rows[:n], nil
}
