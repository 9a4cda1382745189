package prediction

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/studies/synthetic"
	"github.com/funcgp/funcgp/studies/table"
)

// A set is a data set with the network that is trained on it.
type set struct {
	name        string
	about       string
	file        string           // in the reference, with %s for train or test; "" of the others
	drawn       *synthetic.Table // nil of the others
	likelihood  string
	outputs     int
	hidden      []int // units of the hidden layers, of ReLU
	norm        bool  // BatchNormalization before each ReLU
	asIs        bool  // whether inputs are as they are and not standardized
	most        int   // test rows that are predicted, the first ones; 0 for all
	train, test int   // rows of the sets without files; test is 0 for all
	classes     []int // of pictures
	trainings   []training
}

// lik is the likelihood under which the network is trained and stationary: for a mean of squares
// log p = −(y − f)², with σ² = ½.
func (s *set) lik() glm.Likelihood {
	switch s.likelihood {
	case "bernoulli":
		return glm.Bernoulli{}
	case "categorical":
		return glm.Categorical{}
	case "poisson":
		return glm.Poisson{}
	}
	g, err := glm.NewGaussian(0.5)
	if err != nil {
		panic("prediction: " + err.Error()) // of a constant
	}
	return g
}

// A training is how a network is trained.
type training struct {
	name, about string
	optimizer   train.Optimizer
	schedule    train.Schedule
	epochs      int
	batch       int
	rate        float64
	lambda      float64 // weight decay of a mean loss, δ = N·λ; 0 for none
	delta       float64 // δ of a sum; 0 for none
}

// Trainings of the tables and of the digits 4 and 9.
var (
	adam = training{name: "adam1e-4", about: "Adam with weight decay 1e-4, 300 epochs of batches of 32, step size .001",
		optimizer: train.Adam{}, schedule: train.Constant{}, epochs: 300, batch: 32, rate: 1e-3, lambda: 1e-4}
	adamw = training{name: "adamw", about: "AdamW with decay .01, 300 epochs of batches of 32, step size .001",
		optimizer: train.Adam{Decay: 0.01}, schedule: train.Constant{}, epochs: 300, batch: 32, rate: 1e-3}
	plain = training{name: "adam", about: "the same without weight decay",
		optimizer: train.Adam{}, schedule: train.Constant{}, epochs: 300, batch: 32, rate: 1e-3}
	strong = training{name: "adam1e-2", about: "the same with weight decay 1e-2",
		optimizer: train.Adam{}, schedule: train.Constant{}, epochs: 300, batch: 32, rate: 1e-3, lambda: 1e-2}
	short = training{name: "adam-40", about: "Adam, 40 epochs, δ = 1",
		optimizer: train.Adam{}, schedule: train.Cosine{}, epochs: 40, batch: 256, rate: 3e-3, delta: 1}
	sgd = training{name: "sgd", about: "SGD with momentum .9, 100 epochs, no decay",
		optimizer: train.SGD{Momentum: 0.9}, schedule: train.Constant{}, epochs: 100, batch: 64, rate: 0.01}
	long = training{name: "adam-400", about: "Adam, 400 epochs, δ = 3",
		optimizer: train.Adam{}, schedule: train.Cosine{}, epochs: 400, batch: 256, rate: 3e-3, delta: 3}
)

