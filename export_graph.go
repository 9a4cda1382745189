package funcgp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/portable"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize/network"
)

// exportBytes is the size of a file beyond which Export refuses.
const exportBytes = 1 << 30

// Export returns the network and the posterior as a graph of ONNX operators, with the largest terms of the sum over
// training examples. It compares the graph with the library on some training rows.
func (q *solution) Export(ctx context.Context, p *problem, top int) ([]byte, *result.Exported, error) {
	// S and the terms are most of the file. They are refused before anything is computed.
	rows, n := int64(0), int64(p.Examples.Train.Len())
	if q.weights == nil && q.How.Name != "parameters" {
		rows = int64(q.terms(p))
	}
	if q.kept != nil {
		n = 0
	}
	if w, ok := q.weights.(interface {
		Layers() (names []string, parameters [][]int)
	}); ok {
		n = 0
		_, blocks := w.Layers()
		for _, b := range blocks {
			rows = max(rows, int64(len(b)))
		}
	}
	if top == 0 {
		n = 0
	}
	if size := 8 * rows * (rows + n); size > exportBytes {
		return nil, nil, job.FullErrorf("the graph takes %.1f GB, more than %.1f; fit with {method=nystrom} and fewer "+
			"{inducing} rows, or with {within}, or list no terms by {top=0}", float64(size)/1e9, float64(exportBytes)/1e9)
	}
	a, err := q.answerOf(ctx, p, top)
	if err != nil {
		return nil, nil, err
	}
	m, err := a.Model()
	if err != nil {
		return nil, nil, fmt.Errorf("%s cannot be exported: %w", p.Model.Name, err)
	}
	r := &result.Exported{Schema: "funcgp/export/1", Terms: a.Top, Errors: map[string]result.Float{}, FarErrors: map[string]result.Float{}, Bounds: map[string]result.Float{}}
	for name, v := range a.Bounds() {
		r.Bounds[name] = result.Float(v)
	}
	for _, o := range m.Graph.Outputs {
		r.Outputs = append(r.Outputs, o.Name)
	}
	data, err := m.Encode()
	if err != nil {
		return nil, nil, err
	}
	if err := q.checkExport(ctx, p, data, r); err != nil {
		return nil, nil, err
	}
	for _, name := range r.Outputs {
		for _, of := range []struct {
			key    string
			errors map[string]result.Float
		}{{"error", r.Errors}, {"far_error", r.FarErrors}, {"bound", r.Bounds}} {
			if e, ok := of.errors[name]; ok {
				m.Metadata = append(m.Metadata, onnx.Entry{Key: "funcgp." + of.key + "." + name, Value: strconv.FormatFloat(float64(e), 'g', 3, 64)})
			}
		}
	}
	if data, err = m.Encode(); err != nil {
		return nil, nil, err
	}
	r.Bytes = len(data)
	return data, r, nil
}

// exportPage returns the page that answers to drawings by an exported graph, with the pictures of all training rows.
func exportPage(ctx context.Context, p *problem, model []byte, runtime *portable.Runtime) (*portable.Page, error) {
	shape := p.Model.Net.InputShape()
	inputs, _, _ := p.Model.Net.Dims()
	if !p.Examples.Data.Images() || len(shape) < 2 || shape[len(shape)-1]*shape[len(shape)-2] != inputs || p.Task.Classes == nil {
		return nil, job.FullErrorf("{page} is for classes of grey pictures; leave it out")
	}
	page := &portable.Page{Title: "What is drawn, by " + p.Model.Name, Classes: p.Task.ClassNames(),
		Height: shape[len(shape)-2], Width: shape[len(shape)-1], Model: model, Runtime: runtime}
	train := p.Examples.Train
	x, err := train.Read(ctx)
	if err != nil {
		return nil, err
	}
	for i, row := range train.Index {
		r := portable.PageRow{Row: int64(row), Label: page.Classes[slices.Index(p.Task.Classes, int(label(train, i)))]}
		for _, v := range x.RawRowView(i) {
			r.Picture = append(r.Picture, byte(math.Round(whitePixel*v)))
		}
		page.Rows = append(page.Rows, r)
	}
	return page, nil
}

