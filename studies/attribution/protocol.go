package attribution

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/studies/command"
	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/synthetic"
)

// A protocol is a network, how it is trained, and on which rows.
type protocol struct {
	name, about string
	classes     []int // of the data; nil is the table of counts
	train, test int   // the first rows of these classes
	hidden      int   // units of the one hidden layer, of ReLU
	epochs      int
	batch       int
	rate        float64
	optimizer   train.Optimizer
	schedule    train.Schedule
	decay       float64   // δ of the objective that was trained; 0 for none
	grid        []float64 // precisions beside the stated one, the match, its multiples and the nearest
}

// The grid of most networks, and what the match is multiplied by.
var (
	grid    = []float64{0.3, 1, 3, 10, 30, 100, 300, 1000}
	factors = []float64{1, 2, 3, 4, 6, 8, 10}
)

// all are the networks of the record. Epochs, rates and batches of the first, third and fourth are
// the defaults of gpexplain train.
var all = []protocol{
	{name: "adam-40", about: "MNIST's 4 and 9, Adam, 40 epochs, δ = 1", classes: []int{4, 9}, train: 600, test: 100, hidden: 32,
		epochs: 40, batch: 256, rate: 3e-3, optimizer: train.Adam{}, schedule: train.Cosine{}, decay: 1, grid: grid},
	{name: "sgd", about: "MNIST's 4 and 9, SGD with momentum .9, 100 epochs, no decay", classes: []int{4, 9}, train: 600, test: 100, hidden: 32,
		epochs: 100, batch: 64, rate: 0.01, optimizer: train.SGD{Momentum: 0.9}, schedule: train.Constant{}, grid: grid},
	{name: "adam-400", about: "MNIST's 4 and 9, Adam, 400 epochs, δ = 3", classes: []int{4, 9}, train: 600, test: 100, hidden: 32,
		epochs: 400, batch: 256, rate: 3e-3, optimizer: train.Adam{}, schedule: train.Cosine{}, decay: 3, grid: grid},
	{name: "four-classes", about: "MNIST's 3, 4, 8 and 9, Adam, 40 epochs, δ = 1", classes: []int{3, 4, 8, 9}, train: 600, test: 40, hidden: 32,
		epochs: 40, batch: 256, rate: 3e-3, optimizer: train.Adam{}, schedule: train.Cosine{}, decay: 1, grid: []float64{3, 10, 30, 100, 300}},
	{name: "ten-classes", about: "MNIST's ten digits, Adam, 40 epochs of batches of 32, δ = 1", classes: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, train: 200, test: 40, hidden: 32,
		epochs: 40, batch: 32, rate: 3e-3, optimizer: train.Adam{}, schedule: train.Cosine{}, decay: 1, grid: []float64{3, 10, 30, 100, 300}},
	{name: "counts", about: synthetic.Counts.About + ", Adam, 40 epochs of batches of 64, δ = 1", train: 600, test: 100, hidden: 32,
		epochs: 40, batch: 64, rate: 3e-3, optimizer: train.Adam{}, schedule: train.Cosine{}, decay: 1, grid: grid},
}

// key names the protocol on its rows by all that its networks and explanations depend on.
func (p *protocol) key(r *rows) string {
	own := *p
	own.grid = nil
	text := fmt.Appendf(nil, "%+v", own)
	for _, m := range []*mat.Dense{r.x, r.y, r.testX} {
		text = fmt.Appendf(text, " %x", linearize.SumOf(dense.Contiguous(m)))
	}
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%s-%x", p.name, sum[:4])
}

// stated is the precision that the network's file says, or what gpexplain takes where it says none.
func (p *protocol) stated() float64 {
	if p.decay == 0 {
		return 1
	}
	return p.decay
}

func (p *protocol) likelihood() (lik glm.Likelihood, outputs int) {
	switch {
	case p.classes == nil:
		return glm.Poisson{}, 1
	case len(p.classes) == 2:
		return glm.Bernoulli{}, 1
	}
	return glm.Categorical{}, len(p.classes)
}

// rows are those of a protocol: X, N×D, Y, N×1, of the training rows and of T test rows.
type rows struct {
	x, y, testX, testY *mat.Dense
	trainRow           map[int]int // position of a training row by its number in the file
	testRows           []int       // numbers in the file
	shape              network.Shape
	flags              []string // that name them to gpexplain
}

// open reads the rows; the table of counts is written to dir.
func (p *protocol) open(ctx context.Context, data, dir string) (*rows, error) {
	r := &rows{trainRow: map[int]int{}}
	o := &dataset.OpenOptions{}
	if p.classes == nil {
		data, o.TestFile = filepath.Join(dir, p.name+"-train.csv"), filepath.Join(dir, p.name+"-test.csv")
		if err := synthetic.Counts.Write(dir, p.name, p.train, p.test, 1); err != nil {
			return nil, err
		}
		r.flags = []string{"--data", data, "--test-data", o.TestFile}
	} else {
		r.flags = []string{"--data", data, "--classes", strings.Trim(strings.ReplaceAll(fmt.Sprint(p.classes), " ", ","), "[]"), "--train-count", strconv.Itoa(p.train)}
	}
	d, err := dataset.Open(ctx, data, o)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for _, part := range []struct {
		from *dataset.Rows
		n    int
		x, y **mat.Dense
		rows *[]int
	}{{d.Train, p.train, &r.x, &r.y, nil}, {d.Test, p.test, &r.testX, &r.testY, &r.testRows}} {
		few, err := part.from.Select(p.classes, part.n)
		if err != nil {
			return nil, err
		}
		*part.x, *part.y = few.Matrix(), mat.NewDense(few.Len(), 1, few.Targets)
		if part.rows != nil {
			*part.rows = few.Index
			continue
		}
		for i, row := range few.Index {
			r.trainRow[row] = i
		}
	}
	r.shape = network.Shape(d.Train.Shape)
	return r, nil
}

// retraining is how the network is trained on the rows.
func (p *protocol) retraining(r *rows, dir string) (*evaluate.Retraining, error) {
	lik, outputs := p.likelihood()
	t := &evaluate.Retraining{X: r.x, Y: r.y, Test: r.testX, Loss: lik, Dir: dir,
		Network: func(seed uint64) (*network.Network, error) {
			layers := []network.Layer{network.Dense{Units: p.hidden}, network.ReLU, network.Dense{Units: outputs}}
			if len(r.shape) > 1 {
				layers = append([]network.Layer{network.Flatten{}}, layers...)
			}
			return network.Seeded(seed, r.shape, layers...)
		}}
	net, err := t.Network(0)
	if err != nil {
		return nil, err
	}
	_, _, params := net.Dims()
	precision := make([]float64, params)
	for i := range precision {
		precision[i] = p.decay
	}
	t.Options = train.Options{Precision: precision, Optimizer: p.optimizer, Schedule: p.schedule, LearningRate: p.rate, Batch: p.batch, Epochs: p.epochs, LBFGS: -1}
	return t, nil
}

// training is what the network's file says.
func (p *protocol) training() command.Training {
	lik, _ := p.likelihood()
	return command.Training{Likelihood: lik.Name(), Precision: p.decay, Classes: p.classes, Inputs: &dataset.Scaling{Mean: []float64{0}, Scale: []float64{1}}}
}
