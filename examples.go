package funcgp

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

// Pictures returns a function that finds the picture of a row by its number, for a page. A picture that cannot
// be read is empty and sets err, which the caller checks when the page is written.
func (e *examples) Pictures(ctx context.Context, rows *dataset.Rows, err *error) func(row result.Index) result.Picture {
	at := make(map[int]int, rows.Len())
	for i, r := range rows.Index {
		at[r] = i
	}
	return func(row result.Index) result.Picture {
		p, failed := e.Picture(ctx, rows, at[int(row)])
		*err = cmp.Or(*err, failed)
		return p
	}
}

// Picture shows row i of a subset: its pixels, or its features as they are in the file. The error comes from
// dataset.Rows.Read.
func (e *examples) Picture(ctx context.Context, rows *dataset.Rows, i int) (result.Picture, error) {
	if e.Data.Images() {
		img, err := rows.ReadImage(ctx, i)
		if err != nil {
			return result.Picture{}, err
		}
		return pixels(e.Data, img), nil
	}
	x, err := rows.Slice(i, i+1).Read(ctx)
	if err != nil {
		return result.Picture{}, err
	}
	return result.Picture{Names: e.Data.Columns, Values: x.RawRowView(0)}, nil
}

// Grey tells whether the inputs are grey pictures, light on dark as in MNIST, which pages show as dark ink on paper.
// The error comes from dataset.Rows.Read.
func (e *examples) Grey(ctx context.Context) (bool, error) {
	d := e.Data
	if !d.Images() {
		return false, nil
	}
	if h, w, _ := d.Picture(nil); elements(d.Shape) != h*w {
		return false, nil
	}
	return d.Dark(ctx)
}

// pixels returns a picture of the size of the data. It is in colour if the data have three channels, and
// otherwise shows the mean of the channels in grey.
func pixels(d *dataset.Data, pixels []byte) result.Picture {
	h, w, pixels := d.Picture(pixels)
	size := w * h
	switch channels := len(pixels) / size; channels {
	case 1:
		return result.Gray(pixels, w, h)
	case 3:
		return result.RGB(pixels, w, h)
	default:
		grey := make([]byte, size)
		for i := range grey {
			sum := 0
			for c := range channels {
				sum += int(pixels[c*size+i])
			}
			grey[i] = byte(sum / channels)
		}
		return result.Gray(grey, w, h)
	}
}

// Inducing linearizes the inducing examples by themselves, so that they are bit for bit the same where a saved
// posterior is loaded.
func (p *problem) Inducing(ctx context.Context, positions []int) (*sparse.Inducing, error) {
	x, err := p.Examples.Inputs(ctx, p.Examples.Train.At(positions), 0, len(positions))
	if err != nil {
		return nil, err
	}
	b, err := p.Model.Net.Linearize(ctx, x)
	if err != nil {
		return nil, err
	}
	return &sparse.Inducing{Rows: positions, Batch: b}, nil
}

// InducingRows linearizes training rows at these positions as inducing pairs with these directions.
func (p *problem) InducingRows(ctx context.Context, positions []int, directions *mat.Dense) (*sparse.Inducing, error) {
	return sparse.GatherDirections(ctx, p.Examples.Source(ctx, p.Model, p.Examples.Train), positions, directions)
}

// rowsAt returns the rows of m at these positions.
func rowsAt(m *mat.Dense, rows []int) *mat.Dense {
	_, c := m.Dims()
	out := mat.NewDense(len(rows), c, nil)
	for i, r := range rows {
		out.SetRow(i, m.RawRowView(r))
	}
	return out
}

// TrainingExamples returns the training examples as a source. With keep they are linearized once; otherwise
// each pass linearizes them anew.
func (p *problem) TrainingExamples(ctx context.Context, keep bool) (linearize.Source, error) {
	if !keep {
		src := p.Examples.Source(ctx, p.Model, p.Examples.Train)
		if p.Withheld() {
			return &withheld{src, p.Model.Net.Fingerprint()}, nil
		}
		return src, nil
	}
	return p.Linearize(ctx, p.Examples.Train, 0, p.Examples.Train.Len())
}

// Withheld tells whether the training inputs of the inducing rows alone are known, because the posterior's file
// leaves out the others.
func (p *problem) Withheld() bool { return p.Examples.Train.Withheld() }

// A withheld source shows no inputs.
type withheld struct {
	linearize.Source
	model linearize.ModelFingerprint
}

// Withheld marks the source for internal/saved.
func (*withheld) Withheld() bool { return true }

// Inputs implements linearize.InputSource.
func (w *withheld) Inputs(_ context.Context, yield func(x *mat.Dense, m linearize.ModelFingerprint) error) error {
	return yield(nil, w.model)
}

