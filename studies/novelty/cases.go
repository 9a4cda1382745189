package novelty

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/studies/trained"
)

// A problem is a trained network with its training rows and test rows, and rows of other
// kinds that are to be told from the test rows.
type problem struct {
	name      string
	lik       glm.Likelihood
	net       *network.Network
	precision float64 // of the prior
	train     *mat.Dense
	y         *mat.Dense
	test      *mat.Dense
	others    []other
}

// An other is rows of another kind than the test rows.
type other struct {
	name string
	x    *mat.Dense
}

// A source has the folder of the reference and the data, and that of the tables that are given.
type source struct{ shared, tables string }

func (s source) reference(name ...string) string {
	return filepath.Join(s.shared, "reference", filepath.Join(name...))
}

// A maker reads or draws a problem.
type maker struct {
	name     string
	inducing int // examples of a Nyström posterior; 0 is exact
	group    string
	make     func(ctx context.Context, s source) (*problem, error)
}

// Groups of cases: those by which distances and their combination were chosen, those that had no part in it, and networks that do not
// know a class, by which the first distance of inputs was chosen.
const (
	chose     = "that chose the score"
	apart     = "apart"
	lessGroup = "less a class"
)

// cases are the problems of the first two groups. The precisions of tables are those at which the network is about the
// mode, from cases.json of the reference; they matter to the entropy alone.
var cases = []maker{
	table("wine-adam1e-4", glm.Categorical{}, 0.0336, "breast_cancer-adam1e-4"),
	table("wine-adamw", glm.Categorical{}, 0.0194, "breast_cancer-adam1e-4"),
	table("breast_cancer-adam1e-4", glm.Categorical{}, 0.0608, "digits-adam1e-4"),
	table("breast_cancer-adamw", glm.Categorical{}, 0.00511, "digits-adam1e-4"),
	table("diabetes-adam1e-4", gaussian(2900), 1, "breast_cancer-adam1e-4"),
	table("diabetes-adamw", gaussian(2900), 1, "breast_cancer-adam1e-4"),
	table("overlap5-adamw", glm.Categorical{}, 0.158, "breast_cancer-adam1e-4"),
	table("digits-adam1e-4", glm.Categorical{}, 0.129, ""),
	{"mnist10-mlp", 0, chose, pictures("mnist10-mlp", "mnist10-mlp/model.onnx", "reference.safetensors", glm.Categorical{}, 1, nil)},
	{"thesis-cnn", 0, chose, pictures("thesis-cnn", "thesis-cnn/model.onnx", "reference.safetensors", glm.Bernoulli{}, 10, []int{4, 9})},
	{"digits-adam1e-4 M=50", 50, chose, table("digits-adam1e-4", glm.Categorical{}, 0.129, "").make},
	{"thesis-cnn M=200", 200, chose, pictures("thesis-cnn", "thesis-cnn/model.onnx", "reference.safetensors", glm.Bernoulli{}, 10, []int{4, 9})},
	{"hetero-adam1e-4", 0, apart, table("hetero-adam1e-4", gaussian(0.1), 1, "wine-adam1e-4").make},
	{"hetero-adamw", 0, apart, table("hetero-adamw", gaussian(0.1), 1, "wine-adam1e-4").make},
	{"mnist49-adam", 0, apart, pictures("mnist49-adam", "match/mnist49-adam.onnx", "mnist49-train-index.txt", glm.Bernoulli{}, 27.5, []int{4, 9})},
	{"mnist49-sgd", 0, apart, pictures("mnist49-sgd", "match/mnist49-sgd.onnx", "mnist49-train-index.txt", glm.Bernoulli{}, 2.34, []int{4, 9})},
	{"mnist49-long", 0, apart, pictures("mnist49-long", "match/mnist49-long.onnx", "mnist49-train-index.txt", glm.Bernoulli{}, 3.52, []int{4, 9})},
}

// gaussian is a Gaussian likelihood with this noise variance.
func gaussian(variance float64) glm.Likelihood {
	g, err := glm.NewGaussian(variance)
	if err != nil {
		panic(err)
	}
	return g
}

const (
	drawn   = 1000 // rows of noise and of permuted columns
	mostOf  = 1000 // test rows of a set of pictures, and rows of another set
	rowSeed = 22
)

// table is a network of the match reference. Its inputs are standardized by the training
// rows, except pixels. The other set is another table, standardized by itself, of which
// each row gives as many numbers as a row needs.
func table(name string, lik glm.Likelihood, precision float64, another string) maker {
	return maker{name, 0, chose, func(ctx context.Context, s source) (*problem, error) {
		p := &problem{name: name, lik: lik, precision: precision}
		pixels := another == ""
		train, test, y, err := readTable(ctx, s, name, pixels)
		if err != nil {
			return nil, err
		}
		p.train, p.test, p.y = train, test, y
		if p.net, err = network.ReadONNXFile(ctx, s.reference("match", name+".onnx"), nil); err != nil {
			return nil, err
		}
		var rest *mat.Dense
		if pixels {
			if rest, err = smallLetters(ctx, s); err != nil {
				return nil, err
			}
		} else {
			of, _, _, err := readTable(ctx, s, another, false)
			if err != nil {
				return nil, err
			}
			rest = reshaped(of, p.train.RawMatrix().Cols)
		}
		p.others = append(drawnFrom(p.train, p.test), other{"other set", rest})
		return p, nil
	}}
}