var all = []set{
	{name: "wine", file: "match/wine-adam1e-4-%s.csv", likelihood: "categorical", outputs: 3, hidden: []int{50, 50}, trainings: []training{adam, adamw}},
	{name: "breast_cancer", file: "match/breast_cancer-adam1e-4-%s.csv", likelihood: "categorical", outputs: 2, hidden: []int{50, 50}, trainings: []training{adam, adamw}},
	{name: "overlap5", file: "match/overlap5-adamw-%s.csv", likelihood: "categorical", outputs: 5, hidden: []int{50, 50}, most: 400, trainings: []training{adam, adamw}},
	{name: "digits", file: "match/digits-adam1e-4-%s.csv", likelihood: "categorical", outputs: 10, hidden: []int{32}, asIs: true, most: 400, trainings: []training{adam}},
	{name: "diabetes", file: "match/diabetes-adam1e-4-%s.csv", likelihood: "gaussian", outputs: 1, hidden: []int{50, 50}, trainings: []training{adam, adamw}},
	{name: "hetero", file: "match/hetero-adam1e-4-%s.csv", likelihood: "gaussian", outputs: 1, hidden: []int{50, 50}, trainings: []training{adam, adamw}},
	{name: "sonar", file: "defaults/sonar0.%s.csv", likelihood: "categorical", outputs: 2, hidden: []int{50, 50}, trainings: []training{adam}},
	{name: "sonar-bn", file: "defaults/sonar0.%s.csv", likelihood: "categorical", outputs: 2, hidden: []int{50, 50}, norm: true, trainings: []training{plain}},
	{name: "pima", file: "defaults/pima_bn.%s.csv", likelihood: "bernoulli", outputs: 1, hidden: []int{50, 50}, trainings: []training{adam}},
	{name: "pima-bn", file: "defaults/pima_bn.%s.csv", likelihood: "bernoulli", outputs: 1, hidden: []int{50, 50}, norm: true, trainings: []training{plain}},
	{name: "vehicle", file: "defaults/vehicle0.%s.csv", likelihood: "categorical", outputs: 4, hidden: []int{50, 50}, trainings: []training{adam}},
	{name: "vehicle-bn", file: "defaults/vehicle0.%s.csv", likelihood: "categorical", outputs: 4, hidden: []int{50, 50}, norm: true, trainings: []training{plain}},
	{name: "waveform", drawn: synthetic.Waveform, likelihood: "categorical", outputs: 3, hidden: []int{50, 50}, train: 300, test: 1000, trainings: []training{adam, strong}},
	{name: "boston", file: "defaults/boston0.%s.csv", likelihood: "gaussian", outputs: 1, hidden: []int{50, 50}, trainings: []training{adam}},
	{name: "boston-bn", file: "defaults/boston0.%s.csv", likelihood: "gaussian", outputs: 1, hidden: []int{50, 50}, norm: true, trainings: []training{plain}},
	{name: "servo", file: "defaults/servo0.%s.csv", likelihood: "gaussian", outputs: 1, hidden: []int{50, 50}, trainings: []training{adam}},
	{name: "counts", drawn: synthetic.Counts, likelihood: "poisson", outputs: 1, hidden: []int{50, 50}, train: 300, test: 1000, trainings: []training{adam, adamw}},
	{name: "4-9", about: "MNIST's 4 and 9, 600 training rows and all test rows, MLP 784-32-1", likelihood: "bernoulli", outputs: 1, hidden: []int{32}, asIs: true, train: 600, classes: []int{4, 9}, trainings: []training{short, sgd, long}},
}

// A split has the rows of a set for one seed. Inputs and targets of a regression are scaled by
// inputs and targets.
type split struct {
	x, y, testX, testY *mat.Dense
	inputs, targets    *dataset.Scaling // targets is nil but for a real regression
	flags              []string         // that name the rows to gpexplain
	shape              network.Shape
}

// open returns the rows for a seed. Tables are written to dir: those of the reference for seed 0,
// and for others all rows of both parts drawn again. Pictures are the same for all seeds.
func (s *set) open(ctx context.Context, reference, pictures, dir string, seed int) (*split, error) {
	var r *split
	var err error
	base := filepath.Join(dir, fmt.Sprintf("%s-%d", s.name, seed))
	switch {
	case s.classes != nil:
		r, err = s.read(ctx, pictures, "")
		if err != nil {
			return nil, err
		}
		r.flags = []string{"--data", pictures, "--classes", strings.Trim(strings.ReplaceAll(fmt.Sprint(s.classes), " ", ","), "[]"), "--train-count", strconv.Itoa(s.train)}
	case s.drawn != nil:
		if err = s.drawn.Write(dir, filepath.Base(base), s.train, s.test, uint64(seed)); err != nil {
			return nil, err
		}
	default:
		part := func(name string) string { return filepath.Join(reference, strings.Replace(s.file, "%s", name, 1)) }
		if r, err = s.read(ctx, part("train"), part("test")); err != nil {
			return nil, err
		}
		if err = s.write(r, dir, filepath.Base(base), seed); err != nil {
			return nil, err
		}
	}
	if s.classes == nil {
		if r, err = s.read(ctx, base+"-train.csv", base+"-test.csv"); err != nil {
			return nil, err
		}
		r.flags = []string{"--data", base + "-train.csv", "--test-data", base + "-test.csv"}
	}
	if s.most > 0 {
		_, d := r.testX.Dims()
		r.testX, r.testY = r.testX.Slice(0, s.most, 0, d).(*mat.Dense), r.testY.Slice(0, s.most, 0, 1).(*mat.Dense)
		r.flags = append(r.flags, "--index", fmt.Sprintf("0-%d", s.most-1))
	}
	r.inputs = &dataset.Scaling{Mean: []float64{0}, Scale: []float64{1}}
	if !s.asIs {
		if r.inputs, err = dataset.NewScaling(r.x); err != nil {
			return nil, err
		}
	}
	r.inputs.Apply(r.x)
	r.testX = mat.DenseCopyOf(r.testX)
	r.inputs.Apply(r.testX)
	if s.likelihood == "gaussian" {
		if r.targets, err = dataset.NewScaling(r.y); err != nil {
			return nil, err
		}
		r.targets.Apply(r.y)
		r.testY = mat.DenseCopyOf(r.testY)
		r.targets.Apply(r.testY)
	}
	return r, nil
}

