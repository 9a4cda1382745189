package audit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// Options say what to compute. Nil means the defaults.
type Options struct {
	// Rows are the training examples to audit, ascending; nil means all.
	Rows []int
	// LeaveOneOut predicts each training example without that example, as gp.Dual.LeaveOneOutTo
	// does; nil means that method.
	LeaveOneOut func(ctx context.Context, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error
	// Calibration scales these predictions (E18, E21); nil leaves them unchanged.
	Calibration *score.Calibration
	// Link turns these predictions into probabilities; nil means predictive.DefaultLink.
	Link predictive.Link
	// Top is how many suspects get Supports, and the largest number of duplicates that are listed;
	// 0 means 20.
	Top int
	// Supports is how many training examples to list for each suggested label; 0 means 4, and a
	// negative number none.
	Supports int
	// MostPaired is the largest number of training outputs N·C at which all training
	// examples are compared in pairs, which takes about as long as three factorizations; 0
	// means 12,000, and a negative number never.
	MostPaired int
	// LeastCorrelation is the smallest correlation at which two examples count as near-duplicates; 0 means 0.9.
	LeastCorrelation float64
	linearize.Limits
}

// The stages of Options.Progress, beside gp.StageLeaveOneOut.
const (
	StageSupports = "supports"
	StagePairs    = "pairs"
	StagePool     = "pool"
	StageBatch    = "batch"
)

// An Example holds the scores of one training example; see the package comment for
// their meaning. A score is NaN where rounding leaves no digits.
type Example struct {
	Index      int     // position in the training data
	LogDensity float64 // nats

	// The following are set for classes; otherwise Label and Suggested are −1.
	Label       int       // class of the target
	Suggested   int       // most probable class without the example
	Probability []float64 // of each class without the example
	Entropy     float64   // nats; NaN without classes
	Margin      float64   // NaN without classes

	Residual []float64 // of each target of a regression, in standard deviations; positive: the target is above the prediction
	Leverage float64
	EqualTo  int       // position in the training data of the first example with the same input, −1 for none
	Supports []Support // of the first suspects; the largest first
}

// Suspect tells whether, given the other examples, another class is more probable than the label.
// It is false for regressions.
func (x *Example) Suspect() bool { return x.Label != x.Suggested }

// A Support is a training example whose term speaks against the label of example i. The prediction
// of example i without itself is a sum over the other examples,
//
//	f_−i(x_i) = m(x_i) + Σ_{j≠i} C_−i(x_i,x_j) b_j    (E14) without example i,
//
// Value is the term of the training example in f of the suggested class minus f of the label's
// class. In a regression it is the term in the output whose residual is largest. It is positive
// where it moves the prediction away from the target. Its unit is the unit of the outputs: logits
// for classes.
type Support struct {
	Index int // position in the training data
	Value float64
}

// A Pair is two training examples that the posterior hardly distinguishes.
type Pair struct {
	First, Second int // positions in the training data, First < Second
	// Correlation is Σ_c Cov(f_c(x), f_c(x')) / √(Σ_c Var f_c(x) Σ_c Var f_c(x')) of the
	// posterior, at most 1; NaN where a variance is 0.
	Correlation float64
	Equal       bool // whether the inputs are equal, number by number
	Conflict    bool // whether the targets differ
}

// An Audit ranks training examples. The rankings hold positions in Examples; examples without a
// score are left out, and ties are in the data's order.
type Audit struct {
	Examples    []Example // of Options.Rows, in their order
	Mislabelled []int     // by LogDensity, the lowest first
	Boundary    []int     // by Entropy, the highest first; nil without classes
	Leverage    []int     // by Leverage, the highest first
	Duplicates  []Pair    // equal inputs first, then by Correlation, the highest first

	// Effective is Σ Leverage of the examples: with all rows, the effective number of
	// parameters.
	Effective float64
	Warnings  []error // named rows-left-out and only-equal-pairs
}

// Of audits training examples of a posterior with targets y, N×Targets(C). It calls LeaveOneOutTo
// of d, which costs about one factorization for an exact posterior, and passes over the training
// examples once for the supports. A likelihood of classes needs one target for each example, which
// is its class; otherwise the error is an *UnsupportedError. Other errors come from gp.Dual and
// score.ScoreOf.
func Of(ctx context.Context, d gp.Dual, lik glm.Likelihood, y *mat.Dense, o *Options) (*Audit, error) {
	a, err := scored(ctx, d, lik, y, o)
	if err != nil {
		return nil, err
	}
	return a.audit, a.list(ctx)
}

// Scores is the part of Of that scores each example by itself. It fills in Audit.Examples for Options.Rows, which
// may be a part of the training examples, without supports, with EqualTo −1, and without rankings and pairs. List
// computes these from the examples of all parts.
func Scores(ctx context.Context, d gp.Dual, lik glm.Likelihood, y *mat.Dense, o *Options) (*Audit, error) {
	a, err := scored(ctx, d, lik, y, o)
	if err != nil {
		return nil, err
	}
	return a.audit, nil
}

// List is the rest of Of, for examples that Scores has scored, each once and in ascending order. It computes
// leave-one-out again for the suspects that it lists, and passes over the training examples once for their supports.
func List(ctx context.Context, d gp.Dual, lik glm.Likelihood, y *mat.Dense, examples []Example, o *Options) (*Audit, error) {
	var own Options
	if o != nil {
		own = *o
	}
	own.Rows = make([]int, len(examples))
	for k := range examples {
		own.Rows[k] = examples[k].Index
	}
	if len(examples) == 0 {
		return nil, &score.RowsError{}
	}
	a, err := newAuditor(d, lik, y, &own)
	if err != nil {
		return nil, err
	}
	a.audit.Examples = examples
	return a.audit, a.list(ctx)
}

// scored returns an auditor with the scores of all examples.
func scored(ctx context.Context, d gp.Dual, lik glm.Likelihood, y *mat.Dense, o *Options) (*auditor, error) {
	a, err := newAuditor(d, lik, y, o)
	if err != nil {
		return nil, err
	}
	if err := a.fits(); err != nil {
		return nil, err
	}
	if err := a.leaveOut(ctx); err != nil {
		return nil, err
	}
	if err := a.score(ctx); err != nil {
		return nil, err
	}
	// Compute the leverages from the covariances without each example, which keep their digits where an
	// example nearly fixes the function by itself.
	root := a.dual.Sites().Root
	return a, par.Do(ctx, len(a.rows), func(k int) error {
		i := a.rows[k]
		// tr Λ_i h_i = tr RᵀcR(I + RᵀcR)⁻¹ with c = cov_−i (E17)
		inner, chol := informed(dense.Slice(a.cov, k*a.c, (k+1)*a.c), dense.Slice(root, i*a.c, (i+1)*a.c))
		if chol == nil {
			a.audit.Examples[k].Leverage = math.NaN()
			return nil
		}
		// A condition warning still carries the solution.
		var x mat.Dense
		_ = chol.SolveTo(&x, inner)
		a.audit.Examples[k].Leverage = mat.Trace(&x)
		return nil
	})
}

// list ranks the scored examples and finds supports and pairs.
func (a *auditor) list(ctx context.Context) error {
	a.rank()
	if err := a.support(ctx); err != nil {
		return err
	}
	near := a.near
	switch outputs := a.n * a.c; {
	case a.o.MostPaired < 0:
		near = nil
	case outputs > a.o.MostPaired:
		a.audit.Warnings = append(a.audit.Warnings, linearize.NewWarning("only-equal-pairs", float64(outputs), float64(a.o.MostPaired), "Raise Options.MostPaired.",
			"%d training outputs are more than the %d that are compared in pairs. Duplicates are listed only where their inputs are equal.", outputs, a.o.MostPaired))
		near = nil
	}
	return a.pair(ctx, a.dual.Data(), near)
}

// An auditor holds what an audit is computed from.
type auditor struct {
	dual  gp.Dual
	lik   glm.Likelihood
	y     *mat.Dense // targets of the audited examples
	all   *mat.Dense // targets of all training examples
	o     Options
	n, c  int
	rows  []int
	mean  *mat.Dense // leave-one-out means
	cov   *mat.Dense // leave-one-out covariances; nil in List
	audit *Audit
}

func newAuditor(d gp.Dual, lik glm.Likelihood, y *mat.Dense, o *Options) (*auditor, error) {
	_, c := d.Sites().F.Dims()
	a := &auditor{dual: d, lik: lik, y: y, all: y, n: d.Data().Len(), c: c}
	return a, a.prepare(o)
}

// prepare checks the options and fills in defaults.
func (a *auditor) prepare(o *Options) error {
	if o != nil {
		a.o = *o
	}
	if a.o.Top < 0 || a.o.Memory < 0 || a.o.LeastCorrelation < 0 || a.o.LeastCorrelation > 1 {
		panic("audit: options out of range")
	}
	if a.all.RawMatrix().Rows != a.n {
		panic("audit: targets and training examples differ in number")
	}
	// Fill in the defaults.
	a.o.Top = cmp.Or(a.o.Top, 20)
	a.o.Supports = cmp.Or(a.o.Supports, 4)
	a.o.MostPaired = cmp.Or(a.o.MostPaired, 12_000)
	a.o.LeastCorrelation = cmp.Or(a.o.LeastCorrelation, 0.9)
	if a.o.LeaveOneOut == nil && a.dual != nil {
		a.o.LeaveOneOut = a.dual.LeaveOneOutTo
	}
	if a.rows = a.o.Rows; a.rows == nil {
		a.rows = dense.Range(a.n)
	} else {
		a.y = mat.NewDense(max(1, len(a.rows)), a.all.RawMatrix().Cols, nil)
		for k, i := range a.rows {
			if i < 0 || i >= a.n || k > 0 && i <= a.rows[k-1] {
				panic("audit: rows of training examples do not ascend")
			}
			a.y.SetRow(k, a.all.RawRowView(i))
		}
	}
	a.audit = &Audit{Examples: make([]Example, len(a.rows))}
	for k, i := range a.rows {
		a.audit.Examples[k] = Example{Index: i, Label: -1, Suggested: -1, EqualTo: -1, Entropy: math.NaN(), Margin: math.NaN()}
	}
	return nil
}

// fits returns an error if the scores need more memory than allowed.
func (a *auditor) fits() error {
	need := func(n int) int64 {
		// leave-one-out means and covariances, before and after calibration
		return memory.Mul(8*2, memory.Mul(int64(n), memory.Mul(int64(a.c), int64(a.c+2))))
	}
	return gp.CheckMemory("an audit", gp.TrainingExamples, len(a.rows), a.o.Memory, need)
}

// tileRows is how many training examples are linearized at a time if they are not in memory.
const tileRows = 64

// each calls do with the audited examples, tile by tile; lo is the position of the first. If all
// training examples are audited and in memory, it calls do once, so that an exact posterior chooses
// its own tiles.
func (a *auditor) each(ctx context.Context, stage string, do func(lo int, rows []int, x *linearize.Batch) error) error {
	b, held := a.dual.Data().(*linearize.Batch)
	if held && len(a.rows) == a.n {
		return do(0, a.rows, b)
	}
	for lo := 0; lo < len(a.rows); lo += tileRows {
		rows := a.rows[lo:min(lo+tileRows, len(a.rows))]
		x, err := linearize.Gather(ctx, a.dual.Data(), rows)
		if err != nil {
			return fmt.Errorf("audit: training example %d and others: %w", rows[0], err)
		}
		if err := do(lo, rows, x); err != nil {
			return err
		}
		a.o.Show(stage, lo+len(rows), len(a.rows))
	}
	return nil
}

// leaveOut computes the leave-one-out prediction of each audited example (E17).
func (a *auditor) leaveOut(ctx context.Context) error {
	if len(a.rows) == 0 {
		return &score.RowsError{}
	}
	a.mean, a.cov = mat.NewDense(len(a.rows), a.c, nil), mat.NewDense(len(a.rows)*a.c, a.c, nil)
	return a.each(ctx, gp.StageLeaveOneOut, func(lo int, rows []int, x *linearize.Batch) error {
		hi := lo + len(rows)
		return a.o.LeaveOneOut(ctx, dense.Slice(a.mean, lo, hi), dense.Slice(a.cov, lo*a.c, hi*a.c), rows, x)
	})
}

// score scores the labels by the leave-one-out predictions.
func (a *auditor) score(ctx context.Context) error {
	lik, mean, cov, err := a.o.Calibration.Apply(a.lik, a.mean, a.cov)
	if err != nil {
		return err
	}
	s, err := score.ScoreOfContext(ctx, a.o.Link, lik, a.y, mean, cov)
	if err != nil {
		return err
	}
	a.audit.Warnings = append(a.audit.Warnings, s.Warnings()...)
	for k := range a.audit.Examples {
		a.audit.Examples[k].LogDensity = s.LogDensity[k]
	}
	if l, classes := lik.(glm.Logistic); !classes || !l.Softmax() && a.c > 1 {
		// Fill in the scores of a regression or of several labels; mean and cov are the calibrated moments.
		targets := lik.Targets(a.c)
		return par.Do(ctx, par.Tiles(len(a.rows), tileRows), func(tile int) error {
			lo, hi := par.Bounds(tile, len(a.rows), tileRows)
			for k := lo; k < hi; k++ {
				x := &a.audit.Examples[k]
				x.Residual = slices.Repeat([]float64{math.NaN()}, targets)
				if math.IsNaN(x.LogDensity) {
					continue
				}
				var noise, unsure mat.Dense
				if err := (predictive.Exact{}).SplitTo(&noise, &unsure, lik, dense.Slice(mean, k, k+1), dense.Slice(cov, k*a.c, (k+1)*a.c)); err != nil {
					return err
				}
				for j := range targets {
					// (y − E y)/sd y
					x.Residual[j] = (a.y.At(k, j) - s.Response.At(k, j)) / math.Sqrt(noise.At(0, j)+unsure.At(0, j))
				}
			}
			return nil
		})
	}
	prob, labels := score.ClassProbabilities(lik, a.y, s.Response)
	if prob == nil {
		return &UnsupportedError{Likelihood: lik.Name(), Outputs: a.c, Reason: "no label can be suggested unless each example has one target that is a class"}
	}
	a.classify(prob, labels)
	return nil
}

// classify fills in the scores of classes.
func (a *auditor) classify(prob *mat.Dense, labels []int) {
	entropy := make([]float64, len(labels))
	score.EntropyTo(entropy, prob)
	for k := range a.audit.Examples {
		x, p := &a.audit.Examples[k], slices.Clone(prob.RawRowView(k))
		x.Label, x.Suggested, x.Probability, x.Entropy = labels[k], labels[k], p, entropy[k]
		if math.IsNaN(x.LogDensity) {
			x.Entropy = math.NaN()
			continue
		}
		// The label itself is suggested if no class is more probable.
		for class, v := range p {
			if v > p[x.Suggested] {
				x.Suggested = class
			}
		}
		slices.Sort(p)
		x.Margin, x.Probability = p[len(p)-1]-p[len(p)-2], prob.RawRowView(k)
	}
}
