package autoencoder

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// Scores say how unlike the training rows each row is. A larger score means less alike.
type Scores struct {
	OutputSD []float64 // standard deviations of the pixels, summed
	LatentSD []float64 // standard deviations of the code, summed
	// NegLogLikelihood is −E log p(x|f) over the draws without the constant of the Gaussian: E‖x − f‖²/(2σ²).
	NegLogLikelihood []float64
	// Typicality is the absolute difference of NegLogLikelihood from its mean over training rows. It is nil where
	// that mean is not known.
	Typicality []float64
}

// Scores returns the scores of the rows. noise is σ². typical is the mean of NegLogLikelihood over training rows,
// or NaN where it is not known.
func (d *Drawn) Scores(noise, typical float64) *Scores {
	n, _ := d.Mean.Dims()
	_, l := d.Latent.Dims()
	s := &Scores{OutputSD: make([]float64, n), LatentSD: make([]float64, n), NegLogLikelihood: make([]float64, n)}
	for i := range n {
		s.OutputSD[i] = floats.Sum(d.SD.RawRowView(i))
		for j := range l {
			s.LatentSD[i] += math.Sqrt(max(d.LatentCov.At(i*l+j, j), 0))
		}
		s.NegLogLikelihood[i] = d.Errors[i] / (2 * noise)
	}
	if !math.IsNaN(typical) {
		s.Typicality = make([]float64, n)
		for i, v := range s.NegLogLikelihood {
			s.Typicality[i] = math.Abs(v - typical)
		}
	}
	return s
}

// Typical returns the mean of NegLogLikelihood over these rows. Computed over training rows, it is the argument typical
// of Drawn.Scores.
func (s *Scores) Typical() float64 { return stat.Mean(s.NegLogLikelihood, nil) }

// SquaredErrors returns ‖x − f‖² for each row and its reconstruction f, both N×D.
func SquaredErrors(x, f *mat.Dense) []float64 {
	n, _ := x.Dims()
	out := make([]float64, n)
	for i := range n {
		e := floats.Distance(x.RawRowView(i), f.RawRowView(i), 2)
		out[i] = e * e
	}
	return out
}
