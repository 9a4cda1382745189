package testref

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// Rand returns random numbers that depend on the seed alone.
func Rand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// Vec returns n normal numbers of a standard deviation.
func Vec(rng *rand.Rand, n int, scale float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = scale * rng.NormFloat64()
	}
	return v
}

// Cov returns a random c×c covariance A Aᵀ of a rank.
func Cov(rng *rand.Rand, c, rank int, scale float64) *mat.Dense {
	a := mat.NewDense(c, rank, Vec(rng, c*rank, scale/math.Sqrt(float64(rank))))
	var s mat.Dense
	s.Mul(a, a.T())
	return &s
}

// Moments returns means, N×C, and covariances, N·C×C, of n rows with c outputs.
func Moments(rng *rand.Rand, n, c int, spread, width float64) (mean, cov *mat.Dense) {
	mean, cov = mat.NewDense(n, c, Vec(rng, n*c, spread)), mat.NewDense(n*c, c, nil)
	for i := range n {
		a := mat.NewDense(c, c, Vec(rng, c*c, width))
		cov.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense).Mul(a, a.T())
	}
	return mean, cov
}

// Posterior returns means, T×C, of standard deviation 2, and covariances of full rank, T·C×C.
func Posterior(seed uint64, t, c int, scale float64) (f, cov *mat.Dense) {
	rng := Rand(seed)
	f, cov = mat.NewDense(t, c, Vec(rng, t*c, 2)), mat.NewDense(t*c, c, nil)
	for i := range t {
		cov.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense).Copy(Cov(rng, c, c+2, scale))
	}
	return f, cov
}

// Must returns a function that returns v, or fails the test where err is not nil: Must(f())(t).
func Must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Err is the error of a call whose value nobody looks at.
func Err[T any](_ T, err error) error { return err }

// As returns the error of type E that err is or wraps, or fails the test where there is none.
func As[E error](t testing.TB, err error) E {
	t.Helper()
	e, ok := errors.AsType[E](err)
	if !ok {
		t.Fatalf("%v is no %T", err, e)
	}
	return e
}

// Long skips a test that takes long, and says why, where tests run with -short.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip(why)
	}
}
