package gptest_test

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// brokenRun makes a process run TestBroken, where every suite must fail.
const brokenRun = "FUNCGP_RUN_BROKEN"

// Each entry breaks one promise, and the suite's subtest of that promise
// fails. The process that runs them fails, so it is another one.
func TestSuitesFindFaults(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestBroken$")
	cmd.Env = append(os.Environ(), brokenRun+"=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("the broken implementations pass: %v\n%s", err, out)
	}
	for name := range broken {
		if !strings.Contains(string(out), "--- FAIL: TestBroken/"+name+" ") {
			t.Errorf("%s: the suite finds nothing", name)
		}
	}
	for _, name := range []string{"likelihood/Sound", "prior/Sound", "model/Sound", "dual/Sound", "weights/Sound"} {
		if !strings.Contains(string(out), "--- PASS: TestBroken/"+name+" ") {
			t.Errorf("%s: the suite finds a fault", name)
		}
	}
}

func TestBroken(t *testing.T) {
	if os.Getenv(brokenRun) == "" {
		t.Skip("for TestSuitesFindFaults")
	}
	sound := map[string]func(t *testing.T){
		"likelihood/Sound": likelihood(logistic{}), "prior/Sound": prior(flat{}), "model/Sound": model(curve{theta: start}),
		"dual/Sound": dual(func(_, _ *mat.Dense) {}), "weights/Sound": weights(alteredWeights{}),
	}
	for _, all := range []map[string]func(t *testing.T){broken, sound} {
		for name, run := range all {
			whole, sub, _ := strings.Cut(name, "/")
			t.Run(whole, func(t *testing.T) {
				if sub == "Sound" {
					t.Run(sub, run)
					return
				}
				run(t)
			})
		}
	}
}

// broken holds implementations by the name of the suite, the fault and the
// subtest that finds it.
var broken = map[string]func(t *testing.T){
	"likelihood-sign/Residual":         likelihood(logistic{change: func(s *sites) { s.r[0] *= -1 }}),
	"likelihood-half/Lambda":           likelihood(logistic{change: func(s *sites) { s.l[0] /= 2; s.root[0] /= math.Sqrt2 }}),
	"likelihood-root/Root":             likelihood(logistic{change: func(s *sites) { s.root[0] = s.l[0] }}),
	"likelihood-adds/Destinations":     likelihood(adding{}),
	"likelihood-f/InputsUnchanged":     likelihood(logistic{change: func(s *sites) { s.f[0] += 1e-9 }}),
	"likelihood-nil/Nil":               likelihood(forgetful{}),
	"likelihood-mean/Mean":             likelihood(silent{}),
	"likelihood-checky/CheckY":         likelihood(lenient{}),
	"likelihood-logprob/LogProb":       likelihood(unnormalized{}),
	"likelihood-variance/Variance":     likelihood(negative{}),
	"prior-zero/Values":                prior(flat{variance: func(v []float64) { v[2] = 0 }}),
	"prior-short/Values":               prior(flat{mean: func(v []float64) { v[len(v)-1] = math.NaN() }}),
	"prior-changing/Again":             prior(&drifting{}),
	"prior-groups/Groups":              prior(overlapping{}),
	"model-jacobian/Jacobian":          model(curve{theta: start, slope: 1e-4}),
	"model-mixes/Rows":                 model(curve{theta: start, mixes: true}),
	"model-spans/Dims":                 model(curve{theta: start, offset: 1}),
	"model-dims/Dims":                  model(curve{theta: start, inputs: 2}),
	"model-overwrites/InputsUnchanged": model(curve{theta: start, overwrites: true}),
	"model-random/GOMAXPROCS":          model(curve{theta: start, calls: new(int)}),
	"model-not-a-number/BadInput":      model(curve{theta: start, trusting: true}),
	"kernel-not-symmetric/Covariance":  kernel(func(i, j int) float64 { return float64(i) * 1e-3 }),
	"kernel-not-positive/Covariance":   kernel(func(i, j int) float64 { return -1e3 }),
	"weights-center/Center":            weights(alteredWeights{center: []float64{9, 9}}),
	"weights-evidence/Evidence":        weights(alteredWeights{logDet: 1}),
	"weights-mean/DrawMoments":         weights(alteredWeights{draw: func(_ int, v float64) float64 { return v + 0.3 }}),
	"weights-spread/DrawMoments":       weights(alteredWeights{draw: func(_ int, v float64) float64 { return 1.2 * v }}),
	"weights-order/DrawOrder":          weights(alteredWeights{draw: func(n int, v float64) float64 { return v + 1e-3*once(n) }}),
	"weights-deaf/CancelledDraws":      weights(alteredWeights{deaf: true}),
	"dual-mean/LeaveOneOut":            dual(func(mean, _ *mat.Dense) { mean.Set(0, 0, mean.At(0, 0)+1e-3) }),
	"dual-covariance/LeaveOneOut":      dual(func(_, cov *mat.Dense) { cov.Scale(1.01, cov) }),
	"dual-blind/OtherRows":             dual(nil),
	"dual-seen/Without":                dual(func(mean, cov *mat.Dense) { mean.Scale(1.01, mean) }),
}

