package coder

import (
	"bufio"
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/autoencoder"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
)

// A Row is a line of output about one row.
type Row struct {
	Schema    string           `json:"schema"`
	Index     int              `json:"index"`
	Label     result.Float     `json:"label"`
	ID        string           `json:"id,omitempty"`
	Latent    []result.Float   `json:"latent"`
	LatentCov [][]result.Float `json:"latent_covariance"`
	// SquaredError is that of the reconstruction by the mean parameters, a sum over pixels.
	SquaredError result.Float   `json:"squared_error"`
	Scores       RowScores      `json:"scores"`
	Mean         []result.Float `json:"mean,omitempty"` // of the reconstruction over drawn networks
	SD           []result.Float `json:"sd,omitempty"`
}

// RowScores say how little a row is like the training rows.
type RowScores struct {
	OutputSD         result.Float `json:"output_sd"`
	LatentSD         result.Float `json:"latent_sd"`
	NegLogLikelihood result.Float `json:"neg_log_likelihood"`
	Typicality       result.Float `json:"typicality"`
}

// A Summary is the last line with --json.
type Summary struct {
	Schema    string             `json:"schema"`
	Rows      int                `json:"rows"`
	Posterior string             `json:"posterior"`
	Samples   int                `json:"samples"`
	Code      string             `json:"code"`
	Latent    int                `json:"latent"`
	Prior     result.Float       `json:"prior_precision"`
	Noise     result.Float       `json:"noise_variance"`
	Typical   result.Float       `json:"typical_neg_log_likelihood"` // mean of training rows
	MSE       result.Float       `json:"mse"`                        // mean over rows and pixels, by the mean parameters
	Means     RowScores          `json:"mean_scores"`
	Warnings  linearize.Warnings `json:"warnings"`
	Timings   result.Timings     `json:"timings"`
}

// atOnce is the number of rows that drawn networks run on together.
const atOnce = 2000

// Predict writes a line of scores for each row that is asked for, and a summary.
func Predict(ctx context.Context, c *console.Console, common *problem.Flags, f *Flags, which *problem.RowFlags) error {
	s, err := open(ctx, c, common, f)
	if err != nil {
		return err
	}
	asked, err := which.Select(ctx, c.Job, s.Problem, 0)
	if err != nil {
		return err
	}
	if err := s.measure(ctx, c); err != nil {
		return err
	}
	out := bufio.NewWriter(c.Out)
	lines := encoder(out)
	sum := s.summary("funcgp/autoencoder-summary/1", asked.Len())
	rows := asked.Subset
	for t := range par.Tiles(rows.Len(), atOnce) {
		lo, hi := par.Bounds(t, rows.Len(), atOnce)
		// Read rows [lo, hi) of a subset.
		part := &dataset.Subset{Set: rows.Set, Pos: rows.Pos[lo:hi], Rows: rows.Rows[lo:hi]}
		if rows.Labels != nil {
			part.Labels = rows.Labels[lo:hi]
		}
		if rows.IDs != nil {
			part.IDs = rows.IDs[lo:hi]
		}
		x, err := s.inputs(ctx, s.post.Autoencoder(), part)
		if err != nil {
			return err
		}
		d, err := s.post.Draw(ctx, x, s.draws(c, "predict", 0))
		if err != nil {
			return problem.NamesOf(rows, lo, hi).ExplainError(err)
		}
		list, err := s.rows(ctx, part, x, d, "funcgp/autoencoder-row/1")
		if err != nil {
			return err
		}
		for _, r := range list {
			sum.add(&r, rows.Len())
			if err := lines.Encode(r); err != nil {
				return err
			}
		}
	}
	c.Clear()
	if err := c.EndPart(ctx, "predict"); err != nil {
		return err
	}
	return s.finish(c, sum, out)
}

func (s *session) summary(schema string, rows int) *Summary {
	code, l := s.post.Autoencoder().Code()
	return &Summary{Schema: schema, Rows: rows, Posterior: s.made, Samples: s.flags.samples, Code: code, Latent: l,
		Prior: result.Float(s.post.Prior()), Noise: result.Float(s.post.Noise()), Typical: result.Float(s.typical)}
}

// add takes a row into the means over n rows.
func (s *Summary) add(r *Row, n int) {
	k := result.Float(n)
	s.MSE += r.SquaredError / k
	s.Means.OutputSD += r.Scores.OutputSD / k
	s.Means.LatentSD += r.Scores.LatentSD / k
	s.Means.NegLogLikelihood += r.Scores.NegLogLikelihood / k
	s.Means.Typicality += r.Scores.Typicality / k
}

