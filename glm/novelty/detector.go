package novelty

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// Options are options of Fit and Load. nil means all defaults.
type Options struct {
	// FunctionAlone leaves out the two distances of the inputs. It is meant for inputs that are not numbers on a
	// scale, such as tokens.
	FunctionAlone bool
	// Standardize divides each column of the inputs by its standard deviation before distances are computed. It is
	// meant for columns in different units. Pixels have one unit: after division, columns that are nearly constant
	// outweigh the others, and the AUROC of the score against Kuzushiji-MNIST falls from .997 to .980 with 200
	// training digits.
	Standardize bool
	// Seed is the seed of the random choice of training examples.
	Seed uint64
	linearize.Limits
}

func (o *Options) withDefaults() *Options {
	var d Options
	if o != nil {
		d = *o
	}
	return &d
}

// A Detector tells how unlike the training examples of a posterior an input is (E22). It measures distances from a
// sample of the training examples. It is immutable and safe for concurrent use.
type Detector struct {
	route    route
	noise    float64 // ε
	variance variance
	inputs   *inputs   // nil without the distances of inputs
	tails    []tail    // distribution of each distance
	rows     []int     // positions of the sampled training examples, ascending
	leftOut  []float64 // scores of the sample, each from the others
	training []float64 // leftOut in ascending order, without NaN
}

const (
	mostRows   = 4096    // most training examples in the sample
	leastRows  = 100     // fewest sampled inputs (or all of fewer examples) for distances of inputs
	mostSummed = 1 << 14 // most training examples that are summed for v through inducing examples,
	perInduced = 8       // or this many for each inducing example, if that is more
)

