package glm

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// constantNLL returns what the best prediction without inputs scores, as
// Calibration.warn says; NaN for a likelihood that is none of those there, for targets
// that are no classes, and for a regression whose targets do not vary.
func constantNLL(lik Likelihood, y *mat.Dense, c int) float64 {
	_, targets := y.Dims()
	total := 0.0
	for j := range targets {
		column := mat.Col(nil, j, y)
		switch l := lik.(type) {
		case Logistic:
			k := 2
			if l.Softmax() {
				k = c
			}
			total += constantClasses(column, k)
		case Poisson:
			total += constantRate(column)
		case *Gaussian, Heteroscedastic:
			total += constantGaussian(column)
		default:
			return math.NaN()
		}
	}
	return total
}

// constantClasses is for targets from 0 to k−1.
func constantClasses(y []float64, k int) float64 {
	frequency := make([]float64, k)
	for _, v := range y {
		// A fraction is shared by two classes.
		at := min(int(v), k-1)
		rest := v - float64(at)
		frequency[at] += (1 - rest) / float64(len(y))
		if rest > 0 {
			frequency[at+1] += rest / float64(len(y))
		}
	}
	return min(entropyOf(frequency)+float64(k-1)/float64(len(y)), math.Log(float64(k)))
}

// constantRate is for counts.
func constantRate(y []float64) float64 {
	n, rate := float64(len(y)), 0.0
	for _, v := range y {
		rate += v / n
	}
	nll := 1 / n
	for _, v := range y {
		if rate > 0 {
			nll -= logPoisson(v, math.Log(rate)) / n
		}
	}
	return nll
}

// constantGaussian is for any numbers.
func constantGaussian(y []float64) float64 {
	n, mean, variance := float64(len(y)), 0.0, 0.0
	for _, v := range y {
		mean += v / n
	}
	for _, v := range y {
		variance += (v - mean) * (v - mean) / n
	}
	if variance == 0 {
		return math.NaN()
	}
	return halfLog2Pi + (1+math.Log(variance))/2 + 2/n
}
