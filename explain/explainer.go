package explain

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Options says what to compute. Nil means the defaults.
type Options struct {
	// Terms is the kind of terms whose size decides which examples are listed.
	// Both kinds are always computed.
	Terms gp.Terms
	// Top is how many terms to list, largest first; 0 means 8, and more than
	// N means N.
	Top int
	// Sides keeps the Top largest positive and the Top largest negative terms
	// as well, in Explanation.For and Against.
	Sides bool
	// Similar is how many of the most similar examples to list; 0 means none.
	// It computes the posterior variance of every training example once, which
	// takes about as long as predicting all of them, or for a sparse posterior as
	// long as fitting it again. The listed terms have a similarity without it.
	Similar int
	// Targets is what to explain; nil means every output.
	Targets []Target
	// Groups gives the group of each training example, such as its class, counted
	// from 0; length N. Explanation.Subtotals then says what each group adds up to.
	// Nil computes no subtotals.
	Groups []int
	// Curve computes Explanation.Curve. It keeps N numbers for each row and target
	// until the row is explained.
	Curve bool
	// All keeps the numbers of every training example in Explanation.All: four
	// numbers for each of the T×N pairs and each target. It takes as long as
	// Similar.
	All bool
	// ErrorBars computes Term.VarianceReduction, from which the error bar of a term
	// follows. It takes one call of gp.Dual.LeaveOneOutTo for the listed examples, or for all
	// examples with Explainer.Prepare.
	ErrorBars bool
	// Layers are the kernels κ_g of groups of parameters that add up to the posterior's,
	// such as ntk.NTK.GroupKernel gives them. Term.Layers and Explanation.Layers then
	// split the terms by them. With G kernels it keeps G·N·C numbers for each row and target, and
	// solves and multiplies with K once for each of the G. The posterior must be a Splitter.
	Layers []ntk.Kernel
	// Limits.Progress is told for how many training examples the influence at their own inputs is known.
	// Limits.Memory bounds what Without and Layers take.
	linearize.Limits

	tile int // training examples handled at once; 0 means as many as take about 16 MiB
}

// A PriorMean gives m(x), stacked, length N·C. An ntk.Kernel is one.
type PriorMean interface {
	MeanTo(dst []float64, b *linearize.Batch)
}

// An Explainer explains predictions of one posterior. It caches the posterior
// covariances of training examples. It is safe for concurrent use: while one goroutine
// computes what the cache lacks, others that need it wait; see Prepare.
type Explainer struct {
	dual    gp.Dual
	prior   PriorMean
	options Options
	n, c    int
	groups  int // number of groups of Options.Groups
	alpha   []float64
	pseudo  []float64
	*cache
}

// A Term is one training example's part in one prediction.
type Term struct {
	// Index is the position of the example in gp.Dual.Data, from 0. It equals the row in a file
	// only if Data has all rows of the file in their order. The command uses Index to look up the
	// row of the file, and prints that.
	Index      int
	Value      float64 // C(x*,x_i) b_i (E14)
	Raw        float64 // κ(x*,x_i) α_i (E12)
	Similarity float64 // posterior correlation with the test row; NaN where a variance is zero
	Removal    float64 // change of f(x*) on leaving the example out (E15); NaN where undefined
	// Influence is f(x*) with the example minus f(x*) without it while all other examples have half their weight.
	// Both are first-order steps from half weight. It estimates by how much networks that are trained on halves of
	// the examples differ. It is nil unless AddInfluence was called.
	Influence    *float64
	PseudoTarget []float64 // b_i, read-only
	Alpha        []float64 // α_i, read-only

	// VarianceReduction is how much larger the posterior variance at the test row would be
	// without the example, at the same sites, v_−i(x*) − v(x*) ≥ 0. It is also the variance of
	// Value over labels drawn anew (SD). It is 0 without Options.ErrorBars, and NaN where rounding
	// leaves no digits.
	VarianceReduction float64
	// Layers holds the part of each of Options.Layers in Value, or in Raw where Options.Terms is
	// gp.RawTerms. The parts add up to it. Layers is nil without Options.Layers.
	Layers []float64
	// Networks is the spread of the term over the networks whose mean it belongs to (MeanOf); nil
	// for one network.
	Networks *TermSpread
}

