package inference

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
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
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/sparse"
)

// Exported says what was written by Export.
type Exported struct {
	Bytes   int                     `json:"bytes"`
	Outputs []string                `json:"outputs"`
	Terms   int                     `json:"terms"` // listed for each row; 0 for none
	Errors  map[string]result.Float `json:"errors"`
	Rows    int                     `json:"rows"` // training rows that Errors are the largest over
}

// exportBytes is the size of a file beyond which Export refuses.
const exportBytes = 1 << 30

// Export returns the network and the posterior as a graph of ONNX operators, with the largest terms of the sum over
// training examples. It compares the graph with the library on some training rows.
func (q *Posterior) Export(ctx context.Context, p *problem.Problem, top int) ([]byte, *Exported, error) {
	// S and the terms are most of the file. They are refused before anything is computed.
	rows, n := int64(0), int64(p.Examples.Train.Len())
	switch d := q.Dual.(type) {
	case *gp.Exact:
		rows = n * int64(p.Model.Outputs)
	case *sparse.Posterior:
		rows = int64(d.Rank())
	case *kept.Posterior:
		rows, n = int64(d.Kept().Len()), 0
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
		return nil, nil, job.FullErrorf("the graph takes %.1f GB, more than %.1f; fit with --method nystrom and fewer "+
			"--inducing rows, or with --within, or list no terms by --top 0", float64(size)/1e9, float64(exportBytes)/1e9)
	}
	a, err := q.answerOf(ctx, p, top)
	if err != nil {
		return nil, nil, err
	}
	m, err := a.Model()
	if err != nil {
		return nil, nil, fmt.Errorf("%s cannot be exported: %w", p.Model.Name, err)
	}
	r := &Exported{Terms: a.Top, Errors: map[string]result.Float{}}
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
		if e, ok := r.Errors[name]; ok {
			m.Metadata = append(m.Metadata, onnx.Entry{Key: "funcgp.error." + name, Value: strconv.FormatFloat(float64(e), 'g', 3, 64)})
		}
	}
	if data, err = m.Encode(); err != nil {
		return nil, nil, err
	}
	r.Bytes = len(data)
	return data, r, nil
}

// ExportPage returns the page that answers to drawings by an exported graph, with the pictures of all training rows.
func ExportPage(ctx context.Context, p *problem.Problem, model []byte, runtime *portable.Runtime) (*portable.Page, error) {
	shape := p.Model.Net.InputShape()
	inputs, _, _ := p.Model.Net.Dims()
	if !p.Examples.Data.Images() || len(shape) < 2 || shape[len(shape)-1]*shape[len(shape)-2] != inputs || p.Task.Classes == nil {
		return nil, job.FullErrorf("--page is for classes of grey pictures; leave it out")
	}
	page := &portable.Page{Title: "What is drawn, by " + p.Model.Name, Classes: p.Task.ClassNames(),
		Height: shape[len(shape)-2], Width: shape[len(shape)-1], Model: model, Runtime: runtime}
	train := p.Examples.Train
	x, err := train.Set.Read(ctx, train.Pos)
	if err != nil {
		return nil, err
	}
	for i, row := range train.Rows {
		r := portable.PageRow{Row: int64(row), Label: page.Classes[slices.Index(p.Task.Classes, int(problem.Label(train, i)))]}
		for _, v := range x.RawRowView(i) {
			r.Picture = append(r.Picture, byte(math.Round(whitePixel*v)))
		}
		page.Rows = append(page.Rows, r)
	}
	return page, nil
}

