package sparse

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/ntk"
)

// ScaleNoise returns the posterior with the prior variances and the noise covariance of a Gaussian
// likelihood both multiplied by factor, which leaves every mean as it is and multiplies every
// covariance by factor (E21). k is the kernel under these prior variances, and s are the sites at the
// same function values under that noise. It takes no pass over the data: ΦΛΦᵀ does not change, as the
// features grow by √factor and Λ falls by factor. The errors are those of WithData. ScaleNoise panics
// where factor is not positive and finite, and on a subset of data.
func (p *Posterior) ScaleNoise(ctx context.Context, k ntk.Kernel, factor float64, s *gp.Sites) (*Posterior, error) {
	switch {
	case !(factor > 0) || math.IsInf(factor, 1):
		panic("sparse: a factor on the noise must be positive and finite")
	case p.IsSubset():
		panic("sparse: a subset of data has no sums to scale")
	}
	if _, err := sites.New(s, p.Data().Len(), p.b.c); err != nil {
		return nil, err
	}
	b := p.b.scaled(factor)
	b.k = k
	sums := *p.sums
	sums.rhs, sums.square = append([]float64(nil), p.sums.rhs...), append([]float64(nil), p.sums.square...)
	floats.Scale(1/math.Sqrt(factor), sums.rhs) // Σ φb
	floats.Scale(factor, sums.square)
	sums.spec.trace *= factor
	sums.trace *= factor
	sums.residual *= factor
	sums.expansion /= factor
	sums.logLik = s.LogLik
	projected, err := newProjected(ctx, b, &sums, &p.o)
	if err != nil {
		return nil, err
	}
	projected.refit = p.Refitted()
	mean := gp.DualMean{Data: p.Data(), Sites: s, Set: p.TrainingSet(), Alpha: slices.Clone(p.Alpha()), Pseudo: slices.Clone(p.PseudoTargets())}
	mean.Warnings = p.Posterior.Warnings()[len(p.Projected.Warnings()):]
	floats.Scale(1/factor, mean.Alpha)
	floats.Scale(1/factor, mean.Pseudo)
	return projected.over(mean), nil
}
