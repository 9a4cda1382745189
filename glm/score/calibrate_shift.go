package score

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
)

const (
	// shiftZ is the least difference, in standard errors, between the number of rows of a class and the expected
	// number at which the classes are shifted.
	shiftZ = 2.5
	// shiftSpread is the standard deviation of the normal prior of a class's shift, in nats. The prior keeps the
	// shift of a class with few rows finite.
	shiftSpread = 2.
	// shiftSteps is the most steps of the search; it rarely takes ten.
	shiftSteps = 50
)

// WithShift returns c, or c with the Shift under which the predictions of the rows expect each class as often as it
// occurs (E25). It shifts only if, for some class, the observed number of rows differs by at least 2.5 standard
// errors from two expected numbers: the one under the network's outputs, T×C, and the one under the moments mean and
// cov calibrated by c. Class weights or resampling in training cause such a difference. If the network's outputs agree
// with the targets, a difference under c comes from the temperature or a wide covariance alone, and c is returned.
// mean, cov and weights are as for Calibrate. Rows with a NaN are left out.
//
// Several Bernoulli outputs are each shifted as a problem of two classes. A likelihood without classes has no shift. The error is an
// error of ScoreOfContext.
func (c *Calibration) WithShift(ctx context.Context, link predictive.Link, lik glm.Likelihood, y, network, mean, cov *mat.Dense, weights []float64) (*Calibration, error) {
	l, ok := lik.(glm.Logistic)
	if !ok {
		return c, nil
	}
	_, outputs := mean.Dims()
	several, spread := !l.Softmax() && outputs > 1, shiftSpread*shiftSpread // the variance of the prior of a shift
	if several {
		spread *= 2 // the variance of the log-odds, which are the difference of two shifts
	}
	expected := func(link predictive.Link, mean, cov *mat.Dense) (*classNumbers, error) {
		s, err := WeightedScoreOf(ctx, link, lik, y, mean, cov, weights)
		if err != nil {
			return nil, err
		}
		if _, soft := lik.(glm.CategoricalShares); soft || several {
			return newClassNumbers(s.Response, y, weights, several), nil
		}
		p, labels := ClassProbabilities(lik, y, s.Response)
		if p == nil {
			return nil, nil
		}
		n, k := p.Dims()
		shares := mat.NewDense(n, k, nil)
		for i, label := range labels {
			shares.Set(i, label, 1)
		}
		return newClassNumbers(p, shares, weights, false), nil
	}
	if n, err := expected(nil, network, nil); err != nil || n == nil || n.z < shiftZ {
		return c, err
	}
	to, shift := *c, new(mat.VecDense) // one number a class
	for range shiftSteps {
		_, f, v, err := to.Apply(lik, mean, cov)
		if err != nil {
			return nil, err
		}
		n, err := expected(link, f, v)
		if err != nil {
			return nil, err
		}
		if to.Shift == nil && n.z < shiftZ {
			return c, nil
		}
		// A step of Newton's method for Σ_i p_ic + β_c/spread² = Σ_i y_ic, with the curvature of log E p.
		k := n.off.Len()
		if shift.IsEmpty() {
			shift.ReuseAsVec(k)
		}
		n.off.AddScaledVec(n.off, -1/spread, shift)
		n.curvature.ScaleSym(orOne(c.Temperature), n.curvature)
		for j := range k {
			n.curvature.SetSym(j, j, n.curvature.At(j, j)+1/spread)
		}
		var root mat.Cholesky
		if !root.Factorize(n.curvature) {
			return c, nil
		}
		if err := root.SolveVecTo(n.off, n.off); err != nil {
			return c, nil
		}
		largest := mat.Norm(n.off, math.Inf(1))
		shift.AddScaledVec(shift, min(1, longStep/largest), n.off)
		to.Shift = slices.Clone(shift.RawVector().Data)
		if outputs == 1 { // the log-odds of the second class
			to.Shift = []float64{to.Shift[1] - to.Shift[0]}
		}
		if largest < 1e-6 {
			break
		}
	}
	return &to, nil
}

// classNumbers compares how many rows each class has with how many the probabilities expect.
type classNumbers struct {
	off       *mat.VecDense // Σ_i y_ic − p_ic
	z         float64       // the largest |off| in standard errors
	curvature *mat.SymDense // Σ_i diag(p_i) − p_i p_iᵀ; only its diagonal if a row has several labels
}

// newClassNumbers returns the numbers for probabilities p and shares of the classes, both N×K. It leaves out rows with
// a NaN. several says that each column is a label that a row may have or not.
func newClassNumbers(p, shares *mat.Dense, weights []float64, several bool) *classNumbers {
	rows, k := p.Dims()
	n := &classNumbers{off: mat.NewVecDense(k, nil), curvature: mat.NewSymDense(k, nil)}
	variance, square := make([]float64, k), make([]float64, k)
	weight, _ := weigh(weights, 0)
	for i := range rows {
		row := p.RawRowView(i)
		if floats.HasNaN(row) {
			continue
		}
		for j, q := range row {
			d := shares.At(i, j) - q
			w := weight(i)
			n.off.SetVec(j, n.off.AtVec(j)+w*d)
			variance[j] += w * q * (1 - q)
			square[j] += w * d * d
			n.curvature.SetSym(j, j, n.curvature.At(j, j)+w*q)
		}
		if !several {
			n.curvature.SymRankOne(n.curvature, -weight(i), p.RowView(i))
		}
	}
	for j := 0; several && j < k; j++ {
		n.curvature.SetSym(j, j, variance[j])
	}
	for j := range k {
		// Where probabilities are sure and wrong, p(1−p) is far smaller than the squared errors.
		n.z = max(n.z, math.Abs(n.off.AtVec(j))/math.Sqrt(max(variance[j], square[j], math.SmallestNonzeroFloat64)))
	}
	return n
}