// Part returns the problem restricted to the training examples [lo, hi). Whatever was decided from all training
// examples stays as it is.
func (p *problem) Part(lo, hi int) *problem {
	q, e := *p, *p.Examples
	_, width := e.Y.Dims()
	e.Train, e.Y = e.Train.Slice(lo, hi), e.Y.Slice(lo, hi, 0, width).(*mat.Dense)
	if e.fitted != nil {
		e.fitted = e.fitted.Slice(lo, hi)
	}
	q.Examples = &e
	return &q
}

// examples are the data as a network sees them.
type examples struct {
	Data    *dataset.Data
	Train   *dataset.Rows
	Y       *mat.Dense   // training targets
	fitted  *gp.Targets  // what a posterior is fitted to, where the loss is not −log p of Y
	Scaling *dataScaling // what is done to inputs and targets outside the network
	classes []int        // those whose rows are kept; nil keeps all

	grouping *grouping // of the classes of rows; nil for none
}

// openData reads the data for a model, or makes them.
func openData(ctx context.Context, c *job.Job, f *asked, m *trainedModel) (*dataset.Data, error) {
	if f.rows != nil {
		return f.rows, nil
	}
	o, source, mf := f.dataOptions(), f.Data.source(), &f.Model
	if name := cmp.Or(f.Fit.Likelihood, m.Meta.Likelihood); name != "" {
		lik := likelihoodNamed(name)
		o.RealTargets = !hasClasses(lik) || !isSoftmax(lik) && m.Outputs > 1 // if a row has several labels, its targets are read as numbers, not as one class
	}
	o.ClassNames = append(slices.Clone(o.ClassNames), m.Meta.ClassNames...)
	if err := m.Meta.columns(ctx, source, o); err != nil {
		return nil, err
	}
	key := *o
	key.MaxBytes = 0 // of what is free now
	as := fmt.Sprintf("%q %+v", source, key)
	if m.Net != nil {
		o.Spare = func(columns []string) []bool { return m.spare(mf, columns) }
		as += fmt.Sprintf(" %q %v", mf.InputColumns, m.Net.Inputs())
	}
	if f.shared != nil && f.shared.as == as {
		return f.shared.data, nil
	}
	o.Progress = c.Show
	d, err := dataset.Open(ctx, source, o)
	c.Clear()
	if err != nil {
		return nil, m.explainField(mf, o.Target == "", err)
	}
	c.CloseLater(d.Close)
	if f.shared != nil {
		*f.shared = sharedData{as, d}
	}
	if m.takesWholeAlone() {
		d.TakeWhole()
	}
	for _, note := range d.Notes {
		text := option.Plain(note)
		if note == dataset.SharesNote {
			text += "; {likelihood=gaussian} takes them as numbers"
		}
		c.Note("%s: %s", d.Source, text)
	}
	if found := len(d.Classes()); m.Outputs > manyOutputs && m.Net != nil && f.Data.Classes == nil && d.CountClasses(m.Outputs) && m.Meta.Classes == nil {
		c.Note("%s: its labels are %s of the numbers 0 to %d, and are taken for those of the outputs; {classes} names others", d.Source, job.Count(found), m.Outputs-1)
	}
	return d, nil
}

// newExamples forms the training targets and decides how inputs and targets are scaled. The model comes back with its
// outputs in the units of the targets, and the noise variance of the task is in them too.
func newExamples(ctx context.Context, c *job.Job, f *FitOptions, m *trainedModel, t *problemTask, d *dataset.Data, train *dataset.Rows) (*trainedModel, *examples, error) {
	e := &examples{Data: d, Train: train, classes: t.Classes}
	var err error
	if e.Y, err = t.targets(train, m, d); err != nil {
		return nil, nil, err
	}
	e.fitted = t.objective(train, e.Y, m.Outputs)
	if e.Scaling, err = scalingOf(ctx, c, f, m, t, d, train, e.Y); err != nil {
		return nil, nil, err
	}
	if e.Scaling.Targets == nil {
		return m, e, nil
	}
	if m.Net != nil {
		net, err := e.Scaling.Rescaled(m.Net)
		if err != nil {
			return nil, nil, err
		}
		m = m.Trained(net)
	}
	noise := t.Noise
	if t.NoiseFrom.By == byDefault {
		noise = e.Scaling.noiseUnit(m.Outputs)
	}
	return m, e, e.Scaling.setNoise(t, noise, m.Outputs)
}

// Preprocessing says what is done to the data before the network sees them.
func (p *problem) Preprocessing() *result.Preprocessing {
	r := p.Examples.Scaling.Report(p.Words)
	d := p.Examples.Data
	if r.Target = job.OneLine(job.Cut(d.Target, 60)); r.Target != "" && d.LastTarget {
		r.Target += " (the last column)"
	}
	return r
}