// answerOf collects what the graph computes.
func (q *solution) answerOf(ctx context.Context, p *problem, top int) (*portable.Answer, error) {
	refuse := func(what, remedy option.Text) error {
		return job.FullErrorf("export is not for %s; %s", what, remedy)
	}
	net := p.Model.Net
	d, outputs, params := net.Dims()
	a := &portable.Answer{Network: net, Theta: net.Theta(), PriorMean: make([]float64, params), Variance: make([]float64, params)}
	dual, function := q.Dual.(gp.Reducible)
	blocks, parameters := q.weights.(interface {
		Roots(ctx context.Context) ([]weightspace.Root, error)
	})
	var err error
	switch {
	case q.anchor != nil:
		return nil, refuse("a posterior of other training rows than the network's", "fit anew")
	case q.weights != nil && (!parameters || q.refitted):
		return nil, refuse("such a posterior over the parameters", "take {structure=full}, block, last-layer or subnetwork, without {refit}")
	case q.weights != nil:
		if a.Weights, err = blocks.Roots(ctx); err != nil {
			return nil, err
		}
	case !function:
		return nil, refuse(option.Set("method", q.How.Name), "take exact, nystrom, subset or kept")
	default:
		if a.Posterior, err = dual.Reduction(ctx, top > 0); err != nil {
			return nil, err
		}
		a.DualMean = !q.network && (q.Dual.Refitted() || q.How.mean == gp.LinearGaussian)
		if a.DualMean && a.Posterior.Mean == nil {
			return nil, refuse("{refit} by "+option.Set("method", q.How.Name), "leave {refit} out")
		}
		if a.Posterior.Terms != nil {
			a.Top = top
		}
	}
	q.prior.MeanTo(a.PriorMean)
	q.prior.VarianceTo(a.Variance)
	if s := p.Examples.Scaling; s != nil && s.Inputs != nil {
		a.Offset, a.Scale = exportColumns(s.Inputs.Mean, d), exportColumns(s.Inputs.Scale, d)
	}
	units := "in the units of the data"
	if p.Examples.Data.Images() {
		// The network takes pixels from 0 to 1, and the graph takes them from 0 to 255.
		units = "pixels from 0 to 255"
		if a.Offset == nil {
			a.Offset, a.Scale = make([]float64, d), slices.Repeat([]float64{1}, d)
		}
		floats.Scale(whitePixel, a.Offset)
		floats.Scale(whitePixel, a.Scale)
	}
	cal := q.Calibration.Scales()
	if cal != nil {
		a.Covariance, a.Temperature, a.Shift = cal.Scale, cal.Temperature, cal.Shift
	}
	lik := p.Task.Likelihood
	_, logistic := lik.(glm.Logistic)
	normal, gaussian := lik.(*glm.Gaussian)
	switch {
	case p.Task.MultiLabel():
		a.Link = portable.Labels
	case p.Task.Classes != nil && outputs == 1:
		a.Link = portable.Binary
	case p.Task.Classes != nil && logistic && !predictive.HasExact(lik, outputs):
		a.Link = portable.Softmax
	case gaussian && p.Task.Classes == nil:
		noise := mat.NewDense(outputs, outputs, nil)
		normal.NoiseTo(noise.RawMatrix().Data, outputs)
		if cal != nil && cal.NoiseScale != 0 {
			noise.Scale(cal.NoiseScale, noise)
		}
		a.Noise = dense.Diagonal(noise.RawMatrix())
	default:
		return nil, refuse(option.Plain(p.Task.Predicts()), "it is for classes and gaussian")
	}
	if q.detector != nil {
		if a.Novelty, err = q.detector.Parts(ctx); err != nil {
			return nil, err
		}
	}
	for _, row := range p.Examples.Train.Index {
		a.RowNumbers = append(a.RowNumbers, int64(row))
	}
	entry := func(key, value string) {
		a.Metadata = append(a.Metadata, onnx.Entry{Key: "funcgp." + key, Value: value})
	}
	entry("inputs", units)
	if names := p.Examples.Data.Columns; len(names) == d {
		entry("columns", strings.Join(names, "\n"))
	}
	entry("method", q.How.Name)
	entry("training_rows", strconv.Itoa(p.Examples.Train.Len()))
	entry("prior_precision", strconv.FormatFloat(q.precision, 'g', -1, 64))
	if p.Task.Classes != nil {
		entry("classes", strings.Join(p.Task.ClassNames(), "\n"))
	}
	if labels := p.Task.LabelNames; labels != nil {
		entry("labels", strings.Join(labels, "\n"))
	}
	return a, nil
}

