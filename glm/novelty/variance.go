package novelty

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

const (
	relativeNoise = .01  // ε relative to the mean diagonal of K
	inducedRows   = 2000 // most M·C of inducing examples that are drawn here
)

// A variance is v(x) = κ(x,x) − K_*n (K + εI)⁻¹ K_n*, the variance of the function after all training examples were
// observed with noise ε (E22). It is the variance of a posterior with Λ = I/ε at every example.
type variance struct {
	k ntk.Kernel
	// One of the two: by all training examples, or through inducing ones.
	all     *gp.Exact
	through *sparse.Projected
}

// posterior returns the posterior whose covariance is v.
func (v *variance) posterior() interface {
	gp.Latent
	gp.Reducible
} {
	if v.all != nil {
		return v.all
	}
	return v.through
}

// A conditioner is a posterior with the kernel of all training examples. It can be conditioned on other sites without
// forming the kernel again.
type conditioner interface {
	Condition(ctx context.Context, s *gp.Sites) (*gp.Exact, error)
	PredictBesideTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch, beside *gp.Exact, besideCov *mat.Dense) error
}

// predictTo calls post.PredictTo, and writes tr v/√tr κ for each example of x to dst. A nil post is left out.
func (v *variance) predictTo(ctx context.Context, post gp.Latent, mean, cov *mat.Dense, dst []float64, x *linearize.Batch) error {
	var own mat.Dense
	if err := v.besideTo(ctx, post, mean, cov, &own, x); err != nil {
		return err
	}
	v.relativeTo(dst, &own, x)
	return nil
}

// besideTo calls post.PredictTo, and writes v, T·C×C, to own. If both use the same examples, one cross-kernel serves
// both. A nil post is left out.
func (v *variance) besideTo(ctx context.Context, post gp.Latent, mean, cov, own *mat.Dense, x *linearize.Batch) error {
	if p, ok := post.(conditioner); ok && v.all != nil {
		return p.PredictBesideTo(ctx, mean, cov, x, v.all, own)
	}
	if p, ok := post.(induced); ok && v.through != nil {
		return p.PredictBesideTo(ctx, mean, cov, x, v.through, own)
	}
	if post != nil {
		if err := post.PredictTo(ctx, mean, cov, x); err != nil {
			return err
		}
	}
	return v.posterior().PredictTo(ctx, nil, own, x)
}

// leftOutTo writes tr v/√tr κ for each training example in x, with the example itself left out. rows are the
// positions of the examples.
func (v *variance) leftOutTo(ctx context.Context, dst []float64, rows []int, x *linearize.Batch, noise float64) error {
	var cov mat.Dense
	if v.all != nil {
		if err := v.all.LeaveOneOutTo(ctx, nil, &cov, rows, x); err != nil {
			return err
		}
		v.relativeTo(dst, &cov, x)
		return nil
	}
	var h mat.Dense
	if err := v.through.SplitTo(ctx, nil, &h, &cov, x); err != nil {
		return err
	}
	c := x.Outputs()
	root := gp.UniformSites(1, c, noise).Root
	without, r := mat.NewDense(c, c, nil), make([]float64, c)
	for i := range dst {
		// Leave the example out of h, the part through the inducing examples, and keep the rest k − q (E17).
		gp.LeaveOneOutFrom(nil, without, h.Slice(i*c, (i+1)*c, 0, c), root, nil, nil, r)
		block := cov.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense)
		block.Add(block, without)
	}
	v.relativeTo(dst, &cov, x)
	return nil
}

// relativeTo writes tr v/√tr κ for v in cov, T·C×C. The result is 0 where κ is 0.
func (v *variance) relativeTo(dst []float64, cov *mat.Dense, x *linearize.Batch) {
	var prior mat.Dense
	v.k.DiagTo(&prior, x)
	c := x.Outputs()
	for i := range dst {
		left, whole := trace(cov, i, c), trace(&prior, i, c)
		if dst[i] = left / math.Sqrt(whole); whole == 0 {
			dst[i] = 0
		}
	}
}

// trace returns the trace of block i of m, whose blocks are c×c.
func trace(m *mat.Dense, i, c int) float64 {
	sum := 0.0
	for j := range c {
		sum += m.At(i*c+j, j)
	}
	return sum
}

// An induced posterior has inducing examples.
type induced interface {
	Inducing() *sparse.Inducing
	IsSubset() bool
	Builder() *sparse.Builder
	PredictBesideTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch, beside *sparse.Projected, besideCov *mat.Dense) error
}

// reusable tells whether v can be computed through the inducing examples of post: whole examples, for all data.
func reusable(post gp.Dual) bool {
	p, ok := post.(induced)
	return ok && !p.IsSubset() && !p.Inducing().Pairs()
}

// A route is a way to compute v beside a posterior. One of its fields is set.
type route struct {
	Exact    bool  // with a second factor of the kernel of an exact posterior
	Reused   bool  // through the inducing examples of the Nyström posterior
	Inducing []int // through these training examples, ascending
}

// routeBeside chooses the route. Beside an exact posterior it is a second factor, if that fits into memory. Beside
// a Nyström posterior it is the posterior's inducing examples, if they are whole examples. Otherwise inducing
// examples are drawn at random, as many as inducedRows and the memory allow: all training examples, or at most half
// of them, so that others remain for the sample.
func routeBeside(post gp.Dual, o *Options) route {
	_, c := post.Sites().F.Dims()
	n := post.Data().Len()
	if _, ok := post.(conditioner); ok && gp.Bytes(n, c) <= gp.MemoryBudget(o.Memory) {
		return route{Exact: true}
	}
	if reusable(post) {
		return route{Reused: true}
	}
	m := max(1, inducedRows/c)
	if m >= n {
		m = n
	} else {
		m = min(m, max(1, n/2))
	}
	m = max(1, memory.Largest(m, gp.MemoryBudget(o.Memory), func(m int) int64 { return sparse.Bytes(m, n, c, false) }))
	return route{Inducing: sample(n, m, nil, o.Seed)}
}

// inducing returns the positions of the inducing examples, none for Exact.
func (r route) inducing(post gp.Dual) []int {
	if r.Reused {
		return post.(induced).Inducing().Rows
	}
	return r.Inducing
}

// builder returns the builder of the sums over training examples for inducing examples.
func (r route) builder(ctx context.Context, k ntk.Kernel, post gp.Dual, o *Options) (*sparse.Builder, error) {
	if r.Reused {
		return post.(induced).Builder(), nil
	}
	x, err := linearize.Gather(ctx, post.Data(), r.Inducing)
	if err != nil {
		return nil, err
	}
	return sparse.NewBuilder(ctx, k, &sparse.Inducing{Rows: r.Inducing, Batch: x}, &sparse.Options{Limits: o.Limits})
}

// sample draws m of the n positions that are not in without, or takes all of them where there are fewer. The result
// ascends.
func sample(n, m int, without []int, seed uint64) []int {
	taken := make([]bool, n)
	for _, i := range without {
		taken[i] = true
	}
	var rows []int
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(n) {
		if !taken[i] && len(rows) < m {
			rows = append(rows, i)
		}
	}
	slices.Sort(rows)
	return rows
}
