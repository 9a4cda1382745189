package funcgp

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

type (
	// An Explanation is a prediction of one row with its outputs, each written as a sum over all training rows. Its
	// method Main is the output that was asked for.
	Explanation = result.Report
	// An Output is one output of the network, or the difference of two, as a sum over all training rows:
	//
	//	PriorMean + ContributionSum + Remainder
	Output = result.Output
	// A Contribution is what one training row has to do with an output, in the unit of the output.
	Contribution = result.Contribution
)

// ExplainOptions are the options of Explain. The zero value explains each output, and of classes with an output each the
// most probable one against the next.
type ExplainOptions struct {
	Top int // terms to list of each output, the largest first; 0 is 8
	// For and Against name two classes or, in a regression, two outputs by target or number. Their difference
	// is explained after the outputs.
	For, Against string
	// Only explains one output alone: the difference of For and Against, For without Against, or by default the most
	// probable class against the next, the most probable label, or the first output.
	Only bool
	Raw  bool // lists the terms of the prior kernel, by their size
	// ByLayer splits every term and the sum by layer of the network: each part comes through the parameters of
	// one layer. ByLayer and Influence need a posterior of all training rows (Method "exact" or "kept").
	ByLayer bool
	// Influence asks for the effect of each listed row together with many others. The first call factors the
	// kernel once more, and the posterior keeps this factor.
	Influence bool
	Sides     bool // lists the largest positive and the largest negative terms as well, as many of each
	// Page adds what pages show: Sides, the running sum of all terms, and the training rows most similar to the row, but of
	// more than 40,000 outputs of training rows.
	Page bool

	// The prediction from other training data is added by at most one of these, which need a posterior of all training
	// rows: without training rows by their number in the file of the data, with other labels of theirs, or without a small
	// set that is looked for.
	Without      []int
	Flip         []Relabelled
	SmallestFlip bool
	FlipMost     int // rows of that set at most; 0 is a tenth of the training rows
	FlipTries    int // sets to try at most; 0 is 100

	// Merged, if not nil, holds the explanations of each row, which then need no pass over the training rows.
	// explain.Merge joins them from the results of ExplainPart for all parts of the training rows.
	Merged [][]explain.Explanation
}

// Contrast sets For and Against to two names with a comma between them; one with a comma stands in double quotes, and ""
// sets nothing.
func (o *ExplainOptions) Contrast(text string) error {
	names, err := job.SplitNames(text)
	if err != nil || text != "" && len(names) != 2 {
		return job.Usagef("{contrast=%q} must be two different classes such as 4,9", text)
	}
	if names != nil {
		o.For, o.Against = names[0], names[1]
	}
	return nil
}

// CheckContrast returns an error for a contrast, written as Contrast takes it, that names no pair of classes of
// such data. file is the posterior's file, or "".
func CheckContrast(d Data, file, text string) error {
	f, err := checked(&Model{}, &d, &FitOptions{}, file)
	if err == nil {
		_, _, err = f.CheckContrast(text)
	}
	return named(err)
}

// Explain explains each of the rows, which must be of this posterior. The options may be nil.
func (p *Posterior) Explain(ctx context.Context, rows *Rows, o *ExplainOptions) ([]Explanation, error) {
	var out []Explanation
	err := p.EachExplanation(ctx, rows, o, func(_ int, x *Explanation) error {
		out = append(out, *x)
		return nil
	})
	return out, err
}

// EachExplanation explains the rows one after another, and calls do with the number of each among them and its
// explanation, which do may keep. It ends with the error of do.
func (p *Posterior) EachExplanation(ctx context.Context, rows *Rows, o *ExplainOptions, do func(i int, x *Explanation) error) error {
	if err := p.owns(rows); err != nil {
		return err
	}
	ctx = p.heard(ctx)
	c := job.FromContext(ctx)
	defer c.Clear()
	var e *explaining
	for i := range rows.Len() {
		x, err := func() (*Explanation, error) {
			end, err := p.begin()
			if err != nil {
				return nil, err
			}
			defer end()
			if e == nil {
				if e, err = p.explaining(ctx, o); err != nil {
					return nil, err
				}
			}
			return e.explain(ctx, rows.asked, i)
		}()
		if err == nil {
			err = c.EndPart(ctx, "predict")
		}
		if err != nil {
			return p.named(err)
		}
		if err := do(i, x); err != nil {
			return err
		}
		if rows.Len() > 1 {
			c.Show("explain", i+1, rows.Len())
		}
	}
	return nil
}

