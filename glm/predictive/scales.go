package predictive

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/logsum"
)

// A ScaleLink computes the density of targets under many scales of the covariance at once (E18). It factors each
// covariance only once. Exact and QMC are ScaleLinks.
type ScaleLink interface {
	// LogPredictiveScalesTo writes log p(y|x) in nats under s·cov, one row for each example and one column for each
	// scale s ≥ 0. The error is an error of Link, or ctx.Err().
	LogPredictiveScalesTo(ctx context.Context, dst *mat.Dense, scales []float64, lik glm.Likelihood, y, f, cov *mat.Dense) error
}

var (
	_ ScaleLink = Exact{}
	_ ScaleLink = QMC{}
)

// checkScales sizes dst for n examples. It panics for a negative scale, and for no scales.
func checkScales(dst *mat.Dense, scales []float64, n int) {
	if len(scales) == 0 {
		panic("predictive: no scales")
	}
	for _, s := range scales {
		if !(s >= 0) {
			panic("predictive: the scale of a covariance is negative")
		}
	}
	dense.SizeTo(dst, n, len(scales))
}

// LogPredictiveScalesTo implements ScaleLink.
func (e Exact) LogPredictiveScalesTo(ctx context.Context, dst *mat.Dense, scales []float64, lik glm.Likelihood, y, f, cov *mat.Dense) error {
	n, c := f.Dims()
	m, err := e.marginal(lik, c)
	if err != nil {
		return err
	}
	checkScales(dst, scales, n)
	checkLog(make([]float64, n), lik, y, n, c)
	return EachRow(ctx, f, cov, func(t int, f, cov []float64) error {
		scaled := make([]float64, len(cov))
		for k, s := range scales {
			floats.ScaleTo(scaled, s, cov)
			logp, err := m.LogMarginal(y.RawRowView(t), f, scaled)
			if err != nil {
				return atRow(err, t)
			}
			dst.Set(t, k, logp)
		}
		return nil
	})
}

// LogPredictiveScalesTo implements ScaleLink (E20). For more than two classes it takes 1,024 points at every scale,
// or the trapezoid where that has no more nodes. All scales are compared by the same points, and in the mean over
// rows the errors largely cancel.
func (l QMC) LogPredictiveScalesTo(ctx context.Context, dst *mat.Dense, scales []float64, lik glm.Likelihood, y, f, cov *mat.Dense) error {
	softmax, err := isSoftmax("qmc", lik)
	switch {
	case err != nil:
		return err
	case !softmax:
		return Exact{}.LogPredictiveScalesTo(ctx, dst, scales, lik, y, f, cov)
	}
	n, c := f.Dims()
	checkScales(dst, scales, n)
	checkLog(make([]float64, n), lik, y, n, c)
	checkClasses(lik, y, c)
	return EachRow(ctx, f, cov, func(t int, f, cov []float64) error {
		if k, ok := classOf(lik, y.RawRowView(t), f); ok {
			dst := dst.RawRowView(t)
			y := k
			if len(f) == 2 {
				m, s := contrast(f, cov)
				for k, scale := range scales {
					dst[k] = integral.LogMeanSigmoid(float64(2*y-1)*m, math.Sqrt(scale)*s)
				}
				return nil
			}
			r, err := newClassRow(t, y, f, cov)
			if err != nil {
				return err
			}
			n := newClassNodes(sweepPairs)
			n.take(r)
			for k, scale := range scales {
				dst[k] = n.logDensity(1, math.Sqrt(scale))
			}
			return nil
		}
		r, err := newSoftmaxRow(t, f, cov)
		if err != nil {
			return err
		}
		for k, s := range scales {
			dst.Set(t, k, r.logAverage(lik, y.RawRowView(t), math.Sqrt(s), sweepPairs))
		}
		return nil
	})
}

// checkClasses panics unless every target of a Categorical likelihood is a class index.
func checkClasses(lik glm.Likelihood, y *mat.Dense, c int) {
	if _, ok := lik.(glm.Categorical); !ok {
		return
	}
	n, _ := y.Dims()
	for t := range n {
		if k := y.At(t, 0); !(k >= 0 && k < float64(c)) || k != math.Trunc(k) {
			panic("predictive: class index out of range")
		}
	}
}

// classOf returns the class k with p(y|f) = softmax(f)_k. ok is false where a softmax likelihood has other targets
// or another density.
func classOf(lik glm.Likelihood, y, f []float64) (k int, ok bool) {
	if len(y) != 1 || !(y[0] >= 0 && y[0] < float64(len(f))) || y[0] != math.Trunc(y[0]) {
		return 0, false
	}
	k = int(y[0])
	want := logSoftmaxAt(f, k)
	return k, math.Abs(lik.LogProb(y, f)-want) <= 1e-12*(1+math.Abs(want))
}

// sweepPairs is the number of pairs of points ±z for each scale of a sweep.
const sweepPairs = 512

// logAverage returns the logarithm of the average of p(y|f) over points of each sequence.
func (r *softmaxRow) logAverage(lik glm.Likelihood, y []float64, root float64, points int) float64 {
	sum, l := logsum.New(), make([]float64, r.c)
	for shift := range qmcShifts {
		r.qmcBlocks(make([]float64, r.c), r.rank, shift, 0, points, func(d, _ blas64.General) {
			for i := range d.Rows {
				for j, v := range dense.Row(d, i) {
					l[j] = r.m[j] + root*v
				}
				sum.Add(lik.LogProb(y, l))
			}
		})
	}
	return sum.Value() - math.Log(float64(qmcShifts*points))
}