// whitePixel is the grey level of white in pictures.
const whitePixel = 255

// columnsOf repeats numbers for equal groups of D columns.
func exportColumns(v []float64, d int) []float64 {
	all := make([]float64, 0, d)
	for _, x := range v {
		all = append(all, slices.Repeat([]float64{x}, d/len(v))...)
	}
	return all
}

// exportChecked is how many training rows an exported graph is compared on, and how many rows far from them.
const exportChecked = 64

// checkExport runs the graph and the library on training rows, and on rows far from them, and writes the largest
// differences to r.
func (q *solution) checkExport(ctx context.Context, p *problem, data []byte, r *result.Exported) error {
	n := min(exportChecked, p.Examples.Train.Len())
	rows := p.Examples.Train.Slice(0, n)
	raw, err := rows.Read(ctx)
	if err != nil {
		return err
	}
	if p.Examples.Data.Images() {
		raw.Scale(whitePixel, raw)
	}
	far := farRows(raw)
	r.Rows, r.FarRows = n, far.RawMatrix().Rows
	var all mat.Dense
	all.Stack(raw, far)
	expected, err := q.GraphAnswers(ctx, p, &all)
	if err != nil {
		return err
	}
	for _, name := range r.Outputs {
		want := expected[name]
		if want == nil || name == "novelty_rank" { // which is constant between jumps: package network does not read it
			continue
		}
		net, err := network.ReadONNX(bytes.NewReader(data), &network.ReadOptions{Output: name})
		if err != nil {
			return fmt.Errorf("reading the exported graph: %w", err)
		}
		got, err := forward(ctx, net, &all, want)
		if err != nil {
			return fmt.Errorf("running the exported graph: %w", err)
		}
		worst, size := 0.0, 1e-300
		for i := range n {
			for j, v := range want.RawRowView(i) {
				worst, size = math.Max(worst, math.Abs(v-got.At(i, j))), math.Max(size, math.Abs(v))
			}
		}
		if math.IsNaN(worst) {
			return errors.New("the exported graph gives NaN")
		}
		if !strings.HasPrefix(name, "probability") {
			worst /= size
		}
		r.Errors[name] = result.Float(worst)
		worst = 0
		for i := n; i < n+r.FarRows; i++ {
			e := exportError(name, want.RawRowView(i), got.RawRowView(i))
			if math.IsNaN(e) {
				return fmt.Errorf("output %s of the exported graph is %v for a row far from the data, and gpexplain's own answer is %v", name,
					got.RawRowView(i), want.RawRowView(i))
			}
			worst = math.Max(worst, e)
		}
		r.FarErrors[name] = result.Float(worst)
	}
	return nil
}

// forward runs a network, which refuses an output that is not finite. Rows that are expected to have one are NaN where it is
// refused, each by itself.
func forward(ctx context.Context, net *network.Network, x, want *mat.Dense) (*mat.Dense, error) {
	n, d := x.Dims()
	var rows []int
	out := mat.NewDense(n, want.RawMatrix().Cols, nil)
	for i := range n {
		if dense.NotFinite(want.RawRowView(i)) < 0 {
			rows = append(rows, i)
			continue
		}
		y, err := net.Forward(ctx, mat.NewDense(1, d, x.RawRowView(i)))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			y = mat.DenseCopyOf(want.Slice(i, i+1, 0, want.RawMatrix().Cols))
		}
		copy(out.RawRowView(i), y.RawRowView(0))
	}
	part := mat.NewDense(max(1, len(rows)), d, nil)
	for k, i := range rows {
		copy(part.RawRowView(k), x.RawRowView(i))
	}
	y, err := net.Forward(ctx, part)
	if err != nil {
		return nil, err
	}
	for k, i := range rows {
		copy(out.RawRowView(i), y.RawRowView(k))
	}
	return out, nil
}

// exportError is the largest difference between an output of an exported graph for a row and what is expected, relative to
// the largest number of the row but for probabilities and ranks. It is NaN where one of the two has a number that the
// other has not.
func exportError(name string, want, got []float64) float64 {
	worst, size := 0.0, 1e-300
	for j, v := range want {
		if math.IsNaN(v) && math.IsNaN(got[j]) {
			continue
		}
		worst, size = math.Max(worst, math.Abs(v-got[j])), math.Max(size, math.Abs(v))
	}
	if strings.HasPrefix(name, "probability") || name == "novelty_rank" {
		return worst
	}
	return worst / size
}

