package variational

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// StageNatural is the stage of Natural.Progress: it counts updates.
const StageNatural = "natural gradients"

// An Algorithm says where the residuals, the Λ and the Jacobians of an update are taken
// [thesis table 4.2].
type Algorithm int

// The algorithms.
const (
	// VOGGN is the variational online generalized Gauss–Newton update: residuals, Λ and
	// Jacobians are those of the network with parameters drawn from q.
	VOGGN Algorithm = iota
	// LGVA is the linearized Gaussian variational approximation: residuals and Λ at the
	// draws under the model linearized at μ, Jacobians at μ.
	LGVA
	// OGGN is the online generalized Gauss–Newton update: residuals, Λ and Jacobians are
	// those of the network with the parameters μ, without draws.
	OGGN
)

var algorithmNames = [...]string{"VOGGN", "LGVA", "OGGN"}

// String returns "VOGGN", "LGVA" or "OGGN".
func (a Algorithm) String() string {
	if a < 0 || int(a) >= len(algorithmNames) {
		return fmt.Sprintf("Algorithm(%d)", int(a))
	}
	return algorithmNames[a]
}

// A Natural updates a Gaussian q over the parameters of a network by natural gradients
// of the lower bound, with the generalized Gauss–Newton approximation of its Hessian
// (E27) [thesis eq. 4.2–4.12]. An update forms and factors a P×P matrix.
type Natural struct {
	Algorithm Algorithm
	Prior     ntk.Prior
	Rate      float64 // γ, in (0, 1]

	// At returns the linearization of the network with parameters theta at the rows
	// of x.
	At func(ctx context.Context, theta []float64, x *mat.Dense) (*linearize.Batch, error)

	// Run and Updates also use the following fields.
	Steps int    // updates; 0 means 100
	Draws int    // parameters drawn for an update; 0 means 1
	Batch int    // examples of an update; 0 means all
	Seed  uint64 // seed of the draws and of the order of the examples
	linearize.Limits
}

// A Network is a model N that can be linearized at other parameters, such as
// *network.Network.
type Network[N any] interface {
	// WithTheta returns the model with the parameters theta, length P.
	WithTheta(theta []float64) (N, error)
	// Linearize returns its outputs and its Jacobian at the rows of x.
	Linearize(ctx context.Context, x *mat.Dense) (*linearize.Batch, error)
}

// NewNatural returns the updates of a network with rate γ.
func NewNatural[N Network[N]](a Algorithm, net N, prior ntk.Prior, rate float64) *Natural {
	at := func(ctx context.Context, theta []float64, x *mat.Dense) (*linearize.Batch, error) {
		n, err := net.WithTheta(theta)
		if err != nil {
			return nil, err
		}
		return n.Linearize(ctx, x)
	}
	return &Natural{Algorithm: a, Prior: prior, Rate: rate, At: at}
}

// check returns an error for options out of their range, and where the matrices of an update do not fit.
func (v *Natural) check(p int) error {
	if !(v.Rate > 0 && v.Rate <= 1) || v.Algorithm < VOGGN || v.Algorithm > OGGN || v.Steps < 0 || v.Draws < 0 || v.Batch < 0 {
		return fmt.Errorf("variational: %v with a rate of %v, %d updates, %d draws and batches of %d; a rate is in (0, 1], and the others are not negative", v.Algorithm, v.Rate, v.Steps, v.Draws, v.Batch)
	}
	return v.Check("a Gaussian over the parameters", gp.Parameters, p, func(p int) int64 {
		// Σ⁻¹ and U before and after an update
		return memory.Mul(32, memory.Mul(int64(p), int64(p)))
	})
}

// Start returns a Gaussian for the first update, with mean theta and independent parameters. Their precisions are those of
// the prior plus one number for all, the mean of the diagonal of H̄ at theta over the first Batch examples. Without it,
// draws are mostly too far from theta for a first update. The updates forget this number. The errors are those of Step.
func (v *Natural) Start(ctx context.Context, theta []float64, x *mat.Dense, y *gp.Targets) (*Gaussian, error) {
	if err := v.check(len(theta)); err != nil { // before the first matrix is made
		return nil, err
	}
	q, err := NewPriorGaussian(theta, v.Prior)
	if err != nil {
		return nil, err
	}
	n, _ := x.Dims()
	size := min(cmp.Or(v.Batch, n), n)
	once := *v
	once.Algorithm, once.Rate = OGGN, 1 // its precision is Σ₀⁻¹ + H̄
	h, err := once.Step(ctx, q, nil, dense.Slice(x, 0, size), y.Slice(0, size), float64(n)/float64(size))
	if err != nil {
		return nil, err
	}
	p := len(theta)
	raised := (h.Precision().Trace() - q.Precision().Trace()) / float64(p)
	for i := range p {
		q.precision.Data[i*p+i] += raised
	}
	return q, q.factor(ctx)
}

