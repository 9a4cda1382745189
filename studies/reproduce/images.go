package reproduce

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/funcgp/funcgp/internal/inputfile"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

// images compares predictives on digits and on pictures that are none, as the source
// does, with the data that there are.
var images = &Study{Verb: "reproduce",
	Name:   "images",
	Short:  "MAP, BNN and GLM predictives of digits, with letters and turned digits as foreign data",
	Source: "[glm] table 2 and figure 6",
	Data:   imagesSources,
	Sets:   []string{"mlp", "cnn"},
	Plan: func(ctx context.Context, o *Options) (*Plan, error) {
		return planImages(ctx, o, 4, imagesFull, imagesMethods, pageImages)
	},
}

const imagesSources = "MNIST's four files in the directory mnist, and the two test files of Kuzushiji-MNIST in kmnist"

// imagesSize are the sizes of a run.
type imagesSize struct {
	train, valid, test, letters int // rows; letters also of the turned digits
	turned                      int // rows that are turned by each angle
	angles                      []float64
	precisions                  []float64
	seeds, samples              int
	epochs, iterations          int // of Adam and of L-BFGS
	units                       int // of the hidden layers of the MLP
}

var (
	imagesFull = imagesSize{train: 10000, valid: 1000, test: 5000, letters: 2500, turned: 500, angles: []float64{0, 15, 30, 45, 60, 90, 120, 150, 180},
		precisions: Logspace(-0.5, 2, 6), seeds: 3, samples: 100, epochs: 30, iterations: 150, units: 50}
	imagesQuick = imagesSize{train: 60, valid: 20, test: 20, letters: 10, turned: 5, angles: []float64{0, 90},
		precisions: []float64{1, 10}, seeds: 1, samples: 5, epochs: 2, iterations: 5, units: 6}
)

// An imagesJob is one step: a network trained at one precision from one seed, and every
// method there.
type imagesJob struct {
	kind      string
	seed      int
	precision float64
	size      *imagesSize
	methods   []imagesMethod
	o         *Options
}

func imagesKey(kind string, seed, precision int) string {
	return fmt.Sprintf("%s.seed-%d.precision-%d", kind, seed, precision)
}

// planImages is the plan of a study of these methods, at a size that a quick run reduces.
func planImages(ctx context.Context, o *Options, version int, full imagesSize, methods []imagesMethod, page func(tables []*imagesTable, size *imagesSize) (*Page, error)) (*Plan, error) {
	size := &full
	var inputs []string
	if o.Quick {
		size = &imagesQuick
	} else {
		digits, err := digitsSum(ctx, o.Data)
		if err != nil {
			return nil, err
		}
		letters, err := inputfile.Sum(ctx, filepath.Join(o.Data, "kmnist", "t10k-images-idx3-ubyte.gz"))
		if err != nil {
			return nil, err
		}
		inputs = []string{"MNIST " + digits, "Kuzushiji-MNIST " + letters}
	}
	p := &Plan{Version: version}
	for _, kind := range o.Only {
		for seed := range size.seeds {
			for k, precision := range size.precisions {
				job := &imagesJob{kind, seed, precision, size, methods, o}
				p.Steps = append(p.Steps, Step{Key: imagesKey(kind, seed, k), Inputs: inputs, Run: job.run})
			}
		}
	}
	p.Page = func(r *Results) (*Page, error) {
		tables, err := readImages(r, o.Only, size)
		if err != nil {
			return nil, err
		}
		return page(tables, size)
	}
	return p, nil
}

// imagesData are the rows of a step.
type imagesData struct {
	train Rows
	known Rows // validation rows, test rows, and test rows turned by each angle
	// foreign are letters and as many test rows turned by 90°, without targets.
	foreign Rows
}

