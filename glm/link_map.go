package glm

import (
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// MAP is the plug-in predictive g⁻¹(f). It ignores cov, which may be nil, and
// its standard deviation is zero.
type MAP struct{}

var _ Link = MAP{}

// PredictTo implements Link.
func (MAP) PredictTo(mean, sd *mat.Dense, lik Likelihood, f, _ *mat.Dense) error {
	t, c := f.Dims()
	dense.SizeTo(mean, t, c)
	dense.SizeTo(sd, t, c)
	if sd != nil {
		sd.Zero()
	}
	for i := range t {
		row := f.RawRowView(i)
		if err := checkFinite(row, i); err != nil {
			return err
		}
		if mean != nil {
			lik.MeanTo(mean.RawRowView(i), row)
		}
	}
	return nil
}

// LogPredictiveTo writes log p(y|f).
func (MAP) LogPredictiveTo(dst []float64, lik Likelihood, y, f, _ *mat.Dense) error {
	t, c := f.Dims()
	checkLog(dst, lik, y, t, c)
	for i := range t {
		row := f.RawRowView(i)
		if err := checkFinite(row, i); err != nil {
			return err
		}
		dst[i] = lik.LogProb(y.RawRowView(i), row)
	}
	return nil
}
