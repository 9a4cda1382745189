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
	// FunctionAlone leaves the inputs out, for inputs that are no numbers on a scale, such
	// as tokens.
	FunctionAlone bool
	// Standardize divides each column of the inputs by its standard deviation before
	// distances are taken, for columns in units of their own. Pixels have one unit: divided,
	// columns that are nearly always the same outweigh the others, and the AUROC of the score
	// against Kuzushiji-MNIST falls from .997 to .980 with 200 digits to train on.
	Standardize bool
	// Seed draws the training examples that stand for all.
	Seed uint64
	// MaxMemory is the number of bytes that may be taken; 0 means 80 % of what the machine
	// has free (gp.MemoryBudget).
	MaxMemory int64
	// Progress, if not nil, is called as work is done, from one goroutine, with
	// gp.StageLeaveOneOut and the stages of package sparse.
	Progress func(stage string, done, total int)
}

func (o *Options) withDefaults() *Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Progress == nil {
		d.Progress = func(string, int, int) {}
	}
	return &d
}

// A Detector tells how unlike the training examples of a posterior an input is (E22). It is
// immutable and safe for concurrent use.
type Detector struct {
	route    route
	noise    float64 // ε
	variance variance
	inputs   *inputs   // nil where the function stands alone
	tails    []tail    // of each distance
	rows     []int     // the training examples that stand for all, ascending
	leftOut  []float64 // their scores, each from the others
	training []float64 // the same, ascending
}

const (
	mostRows   = 4096    // most training examples that stand for all of them
	leastRows  = 100     // fewest, where there are more, whose inputs tell distances
	mostSummed = 1 << 14 // training examples that v through inducing ones is computed from,
	perInduced = 8       // or as many for each of these
)

// Fit returns the detector of the training examples of post, whose kernel is k. The
// targets do not enter, and post does not change.
//
// Beside an exact posterior it takes a copy of K and its factor, gp.Bytes, as long as the
// detector is used. Where so much memory is not free, and for posteriors by conjugate
// gradients, by kept rows, by FITC or of a subset of data, it takes inducing examples,
// M·C = 2,000 at most, and beside a Nyström posterior its own. Then it passes once
// over the training examples, or over 16,384 of them that are drawn, or eight for each
// inducing one, which are enough to determine what these tell. Inputs of at most 4,096
// training examples are kept, or of as many as fit into a quarter of the memory; where these
// are less than a hundred of more, the function stands alone. Leave-one-out distances are
// distances of these examples, which are no inducing ones unless all are.
//
// The errors are errors of post and its training examples, and ctx.Err(), which may be
// wrapped.
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
		// The memory that n inputs of d numbers and scoring by them take.
		fit := memory.Largest(most, gp.MemoryBudget(o.MaxMemory)/4, func(n int) int64 {
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
	// Take the inputs of the examples that stand for all, and ε by the mean diagonal of their kernel.
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

// A picked is the training examples in some rows, tile by tile.
type picked struct {
	from linearize.Source
	rows []int // ascending
	tile int
}

var _ linearize.Source = picked{}

// pick returns the training examples in these rows.
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

// condition computes v, from sums over the training examples that are known if they are not
// nil.
func (d *Detector) condition(ctx context.Context, post gp.Dual, sums *sparse.Sums, o *Options) error {
	_, c := post.Sites().F.Dims()
	n := post.Data().Len()
	if d.route.Exact {
		e, err := post.(*gp.Exact).Condition(ctx, gp.UniformSites(n, c, d.noise))
		d.variance.of = e
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
	d.variance.of, err = b.Posterior(ctx)
	return err
}

// summed returns the training examples that v through inducing ones is computed from: those
// that stand for all, and others.
func (d *Detector) summed(n, inducing int, seed uint64) []int {
	most := max(mostSummed, perInduced*inducing)
	others := sample(n, max(0, min(n, most)-len(d.rows)), d.rows, seed)
	return slices.Sorted(slices.Values(append(others, d.rows...)))
}

// leaveOut finds the distributions of the distances by the examples that stand for all.
func (d *Detector) leaveOut(ctx context.Context, post gp.Dual, o *Options) error {
	n := len(d.rows)
	distances := d.newDistances(n)
	err := pick(post, d.rows).Batches(ctx, func(lo int, x *linearize.Batch) error {
		hi := lo + x.Len()
		err := d.variance.leftOutTo(ctx, distances[Function][lo:hi], d.rows[lo:hi], x, d.noise)
		o.Progress(gp.StageLeaveOneOut, hi, n)
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
	Mahalanobis        // of the inputs from their mean
	Angle              // between the inputs and the nearest training ones
)

// newDistances has room for the distances of n rows: by the function, and where there
// are inputs theirs.
func (d *Detector) newDistances(n int) [][]float64 {
	distances := [][]float64{make([]float64, n)}
	if d.inputs != nil {
		distances = append(distances, make([]float64, n), make([]float64, n))
	}
	return distances
}

// surprises writes the surprise of each distance of each row, T×K.
func (d *Detector) surprises(dst *mat.Dense, distances [][]float64) {
	for k, v := range distances {
		for i := range v {
			dst.Set(i, k, d.tails[k].surprise(v[i]))
		}
	}
}

// SurprisesTo writes for each of the T examples of x and each of the K distances −log of the
// share of training examples which, left out, have a larger one, T×K in nats: K is 3, or 1
// without inputs. Beyond four fifths of the training examples the share is that of an
// exponential distribution, so that rows farther out than all of them have an order. x must
// have the inputs if the training examples had them.
func (d *Detector) SurprisesTo(ctx context.Context, dst *mat.Dense, x *linearize.Batch) error {
	if d.inputs != nil && x.Len() > 0 && x.X == nil {
		panic("novelty: the examples have no inputs")
	}
	dense.SizeTo(dst, x.Len(), len(d.tails))
	if x.Len() == 0 {
		return ctx.Err()
	}
	distances := d.newDistances(x.Len())
	if err := d.variance.scoreTo(ctx, distances[Function], x); err != nil {
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

// ScoreTo writes the score of each of the T examples of x in nats: the mean of its K
// surprises. A dst of another length than T panics.
func (d *Detector) ScoreTo(ctx context.Context, dst []float64, x *linearize.Batch) error {
	if len(dst) != x.Len() {
		panic("novelty: scores and examples differ in number")
	}
	var surprises mat.Dense
	if err := d.SurprisesTo(ctx, &surprises, x); err != nil {
		return err
	}
	meansTo(dst, &surprises)
	return nil
}

// meansTo writes the mean of each row.
func meansTo(dst []float64, m *mat.Dense) {
	for i := range dst {
		row := m.RawRowView(i)
		dst[i] = floats.Sum(row) / float64(len(row))
	}
}

// Training returns the scores of the training examples that stand for all, each from the
// others, in ascending order and without NaN, for score.Rank. They must not be changed.
func (d *Detector) Training() []float64 { return d.training }

// LeftOut returns the same scores in the order of the examples, whose positions among the
// training examples ascend. A score that keeps no digits after rounding is NaN. Neither may
// be changed.
func (d *Detector) LeftOut() (rows []int, scores []float64) { return d.rows, d.leftOut }