// finish writes the summary: as the last line with --json, else as text.
func (s *session) finish(c *console.Console, sum *Summary, out *bufio.Writer) error {
	sum.MSE /= result.Float(problem.Elements(s.Examples.Data.Shape))
	sum.Warnings = c.Warnings
	sum.Timings = c.Timings()
	if c.JSON {
		if err := encoder(out).Encode(sum); err != nil {
			return err
		}
		return out.Flush()
	}
	if err := out.Flush(); err != nil {
		return err
	}
	c.Note("posterior: %s; %d networks drawn", sum.Posterior, sum.Samples)
	if sum.Rows == 0 {
		return nil
	}
	c.Note("%d rows: mean squared error of a pixel %.5f; mean scores: output sd %.4g, latent sd %.4g, −log likelihood %.5g (training rows %.5g), typicality %.4g", sum.Rows, float64(sum.MSE),
		float64(sum.Means.OutputSD), float64(sum.Means.LatentSD), float64(sum.Means.NegLogLikelihood), float64(sum.Typical), float64(sum.Means.Typicality))
	return nil
}

// rows returns the lines of rows.
func (s *session) rows(ctx context.Context, rows *dataset.Subset, x *mat.Dense, d *autoencoder.Drawn, schema string) ([]Row, error) {
	f, err := s.post.Autoencoder().Network().Forward(ctx, x)
	if err != nil {
		return nil, err
	}
	scores, errs := d.Scores(s.post.Noise(), s.typical), autoencoder.SquaredErrors(x, f)
	_, l := s.post.Autoencoder().Code()
	out := make([]Row, rows.Len())
	for i := range out {
		out[i] = Row{Schema: schema, Index: rows.Rows[i], Label: result.Undefined(), Latent: numbers(d.Latent.RawRowView(i)), LatentCov: block(d.LatentCov, i, l), SquaredError: result.Float(errs[i]),
			Scores: RowScores{result.Float(scores.OutputSD[i]), result.Float(scores.LatentSD[i]), result.Float(scores.NegLogLikelihood[i]), result.Float(scores.Typicality[i])}}
		if rows.Labels != nil {
			out[i].Label = result.Float(rows.Labels[i])
		}
		if rows.IDs != nil {
			out[i].ID = rows.IDs[i]
		}
	}
	return out, nil
}

// Halves are the values of --hide.
var Halves = []string{"upper", "lower", "left", "right"}

// Shown says what reconstruct shows.
type Shown struct {
	HTML, PNG string
	Hide      string // a half of the pictures to fill in; "" for none
	Pictures  int    // of drawn networks
	Generate  int    // new pictures, in place of rows
	// Linearized takes means, deviations and codes from the linearized network.
	Linearized bool
}

// Reconstruct shows rows with their reconstructions: mean, standard deviation and what
// some drawn networks make of them.
func Reconstruct(ctx context.Context, c *console.Console, common *problem.Flags, f *Flags, which *problem.RowFlags, o *Shown) error {
	s, err := open(ctx, c, common, f)
	if err != nil {
		return err
	}
	if o.HTML+o.PNG != "" && !s.Examples.Data.Images() {
		return fmt.Errorf("--html and --png show pictures, but the rows of %s are none; leave them out", s.Examples.Data.Source)
	}
	if err := s.measure(ctx, c); err != nil {
		return err
	}
	page := &page{Title: "Reconstructions", session: s, shape: s.Examples.Data.Shape}
	out := bufio.NewWriter(c.Out)
	sum := s.summary("funcgp/reconstruct-summary/1", 0)
	if o.Generate > 0 {
		err = s.generate(ctx, c, o, page)
	} else {
		err = s.reconstruct(ctx, c, which, o, page, sum, out)
	}
	if err != nil {
		return err
	}
	c.Clear()
	if err := page.write(o); err != nil {
		return err
	}
	if err := c.EndPart(ctx, "reconstruct"); err != nil {
		return err
	}
	return s.finish(c, sum, out)
}

// mostShown bounds the rows that reconstruct shows.
const mostShown = 200

