package predictive

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/dense"
)

// A Link turns the Gaussian over each example's outputs into a prediction (E11). The mean f is T×C. The covariance
// cov is T·C×C with one symmetric C×C block for each example; only the upper triangles are read.
//
//	MAP         any likelihood                        g⁻¹(f), cov ignored
//	Exact       a Marginal or Coupled likelihood,     E g⁻¹(f)
//	            or any with C = 1
//	QMC         a Logistic likelihood                 E g⁻¹(f) to a stated error
//	Probit      a Logistic likelihood                 g⁻¹ of shrunken logits
//	MonteCarlo  any likelihood                        average of g⁻¹ over draws, with a seed
//	Linear      classes, counts, a Gaussian           g⁻¹(f), with the covariance of g⁻¹ to first order
//	Bridge      a Logistic likelihood                 mean of a Dirichlet distribution
//
// Bernoulli, Poisson and Gaussian are Marginal for any C, and Heteroscedastic is Coupled. Bernoulli and Categorical
// are Logistic. A user's likelihood is Marginal, Coupled or Logistic if it has the methods.
//
// The error is an *UnsupportedError, a *NotPDError, or a *ValueError for a NaN, an Inf or a negative variance in f
// or cov, which names the row. A variance v with 0 > v ≥ −1e-6 (1 + the largest variance of the block) counts as a
// rounding error and as zero. Every other finite mean and variance is accepted. Probabilities are then in [0, 1],
// and a rate or a log p(y|x) outside the range of a float64 is ±Inf.
type Link interface {
	// PredictTo writes the predictive mean E[y|x], for classes the probabilities, and the standard deviation of
	// g⁻¹(f) under the posterior, both T×C. A nil destination is skipped, an empty one is sized.
	PredictTo(mean, sd *mat.Dense, lik glm.Likelihood, f, cov *mat.Dense) error
	// LogPredictiveTo writes log p(y|x) of each example in nats, T numbers, without underflow. y is T×Targets(C).
	LogPredictiveTo(dst []float64, lik glm.Likelihood, y, f, cov *mat.Dense) error
}

// A Splitter divides the predictive variance of each output or class indicator, Var[y] = E Var[y|f] + Var E[y|f],
// into the aleatoric part (first term) and the epistemic part (second term) [glm fig. 4], both T×C. For classes the
// aleatoric part is the diagonal of E[Λ]. Exact, QMC and MonteCarlo are Splitters.
type Splitter interface {
	SplitTo(aleatoric, epistemic *mat.Dense, lik glm.Likelihood, f, cov *mat.Dense) error
}

// DefaultLink returns the default link for lik with c outputs: Exact for a Marginal or Coupled likelihood and for
// one output, otherwise QMC for a Logistic likelihood, otherwise MonteCarlo with its default samples and seed.
func DefaultLink(lik glm.Likelihood, c int) Link {
	if HasExact(lik, c) {
		return Exact{}
	}
	if _, ok := lik.(glm.Logistic); ok {
		return QMC{}
	}
	return MonteCarlo{}
}

// ScoringLink is DefaultLink, except that QMC takes at most 4,096 points a row and log densities take the points of
// ScaleLink. They suffice for an average over many rows, or a rank among them, whose error is far below that of a row.
func ScoringLink(lik glm.Likelihood, c int) Link {
	link := DefaultLink(lik, c)
	if q, ok := link.(QMC); ok {
		q.Tol, q.MaxPoints = 1e-3, 4096
		return fewPoints{q}
	}
	return link
}

// fewPoints is QMC with the log densities of LogPredictiveScalesTo at scale 1, which takes fewer points.
type fewPoints struct{ QMC }

// LogPredictiveTo implements Link.
func (l fewPoints) LogPredictiveTo(dst []float64, lik glm.Likelihood, y, f, cov *mat.Dense) error {
	logp := mat.NewDense(len(dst), 1, dst)
	return l.LogPredictiveScalesTo(context.Background(), logp, []float64{1}, lik, y, f, cov)
}

// HasExact tells whether Exact can integrate lik with c outputs.
func HasExact(lik glm.Likelihood, c int) bool {
	_, err := Exact{}.marginal(lik, c)
	return err == nil
}

