package funcgp

import (
	"context"
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
)

// The parts of an estimate of time that depend on the data and not on its size, as they usually are: factors of the
// kernel in exact refits, the match and leave-one-out, by Newton's steps, and passes over all examples. They were chosen
// on five jobs of 10 to 80 s, which they reckon to a factor of 1.5.
const (
	exactFactors = 12.
	keptPasses   = 6.
	sparsePasses = 3.

	parameterFactors = 4. // of the precision, for the refit and leave-one-out
)

// exactTime says about how long an exact posterior takes.
func (f *fit) exactTime(ctx context.Context) (string, error) {
	n, c, p := f.sizes()
	rows := n * c
	return f.estimate(ctx, rows*rows*p+exactFactors*rows*rows*rows/3, n)
}

// keptTime says about how long the posterior of so many kept rows still takes.
func (f *fit) keptTime(ctx context.Context, rows int) (string, error) {
	n, c, p := f.sizes()
	r := float64(rows)
	// The kernel with the rows that are sampled, to find the threshold, to solve and to certify
	return f.estimate(ctx, 2*f.keptWork(r)+r*r*p+4*math.Min(n*c, sampledRows)*r*p, keptPasses*n)
}

// sparseTime says about how long a posterior through inducing examples takes, with m rows of their kernel.
func (f *fit) sparseTime(ctx context.Context, m float64) (string, error) {
	n, c, p := f.sizes()
	rank := min(m, p) // of their kernel
	return f.estimate(ctx, 2*n*c*(m*rank+rank*rank/2+m*p)*sparsePasses+4*m*m*m, sparsePasses*n)
}

// parametersTime says about how long a posterior by the precision of the parameters takes.
func (f *fit) parametersTime(ctx context.Context) (string, error) {
	n, c, p := f.sizes()
	return f.estimate(ctx, parameterFactors*(n*c*p*p+p*p*p/3), sparsePasses*n)
}

// sizes are the numbers of training examples, outputs and parameters.
func (f *fit) sizes() (n, c, p float64) {
	return float64(f.problem.Examples.Train.Len()), float64(f.problem.Model.Outputs), float64(f.problem.Model.Parameters())
}

// measuredExamples is how many examples are linearized for an estimate.
const measuredExamples = 32

// estimate says about how long so many floating-point operations take and so many examples to linearize, by what the
// machine does now.
func (f *fit) estimate(ctx context.Context, flops, examples float64) (string, error) {
	start, few := time.Now(), min(measuredExamples, f.problem.Examples.Train.Len())
	if _, err := f.problem.Linearize(ctx, f.problem.Examples.Train, 0, few); err != nil {
		return "", err
	}
	seconds := time.Since(start).Seconds() * examples / float64(few)
	const n, atLeast, slow = 384, 150 * time.Millisecond, 2e9
	if t := seconds + flops/slow; t < 1 {
		return aboutTime(t), nil // on any machine
	}
	a := blas64.General{Rows: n, Cols: n, Stride: n, Data: make([]float64, n*n)}
	b := blas64.General{Rows: n, Cols: n, Stride: n, Data: make([]float64, n*n)}
	products := 0.
	for start = time.Now(); time.Since(start) < atLeast; products++ {
		dense.Gemm(blas.NoTrans, blas.Trans, 1, a, a, 0, b)
	}
	return aboutTime(seconds + flops*time.Since(start).Seconds()/(2*n*n*n*products)), nil
}

// aboutTime words a time in seconds that is right to a factor of two.
func aboutTime(s float64) string {
	unit := "s"
	switch {
	case s < 1:
		return "under a second"
	case s >= 5400:
		s, unit = s/3600, "h"
	case s >= 90:
		s, unit = s/60, "min"
	}
	digit := math.Pow(10, math.Floor(math.Log10(s)))
	return fmt.Sprintf("about %.0f %s", math.Round(s/digit)*digit, unit)
}