func likelihood(lik gp.Likelihood) func(t *testing.T) {
	return func(t *testing.T) {
		gptest.Likelihood(t, gptest.LikelihoodCase{Likelihood: lik, Outputs: 1, Y: mat.NewDense(2, 1, []float64{0, 1})})
	}
}

func prior(p ntk.Prior) func(t *testing.T) { return func(t *testing.T) { gptest.Prior(t, p, 5) } }

func model(m curve) func(t *testing.T) {
	return func(t *testing.T) {
		gptest.Model(t, gptest.ModelCase{
			Model: m, X: mat.NewDense(5, 1, []float64{-2, -0.5, 0.1, 1, 3}), Theta: m.theta,
			At: func(theta []float64) (linearize.Model, error) {
				moved := m
				moved.theta = theta
				return moved, nil
			},
		})
	}
}

// sites is what one call of Expand reads and writes.
type sites struct{ y, f, r, l, root []float64 }

// A logistic likelihood of one output: log p = y f − log(1 + e^f). change
// breaks it.
type logistic struct{ change func(s *sites) }

func (k logistic) Expand(residual, lambda, root, y, f []float64) float64 {
	p := 1 / (1 + math.Exp(-f[0]))
	s := &sites{y, f, []float64{y[0] - p}, []float64{p * (1 - p)}, []float64{math.Sqrt(p * (1 - p))}}
	logp := y[0]*f[0] - math.Log1p(math.Exp(f[0]))
	if k.change != nil {
		k.change(s)
	}
	copy(residual, s.r)
	copy(lambda, s.l)
	copy(root, s.root)
	return logp
}

func (logistic) MeanTo(dst, f []float64) { dst[0] = 1 / (1 + math.Exp(-f[0])) }

// adding adds to the residual what it should write.
type adding struct{ logistic }

func (a adding) Expand(residual, lambda, root, y, f []float64) float64 {
	before := 0.0
	if residual != nil && !math.IsNaN(residual[0]) {
		before = residual[0] + 1
	}
	logp := a.logistic.Expand(residual, lambda, root, y, f)
	if residual != nil {
		residual[0] += before
	}
	return logp
}

// forgetful leaves out the root where no residual is asked for.
type forgetful struct{ logistic }

func (a forgetful) Expand(residual, lambda, root, y, f []float64) float64 {
	if residual == nil {
		root = nil
	}
	return a.logistic.Expand(residual, lambda, root, y, f)
}

// silent writes no mean.
type silent struct{ logistic }

func (silent) MeanTo(_, _ []float64) {}

// lenient admits every target.
type lenient struct{ logistic }

func (lenient) CheckY([]float64, int) error { return nil }

// unnormalized has another log p than Expand.
type unnormalized struct{ logistic }

func (unnormalized) LogProb(y, f []float64) float64 { return y[0] * f[0] }

// negative has a variance below zero.
type negative struct{ logistic }

func (negative) VarianceTo(dst, _ []float64) { dst[0] = -0.1 }

// flat is N(0, I), broken by what its functions do to what is written.
type flat struct{ mean, variance func(v []float64) }

func (p flat) MeanTo(dst []float64) {
	clear(dst)
	if p.mean != nil {
		p.mean(dst)
	}
}

func (p flat) VarianceTo(dst []float64) {
	for i := range dst {
		dst[i] = 1
	}
	if p.variance != nil {
		p.variance(dst)
	}
}

// drifting has another variance at each call.
type drifting struct {
	flat
	calls float64
}

func (p *drifting) VarianceTo(dst []float64) {
	p.calls++
	for i := range dst {
		dst[i] = p.calls
	}
}

// overlapping has a parameter in two groups.
type overlapping struct{ flat }

func (overlapping) Groups() []ntk.Group {
	return []ntk.Group{
		{Name: "a", Spans: []linearize.Span{{Rows: 1, Cols: 3}}, Precision: 1},
		{Name: "b", Spans: []linearize.Span{{Offset: 2, Rows: 1, Cols: 3}}, Precision: 1},
	}
}

var start = []float64{0.7, -0.4}