// Columns are the numbers of every training example, in the data's order.
type Columns struct {
	Value, Raw, Similarity, Removal []float64 // length N
}

// An Explanation writes one number as a sum over all N training examples:
// Network = PriorMean + Sum + Remainder. Mean is PriorMean + Sum up to rounding after a refit and
// with gp.LinearGaussian; otherwise Mean is Network.
type Explanation struct {
	Target          Target
	Network         float64 // f(x*;θ*); the prediction of a refit is Mean
	Mean            float64 // posterior mean of f(x*), as gp.Latent.PredictTo gives it: the prediction
	PriorMean       float64 // m(x*)
	Sum             float64 // Σ Value over all N
	RawSum          float64 // Σ Raw over all N; Sum up to rounding
	AbsSum          float64 // Σ|Value|
	RawAbsSum       float64 // Σ|Raw|
	Remainder       float64 // f − m − Sum
	Cancellation    float64 // Σ|Value| / |Sum|; not finite where Sum is zero
	RawCancellation float64 // Σ|Raw| / |RawSum|
	Terms           []Term  // the largest by |Value|, or by |Raw|; ties in the data's order
	For, Against    []Term  // the largest positive and the largest negative, or nil
	Similar         []Term  // the most similar, or nil

	Subtotals []Subtotal   // by group, or nil
	Curve     []CurvePoint // by number of examples, or nil
	All       *Columns

	// Layers is what each of Options.Layers contributes over all N, Σ_i C_g(x*,x_i) b_i =
	// Σ_i κ_g(x*,x_i) α_i; they add up to Sum. It is nil without Options.Layers.
	Layers []float64
	// Networks holds the numbers of each network whose mean output is explained (MeanOf), in the
	// order given; nil for one network.
	Networks []Network
}

// New prepares explanations of the predictions of d, whose prior mean is
// given by prior. It returns an error if a target names an output that does not exist, or if prior
// is found to differ from the prior of d: a kernel at other parameters, or another mean at the
// first training example.
func New(d gp.Dual, prior PriorMean, o *Options) (*Explainer, error) {
	if o == nil {
		o = &Options{}
	}
	e := &Explainer{dual: d, prior: prior, options: *o, n: d.Data().Len(), alpha: d.Alpha(), pseudo: d.PseudoTargets(), cache: newCache()}
	_, e.c = d.Sites().F.Dims()
	if len(e.alpha) != e.n*e.c || len(e.pseudo) != e.n*e.c {
		panic("explain: dual vectors do not match the training data")
	}
	if o.Top < 0 || o.Similar < 0 || o.tile < 0 || o.Memory < 0 {
		panic("explain: negative option")
	}
	if o.Terms != gp.PosteriorTerms && o.Terms != gp.RawTerms {
		panic("explain: unknown terms")
	}
	if _, ok := d.(Splitter); len(o.Layers) > 0 && !ok {
		return nil, fmt.Errorf("explain: the terms of a %T cannot be split by layer; use an exact posterior or one of kept rows", d)
	}
	e.groups = numberOfGroups(o.Groups, e.n)
	if e.options.Top == 0 {
		e.options.Top = 8
	}
	e.options.Top = min(e.options.Top, e.n)
	e.options.Similar = min(e.options.Similar, e.n)
	e.options.Targets = append([]Target(nil), o.Targets...)
	e.options.Groups = append([]int(nil), o.Groups...)
	if o.Targets == nil {
		for c := range e.c {
			e.options.Targets = append(e.options.Targets, Single(c))
		}
	}
	for _, t := range e.options.Targets {
		if err := t.valid(e.c); err != nil {
			return nil, err
		}
	}
	if b, ok := d.Data().(*linearize.Batch); ok && b.Len() > 0 {
		if err := e.checkPrior(b); err != nil {
			return nil, err
		}
		// Compare prior with the posterior's prior mean at the first training example, if the posterior has a
		// method PriorMean, as gp.Exact does.
		if d, ok := d.(interface{ PriorMean() []float64 }); ok {
			want, got := d.PriorMean()[:e.c], make([]float64, e.c)
			e.prior.MeanTo(got, b.Slice(0, 1))
			scale := math.Max(floats.Norm(want, math.Inf(1)), floats.Norm(got, math.Inf(1)))
			for c := range got {
				if math.Abs(got[c]-want[c]) > samePrior*scale {
					return nil, errOtherPrior(fmt.Sprintf("at training example 0, output %d, it is %.6g, and the posterior's is %.6g", c, got[c], want[c]))
				}
			}
		}
	}
	return e, nil
}