// elements is the product of a shape.
func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Inputs returns the inputs of rows lo to hi−1 as the network wants them, (hi−lo)×D. The error comes from
// dataset.Rows.Read.
func (e *examples) Inputs(ctx context.Context, rows *dataset.Rows, lo, hi int) (*mat.Dense, error) {
	x, err := rows.Slice(lo, hi).Read(ctx)
	if err != nil {
		return nil, job.Full(err)
	}
	return e.Scaled(x), nil
}

// Scaled scales inputs in place.
func (e *examples) Scaled(x *mat.Dense) *mat.Dense {
	if e.Scaling != nil {
		e.Scaling.Inputs.Apply(x)
	}
	return x
}

// Source gives rows linearized anew in each pass, until ctx is done.
func (e *examples) Source(ctx context.Context, m *trainedModel, rows *dataset.Rows) linearize.Source {
	return linearize.NewSource(m.Net, rows.Len(), linearize.Tile(m.Outputs), func(lo, hi int) (*mat.Dense, error) { return e.Inputs(ctx, rows, lo, hi) })
}

// TestPart is the part that predictions are made for: the test rows, or where there are none the validation rows.
func (e *examples) TestPart() *dataset.Rows {
	if e.Data.Test.Len() == 0 && e.Data.Valid.Len() > 0 {
		return e.Data.Valid
	}
	return e.Data.Test
}

// Test returns test rows of the classes. rows has their numbers, which come from the option that from names. If
// rows is nil, Test returns the first count test rows, or all of them for a count of 0.
func (e *examples) Test(count int, rows []int, from option.Text) (*dataset.Rows, error) {
	part := e.TestPart()
	if part.Len() == 0 && !e.Data.Images() {
		remedy := option.Text("give {test-data} FILE")
		if e.Data.Inside {
			remedy = "give {input} FILE, or {data} DATA with test rows"
		}
		return nil, option.Errorf("%s: there are no test rows; %s", e.Data.Source, remedy)
	}
	if rows != nil {
		picked, err := part.Pick(e.classes, rows, from)
		return e.grouped(picked), err
	}
	picked, err := part.Select(e.classes, count)
	return e.grouped(picked), err
}

// Training returns the rows of the training data with these numbers, if their classes are kept. from names the
// option that lists the numbers.
func (e *examples) Training(rows []int, from option.Text) (*dataset.Rows, error) {
	picked, err := e.Data.Train.Pick(e.classes, rows, from)
	return e.grouped(picked), err
}

// labels are the labels or targets of all rows.
func labels(rows *dataset.Rows) []float64 {
	out := make([]float64, rows.Len())
	for i := range out {
		out[i] = label(rows, i)
	}
	return out
}

// mostHeldOut is the largest number of held-out rows on which a choice is made.
const mostHeldOut = 5000

// HeldOut returns the rows on which an option's choice is made: the validation rows, or the last training rows
// that neither the posterior nor the network was trained on. An error names the option and the use.
func (p *problem) HeldOut(flag option.Text, use string) (*dataset.Rows, error) {
	d := p.Examples.Data
	part, left := d.Train, []int(nil)
	used := slices.Clone(p.Examples.Train.Index)
	if d.Valid.Len() > 0 {
		part, used = d.Valid, nil
	} else if meta := p.Model.Meta; meta.Rows != "" && meta.Data == fingerprint(part) {
		recorded, _ := job.ParseRows(meta.Rows, part.Len())
		used = append(used, recorded...)
	}
	all, err := part.Select(p.Examples.classes, 0)
	if err != nil {
		return nil, err
	}
	slices.Sort(used)
	for _, r := range all.Index {
		if _, ok := slices.BinarySearch(used, r); !ok {
			left = append(left, r)
		}
	}
	if len(left) == 0 {
		var remedy option.Text
		if !d.Images() {
			remedy = "give {valid-data} FILE, or "
		}
		fewer := "train on fewer rows, and fit with"
		switch {
		case p.Model.Net == nil: // it is what is to be trained
			fewer = "give"
		case p.Model.Meta.Rows != "": // it remembers what it was trained on
			fewer = "train it on fewer rows, by gpexplain train"
		}
		return nil, job.FullErrorf("%s: all %d training rows of %s were trained on, none is left to %s; %s%s {train-count=%d}", flag, all.Len(), d.Source, use, remedy, fewer, max(1, all.Len()*9/10))
	}
	rows, err := part.Pick(p.Examples.classes, left[max(0, len(left)-mostHeldOut):], flag)
	return p.Examples.grouped(rows), err
}
