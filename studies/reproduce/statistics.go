package reproduce

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// MeanSE returns the mean of values and its standard error, the standard deviation of
// the sample over √n. That of one value is NaN, and so are both of none.
func MeanSE(values []float64) (mean, se float64) {
	switch len(values) {
	case 0:
		return math.NaN(), math.NaN()
	case 1:
		return values[0], math.NaN()
	}
	m, sd := stat.MeanStdDev(values, nil)
	return m, sd / math.Sqrt(float64(len(values)))
}

// Logspace returns n numbers from 10^lo to 10^hi whose logarithms have equal
// distances.
func Logspace(lo, hi float64, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = math.Pow(10, lo+(hi-lo)*float64(i)/float64(max(n-1, 1)))
	}
	return v
}

// ArgMin returns the index of the smallest value, the first of equal ones, and -1
// where none is a number.
func ArgMin(values []float64) int {
	best := -1
	for i, v := range values {
		if !math.IsNaN(v) && (best < 0 || v < values[best]) {
			best = i
		}
	}
	return best
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