// Run returns the last Gaussian that Updates yields, or the error that ends Updates.
func (v *Natural) Run(ctx context.Context, q *Gaussian, x *mat.Dense, y *gp.Targets) (*Gaussian, error) {
	for next, err := range v.Updates(ctx, q, x, y) {
		if err != nil {
			return nil, err
		}
		q = next
	}
	return q, nil
}

// Updates yields the Gaussian after each update, from q on, for the training examples in the rows of x with the
// targets y. Batches are taken from the examples in a random order, which is drawn anew when less than a batch is left.
// An error ends the updates. The errors are those of Step, and a *DivergedError for an update that diverges.
func (v *Natural) Updates(ctx context.Context, q *Gaussian, x *mat.Dense, y *gp.Targets) iter.Seq2[*Gaussian, error] {
	return func(yield func(*Gaussian, error) bool) {
		if err := v.check(len(q.mean)); err != nil {
			yield(nil, err)
			return
		}
		n, d := x.Dims()
		size := min(cmp.Or(v.Batch, n), n)
		rng := rand.New(rand.NewPCG(v.Seed, 0x9e3779b97f4a7c15))
		draws := mat.NewDense(cmp.Or(v.Draws, 1), len(q.mean), nil)
		bx, by, order := x, y, []int(nil)
		if size < n {
			bx = mat.NewDense(size, d, nil)
		}
		q, steps := q, cmp.Or(v.Steps, 100)
		for step := range steps {
			if v.Algorithm != OGGN {
				if err := q.SampleTo(ctx, draws, rng); err != nil {
					yield(nil, err)
					return
				}
			}
			if size < n {
				if len(order) < size {
					order = rng.Perm(n)
				}
				for i, row := range order[:size] {
					bx.SetRow(i, x.RawRowView(row))
				}
				by, order = y.Rows(order[:size]), order[size:]
			}
			next, err := v.Step(ctx, q, draws, bx, by, float64(n)/float64(size))
			if e, ok := errors.AsType[*DivergedError](err); ok {
				e.What = fmt.Sprintf("update %d", step)
			}
			if err == nil {
				v.Show(StageNatural, step+1, steps)
			}
			if !yield(next, err) || err != nil {
				return
			}
			q = next
		}
	}
}

// Step returns the Gaussian after one update with the draws in the rows of draws,
// S×P, which OGGN does not use (E27):
//
//	Σ⁻¹ ← (1−γ)Σ⁻¹ + γΣ₀⁻¹ + γH̄,   μ ← μ + γΣ(ḡ − Σ₀⁻¹(μ − μ₀)),
//
// with the new Σ, ḡ = (w/S) Σ_s Σ_i Ĵᵀr(f̂_s) and H̄ = (w/S) Σ_s Σ_i ĴᵀΛ(f̂_s)Ĵ. The second
// equation is Σ⁻¹μ ← (1−γ)Σ⁻¹μ + γΣ₀⁻¹μ₀ + γ(ḡ + H̄μ). Each example, a row of x and of y,
// counts w = weight times, which is N/B for B of N examples, besides its own weight (E23).
//
// The errors are those of At and of gp.NewSites, a *gp.MemoryError, and a *DivergedError
// where numbers are not finite. Step panics where sizes differ.
func (v *Natural) Step(ctx context.Context, q *Gaussian, draws, x *mat.Dense, y *gp.Targets, weight float64) (*Gaussian, error) {
	p := len(q.mean)
	if err := v.check(p); err != nil {
		return nil, err
	}
	// A part has the parameters at which the Jacobian is taken, and the draws that are averaged with this Jacobian.
	type part struct {
		at    []float64
		draws [][]float64
	}
	own := func(theta []float64) part { return part{theta, [][]float64{theta}} }
	parts := []part{own(q.mean)}
	if v.Algorithm != OGGN {
		s, width := draws.Dims()
		if s == 0 || width != p {
			panic("variational: draws are not S×P")
		}
		parts = parts[:0]
		together := part{at: q.mean}
		for s := range s {
			theta := draws.RawRowView(s)
			parts, together.draws = append(parts, own(theta)), append(together.draws, theta)
		}
		if v.Algorithm == LGVA {
			parts = []part{together}
		}
	}
	to := &Gaussian{mean: slices.Clone(q.mean), precision: newSymmetric(p)}
	mu0, variance := make([]float64, p), make([]float64, p)
	v.Prior.MeanTo(mu0)
	v.Prior.VarianceTo(variance)
	// (1−γ)Σ⁻¹ + γΣ₀⁻¹ and −Σ₀⁻¹(μ − μ₀)
	gradient, jr := make([]float64, p), make([]float64, p)
	floats.ScaleTo(to.precision.Data, 1-v.Rate, q.precision.Data)
	for i, s := range variance {
		to.precision.Data[i*p+i] += v.Rate / s
		gradient[i] = -(q.mean[i] - mu0[i]) / s
	}
	share := weight / float64(len(parts))
	for _, part := range parts {
		b, err := v.At(ctx, part.at, x)
		if err != nil {
			return nil, err
		}
		if b.P != p {
			panic("variational: the network has another number of parameters than q")
		}
		s, err := averaged(b, part.at, part.draws, y)
		if err != nil {
			return nil, err
		}
		// ḡ and H̄
		b.MulTransVecTo(jr, dense.Flat(s.Residual))
		floats.AddScaled(gradient, share, jr)
		if err := addGGN(ctx, to, b, s.Root, v.Rate*share); err != nil {
			return nil, err
		}
	}
	if err := to.factor(ctx); err != nil {
		return nil, diverged(ctx, err)
	}
	// γΣ times the gradient
	dense.Solve(to.u, gradient)
	floats.AddScaled(to.mean, v.Rate, gradient)
	if i := dense.NotFinite(to.mean); i >= 0 {
		return nil, diverged(ctx, fmt.Errorf("the mean of parameter %d is %v", i, to.mean[i]))
	}
	return to, nil
}