// curve is f(x) = θ₀ sin x + θ₁² x. Its other fields break it.
type curve struct {
	theta      []float64
	slope      float64 // added to an entry of the Jacobian
	mixes      bool    // examples depend on the first one
	offset     int     // of the parameters
	inputs     int     // claimed beside the one
	overwrites bool    // the inputs
	calls      *int    // which the outputs depend on
	trusting   bool    // inputs are not checked
}

func (c curve) Dims() (d, outputs, p int) { return 1 + c.inputs, 1, 2 }

func (c curve) Linearize(_ context.Context, x *mat.Dense) (*linearize.Batch, error) {
	n, d := x.Dims()
	if d != 1 {
		return nil, errors.New("curve: inputs are one number each")
	}
	shift := 0.0
	if c.mixes {
		shift = x.At(0, 0)
	}
	if c.calls != nil {
		*c.calls++
		shift = float64(*c.calls)
	}
	f, j := mat.NewDense(n, 1, nil), mat.NewDense(n, 2, nil)
	for i := range n {
		v := x.At(i, 0)
		if math.IsNaN(v) && !c.trusting {
			return nil, errors.New("curve: an input is NaN")
		}
		f.Set(i, 0, c.theta[0]*math.Sin(v)+c.theta[1]*c.theta[1]*v+shift)
		j.SetRow(i, []float64{math.Sin(v) + c.slope, 2 * c.theta[1] * v})
	}
	given := mat.DenseCopyOf(x)
	if c.overwrites {
		x.Set(0, 0, 7)
	}
	span := linearize.Span{Name: "θ", Offset: c.offset, Rows: 1, Cols: 2}
	p := 2 + c.offset
	return &linearize.Batch{X: given, F: f, P: p, Blocks: []linearize.Block{&linearize.Full{J: j, C: 1, Params: []linearize.Span{span}}}}, nil
}

// dual runs the suite with a posterior whose moments without an example are changed, or where change is
// nil, that does not look at the inputs.
func dual(change func(mean, cov *mat.Dense)) func(t *testing.T) {
	return func(t *testing.T) {
		x, err := curve{theta: start}.Linearize(t.Context(), mat.NewDense(5, 1, []float64{-2, -0.5, 0.1, 1, 3}))
		if err != nil {
			t.Fatal(err)
		}
		y, k := mat.NewDense(5, 1, []float64{0, 1, 1, 0, 1}), ntk.Dense(flat{}, start)
		s := testref.Must(gp.NewSites(gp.NewTargets(y, logistic{}), x.F))(t)
		fit := func(t *testing.T, x *linearize.Batch, s *gp.Sites) *gp.Exact {
			return testref.Must(gp.Fit(t.Context(), k, x, s, &gp.Options{Mean: gp.LinearGaussian}))(t)
		}
		gptest.Dual(t, gptest.DualCase{
			LatentCase: gptest.LatentCase{Kernel: k, Test: x, Tol: 1e-10},
			Dual:       changed{fit(t, x, s), change}, Train: x, SumTol: 1e-9,
			Without: func(t *testing.T, row int) gp.Latent {
				var rows []int
				for i := range x.Len() {
					if i != row {
						rows = append(rows, i)
					}
				}
				others := testref.Must(x.Gather(t.Context(), rows))(t)
				return fit(t, others, s.Rows(rows))
			},
		})
	}
}

type changed struct {
	gp.Dual
	change func(mean, cov *mat.Dense)
}

func (d changed) LeaveOneOutTo(ctx context.Context, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error {
	if d.change == nil {
		blind := *x
		blind.X = nil
		return d.Dual.LeaveOneOutTo(ctx, mean, cov, rows, &blind)
	}
	err := d.Dual.LeaveOneOutTo(ctx, mean, cov, rows, x)
	if err == nil && mean != nil && cov != nil && len(rows) > 0 {
		d.change(mean, cov)
	}
	return err
}

// kernel runs the suite with a kernel to whose entries something is added.
func kernel(add func(i, j int) float64) func(t *testing.T) {
	return func(t *testing.T) {
		b, err := curve{theta: start}.Linearize(t.Context(), mat.NewDense(5, 1, []float64{-2, -0.5, 0.1, 1, 3}))
		if err != nil {
			t.Fatal(err)
		}
		gptest.Kernel(t, altered{ntk.Dense(flat{}, start), add}, b)
	}
}

type altered struct {
	ntk.Kernel
	add func(i, j int) float64
}

func (k altered) BlockTo(dst *mat.Dense, a, b *linearize.Batch) {
	k.Kernel.BlockTo(dst, a, b)
	if dst.IsEmpty() {
		return
	}
	dst.Apply(func(i, j int, v float64) float64 { return v + k.add(i, j) }, dst)
}