// errOtherPrior says why prior is not the prior of the posterior.
func errOtherPrior(why string) error {
	return fmt.Errorf("explain: the prior mean is not that of the posterior: %s; give New the kernel that the posterior was fitted with", why)
}

// checkPrior returns an error if the prior is a kernel, such as ntk.NTK, whose parameters are not
// those at which b is linearized.
func (e *Explainer) checkPrior(b *linearize.Batch) error {
	if k, ok := e.prior.(interface {
		Mismatch(b *linearize.Batch) string
	}); ok {
		if d := k.Mismatch(b); d != "" {
			return errOtherPrior(d)
		}
	}
	return nil
}

// samePrior is how near prior means must be, relative to the largest, to be the same.
const samePrior = 1e-9

// Prepare computes the posterior variance of every training example, as
// Options.Similar does, and with Options.ErrorBars the variance V_i of every pseudo-target.
// Afterwards goroutines that call Explain and ExplainTargets do not wait for one another.
func (e *Explainer) Prepare(ctx context.Context) error {
	if err := e.knowAll(ctx); err != nil {
		return err
	}
	return e.knowSpread(ctx, slices.Repeat([]bool{true}, e.n))
}

// With returns an explainer with other options, which shares the cache of e.
func (e *Explainer) With(o *Options) (*Explainer, error) {
	other, err := New(e.dual, e.prior, o)
	if err != nil {
		return nil, err
	}
	other.cache = e.cache
	return other, nil
}

// Explain explains the outputs of every row of x. The result has one slice per
// row, with the explanations in the order of Options.Targets. All rows share one
// gp.Cross, whose memory grows with T; slice x to bound it. A cancelled context
// ends it with ctx.Err(), wrapped.
func (e *Explainer) Explain(ctx context.Context, x *linearize.Batch) ([][]Explanation, error) {
	return e.ExplainTargets(ctx, x, nil, e.options.Targets)
}

// ExplainTargets is Explain with targets in place of Options.Targets. cov is the posterior
// covariance of each row of x, T·C×C, as gp.Latent.PredictTo gives it, so that it is not
// computed again; nil computes it. It fails where a target names an output that does not
// exist.
func (e *Explainer) ExplainTargets(ctx context.Context, x *linearize.Batch, cov *mat.Dense, targets []Target) ([][]Explanation, error) {
	for _, t := range targets {
		if err := t.valid(e.c); err != nil {
			return nil, err
		}
	}
	if cov != nil {
		if r, c := cov.Dims(); r != x.Len()*e.c || c != e.c {
			panic("explain: covariance of another size than the rows")
		}
	}
	rows := x.Len()
	if rows == 0 {
		return nil, ctx.Err()
	}
	if x.Outputs() != e.c {
		panic("explain: test batch has another number of outputs")
	}
	if err := e.checkPrior(x); err != nil {
		return nil, err
	}
	if e.options.All || e.options.Similar > 0 {
		if err := e.knowAll(ctx); err != nil {
			return nil, err
		}
	}
	predicted, unknown := mat.NewDense(rows, e.c, nil), (*mat.Dense)(nil)
	if cov == nil {
		cov = mat.NewDense(rows*e.c, e.c, nil)
		unknown = cov
	}
	if err := e.dual.PredictTo(ctx, predicted, unknown, x); err != nil {
		return nil, fmt.Errorf("explain: posterior mean and covariance of the test rows: %w", err)
	}
	mean := make([]float64, rows*e.c)
	e.prior.MeanTo(mean, x)
	work := make([][]tally, rows)
	for t := range work {
		for _, target := range targets {
			work[t] = append(work[t], e.newTally(target, rowsOf(cov, t*e.c, e.c)))
		}
	}
	cross, err := e.stream(ctx, x, work)
	if err != nil {
		return nil, err
	}
	if err := e.complete(ctx, cross, work); err != nil {
		return nil, err
	}
	if err := e.split(ctx, x, work); err != nil {
		return nil, err
	}
	out := make([][]Explanation, rows)
	err = par.Do(ctx, rows, func(t int) error {
		f, m := x.F.RawRowView(t), mean[t*e.c:(t+1)*e.c]
		for i := range work[t] {
			// Turn a tally into an explanation; f and m are the network's outputs and the prior means of its
			// row.
			w := &work[t][i]
			one := Explanation{
				Target:    w.target,
				Network:   w.target.Of(f),
				PriorMean: w.target.Of(m),
				Sum:       w.sum.value(),
				RawSum:    w.rawSum.value(),
				AbsSum:    w.abs.value(),
				RawAbsSum: w.rawAbs.value(),
				All:       w.all,
			}
			one.close()
			one.Terms = e.terms(w, &w.top)
			one.For, one.Against = e.terms(w, &w.plus), e.terms(w, &w.minus)
			one.Similar = e.terms(w, &w.similar)
			for _, parts := range w.layers {
				var s sum
				for _, v := range parts {
					s.add(v)
				}
				one.Layers = append(one.Layers, s.value())
			}
			one.Subtotals, one.Curve = w.subtotals.values(), curve(w.column)
			one.Mean = one.Target.Of(predicted.RawRowView(t))
			out[t] = append(out[t], one)
		}
		return nil
	})
	return out, err
}

