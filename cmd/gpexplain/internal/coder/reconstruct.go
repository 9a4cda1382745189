package coder

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/autoencoder"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
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
	Filled       []result.Float `json:"filled,omitempty"` // the row with its missing pixels filled in
	Mean         []result.Float `json:"mean,omitempty"`   // of the reconstruction over drawn networks
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
	Schema    string         `json:"schema"`
	Rows      int            `json:"rows"`
	Posterior string         `json:"posterior"`
	Samples   int            `json:"samples"`
	Code      string         `json:"code"`
	Latent    int            `json:"latent"`
	Prior     result.Float   `json:"prior_precision"`
	Noise     result.Float   `json:"noise_variance"`
	Typical   result.Float   `json:"typical_neg_log_likelihood"` // mean of training rows
	MSE       result.Float   `json:"mse"`                        // mean over rows and pixels, by the mean parameters
	Means     RowScores      `json:"mean_scores"`
	Warnings  job.Warnings   `json:"warnings"`
	Timings   result.Timings `json:"timings"`
}

// atOnce is the number of rows that drawn networks run on together.
const atOnce = 2000

// Predict writes a line of scores for each row that is asked for, and a summary.
func Predict(ctx context.Context, c *console.Console, m funcgp.Model, d funcgp.Data, o *funcgp.FitOptions, f *Flags, which *funcgp.Query) error {
	s, err := open(ctx, c, m, d, o, f)
	if err != nil {
		return err
	}
	rows, err := s.set.Select(ctx, which, 0)
	if err != nil {
		return err
	}
	if err := s.measure(ctx, c); err != nil {
		return err
	}
	out := bufio.NewWriter(c.Out)
	lines := encoder(out)
	sum := s.summary("funcgp/autoencoder-summary/1", rows.Len())
	for lo := 0; lo < rows.Len(); lo += atOnce {
		part := rows.Slice(lo, min(lo+atOnce, rows.Len()))
		x, _, err := checked(ctx, s.post.Autoencoder(), s.set, part)
		if err != nil {
			return err
		}
		drawn, err := s.post.Draw(ctx, x, s.draws(c, "predict", 0))
		if err != nil {
			return part.Located(err)
		}
		list, err := s.rows(ctx, part, x, drawn, "funcgp/autoencoder-row/1")
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

// pixels is D.
func (s *session) pixels() int {
	d, _, _ := s.post.Autoencoder().Network().Dims()
	return d
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
	sum.MSE /= result.Float(s.pixels())
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
func (s *session) rows(ctx context.Context, rows *funcgp.Rows, x *mat.Dense, d *autoencoder.Drawn, schema string) ([]Row, error) {
	f, err := s.post.Autoencoder().Network().Forward(ctx, x)
	if err != nil {
		return nil, err
	}
	scores, errs := d.Scores(s.post.Noise(), s.typical), autoencoder.SquaredErrors(x, f)
	_, l := s.post.Autoencoder().Code()
	out := make([]Row, rows.Len())
	for i := range out {
		out[i] = Row{Schema: schema, Index: rows.Index(i), Label: rows.Label(i), ID: rows.ID(i), Latent: result.Floats(d.Latent.RawRowView(i)), SquaredError: result.Float(errs[i]),
			Scores: RowScores{result.Float(scores.OutputSD[i]), result.Float(scores.LatentSD[i]), result.Float(scores.NegLogLikelihood[i]), result.Float(scores.Typicality[i])}}
		for k := range l {
			out[i].LatentCov = append(out[i].LatentCov, result.Floats(d.LatentCov.RawRowView(i*l+k)))
		}
	}
	return out, nil
}

// Shown says what reconstruct shows.
type Shown struct {
	HTML     string
	Pictures int // of drawn networks
	// Linearized takes means, deviations and codes from the linearized network.
	Linearized bool
	// Missing lists pixels, such as 0-391, that are filled in first; "" for none.
	Missing string
}

// mostShown bounds the rows that reconstruct shows.
const mostShown = 200

// Reconstruct shows rows with their reconstructions: mean, standard deviation and what
// some drawn networks make of them.
func Reconstruct(ctx context.Context, c *console.Console, m funcgp.Model, d funcgp.Data, o *funcgp.FitOptions, f *Flags, which *funcgp.Query, show *Shown) error {
	s, err := open(ctx, c, m, d, o, f)
	if err != nil {
		return err
	}
	info := s.set.Info()
	if show.HTML != "" && info.Columns != nil {
		_, data := s.set.Names()
		return fmt.Errorf("--html shows pictures, but the rows of %s are none; leave it out", data)
	}
	if err := s.measure(ctx, c); err != nil {
		return err
	}
	rows, err := s.set.Select(ctx, which, 1)
	if err != nil {
		return err
	}
	if rows.Len() > mostShown {
		return fmt.Errorf("%d rows are asked for, and reconstruct shows at most %d; name fewer with --index, or take gpexplain predict for their scores", rows.Len(), mostShown)
	}
	x, _, err := checked(ctx, s.post.Autoencoder(), s.set, rows)
	if err != nil {
		return err
	}
	input := x
	if show.Missing != "" {
		if x, err = s.fill(ctx, c, x, show.Missing); err != nil {
			return err
		}
	}
	drawn, err := s.post.Draw(ctx, x, s.draws(c, "reconstruct", show.Pictures))
	if err != nil {
		return rows.Located(err)
	}
	if show.Linearized {
		// Replace the moments of draws by the moments of the linearized network.
		lin, err := s.post.Linearized(ctx, x)
		if err != nil {
			return rows.Located(err)
		}
		drawn.Mean, drawn.SD, drawn.Latent, drawn.LatentCov = lin.Mean, lin.Variance, lin.Latent, lin.LatentCov
		v := drawn.SD.RawMatrix().Data
		for i := range v {
			v[i] = math.Sqrt(max(v[i], 0))
		}
		// E‖x − f‖² = ‖x − mean‖² + Σ variances
		for i, e := range autoencoder.SquaredErrors(x, drawn.Mean) {
			row := drawn.SD.RawRowView(i)
			drawn.Errors[i] = e + floats.Dot(row, row)
		}
	}
	list, err := s.rows(ctx, rows, x, drawn, "funcgp/reconstruct-row/1")
	if err != nil {
		return err
	}
	out := bufio.NewWriter(c.Out)
	page, sum := &page{session: s, shape: info.InputShape}, s.summary("funcgp/reconstruct-summary/1", len(list))
	for i := range list {
		r := &list[i]
		r.Mean, r.SD = result.Floats(drawn.Mean.RawRowView(i)), result.Floats(drawn.SD.RawRowView(i))
		if show.Missing != "" {
			r.Filled = result.Floats(x.RawRowView(i))
		}
		sum.add(r, len(list))
		if show.HTML != "" {
			page.add(r, input, x, drawn, i)
		}
		if c.JSON || show.HTML == "" {
			if err := encoder(out).Encode(r); err != nil {
				return err
			}
		}
	}
	c.Clear()
	if show.HTML != "" {
		if err := page.write(show.HTML); err != nil {
			return err
		}
	}
	if err := c.EndPart(ctx, "reconstruct"); err != nil {
		return err
	}
	return s.finish(c, sum, out)
}

// fill returns the rows of x with the missing pixels filled in: by the mean over networks drawn from the posterior.
func (s *session) fill(ctx context.Context, c *console.Console, x *mat.Dense, missing string) (*mat.Dense, error) {
	n, pixels := x.Dims()
	list, ok := job.ParseRows(missing, pixels)
	if !ok || slices.Max(list) >= pixels {
		_, data := s.set.Names()
		return nil, fmt.Errorf("--missing %s: a row of %s has the pixels 0 to %d; name some of them, such as 0-%d", missing, data, pixels-1, pixels/2)
	}
	known := slices.Repeat([]bool{true}, pixels)
	for _, j := range list {
		known[j] = false
	}
	o := &autoencoder.DrawOptions{Seed: s.seed, Progress: func(done, total int) { c.Show("fill in", done, total) }}
	if s.flags.given("samples") {
		o.Samples = s.flags.samples
	}
	samples, err := s.post.Impute(ctx, x, known, o)
	if err != nil {
		return nil, err
	}
	filled := mat.DenseCopyOf(x)
	for i := range n {
		for _, j := range list {
			sum := 0.0
			for _, f := range samples {
				sum += f.At(i, j)
			}
			filled.Set(i, j, sum/float64(len(samples)))
		}
	}
	return filled, nil
}

// encoder writes JSON as it is, one object a line.
func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}
