package autoencoder

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// Scores say of each row how little it is like the training rows; larger is less.
type Scores struct {
	OutputSD []float64 // sum over the pixels of their standard deviation
	LatentSD []float64 // sum over the numbers of the code of their standard deviation
	// NegLogLikelihood is −E log p(x|f) over the draws, without the constant of the
	// Gaussian: the mean squared error of drawn reconstructions over 2σ².
	NegLogLikelihood []float64
	// Typicality is the distance of NegLogLikelihood from its mean over training rows; nil
	// where that is not known.
	Typicality []float64
}

// Scores returns the scores of the rows. typical is the mean of NegLogLikelihood over
// training rows, NaN where it is not known.
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

// Typical is the mean of NegLogLikelihood, which the typicality of other rows is measured
// from where these are training rows.
func (s *Scores) Typical() float64 { return stat.Mean(s.NegLogLikelihood, nil) }

// SquaredErrors returns ‖x − f‖² of each row, the plain error of reconstructions f, N×D.
func SquaredErrors(x, f *mat.Dense) []float64 {
	n, _ := x.Dims()
	out := make([]float64, n)
	for i := range n {
		e := floats.Distance(x.RawRowView(i), f.RawRowView(i), 2)
		out[i] = e * e
	}
	return out
}
