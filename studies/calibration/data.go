package calibration

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

// images are pictures of some classes.
type images struct{ train, test *dataset.Rows }

func openImages(ctx context.Context, name string, classes []int) (*images, error) {
	d, err := dataset.Open(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	var i images
	if i.train, err = d.Train.Select(classes, 0); err != nil {
		return nil, err
	}
	i.test, err = d.Test.Select(classes, 0)
	return &i, err
}

// trainRows returns the kept training rows [lo, hi).
func (d *images) trainRows(lo, hi int) part { return rowsAt(d.train, lo, hi) }

// testRows returns the first n kept test rows, or all of them for 0.
func (d *images) testRows(n int) part {
	if n == 0 {
		n = d.test.Len()
	}
	return rowsAt(d.test, 0, n)
}

func rowsAt(s *dataset.Rows, lo, hi int) part {
	y := mat.NewDense(hi-lo, 1, slices.Clone(s.Targets[lo:hi]))
	return part{s.Slice(lo, hi).Matrix(), y}
}

// rowsOf returns the training rows with these row numbers of the file.
func (d *images) rowsOf(rows []int) (part, error) {
	s, err := d.train.Pick(d.train.Classes, rows, "")
	if err != nil {
		return part{}, err
	}
	return rowsAt(s, 0, s.Len()), nil
}

// without returns the first n kept training rows that are not among these,
// which ascend.
func (d *images) without(rows []int, n int) part {
	var others []int
	for i, r := range d.train.Index {
		if _, used := slices.BinarySearch(rows, r); !used && len(others) < n {
			others = append(others, i)
		}
	}
	return rowsAt(d.train.At(others), 0, n)
}

// openUCI opens a split of a table. Features are scaled by the training part.
func openUCI(name string, outputs int, s *sgd) func(ctx context.Context, o *options, split int) (*problem, error) {
	return func(ctx context.Context, o *options, split int) (*problem, error) {
		d, err := dataset.Open(ctx, filepath.Join(o.data, "uci", name+".csv"), &dataset.OpenOptions{Split: &split})
		if err != nil {
			return nil, err
		}
		scaling, err := dataset.NewScaling(d.Train.Matrix())
		if err != nil {
			return nil, err
		}
		p := &problem{lik: glm.Categorical{}, members: 5, recipe: recipe{shape: d.Shape, layers: mlp(network.Tanh, 50, 50, outputs), delta: uciPrecision, sgd: s,
			opt: train.Options{Epochs: 60, Batch: 64, LBFGS: 500}}}
		if outputs == 1 {
			p.lik = glm.Bernoulli{}
		}
		if name == "satellite" {
			p.members, p.recipe.opt.LBFGS = 2, 200
		}
		for _, t := range []struct {
			to   *part
			from *dataset.Rows
		}{{&p.train, d.Train}, {&p.valid, d.Valid}, {&p.test, d.Test}} {
			x := t.from.Matrix()
			scaling.Apply(x)
			*t.to = part{x, mat.NewDense(t.from.Len(), 1, slices.Clone(t.from.Targets))}
		}
		return p, nil
	}
}

// openFriedman draws Friedman's first function, 10 sin(πx₁x₂) + 20(x₃−½)² +
// 10x₄ + 5x₅ plus standard normal noise, of ten uniform inputs of which five do
// not matter: 500 training, 75 held-out and 2,000 test rows. Targets are
// standardized by the function's own mean and deviation, 14.4 and 4.9.
func openFriedman(_ context.Context, _ *options, split int) (*problem, error) {
	return friedman(split, 500, 75, 2000)
}

// friedman draws so many training, held-out and test rows.
func friedman(split, training, valid, test int) (*problem, error) {
	const inputs, mean, deviation = 10, 14.4, 4.9
	draw := func(stream uint64, n int) part {
		rng := rand.New(rand.NewPCG(uint64(split), stream))
		p := part{mat.NewDense(n, inputs, nil), mat.NewDense(n, 1, nil)}
		for i := range n {
			x := p.x.RawRowView(i)
			for j := range x {
				x[j] = rng.Float64()
			}
			f := 10*math.Sin(math.Pi*x[0]*x[1]) + 20*(x[2]-.5)*(x[2]-.5) + 10*x[3] + 5*x[4]
			p.y.Set(i, 0, (f+rng.NormFloat64()-mean)/deviation)
			for j := range x {
				x[j] = (x[j] - .5) * math.Sqrt(12)
			}
		}
		return p
	}
	// The true noise variance, in the units of the targets.
	lik, err := glm.NewGaussian(1 / (deviation * deviation))
	if err != nil {
		return nil, err
	}
	return &problem{lik: lik, members: 5, train: draw(1, training), valid: draw(2, valid), test: draw(3, test),
		recipe: recipe{shape: network.Shape{inputs}, layers: mlp(network.Tanh, 50, 50, 1), delta: 1, opt: train.Options{Epochs: 100, Batch: 64, LBFGS: 1000}}}, nil
}

// openTest returns the test inputs of a directory of IDX files.
func openTest(ctx context.Context, name string) (*mat.Dense, error) {
	d, err := dataset.Open(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	return d.Test.Matrix(), nil
}