// read reads both parts as they are.
func (s *set) read(ctx context.Context, train, test string) (*split, error) {
	d, err := dataset.Open(ctx, train, &dataset.OpenOptions{TestFile: test})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	r := &split{shape: network.Shape(d.Train.Shape)}
	for _, part := range []struct {
		from *dataset.Rows
		n    int
		x, y **mat.Dense
	}{{d.Train, s.train, &r.x, &r.y}, {d.Test, s.test, &r.testX, &r.testY}} {
		few, err := part.from.Select(s.classes, part.n)
		if err != nil {
			return nil, err
		}
		*part.x, *part.y = few.Matrix(), mat.NewDense(few.Len(), 1, few.Targets)
	}
	return r, nil
}

// write writes the rows as tables, drawn again for a seed above 0.
func (s *set) write(r *split, dir, name string, seed int) error {
	var x, y mat.Dense
	x.Stack(r.x, r.testX)
	y.Stack(r.y, r.testY)
	n, d := x.Dims()
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	if seed > 0 {
		order = rand.New(rand.NewPCG(uint64(seed), 0x5b117)).Perm(n)
	}
	train, _ := r.x.Dims()
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for part, rows := range map[string][]int{"-train.csv": order[:train], "-test.csv": order[train:]} {
		t := &table.Table{}
		for k := range d {
			t.Header = append(t.Header, "x"+strconv.Itoa(k))
		}
		t.Header = append(t.Header, "y")
		for _, i := range rows {
			var cells []string
			for _, v := range x.RawRowView(i) {
				cells = append(cells, number(v))
			}
			t.Rows = append(t.Rows, append(cells, number(y.At(i, 0))))
		}
		if err := t.WriteCSV(dir, name+part); err != nil {
			return err
		}
	}
	return nil
}

// network returns a network before it is trained.
func (s *set) network(shape network.Shape, seed uint64) (*network.Network, error) {
	var layers []network.Layer
	if len(shape) > 1 {
		layers = append(layers, network.Flatten{})
	}
	for _, units := range s.hidden {
		layers = append(layers, network.Dense{Units: units})
		if s.norm {
			layers = append(layers, network.BatchNorm{})
		}
		layers = append(layers, network.ReLU)
	}
	return network.Seeded(seed, shape, append(layers, network.Dense{Units: s.outputs})...)
}

// fit trains a network on these rows.
func (s *set) fit(ctx context.Context, t *training, shape network.Shape, x, y *mat.Dense, seed uint64) (*network.Network, error) {
	net, err := s.network(shape, seed)
	if err != nil {
		return nil, err
	}
	n, _ := x.Dims()
	_, _, params := net.Dims()
	precision := make([]float64, params)
	for i := range precision {
		precision[i] = t.delta + t.lambda*float64(n)
	}
	net, _, err = train.MAP(ctx, net, x, y, s.lik(), &train.Options{Precision: precision, Optimizer: t.optimizer, Schedule: t.schedule, LearningRate: t.rate, Batch: t.batch, Epochs: t.epochs, LBFGS: -1, Seed: seed})
	return net, err
}