// ExplainPart explains each of the rows by the training rows at the positions [lo, hi) alone, for
// explain.Merge. It uses the options that choose what is explained, and Top, Raw and Sides; it ignores the
// others.
func (p *Posterior) ExplainPart(ctx context.Context, rows *Rows, lo, hi int, o *ExplainOptions) ([][]explain.Explanation, error) {
	if err := p.owns(rows); err != nil {
		return nil, err
	}
	if n := p.problem.Examples.Train.Len(); lo < 0 || lo >= hi || hi > n {
		return nil, fmt.Errorf("funcgp: there are no training rows from position %d to %d; give a part of 0 to %d", lo, hi, n)
	}
	end, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	ctx = p.heard(ctx)
	c := job.FromContext(ctx)
	defer c.Clear()
	e, err := p.explaining(ctx, o)
	if err != nil {
		return nil, p.named(err)
	}
	e.part = func(d gp.Dual) gp.Dual { return explain.Part(d, lo, hi) }
	if e.groups != nil {
		e.groups = e.groups[lo:hi]
	}
	var out [][]explain.Explanation
	for i := range rows.Len() {
		a, err := e.answer(ctx, rows.asked, i)
		if err != nil {
			return nil, p.named(err)
		}
		out = append(out, a.terms)
		c.Show("explain", i+1, rows.Len())
	}
	return out, nil
}

// Terms are the terms of all training rows, in the order of TrainingRows, for each of T rows in the one output that Explain
// with Only explains, T×N. A row sums to Output.ContributionSum. Many rows share a pass over the training rows. Of the
// options it takes For, Against and Raw; nil means the defaults.
func (p *Posterior) Terms(ctx context.Context, rows *Rows, o *ExplainOptions) (*mat.Dense, error) {
	if rows != nil && rows.Len() == 0 {
		return nil, errors.New("funcgp: there are no rows")
	}
	if o == nil {
		o = &ExplainOptions{}
	}
	asked, err := p.target(&ExplainOptions{For: o.For, Against: o.Against, Only: true})
	if err != nil {
		return nil, p.named(err)
	}
	var out *mat.Dense
	n, c := p.problem.Examples.Train.Len(), p.problem.Model.Outputs
	err = p.each(ctx, rows, nil, func(lo int, b *linearize.Batch, pred *predictions) error {
		if out == nil {
			out = mat.NewDense(rows.Len(), n, nil)
		}
		x, err := p.explainer(&explain.Options{Terms: o.kernel(), Limits: linearize.Limits{Memory: p.problem.Memory}})
		if err != nil {
			return err
		}
		all, err := x.AllTerms(ctx, b)
		if err != nil {
			return explainError(rows.asked.Slice(lo, lo+b.Len()), err)
		}
		for i := range b.Len() {
			targets := p.targets(pred, i, asked, true)
			own, row := all.Slice(i*c, (i+1)*c, 0, n).(*mat.Dense), out.RawRowView(lo+i)
			copy(row, own.RawRowView(targets[0].Plus))
			if targets[0].IsContrast() {
				for j, v := range own.RawRowView(targets[0].Minus()) {
					row[j] -= v
				}
			}
		}
		return nil
	})
	return out, err
}

// mostVariances is the number of outputs of training rows up to which their posterior variances are computed where all
// are needed: about three factorizations for an exact posterior.
const mostVariances = 40_000