func readTable(ctx context.Context, s source, name string, pixels bool) (train, test, y *mat.Dense, err error) {
	stem := s.reference("match", name)
	d, err := dataset.Open(ctx, stem+"-train.csv", &dataset.OpenOptions{TestFile: stem + "-test.csv"})
	if err != nil {
		return nil, nil, nil, err
	}
	train, test = d.Train.Matrix(), d.Test.Matrix()
	if !pixels {
		scaling, err := dataset.NewScaling(train)
		if err != nil {
			return nil, nil, nil, err
		}
		scaling.Apply(train)
		scaling.Apply(test)
	}
	return train, test, mat.NewDense(d.Train.Len(), 1, slices.Clone(d.Train.Targets)), nil
}

// reshaped returns rows of d numbers, each the first d of a row of x, which is repeated
// where it has fewer.
func reshaped(x *mat.Dense, d int) *mat.Dense {
	n, c := x.Dims()
	out := mat.NewDense(n, d, nil)
	out.Apply(func(i, j int, _ float64) float64 { return x.At(i, j%c) }, out)
	return out
}

// drawnFrom returns uniform noise over the range of each column of the training rows, and
// rows that take each column from a random test row.
func drawnFrom(train, test *mat.Dense) []other {
	_, d := train.Dims()
	t, _ := test.Dims()
	rng := rand.New(rand.NewPCG(rowSeed, 1))
	noise, permuted := mat.NewDense(drawn, d, nil), mat.NewDense(drawn, d, nil)
	for j := range d {
		column := mat.Col(nil, j, train)
		lo, hi := slices.Min(column), slices.Max(column)
		for i := range drawn {
			noise.Set(i, j, lo+(hi-lo)*rng.Float64())
			permuted.Set(i, j, test.At(rng.IntN(t), j))
		}
	}
	return []other{{"uniform noise", noise}, {"permuted columns", permuted}}
}

// smallLetters returns Kuzushiji-MNIST in the form of the table of digits: the mean of
// squares of 3 pixels, cut to 8×8.
func smallLetters(ctx context.Context, s source) (*mat.Dense, error) {
	of, err := letters(ctx, s)
	if err != nil {
		return nil, err
	}
	n, _ := of.Dims()
	out := mat.NewDense(n, 64, nil)
	out.Apply(func(i, j int, _ float64) float64 {
		sum := 0.0
		for a := range 9 {
			r, c := 2+3*(j/8)+a/3, 2+3*(j%8)+a%3
			sum += of.At(i, 28*r+c)
		}
		return sum / 9
	}, out)
	return out, nil
}

func letters(ctx context.Context, s source) (*mat.Dense, error) {
	d, err := dataset.Open(ctx, filepath.Join(s.shared, "data", "kmnist"), nil)
	if err != nil {
		return nil, err
	}
	return firstRows(d.Test, nil)
}

// firstRows returns the first rows of the kept ones, at most mostOf.
func firstRows(s *dataset.Rows, classes []int) (*mat.Dense, error) {
	sub, err := s.Select(classes, 0)
	if err != nil {
		return nil, err
	}
	return sub.Slice(0, min(mostOf, sub.Len())).Matrix(), nil
}

// pictures is a network of the reference on MNIST, with the training rows of
// the file index beside it.
func pictures(name, file, index string, lik glm.Likelihood, precision float64, classes []int) func(ctx context.Context, s source) (*problem, error) {
	return func(ctx context.Context, s source) (*problem, error) {
		p := &problem{name: name, lik: lik, precision: precision}
		model := s.reference(filepath.FromSlash(file))
		var err error
		if p.net, err = network.ReadONNXFile(ctx, model, nil); err != nil {
			return nil, err
		}
		rows, err := trained.TrainIndex(filepath.Join(filepath.Dir(model), index))
		if err != nil {
			return nil, err
		}
		d, err := dataset.Open(ctx, filepath.Join(s.shared, "data", "mnist"), nil)
		if err != nil {
			return nil, err
		}
		sub, err := d.Train.Pick(classes, rows, "")
		if err != nil {
			return nil, err
		}
		p.train, p.y = sub.Matrix(), mat.NewDense(sub.Len(), 1, slices.Clone(sub.Targets))
		if p.test, err = firstRows(d.Test, classes); err != nil {
			return nil, err
		}
		rest, err := letters(ctx, s)
		if err != nil {
			return nil, err
		}
		turned := mat.DenseCopyOf(p.test)
		turned.Apply(func(i, j int, _ float64) float64 { return p.test.At(i, 28*(j%28)+27-j/28) }, turned)
		p.others = append(drawnFrom(p.train, p.test), other{"Kuzushiji-MNIST", rest}, other{"turned by 90°", turned})
		return p, nil
	}
}