// diverged returns a *DivergedError of an update for err, or err itself if ctx is done.
func diverged(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return &DivergedError{What: "an update", Err: err, Remedy: "take a smaller rate or more draws, or raise the prior precision"}
}

// averaged returns the sites whose residuals and Λ are averages over draws θ_s of the model that is linearized at theta.
func averaged(b *linearize.Batch, theta []float64, draws [][]float64, y *gp.Targets) (*gp.Sites, error) {
	n, c := b.F.Dims()
	if err := y.CheckFor(n, c); err != nil {
		return nil, err
	}
	sum := &gp.Sites{Residual: mat.NewDense(n, c, nil), Lambda: mat.NewDense(n*c, c, nil), Root: mat.NewDense(n*c, c, nil)}
	d, f, share := make([]float64, len(theta)), make([]float64, n*c), 1/float64(len(draws))
	for _, draw := range draws {
		// f̂_s = f(x;θ) + J(θ_s − θ) (E1)
		b.MulVecTo(f, floats.SubTo(d, draw, theta))
		floats.Add(f, dense.Flat(b.F))
		s, err := gp.NewSites(y, mat.NewDense(n, c, f))
		if err != nil {
			return nil, diverged(context.Background(), err)
		}
		if len(draws) == 1 {
			return s, nil
		}
		floats.AddScaled(sum.Residual.RawMatrix().Data, share, s.Residual.RawMatrix().Data)
		floats.AddScaled(sum.Lambda.RawMatrix().Data, share, s.Lambda.RawMatrix().Data)
	}
	for i := range n {
		rootTo(dense.Slice(sum.Root, i*c, (i+1)*c), dense.Slice(sum.Lambda, i*c, (i+1)*c))
	}
	return sum, nil
}

// addGGN adds factor·Σ_i ĴᵀRRᵀĴ to the precision, a tile of examples at a time.
func addGGN(ctx context.Context, q *Gaussian, x *linearize.Batch, root *mat.Dense, factor float64) error {
	n, c := x.F.Dims()
	step := min(linearize.Tile(c), n)
	j, rj := mat.NewDense(step*c, x.P, nil), dense.New(step*c, x.P)
	for lo := 0; lo < n; lo += step {
		hi := min(lo+step, n)
		tile := dense.Slice(j, 0, (hi-lo)*c)
		x.Slice(lo, hi).JacobianTo(tile)
		for i := range hi - lo {
			// R_iᵀ Ĵ_i
			dense.Gemm1(blas.Trans, blas.NoTrans, 1, dense.Slice(root, (lo+i)*c, (lo+i+1)*c).RawMatrix(),
				dense.Slice(tile, i*c, (i+1)*c).RawMatrix(), 0, dense.Rows(rj, i*c, (i+1)*c))
		}
		if err := dense.SyrkContext(ctx, blas.Trans, factor, dense.Rows(rj, 0, (hi-lo)*c), 1, q.precision); err != nil {
			return err
		}
	}
	return nil
}