// Prepare lets later explanations share what they compute about training rows. If there are at most 40,000
// outputs of training rows, it computes all of it at once and returns true: then explanations do not wait for
// one another.
func (p *Posterior) Prepare(ctx context.Context) (bool, error) {
	end, err := p.functions(ctx, "Prepare")
	if err != nil {
		return false, err
	}
	defer end()
	c := p.job
	defer c.Clear()
	all := p.problem.Examples.Train.Len()*p.problem.Model.Outputs <= mostVariances
	e, err := explain.New(p.post.Dual, p.post.Kernel, &explain.Options{ErrorBars: true, Limits: linearize.Limits{Progress: func(_ string, done, total int) { c.Show("prepare", done, total) }}})
	if err == nil && all {
		err = e.Prepare(ctx)
	}
	if err != nil {
		return false, p.named(err)
	}
	p.shared.Store(e)
	return all, nil
}

// explainer returns the explainer that shares what Prepare computed, or a new one if Prepare was not called.
func (p *Posterior) explainer(o *explain.Options) (*explain.Explainer, error) {
	if p.post.Dual == nil {
		return nil, noFunctions("a sum over training rows")
	}
	if e := p.shared.Load(); e != nil {
		return e.With(o)
	}
	return explain.New(p.post.Dual, p.post.Kernel, o)
}

// kernel is the kernel of the listed terms.
func (o *ExplainOptions) kernel() gp.Terms {
	if o.Raw {
		return gp.RawTerms
	}
	return gp.PosteriorTerms
}

// target returns the target that the options ask for, beside each output or alone. It is nil for the default.
func (p *Posterior) target(o *ExplainOptions) (*explain.Target, error) {
	q := p.problem
	switch {
	case o.For == "" && o.Against == "":
		return nil, nil
	case o.For != "" && o.Against == "" && o.Only:
		k, err := q.OutputOf(o.For)
		if err != nil {
			return nil, err
		}
		t := explain.Single(min(k, q.Model.Outputs-1))
		return &t, nil
	case o.For == "" || o.Against == "":
		return nil, errors.New("ExplainOptions.For and Against are given together")
	case q.Model.Outputs == 1:
		return nil, option.Errorf("{contrast=%s}: %s has one output, which already weighs its two classes against each other; leave {contrast} out", job.JoinNames([]string{o.For, o.Against}), q.Model.Name)
	}
	a, b, err := q.Contrasted(o.For, o.Against)
	if err != nil {
		return nil, err
	}
	t := explain.Contrast(a, b)
	return &t, nil
}

// targets returns the targets that are explained for prediction i.
func (p *Posterior) targets(pred *predictions, i int, asked *explain.Target, only bool) []explain.Target {
	if pred.Prob == nil {
		return p.targetsAmong(0, -1, asked, only)
	}
	return p.targetsAmong(pred.Best(i), pred.RunnerUp(i), asked, only)
}

// targetsAmong returns the targets that are explained for a row whose two most probable classes are first and
// second: each output, and then the target asked for. If none was asked for and each class has an output, the
// last target is the contrast of first and second, because a softmax compares outputs and no output has a
// meaning by itself. With only, the list has the last target alone.
func (p *Posterior) targetsAmong(first, second int, asked *explain.Target, only bool) (list []explain.Target) {
	task, outputs := p.problem.Task, p.problem.Model.Outputs
	if !only {
		for k := range outputs {
			list = append(list, explain.Single(k))
		}
	}
	switch {
	case asked != nil:
		return append(list, *asked)
	case task.Classes != nil && outputs > 1:
		return append(list, explain.Contrast(first, second))
	case only && task.MultiLabel():
		return append(list, explain.Single(first))
	case only:
		return append(list, explain.Single(0))
	}
	return list
}

// An explaining holds what the explanations of several rows share.
type explaining struct {
	p         *Posterior
	o         ExplainOptions
	asked     *explain.Target // what is explained beside each output; nil for the default
	meanings  map[string]string
	groups    []int                   // of the training rows
	part      func(d gp.Dual) gp.Dual // nil for all training rows
	explainer *explain.Explainer      // nil before the first row
	layers    []string                // names of layers, of ByLayer
	half      gp.Dual                 // of Influence, else nil
	change    *changed                // of other training data, else nil
}