func (s *session) reconstruct(ctx context.Context, c *console.Console, which *problem.RowFlags, o *Shown, page *page, sum *Summary, out *bufio.Writer) error {
	asked, err := which.Select(ctx, c.Job, s.Problem, 1)
	if err != nil {
		return err
	}
	rows := asked.Subset
	if rows.Len() > mostShown {
		return fmt.Errorf("%d rows are asked for, and reconstruct shows at most %d; name fewer with --index, or take gpexplain predict for their scores", rows.Len(), mostShown)
	}
	x, err := s.inputs(ctx, s.post.Autoencoder(), rows)
	if err != nil {
		return err
	}
	d, err := s.post.Draw(ctx, x, s.draws(c, "reconstruct", o.Pictures))
	if err != nil {
		return problem.NamesOf(rows, 0, rows.Len()).ExplainError(err)
	}
	if o.Linearized {
		// Replace the moments of draws by the moments of the linearized network.
		lin, err := s.post.Linearized(ctx, x)
		if err != nil {
			return problem.NamesOf(rows, 0, rows.Len()).ExplainError(err)
		}
		d.Mean, d.SD, d.Latent, d.LatentCov = lin.Mean, lin.Variance, lin.Latent, lin.LatentCov
		v := d.SD.RawMatrix().Data
		for i := range v {
			v[i] = math.Sqrt(max(v[i], 0))
		}
		// E‖x − f‖² = ‖x − mean‖² + Σ variances
		for i, e := range autoencoder.SquaredErrors(x, d.Mean) {
			row := d.SD.RawRowView(i)
			d.Errors[i] = e + floats.Dot(row, row)
		}
	}
	list, err := s.rows(ctx, rows, x, d, "funcgp/reconstruct-row/1")
	if err != nil {
		return err
	}
	strips := &strips{Input: x, Mean: d.Mean, SD: d.SD, Samples: d.Samples}
	if o.Hide != "" {
		if strips, err = s.hidden(ctx, c, x, o); err != nil {
			return err
		}
		page.Title = "Reconstructions from a part"
	}
	sum.Rows = len(list)
	for i := range list {
		list[i].Mean, list[i].SD = numbers(strips.Mean.RawRowView(i)), numbers(strips.SD.RawRowView(i))
		sum.add(&list[i], len(list))
		page.add(&list[i], strips, i)
		if c.JSON || o.HTML+o.PNG == "" {
			if err := encoder(out).Encode(&list[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// hidden fills in a half of the rows of x.
func (s *session) hidden(ctx context.Context, c *console.Console, x *mat.Dense, o *Shown) (*strips, error) {
	if !s.Examples.Data.Images() {
		return nil, fmt.Errorf("--hide is for pictures, but the rows of %s are none; leave it out", s.Examples.Data.Source)
	}
	// Say which pixels of a picture of this shape are not in the half that is hidden.
	shape := s.Examples.Data.Shape
	half := o.Hide
	w, h := shape[len(shape)-1], shape[len(shape)-2]
	shown := make([]bool, problem.Elements(shape))
	for i := range shown {
		row, col := i/w%h, i%w
		shown[i] = !map[string]bool{"upper": row < h/2, "lower": row >= h/2, "left": col < w/2, "right": col >= w/2}[half]
	}
	samples, err := s.post.Impute(ctx, x, shown, &autoencoder.ImputeOptions{Samples: min(s.flags.samples, 10), Seed: s.Limits.Seed, Progress: func(done, total int) { c.Show("impute", done, total) }})
	if err != nil {
		return nil, err
	}
	// The mean and the standard deviation of samples of rows.
	var mean *mat.Dense
	var sd *mat.Dense
	n, d := samples[0].Dims()
	mean, sd = mat.NewDense(n, d, nil), mat.NewDense(n, d, nil)
	v := make([]float64, len(samples))
	for i := range n {
		for j := range d {
			for k, m := range samples {
				v[k] = m.At(i, j)
			}
			mu, variance := stat.PopMeanVariance(v, nil)
			mean.Set(i, j, mu)
			sd.Set(i, j, math.Sqrt(max(variance, 0)))
		}
	}
	return &strips{Input: x, Start: autoencoder.Start(x, shown, s.Limits.Seed), Mean: mean, SD: sd, Samples: samples[:min(o.Pictures, len(samples))]}, nil
}

// generate decodes new codes, drawn from the Gaussian of the training rows' codes.
func (s *session) generate(ctx context.Context, c *console.Console, o *Shown, page *page) error {
	rows := s.Examples.Train
	x, err := s.Examples.Inputs(ctx, rows, 0, min(rows.Len(), atOnce))
	if err != nil {
		return err
	}
	z, _, err := s.post.Autoencoder().Encode(ctx, x)
	if err != nil {
		return err
	}
	codes := autoencoder.Codes(z, o.Generate, s.Limits.Seed)
	d, err := s.post.Decode(ctx, codes, s.draws(c, "generate", o.Pictures))
	if err != nil {
		return err
	}
	page.Title = "Generated pictures"
	strips := &strips{Mean: d.Mean, SD: d.SD, Samples: d.Samples}
	lines := encoder(c.Out)
	for i := range o.Generate {
		r := &Row{Schema: "funcgp/reconstruct-row/1", Index: i, Label: result.Undefined(), Latent: numbers(codes.RawRowView(i)), SquaredError: result.Undefined(),
			Scores: RowScores{result.Float(floats.Sum(d.SD.RawRowView(i))), result.Undefined(), result.Undefined(), result.Undefined()},
			Mean:   numbers(d.Mean.RawRowView(i)), SD: numbers(d.SD.RawRowView(i))}
		page.add(r, strips, i)
		if c.JSON || o.HTML+o.PNG == "" {
			if err := lines.Encode(r); err != nil {
				return err
			}
		}
	}
	return nil
}
