package gptest

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
)

// A Posterior is a Gaussian posterior over the parameters of a linearized model, such as
// a weightspace.Weights.
type Posterior interface {
	gp.Latent
	Center() []float64
	SampleTo(ctx context.Context, dst *mat.Dense, rng *rand.Rand) error
	LogDet() float64
	EvidenceAtTheta() gp.Evidence
	Warnings() []error
}

// A WeightsCase is a posterior over parameters to be checked.
type WeightsCase struct {
	LatentCase
	Weights Posterior
	Theta   []float64 // θ*
	Draws   int       // at which the moments of draws are checked; 0 means 4000
}

// Weights checks Latent and that the predictive mean is f_lin(x; Center()), that draws
// of the parameters have the mean Center() and give function values of the joint
// covariance (within five standard errors), that they overwrite destinations of any
// content and stride, follow each other in the same order however many are drawn at a
// time, and are bit-identical for any GOMAXPROCS, that the parts of the evidence add
// up, and that a cancelled context gives context.Canceled.
//
//	func TestMine(t *testing.T) {
//		kernel, train, test, theta := problem(t)
//		gptest.Weights(t, gptest.WeightsCase{
//			LatentCase: gptest.LatentCase{Kernel: kernel, Test: test, Tol: 1e-10},
//			Weights:    fitMine(t, kernel, train), Theta: theta,
//		})
//	}
func Weights(t *testing.T, c WeightsCase) {
	c.Latent = c.Weights
	if c.Draws == 0 {
		c.Draws = 4000
	}
	Latent(t, c.LatentCase)
	t.Run("Center", c.center)
	t.Run("Evidence", c.evidence)
	t.Run("DrawDestinations", c.drawDestinations)
	t.Run("DrawOrder", c.drawOrder)
	t.Run("DrawMoments", c.drawMoments)
	t.Run("DrawGOMAXPROCS", c.drawProcs)
	t.Run("CancelledDraws", c.cancelledDraws)
}

// center checks that the predictive mean is f_lin(x;θ) = F + J(θ − θ*) (E1) at θ = Center().
func (c WeightsCase) center(t *testing.T) {
	center := c.Weights.Center()
	if len(center) != c.Test.P || len(c.Theta) != c.Test.P {
		t.Fatalf("the center has %d numbers and θ* %d, want %d", len(center), len(c.Theta), c.Test.P)
	}
	n, k := c.Test.Len(), c.Test.Outputs()
	d, f := make([]float64, len(center)), make([]float64, n*k)
	for i, v := range center {
		d[i] = v - c.Theta[i]
	}
	c.Test.MulVecTo(f, d)
	want := mat.NewDense(n, k, f)
	want.Add(want, c.Test.F)
	c.requireClose(t, "mean", &c.predict(t, c.Test).mean, want)
}

func (c WeightsCase) evidence(t *testing.T) {
	e := c.Weights.EvidenceAtTheta()
	if e.LogDet != c.Weights.LogDet() {
		t.Errorf("the evidence's log det is %v, LogDet %v", e.LogDet, c.Weights.LogDet())
	}
	if sum := e.LogLik - e.Scatter/2 - e.LogDet/2; e.Value != sum {
		t.Errorf("the evidence is %v, its parts add up to %v", e.Value, sum)
	}
	for _, w := range c.Weights.Warnings() {
		if w == nil || w.Error() == "" {
			t.Error("a warning says nothing")
		}
	}
}

// draws returns draws of the parameters, s at a time.
func (c WeightsCase) draws(t *testing.T, total, s int) *mat.Dense {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 7))
	all := mat.NewDense(total, c.Test.P, nil)
	for lo := 0; lo < total; lo += s {
		hi := min(lo+s, total)
		if err := c.Weights.SampleTo(t.Context(), all.Slice(lo, hi, 0, c.Test.P).(*mat.Dense), rng); err != nil {
			t.Fatalf("SampleTo: %v", err)
		}
	}
	return all
}

func (c WeightsCase) drawDestinations(t *testing.T) {
	want := c.draws(t, 3, 3)
	got := poisoned(3, c.Test.P)
	if err := c.Weights.SampleTo(t.Context(), got, rand.New(rand.NewPCG(5, 7))); err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "draws in a used view", got, want)
	requirePanic(t, "draws of too many parameters", func() {
		c.Weights.SampleTo(t.Context(), mat.NewDense(2, c.Test.P+1, nil), rand.New(rand.NewPCG(5, 7)))
	})
	requirePanic(t, "no draws", func() { c.Weights.SampleTo(t.Context(), new(mat.Dense), rand.New(rand.NewPCG(5, 7))) })
}

func (c WeightsCase) drawOrder(t *testing.T) {
	want := c.draws(t, 5, 5)
	// Solves with other numbers of right sides sum in other orders.
	requireWithin(t, "draws one at a time", c.draws(t, 5, 1), want, 1e-9*(1+largest(want)))
}

// drawMoments compares mean and covariance of J(θ − center) over the draws with zero
// and the joint covariance.
func (c WeightsCase) drawMoments(t *testing.T) {
	draws, center := c.draws(t, c.Draws, 64), c.Weights.Center()
	joint := c.jointly(t, c.Test)
	k, _ := joint.cov.Dims()
	sum, second := make([]float64, k), mat.NewDense(k, k, nil)
	f, d := make([]float64, k), make([]float64, len(center))
	for s := range c.Draws {
		for p, v := range draws.RawRowView(s) {
			d[p] = v - center[p]
		}
		c.Test.MulVecTo(f, d)
		for i, v := range f {
			sum[i] += v
			for j := range k {
				second.Set(i, j, second.At(i, j)+v*f[j])
			}
		}
	}
	n, rounding := float64(c.Draws), c.Tol*c.scale()
	for i := range k {
		vi := joint.cov.At(i, i)
		// Five standard errors: one in two million for each number.
		if limit := 5*math.Sqrt(vi/n) + math.Sqrt(rounding); !(math.Abs(sum[i]/n) <= limit) {
			t.Fatalf("the mean of output %d over draws is off by %v, at most %v is chance", i, sum[i]/n, limit)
		}
		for j := range i + 1 {
			cov := joint.cov.At(i, j)
			limit := 5*math.Sqrt((vi*joint.cov.At(j, j)+cov*cov)/n) + rounding
			if got := second.At(i, j) / n; !(math.Abs(got-cov) <= limit) {
				t.Fatalf("the covariance of outputs %d and %d over draws is %v, want %v; at most %v is chance", i, j, got, cov, limit)
			}
		}
	}
}

func (c WeightsCase) drawProcs(t *testing.T) {
	old := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(old)
	want := c.draws(t, 4, 4)
	for _, p := range []int{2, 5} {
		runtime.GOMAXPROCS(p)
		requireEqual(t, "draws", c.draws(t, 4, 4), want)
	}
}

func (c WeightsCase) cancelledDraws(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	requireCanceled(t, "SampleTo", c.Weights.SampleTo(ctx, mat.NewDense(2, c.Test.P, nil), rand.New(rand.NewPCG(5, 7))))
}