// explaining checks the options, and computes what does not depend on the rows.
func (p *Posterior) explaining(ctx context.Context, o *ExplainOptions) (*explaining, error) {
	e := &explaining{p: p, groups: p.names.Groups()}
	if o != nil {
		e.o = *o
	}
	if e.o.Top < 0 {
		return nil, option.Errorf("{top=%d}: give how many terms to list, or 0 for 8", e.o.Top)
	}
	var err error
	if e.asked, err = p.target(&e.o); err != nil {
		return nil, err
	}
	if e.change, err = p.changed(&e.o); err != nil {
		return nil, err
	}
	if err := p.ready(ctx); err != nil {
		return nil, err
	}
	if p.post.Dual == nil {
		return nil, noFunctions("a sum over training rows")
	}
	if _, ok := p.post.Dual.(explain.Splitter); e.o.ByLayer && !ok {
		return nil, notOfAllRows("{by-layer}", p.post.How.Name, p.problem.Saved != nil)
	}
	if e.o.Influence {
		if e.half, err = p.atHalf(ctx); err != nil {
			return nil, err
		}
	}
	if e.change != nil {
		if err := e.change.fit(ctx, p); err != nil {
			return nil, err
		}
	}
	e.meanings = meanings(p.problem, &e.o, 1)
	return e, nil
}

// An answer is a row with its prediction and the explanations of each target.
type answer struct {
	input result.Input
	row   *dataset.Rows // one
	batch *linearize.Batch
	pred  *predictions
	terms []explain.Explanation
}

// inputOf says which row is asked about.
func (p *Posterior) inputOf(rows *dataset.Rows, i int) result.Input {
	in := result.Input{Split: rows.Part, Index: result.Index(rows.Row(i)), Label: result.Float(label(rows, i)), LabelName: p.problem.LabelName(rows, i), ID: idOf(rows, i), Targets: severalOf(rows, i)}
	if rows.Own() {
		in.File = rows.File
	}
	if rows.Own() && rows.Len() == 1 {
		in.Index, in.Notes = -1, rows.Notes
	}
	return in
}

// answer predicts row i of those asked for, and explains each target.
func (e *explaining) answer(ctx context.Context, rows *dataset.Rows, i int) (*answer, error) {
	p := e.p
	a := &answer{row: rows.Slice(i, i+1)}
	a.input = p.inputOf(rows, i)
	var err error
	if a.batch, err = p.problem.Linearize(ctx, rows, i, i+1); err != nil {
		return nil, explainError(a.row, err)
	}
	if a.pred, err = p.post.Predict(ctx, p.problem.Task, a.batch, p.link); err != nil {
		return nil, explainError(a.row, err)
	}
	targets := p.targets(a.pred, 0, e.asked, e.o.Only)
	if e.o.Merged != nil {
		if i >= len(e.o.Merged) || len(e.o.Merged[i]) != len(targets) {
			return nil, errors.New("the parts are of other rows than those explained; compute them again")
		}
		for k := range targets {
			one := e.o.Merged[i][k]
			one.Target = targets[k]
			a.terms = append(a.terms, one)
		}
		return a, nil
	}
	if e.explainer == nil {
		if err := e.prepare(a.batch); err != nil {
			return nil, err
		}
	}
	list, err := e.explainer.ExplainTargets(ctx, a.batch, nil, targets)
	if err != nil {
		return nil, explainError(a.row, err)
	}
	a.terms = list[0]
	if e.half != nil {
		err = explain.AddInfluence(ctx, e.half, a.batch, a.terms)
	}
	return a, explainError(a.row, err)
}