// UnsupportedError reports that a link cannot compute something for a likelihood.
type UnsupportedError struct {
	Link, Likelihood string
	What             string // what cannot be computed; "" means the prediction
}

func (e *UnsupportedError) Error() string {
	if e.What != "" {
		return fmt.Sprintf("predictive: no %s by the %s link for the %s likelihood", e.What, e.Link, e.Likelihood)
	}
	return fmt.Sprintf("predictive: no %s link for the %s likelihood; use MonteCarlo or DefaultLink", e.Link, e.Likelihood)
}

// ValueError reports a NaN, an Inf or a negative variance in the Gaussian over f. What is "mean", "covariance",
// "variance" or "eigenvalue". For an eigenvalue Output is its number in increasing order.
type ValueError struct {
	What        string
	Row, Output int
	Value       float64
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("predictive: row %d, output %d: the %s of f is %v; the posterior is not finite and positive semidefinite",
		e.Row, e.Output, e.What, e.Value)
}

// posterior reads f and cov row by row, and checks them.
type posterior struct {
	f, cov *mat.Dense
	t, c   int
	block  []float64 // covariance of the current row, C·C, symmetric, diagonal ≥ 0
}

func newPosterior(f, cov *mat.Dense) *posterior {
	t, c := f.Dims()
	if r, k := cov.Dims(); r != t*c || k != c {
		panic("predictive: covariance is not T·C×C")
	}
	return &posterior{f: f, cov: cov, t: t, c: c, block: make([]float64, c*c)}
}

// each calls do for every row in order, and stops at the first error. The next row overwrites the covariance that
// do receives.
func (p *posterior) each(do func(t int, f, cov []float64) error) error {
	for t := range p.t {
		if err := p.row(t, do); err != nil {
			return err
		}
	}
	return nil
}

// row calls do for one row.
func (p *posterior) row(t int, do func(t int, f, cov []float64) error) error {
	f := p.f.RawRowView(t)
	if err := checkFinite(f, t); err != nil {
		return err
	}
	// Read the covariance of row t.
	c, largest := p.c, 0.0
	for i := range c {
		row := p.cov.RawRowView(t*c + i)
		for j := i; j < c; j++ {
			v := row[j]
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return &ValueError{What: "covariance", Row: t, Output: i, Value: v}
			}
			p.block[i*c+j] = v
		}
		largest = max(largest, row[i])
	}
	// Copy the upper triangle of a over the lower one, tile by tile.
	a := p.block
	const tile = 32
	for i0 := 0; i0 < c; i0 += tile {
		for j0 := i0; j0 < c; j0 += tile {
			for i := i0; i < min(i0+tile, c); i++ {
				for j := max(j0, i+1); j < min(j0+tile, c); j++ {
					a[j*c+i] = a[i*c+j]
				}
			}
		}
	}
	for i := range c {
		v := &p.block[i*c+i]
		if *v < -integral.PSDTol*(1+largest) {
			return &ValueError{What: "variance", Row: t, Output: i, Value: *v}
		}
		*v = max(*v, 0)
	}
	return do(t, f, p.block)
}

func checkFinite(f []float64, t int) error {
	for j, v := range f {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return &ValueError{What: "mean", Row: t, Output: j, Value: v}
		}
	}
	return nil
}

// checkLog panics unless dst has T numbers and y is T×Targets(C).
func checkLog(dst []float64, lik glm.Likelihood, y *mat.Dense, t, c int) {
	if len(dst) != t {
		panic("predictive: dst does not have one element per example")
	}
	if r, k := y.Dims(); r != t || k != lik.Targets(c) {
		panic("predictive: y is not T×Targets(C)")
	}
}

// MAP is the plug-in prediction g⁻¹(f). It ignores cov, which may be nil. Its standard deviation is zero.
type MAP struct{}

var _ Link = MAP{}

// PredictTo implements Link.
func (MAP) PredictTo(mean, sd *mat.Dense, lik glm.Likelihood, f, _ *mat.Dense) error {
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
func (MAP) LogPredictiveTo(dst []float64, lik glm.Likelihood, y, f, _ *mat.Dense) error {
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