// farRows makes of each row one that is far from it: scaled up to 10⁸ times, with signs of its own, with one huge number, or
// of zeros.
func farRows(x *mat.Dense) *mat.Dense {
	n, d := x.Dims()
	rng := rand.New(rand.NewPCG(48, uint64(d)))
	far := mat.DenseCopyOf(x)
	for i := range n {
		row := far.RawRowView(i)
		by := math.Pow(10, 8*rng.Float64())
		switch i % 4 {
		case 0:
			floats.Scale(by, row)
		case 1:
			for j := range row {
				row[j] = by * (2*rng.Float64() - 1)
			}
		case 2:
			row[rng.IntN(d)] = by * float64(2*rng.IntN(2)-1)
		case 3:
			clear(row)
		}
	}
	return far
}

// GraphAnswers is what the library answers to rows in the units of an exported graph, T×D, by the names of the graph's
// outputs. A row that the library refuses, or whose answer is not finite, has NaN for all; a novelty that is not finite
// is NaN, and has the rank 1.
func (q *solution) GraphAnswers(ctx context.Context, p *problem, x *mat.Dense) (map[string]*mat.Dense, error) {
	t, _ := x.Dims()
	c := p.Model.Outputs
	answers := map[string]*mat.Dense{}
	set := func(name string, lo int, m *mat.Dense, width int) {
		if m == nil {
			return
		}
		if answers[name] == nil {
			answers[name] = mat.NewDense(t, width, slices.Repeat([]float64{math.NaN()}, t*width))
		}
		copy(answers[name].RawMatrix().Data[lo*width:], mat.DenseCopyOf(m).RawMatrix().Data)
	}
	link := predictive.DefaultLink(p.Task.Likelihood, c)
	var predict func(lo, hi int) error
	predict = func(lo, hi int) error {
		own := mat.DenseCopyOf(x.Slice(lo, hi, 0, x.RawMatrix().Cols))
		if p.Examples.Data.Images() {
			own.Scale(1./whitePixel, own)
		}
		var o *predictions
		err := error(nil)
		if i := dense.NotFinite(own.RawMatrix().Data); i >= 0 {
			err = errors.New("a number is not finite")
		} else if b, e := p.Model.Net.Linearize(ctx, p.Examples.Scaled(own)); e != nil {
			err = e
		} else {
			o, err = q.Predict(ctx, p.Task, b, link)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && hi-lo == 1:
			return nil // refused
		case err != nil:
			mid := (lo + hi) / 2
			return errors.Join(predict(lo, mid), predict(mid, hi))
		}
		set("mean", lo, o.Mean, c)
		set("covariance", lo, o.Cov, c*c)
		set("probability", lo, o.Prob, max(2, c))
		set("probability_sd", lo, o.SD, max(2, c))
		set("function_sd", lo, o.FunctionSD, c)
		set("observation_sd", lo, o.ObservationSD, c)
		if o.Novelty != nil {
			rank := mat.NewDense(hi-lo, 1, nil)
			for i, v := range o.Novelty {
				if rank.Set(i, 0, 1); math.IsInf(v, 0) {
					o.Novelty[i] = math.NaN()
				} else if !math.IsNaN(v) {
					rank.Set(i, 0, float64(q.Rank(result.Float(v))))
				}
			}
			set("novelty", lo, mat.NewDense(hi-lo, 1, o.Novelty), 1)
			set("novelty_rank", lo, rank, 1)
		}
		return nil
	}
	if err := predict(0, t); err != nil {
		return nil, err
	}
	// What one output has no number for has no answer.
	for i := range t {
		for name, m := range answers {
			if name != "novelty" && name != "novelty_rank" && dense.NotFinite(m.RawRowView(i)) >= 0 {
				for _, other := range answers {
					floats.Scale(math.NaN(), other.RawRowView(i))
				}
			}
		}
		if m := answers["novelty_rank"]; m != nil && math.IsNaN(m.At(i, 0)) {
			m.Set(i, 0, 1)
		}
	}
	return answers, nil
}