// prepare makes the explainer, to which the batch shows the layers of the network.
func (e *explaining) prepare(b *linearize.Batch) (err error) {
	p := e.p
	o := &explain.Options{Terms: e.o.kernel(), Top: cmp.Or(e.o.Top, result.DefaultTop), Sides: e.o.Sides || e.o.Page, Curve: e.o.Page, Groups: e.groups, ErrorBars: true, Limits: linearize.Limits{Memory: p.problem.Memory}}
	if e.o.Page {
		o.Similar = p.mostSimilar()
	}
	if e.part != nil {
		e.explainer, err = explain.New(e.part(p.post.Dual), p.post.Kernel, o)
		return err
	}
	if e.o.ByLayer {
		// Under the posterior's prior the kernels of the parameters of the layers add up to its kernel. The precision of
		// the groups is not used: the prior gives the variances.
		groups := ntk.ByLayer(ntk.Spans(b), 1)
		k := ntk.New(layered{p.post.Prior(), groups}, p.problem.Model.Net.Theta())
		for g := range groups {
			e.layers = append(e.layers, groups[g].Name)
			o.Layers = append(o.Layers, k.GroupKernel(g))
		}
	}
	e.explainer, err = p.explainer(o)
	return err
}

// mostSimilar is how many of the most similar training rows a page lists.
func (p *Posterior) mostSimilar() int {
	if p.problem.Examples.Train.Len()*p.problem.Model.Outputs > mostVariances {
		return 0
	}
	return 8
}

// layered is a prior with the parameters of each layer as a group.
type layered struct {
	ntk.Prior
	groups []ntk.Group
}

// Groups implements ntk.Grouped.
func (l layered) Groups() []ntk.Group { return l.groups }

// explain explains row i of those asked for.
func (e *explaining) explain(ctx context.Context, rows *dataset.Rows, i int) (*Explanation, error) {
	fit := e.p.Report(ctx)
	a, err := e.answer(ctx, rows, i)
	if err != nil {
		return nil, err
	}
	p := e.p
	x := &Explanation{Input: a.input, Classes: p.problem.Task.ClassNames(), Labels: p.problem.Task.LabelNames, Meanings: e.meanings, Fit: fit, Prediction: p.post.Prediction(p.problem.Task, a.pred, 0)}
	if x.Interval, err = a.pred.Interval(ctx, p.problem); err != nil {
		return nil, explainError(a.row, err)
	}
	names := p.names
	names.Layers = e.layers
	for _, one := range a.terms {
		one.Remainder = one.Target.Of(a.pred.Mean.RawRowView(0)) - one.PriorMean - one.Sum
		x.Outputs = append(x.Outputs, p.output(names, one))
	}
	if e.change != nil {
		err = e.change.answer(ctx, p, a, x)
	}
	return x, err
}

// output returns an output of a report, with the names of what its positive and negative terms speak for.
func (p *Posterior) output(names result.Rows, x explain.Explanation) Output {
	o := names.Output(x)
	o.Name, o.Other = p.outputName(x.Target.Plus), ""
	switch classes := p.problem.Task.ClassNames(); {
	case len(classes) > p.problem.Model.Outputs: // one output speaks for the second class
		o.Name, o.Other = classes[1], classes[0]
	case x.Target.IsContrast():
		o.Other = p.outputName(x.Target.Minus())
	}
	return o
}

// outputName names an output by its class, label or target, or its number.
func (p *Posterior) outputName(k int) string {
	if names := p.problem.Task.ClassNames(); names != nil {
		return names[k]
	}
	if names := p.problem.OutputNames(); names != nil {
		return names[k]
	}
	return fmt.Sprint(k)
}

// atHalf returns the refit with half the weights of the training rows. The posterior keeps it.
func (p *Posterior) atHalf(ctx context.Context) (gp.Dual, error) {
	p.half.Lock()
	defer p.half.Unlock()
	if p.half.dual == nil {
		half, err := p.post.AtHalfWeights(ctx, job.FromContext(ctx), p.problem)
		if err != nil {
			return nil, err
		}
		p.half.dual = half
	}
	return p.half.dual, nil
}