// Fit returns the detector of the training examples of post, whose kernel is k. It does not use the targets, and
// does not change post.
//
// How v is computed depends on post:
//
//   - For an exact posterior Fit makes a copy of K and its factor, which take gp.Bytes as long as the detector is in
//     use, if this much memory is free.
//   - For a Nyström posterior Fit takes the posterior's inducing examples.
//   - For any other posterior, and without the memory, Fit draws M inducing examples with M·C ≤ 2,000.
//
// With inducing examples Fit passes once over the training examples: over all of them, or over 16,384 drawn ones or
// eight for each inducing example, whichever is more. More would hardly change v.
//
// For the distances of inputs Fit keeps the inputs of a sample of at most 4,096 training examples that fit into a
// quarter of the memory. If fewer than 100 fit and there are more, it leaves these distances out. Leave-one-out
// distances are distances of the sampled examples. The sample has no inducing examples, unless all training
// examples are inducing.
//
// The error is an error of post, of its training examples, or ctx.Err(), which may be wrapped.
func Fit(ctx context.Context, k ntk.Kernel, post gp.Dual, o *Options) (*Detector, error) {
	o = o.withDefaults()
	d := &Detector{route: routeBeside(post, o), variance: variance{k: k}}
	n := post.Data().Len()
	x, err := linearize.Gather(ctx, post.Data(), []int{0})
	if err != nil {
		return nil, err
	}
	most := min(n, mostRows)
	byInputs := x.X != nil && !o.FunctionAlone
	if byInputs {
		_, dims := x.X.Dims()
		// The memory in bytes of n inputs with dims numbers each, and of scoring by them.
		fit := memory.Largest(most, gp.MemoryBudget(o.Memory)/4, func(n int) int64 {
			side := int64(min(n, dims))
			tile := memory.Mul(inputTile, memory.Add(memory.Mul(2, int64(dims)), memory.Mul(2, int64(n))))
			return memory.Mul(8, memory.Add(memory.Add(memory.Mul(int64(n), int64(dims)), memory.Mul(side, side)), tile))
		})
		if byInputs = fit >= min(n, leastRows); byInputs {
			most = fit
		}
	}
	without := d.route.inducing(post)
	if len(without) >= n {
		without = nil
	}
	d.rows = sample(n, most, without, o.Seed)
	// Read the inputs of the sample, and sum the diagonal of its kernel for ε.
	sum, count := 0.0, 0
	var z blas64.General
	err = pick(post, d.rows).Batches(ctx, func(lo int, x *linearize.Batch) error {
		var prior mat.Dense
		d.variance.k.DiagTo(&prior, x)
		c := x.Outputs()
		for i := range x.Len() {
			sum, count = sum+trace(&prior, i, c), count+c
		}
		if !byInputs {
			return nil
		}
		if z.Data == nil {
			_, dims := x.X.Dims()
			z = dense.New(len(d.rows), dims)
		}
		for i := range x.Len() {
			copy(dense.Row(z, lo+i), x.X.RawRowView(i))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// ε = .01 of the mean diagonal (E22)
	if d.noise = relativeNoise * sum / float64(count); d.noise == 0 {
		d.noise = 1
	}
	if byInputs {
		d.inputs, err = newInputs(ctx, z, o.Standardize)
	}
	if err != nil {
		return nil, err
	}
	if err := d.condition(ctx, post, nil, o); err != nil {
		return nil, err
	}
	return d, d.leaveOut(ctx, post, o)
}

// A picked is a source of the training examples at some positions. It yields them in tiles.
type picked struct {
	from linearize.Source
	rows []int // ascending
	tile int
}

var _ linearize.Source = picked{}

// pick returns a source of the training examples of post at these positions.
func pick(post gp.Dual, rows []int) linearize.Source {
	if len(rows) == post.Data().Len() {
		return post.Data()
	}
	_, c := post.Sites().F.Dims()
	return picked{post.Data(), rows, linearize.Tile(c)}
}

// Len implements linearize.Source.
func (p picked) Len() int { return len(p.rows) }

// Batches implements linearize.Source.
func (p picked) Batches(ctx context.Context, yield func(first int, b *linearize.Batch) error) error {
	for tile := range par.Tiles(len(p.rows), p.tile) {
		lo, hi := par.Bounds(tile, len(p.rows), p.tile)
		b, err := linearize.Gather(ctx, p.from, p.rows[lo:hi])
		if err != nil {
			return err
		}
		if err := yield(lo, b); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// condition prepares v. Through inducing examples it sums over training examples, unless sums has these sums
// already.
func (d *Detector) condition(ctx context.Context, post gp.Dual, sums *sparse.Sums, o *Options) error {
	_, c := post.Sites().F.Dims()
	n := post.Data().Len()
	if d.route.Exact {
		var err error
		d.variance.all, err = post.(conditioner).Condition(ctx, gp.UniformSites(n, c, d.noise))
		return err
	}
	b, err := d.route.builder(ctx, d.variance.k, post, o)
	if err != nil {
		return err
	}
	if sums != nil {
		err = b.Merge(sums)
	} else {
		x := pick(post, d.summed(n, len(d.route.inducing(post)), o.Seed))
		err = b.Add(ctx, x, gp.UniformSites(x.Len(), c, d.noise))
	}
	if err != nil {
		return err
	}
	d.variance.through, err = b.Posterior(ctx)
	return err
}

// summed returns the positions of the training examples that are summed for v through inducing examples: the
// sample, and others drawn at random.
func (d *Detector) summed(n, inducing int, seed uint64) []int {
	most := max(mostSummed, perInduced*inducing)
	others := sample(n, max(0, min(n, most)-len(d.rows)), d.rows, seed)
	return slices.Sorted(slices.Values(append(others, d.rows...)))
}

// leaveOut computes the distances of the sampled examples, each left out, and their distributions.
func (d *Detector) leaveOut(ctx context.Context, post gp.Dual, o *Options) error {
	n := len(d.rows)
	distances := d.newDistances(n)
	err := pick(post, d.rows).Batches(ctx, func(lo int, x *linearize.Batch) error {
		hi := lo + x.Len()
		err := d.variance.leftOutTo(ctx, distances[Function][lo:hi], d.rows[lo:hi], x, d.noise)
		o.Show(gp.StageLeaveOneOut, hi, n)
		return err
	})
	if err != nil {
		return err
	}
	if d.inputs != nil {
		if err := d.inputs.distancesTo(ctx, distances[Mahalanobis], distances[Angle], nil, true); err != nil {
			return err
		}
	}
	for _, v := range distances {
		sorted := score.SortedScores(v)
		if len(sorted) == 0 {
			sorted = []float64{0}
		}
		d.tails = append(d.tails, newTail(sorted))
	}
	surprises := mat.NewDense(n, len(distances), nil)
	d.surprises(surprises, distances)
	d.leftOut = make([]float64, n)
	meansTo(d.leftOut, surprises)
	d.training = score.SortedScores(d.leftOut)
	return nil
}

// The distances, in the order of the columns of SurprisesTo.
const (
	Function    = iota // tr v/√tr κ
	Mahalanobis        // of the inputs from the nearest training inputs
	Angle              // between the inputs and the nearest training inputs
)

// newDistances returns a slice of n numbers for each distance: one of the function, and two of inputs if there are
// any.
func (d *Detector) newDistances(n int) [][]float64 {
	distances := [][]float64{make([]float64, n)}
	if d.inputs != nil {
		distances = append(distances, make([]float64, n), make([]float64, n))
	}
	return distances
}

// surprises writes the surprises of T examples to dst, T×K, where distances has K slices of T numbers.
func (d *Detector) surprises(dst *mat.Dense, distances [][]float64) {
	for k, v := range distances {
		for i := range v {
			dst.Set(i, k, d.tails[k].surprise(v[i]))
		}
	}
}

// SurprisesTo writes the surprise of each of the T examples of x by each of the K distances to dst, T×K in nats. A
// surprise is −log of the share of training examples that have a larger distance when they are left out. K is 3, or
// 1 without inputs. For distances in the upper fifth of the training examples the share comes from a fitted
// exponential distribution, which orders even examples farther out than every training example. If the training
// examples had inputs, x must have them too.
func (d *Detector) SurprisesTo(ctx context.Context, dst *mat.Dense, x *linearize.Batch) error {
	return d.surprisesTo(ctx, nil, nil, nil, dst, x)
}

// surprisesTo does what SurprisesTo does, and what post.PredictTo does if post is not nil.
func (d *Detector) surprisesTo(ctx context.Context, post gp.Latent, mean, cov, dst *mat.Dense, x *linearize.Batch) error {
	if d.inputs != nil && x.Len() > 0 && x.X == nil {
		panic("novelty: the examples have no inputs")
	}
	dense.SizeTo(dst, x.Len(), len(d.tails))
	distances := d.newDistances(x.Len())
	if err := d.variance.predictTo(ctx, post, mean, cov, distances[Function], x); err != nil || x.Len() == 0 {
		return err
	}
	if d.inputs != nil {
		if err := d.inputs.distancesTo(ctx, distances[Mahalanobis], distances[Angle], x.X, false); err != nil {
			return err
		}
	}
	d.surprises(dst, distances)
	return nil
}

// ScoreTo writes the score of each of the T examples of x in nats: the mean of its K surprises. It panics unless
// dst has T numbers.
func (d *Detector) ScoreTo(ctx context.Context, dst []float64, x *linearize.Batch) error {
	return d.PredictTo(ctx, nil, nil, nil, dst, x)
}

// PredictTo writes the mean, T×C, and the covariances, T·C×C, that post.PredictTo writes, and the T scores of ScoreTo
// for the examples of x. A nil post is left out. If the detector was fitted to post, and post is exact or Nyström, one
// cross-kernel serves both. It panics unless there are T scores. The errors are those of PredictTo of a posterior.
func (d *Detector) PredictTo(ctx context.Context, post gp.Latent, mean, cov *mat.Dense, scores []float64, x *linearize.Batch) error {
	if len(scores) != x.Len() {
		panic("novelty: scores and examples differ in number")
	}
	var surprises mat.Dense
	if err := d.surprisesTo(ctx, post, mean, cov, &surprises, x); err != nil {
		return err
	}
	meansTo(scores, &surprises)
	return nil
}

// meansTo writes the mean of each row of m.
func meansTo(dst []float64, m *mat.Dense) {
	for i := range dst {
		row := m.RawRowView(i)
		dst[i] = floats.Sum(row) / float64(len(row))
	}
}

// Training returns the leave-one-out scores of the sampled training examples in ascending order, without NaN, as
// score.Rank takes them. They must not be changed.
func (d *Detector) Training() []float64 { return d.training }

// LeftOut returns the leave-one-out scores of the sampled training examples, and their positions rows among the
// training examples, ascending. A score is NaN where rounding leaves it no digits. Neither slice may be changed.
func (d *Detector) LeftOut() (rows []int, scores []float64) { return d.rows, d.leftOut }