// AllTerms returns the terms, of the kind Options.Terms, of every training example in the outputs of every row of x,
// T·C×N: row t·C + c is of output c of row t. The terms of a contrast are the difference of two such rows. All rows
// share one pass over the data, and one gp.Cross, whose memory grows with T.
func (e *Explainer) AllTerms(ctx context.Context, x *linearize.Batch) (*mat.Dense, error) {
	if x.Len() == 0 {
		return nil, ctx.Err()
	}
	if x.Outputs() != e.c {
		panic("explain: test batch has another number of outputs")
	}
	if err := e.checkPrior(x); err != nil {
		return nil, err
	}
	out := mat.NewDense(x.Len()*e.c, e.n, nil)
	work := make([][]tally, x.Len())
	for t := range work {
		for c := range e.c {
			w := tally{target: Single(c), column: out.RawRowView(t*e.c + c), cross: make([]float64, e.c), rawCross: make([]float64, e.c), subtotals: make(subtotals, e.groups)}
			work[t] = append(work[t], w)
		}
	}
	_, err := e.stream(ctx, x, work)
	return out, err
}

// Residual is RawSum − Sum, which is 0 in exact arithmetic (E14).
func (x *Explanation) Residual() float64 { return x.RawSum - x.Sum }

// Tolerance is the largest residual that rounding explains: 1e-8 times the largest of |Network|, |PriorMean|
// and Σ|Value|. From the same relative error on, a refit warns.
func (x *Explanation) Tolerance() float64 {
	return newton.SmallOpen * max(math.Abs(x.Network), math.Abs(x.PriorMean), x.AbsSum)
}

// close fills in what follows from the sums.
func (x *Explanation) close() {
	// f − m − s
	x.Remainder = x.Network - x.PriorMean - x.Sum
	// Σ|v| / |s|
	x.Cancellation = x.AbsSum / math.Abs(x.Sum)
	x.RawCancellation = x.RawAbsSum / math.Abs(x.RawSum)
}

func (e *Explainer) terms(w *tally, t *top) []Term {
	var list []Term
	for _, c := range t.sorted() {
		i := c.index
		var layers []float64
		for _, layer := range w.layers {
			layers = append(layers, layer[i])
		}
		list = append(list, Term{
			Index:        i,
			Value:        c.value,
			Raw:          c.raw,
			Similarity:   e.similarity(w, i, c.cross),
			Removal:      e.removal(i, c.cross),
			PseudoTarget: e.pseudo[i*e.c : (i+1)*e.c : (i+1)*e.c],
			Alpha:        e.alpha[i*e.c : (i+1)*e.c : (i+1)*e.c],

			VarianceReduction: e.reduction(i, c.cross),
			Layers:            layers,
		})
	}
	return list
}

// rowsOf returns rows [first, first+n) of m as one row-major slice; m has no
// gap between rows.
func rowsOf(m *mat.Dense, first, n int) []float64 {
	raw := m.RawMatrix()
	return raw.Data[first*raw.Stride : (first+n)*raw.Stride]
}