// answerOf collects what the graph computes.
func (q *Posterior) answerOf(ctx context.Context, p *problem.Problem, top int) (*portable.Answer, error) {
	refuse := func(what, remedy string) error {
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
		return nil, refuse("such a posterior over the parameters", "take --structure full, block, last-layer or subnetwork, without --refit")
	case q.weights != nil:
		if a.Weights, err = blocks.Roots(ctx); err != nil {
			return nil, err
		}
	case !function:
		return nil, refuse("--method "+q.How.Name, "take exact, nystrom, subset or kept")
	default:
		if a.Posterior, err = dual.Reduction(ctx, top > 0); err != nil {
			return nil, err
		}
		a.DualMean = !q.network && (q.Dual.Refitted() || q.How.mean == gp.LinearGaussian)
		if a.DualMean && a.Posterior.Mean == nil {
			return nil, refuse("--refit by --method "+q.How.Name, "leave --refit out")
		}
		if a.Posterior.Terms != nil {
			a.Top = top
		}
	}
	q.prior.MeanTo(a.PriorMean)
	q.prior.VarianceTo(a.Variance)
	if s := p.Examples.Scaling; s != nil && s.Inputs != nil {
		a.Offset, a.Scale = columnsOf(s.Inputs.Mean, d), columnsOf(s.Inputs.Scale, d)
	}
	units := "in the units of the data"
	if p.Examples.Data.Images() {
		// Pixels are read as grey levels from 0 to 1.
		units = "pixels from 0 to 255"
		if a.Offset == nil {
			a.Offset, a.Scale = make([]float64, d), slices.Repeat([]float64{1}, d)
		}
		floats.Scale(whitePixel, a.Offset)
		floats.Scale(whitePixel, a.Scale)
	}
	cal := q.Calibration.Scales()
	if cal != nil {
		a.Covariance, a.Temperature = cal.Scale, cal.Temperature
	}
	lik := p.Task.Likelihood
	_, logistic := lik.(glm.Logistic)
	_, gaussian := lik.(*glm.Gaussian)
	switch {
	case p.Task.Classes != nil && outputs == 1:
		a.Link = portable.Binary
	case p.Task.Classes != nil && logistic && !predictive.HasExact(lik, outputs):
		a.Link = portable.Softmax
	case gaussian && p.Task.Classes == nil:
		if a.Noise = p.Task.Noise; cal != nil && cal.NoiseScale != 0 {
			a.Noise *= cal.NoiseScale
		}
	default:
		return nil, refuse("the "+lik.Name()+" likelihood", "it is for classes and gaussian")
	}
	if q.detector != nil {
		if a.Novelty, err = q.detector.Parts(ctx); err != nil {
			return nil, err
		}
	}
	for _, row := range p.Examples.Train.Rows {
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
	return a, nil
}

// whitePixel is the grey level of white in pictures.
const whitePixel = 255

// columnsOf repeats numbers for equal groups of D columns.
func columnsOf(v []float64, d int) []float64 {
	all := make([]float64, 0, d)
	for _, x := range v {
		all = append(all, slices.Repeat([]float64{x}, d/len(v))...)
	}
	return all
}

// exportChecked is how many training rows an exported graph is compared on.
const exportChecked = 64

// checkExport runs the graph and the library on training rows and writes the largest differences to r, relative to the
// largest number but those of probabilities.
func (q *Posterior) checkExport(ctx context.Context, p *problem.Problem, data []byte, r *Exported) error {
	n := min(exportChecked, p.Examples.Train.Len())
	rows := p.Examples.Train.Slice(0, n)
	raw, err := rows.Set.Read(ctx, rows.Pos)
	if err != nil {
		return err
	}
	if p.Examples.Data.Images() {
		raw.Scale(whitePixel, raw)
	}
	r.Rows = n
	b, err := q.Rows(ctx, p, rows, 0, n)
	if err != nil {
		return err
	}
	o, err := q.Predict(ctx, p.Task, b, predictive.DefaultLink(p.Task.Likelihood, p.Model.Outputs))
	if err != nil {
		return err
	}
	c := p.Model.Outputs
	expected := map[string]*mat.Dense{
		"mean": o.Mean, "covariance": mat.NewDense(n, c*c, mat.DenseCopyOf(o.Cov).RawMatrix().Data),
		"probability": o.Prob, "probability_sd": o.SD, "function_sd": o.FunctionSD, "observation_sd": o.ObservationSD,
	}
	if o.Novelty != nil {
		expected["novelty"] = mat.NewDense(n, 1, o.Novelty)
	}
	for _, name := range r.Outputs {
		want := expected[name]
		if want == nil {
			continue
		}
		net, err := network.ReadONNX(bytes.NewReader(data), &network.ReadOptions{Output: name})
		if err != nil {
			return fmt.Errorf("reading the exported graph: %w", err)
		}
		got, err := net.Forward(ctx, raw)
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
	}
	return nil
}