// read takes the training rows from the beginning of the file and the validation rows
// after them.
func (j *imagesJob) read(ctx context.Context) (*imagesData, error) {
	s := j.size
	all, err := openDigits(ctx, j.o.Data, j.o.Quick, s.train+s.valid, s.test)
	if err != nil {
		return nil, err
	}
	test := all.Test
	m := &imagesData{train: all.Train.slice(0, s.train), known: all.Train.slice(s.train, s.train+s.valid).then(test)}
	rows := test.slice(0, s.turned)
	for _, angle := range s.angles {
		m.known = m.known.then(Rows{Rotate(rows.X, angle), rows.Y})
	}
	letters := Rotate(test.slice(0, s.letters).X, 45)
	if !j.o.Quick {
		if letters, err = openLetters(ctx, j.o.Data, s.letters); err != nil {
			return nil, err
		}
	}
	m.foreign.X = stack(letters, Rotate(test.slice(0, s.letters).X, 90))
	return m, nil
}

// network returns the network before training.
func (j *imagesJob) network() (*network.Network, error) {
	layers := []network.Layer{network.Flatten{}, network.Dense{Units: j.size.units}, network.Tanh, network.Dense{Units: j.size.units}, network.Tanh, network.Dense{Units: 10}}
	if j.kind == "cnn" {
		layers = []network.Layer{network.Conv2D{Filters: 4, Kernel: 5, Stride: 2}, network.Tanh, network.Conv2D{Filters: 8, Kernel: 5, Stride: 2}, network.Tanh,
			network.Flatten{}, network.Dense{Units: 32}, network.Tanh, network.Dense{Units: 10}}
	}
	return network.Seeded(uint64(j.seed), network.Shape{1, side, side}, layers...)
}

// train trains it by Adam and then by L-BFGS on all rows.
func (j *imagesJob) train(ctx context.Context, data *imagesData, progress Progress) (*network.Network, *train.Result, error) {
	net, err := j.network()
	if err != nil {
		return nil, nil, err
	}
	o := &train.Options{Precision: slices.Repeat([]float64{j.precision}, len(net.Theta())), Epochs: j.size.epochs, Batch: min(100, j.size.train), LBFGS: j.size.iterations, Seed: uint64(j.seed),
		Progress: func(stage string, done, total int) {
			if stage == train.StageLBFGS {
				done += total
			}
			progress(done, 2*total)
		}}
	return train.MAP(ctx, net, data.train.X, data.train.Y, glm.Categorical{}, o)
}

// An imagesResult is what a step finds.
type imagesResult struct {
	Precision    result.Float            `json:"precision"`
	Parameters   int                     `json:"parameters"`
	GradientNorm result.Float            `json:"gradient_norm"`         // of the objective at θ*
	ModeGradient result.Float            `json:"gradient_norm_at_mode"` // of the linearized model's objective where its search ended
	Methods      map[string]imagesScores `json:"methods"`
	Scale        result.Float            `json:"scale"` // of the covariance of ours
	Warnings     []string                `json:"warnings,omitempty"`
}

// imagesScores are those of a method at one precision. AUROC is by the entropy of the
// predictive; of ours, whose covariance is scaled, by that of the unscaled one.
type imagesScores struct {
	Valid   ClassScores    `json:"valid"`
	Test    ClassScores    `json:"test"`
	Letters result.Float   `json:"letters_auroc"`
	Right   result.Float   `json:"right_angle_auroc"`
	Turned  []result.Float `json:"turned_nll"` // at each angle
	// Entropy are the shares of test digits, and of letters, in bins of the entropy.
	Entropy [2][]result.Float `json:"entropy"`
}

// run trains the network and applies every method.
func (j *imagesJob) run(ctx context.Context, progress Progress) (any, error) {
	data, err := j.read(ctx)
	if err != nil {
		return nil, err
	}
	net, trained, err := j.train(ctx, data, func(done, total int) { progress(done, 3*total) })
	if err != nil {
		return nil, err
	}
	f, err := newImagesFit(ctx, j, data, net, trained)
	if err != nil {
		return nil, err
	}
	return f.scoreAll(ctx, func(done, total int) { progress(total+2*done, 3*total) })
}
