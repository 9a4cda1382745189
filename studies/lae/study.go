// Package lae compares Laplacian autoencoders with the tables and figures of their source, [lae].
package lae

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/funcgp/funcgp/internal/inputfile"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/autoencoder"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/studies/reproduce"
)

// Study is the comparison of [lae] on MNIST: rows unlike the training rows, missing
// pixels, and labels from few.
var Study = &reproduce.Study{
	Verb: "reproduce", Name: "autoencoder", Short: "an autoencoder of MNIST under its posterior: foreign rows, missing pixels and few labels", Source: "[lae] tables 1, 2 and figure 6",
	Data: "MNIST's four files in the directory mnist, and the two test files of Kuzushiji-MNIST in kmnist", Sets: autoencoder.RuleNames(),
	Plan: func(ctx context.Context, o *reproduce.Options) (*reproduce.Plan, error) {
		s := &study{widths: []int{512, 256, 2}, train: 55000, valid: 5000, test: 5000, fill: 2000, samples: 100, epochs: 60, labels: []int{1, 2, 4, 6, 8, 10, 15, 25, 50, 100}, repeats: 5, classifier: 3, out: o.Out, data: o.Data, rules: o.Only}
		if o.Quick {
			s.quick, s.widths, s.train, s.valid, s.test, s.fill, s.samples, s.epochs, s.labels, s.repeats, s.classifier = true, []int{12, 2}, 200, 40, 40, 10, 5, 2, []int{1, 2}, 2, 1
		}
		var inputs []string
		if !o.Quick {
			sum, err := inputfile.Sum(ctx, s.files()...)
			if err != nil {
				return nil, err
			}
			inputs = []string{"MNIST and Kuzushiji-MNIST " + sum}
		}
		p := &reproduce.Plan{Version: 3, Page: s.page, Steps: []reproduce.Step{{Key: "baselines", Cost: 100, Inputs: inputs, Run: s.baselinesStep}}}
		for _, name := range s.rules {
			for _, step := range []struct {
				key  string
				cost int
				run  func(ctx context.Context, rule autoencoder.Rule, progress reproduce.Progress) (any, error)
			}{{"train", 40, s.trainStep}, {"scores", 5, s.scoresStep}, {"fill", 4, s.fillStep}, {"labels", 1, s.labelsStep}} {
				rule, err := autoencoder.ParseRule(name)
				if err != nil {
					return nil, err
				}
				p.Steps = append(p.Steps, reproduce.Step{Key: step.key + "-" + name, Cost: step.cost, Inputs: inputs, Run: func(ctx context.Context, progress reproduce.Progress) (any, error) {
					return step.run(ctx, rule, progress)
				}})
			}
		}
		return p, nil
	},
}

// memory and batch are those of the source's text.
const memory, batch = 0.9999, 64

// A study is the comparison with its sizes.
type study struct {
	widths                   []int
	train, valid, test, fill int // rows; fill of the test rows have pixels taken away
	samples, epochs          int
	labels                   []int // numbers of labelled rows of each class
	repeats, classifier      int   // choices of labelled rows; epochs of the classifier
	out, data                string
	rules                    []string
	quick                    bool
}

func (s *study) files() []string {
	var list []string
	for _, name := range []string{"mnist/train-images-idx3-ubyte.gz", "mnist/train-labels-idx1-ubyte.gz", "mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz", "kmnist/t10k-images-idx3-ubyte.gz"} {
		list = append(list, filepath.Join(s.data, filepath.FromSlash(name)))
	}
	return list
}

// pictures are the rows of the study. Foreign rows are letters, in a quick run turned
// digits.
type pictures struct {
	shape                      []int
	train, valid, test, others *mat.Dense
	trainY, testY              *mat.Dense // N×1
}

func (s *study) open(ctx context.Context) (*pictures, error) {
	name := filepath.Join(s.data, "mnist")
	if s.quick {
		name = "digits"
	}
	d, err := dataset.Open(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	train, err := d.Train.Select(d.Classes(), s.train+s.valid)
	if err != nil {
		return nil, err
	}
	test, err := d.Test.Select(d.Classes(), s.test)
	if err != nil {
		return nil, err
	}
	x := train.Matrix()
	p := &pictures{shape: d.Shape, train: dense.Slice(x, 0, s.train), valid: dense.Slice(x, s.train, s.train+s.valid), test: test.Matrix(),
		trainY: dense.Slice(mat.NewDense(train.Len(), 1, train.Targets), 0, s.train), testY: mat.NewDense(test.Len(), 1, test.Targets)}
	if s.quick {
		p.others = reproduce.Rotate(p.test, 90)
		return p, nil
	}
	letters, err := dataset.Open(ctx, filepath.Join(s.data, "kmnist"), nil)
	if err != nil {
		return nil, err
	}
	rows, err := letters.Test.Select(nil, s.test)
	if err != nil {
		return nil, err
	}
	p.others = rows.Matrix()
	return p, nil
}

// file is the path of a file that the study keeps for a rule.
func (s *study) file(rule autoencoder.Rule, suffix string) string {
	return filepath.Join(s.out, "autoencoder-"+rule.String()+suffix)
}

// A trained is the result of a step that trains.
type trained struct {
	Parameters int             `json:"parameters"`
	Best       int             `json:"best_epoch"`
	Train      []result.Float  `json:"train"` // of each epoch
	Valid      []result.Float  `json:"validation"`
	Test       result.Float    `json:"test"`      // by the mean parameters
	Precision  [3]result.Float `json:"precision"` // smallest, median and largest H
}

// start returns the untrained autoencoder.
func (s *study) start(p *pictures) (*autoencoder.Autoencoder, error) {
	layers, err := autoencoder.Layers(elements(p.shape), s.widths, network.Tanh)
	if err != nil {
		return nil, err
	}
	net, err := network.Seeded(0, p.shape, layers...)
	if err != nil {
		return nil, err
	}
	return autoencoder.New(net, "")
}

// posterior returns the posterior of a rule, which it trains, from its checkpoint on,
// where the training has not ended.
func (s *study) posterior(ctx context.Context, rule autoencoder.Rule, p *pictures, progress reproduce.Progress) (*autoencoder.Posterior, *autoencoder.TrainResult, error) {
	a, err := s.start(p)
	if err != nil {
		return nil, nil, err
	}
	checkpoint := s.file(rule, ".state")
	var state *autoencoder.State // nil where there is none yet
	if _, err := os.Stat(checkpoint); err == nil {
		if state, err = autoencoder.ReadState(checkpoint); err != nil {
			return nil, nil, err
		}
	}
	return autoencoder.Train(ctx, a, p.train, &autoencoder.TrainOptions{Rule: rule, Memory: memory, Batch: batch, Epochs: s.epochs, Validation: p.valid, Resume: state,
		Progress: func(done, total int) {
			if done%20 == 0 {
				progress(done, total)
			}
		},
		Checkpoint: func(s *autoencoder.State) error { return s.Write(checkpoint) }})
}

// made returns the pictures and the posteriors of a rule, that of the training first.
func (s *study) made(ctx context.Context, rule autoencoder.Rule) (*pictures, []variant, error) {
	p, err := s.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	post, res, err := s.posterior(ctx, rule, p, func(int, int) {})
	if err != nil {
		return nil, nil, err
	}
	return p, s.variants(rule, post, res), nil
}

func (s *study) trainStep(ctx context.Context, rule autoencoder.Rule, progress reproduce.Progress) (any, error) {
	if err := os.MkdirAll(s.out, 0o777); err != nil {
		return nil, err
	}
	p, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	post, res, err := s.posterior(ctx, rule, p, progress)
	if err != nil {
		return nil, err
	}
	a := post.Autoencoder()
	code, _ := a.Code()
	net := a.Network().WithMetadata(map[string]string{"funcgp.code": code, "funcgp.likelihood": "gaussian"})
	model := s.file(rule, ".onnx")
	if err := atomicfile.Write(model, net.WriteONNX); err != nil {
		return nil, err
	}
	if err := post.Save(model+".posterior", "online, the "+rule.String()+" rule"); err != nil {
		return nil, err
	}
	out := &trained{Parameters: len(post.GGN()), Best: res.Best}
	for _, e := range res.Epochs {
		out.Train, out.Valid = append(out.Train, result.Float(e.Train)), append(out.Valid, result.Float(e.Validation))
	}
	h := slices.Sorted(slices.Values(post.GGN()))
	out.Precision = [3]result.Float{result.Float(h[0]), result.Float(h[len(h)/2]), result.Float(h[len(h)-1])}
	f, err := a.Network().Forward(ctx, p.test)
	if err != nil {
		return nil, err
	}
	n, pixels := f.Dims()
	out.Test = result.Float(floats.Sum(autoencoder.SquaredErrors(p.test, f)) / float64(n*pixels))
	return out, nil
}

// A variant is a posterior that is judged.
type variant struct {
	name string
	post *autoencoder.Posterior
}

// variants returns the posterior of a training by a rule, and the same with the diagonal of each training row once and
// the prior, as a Laplace approximation has it.
func (s *study) variants(rule autoencoder.Rule, post *autoencoder.Posterior, res *autoencoder.TrainResult) []variant {
	// A minibatch that is s steps old counts mˢ times. The released rule scales it to half of all rows.
	counted := (1 - math.Pow(memory, float64(res.Best*res.Steps/len(res.Epochs)))) / (1 - memory)
	if rule == autoencoder.Released {
		counted /= 2
	} else {
		counted *= batch / float64(s.train)
	}
	h := slices.Clone(post.GGN())
	floats.Scale(1/counted, h)
	return []variant{{"as trained", post}, {"each row once", autoencoder.NewPosterior(post.Autoencoder(), h, 1, post.Noise())}}
}

// A judged is what a variant's scores say of foreign rows, by AUROC, and their means over
// test and foreign rows.
type judged struct {
	Variant     string          `json:"variant"`
	OutputSD    result.Float    `json:"output_sd"`
	LatentSD    result.Float    `json:"latent_sd"`
	Likelihood  result.Float    `json:"likelihood"`
	Typicality  result.Float    `json:"typicality"`
	Error       result.Float    `json:"reconstruction_error"` // of the mean parameters
	TestMeans   [3]result.Float `json:"test_means"`
	OthersMeans [3]result.Float `json:"foreign_means"`
}

// typicalRows is the number of training rows whose likelihood is the typical one.
const typicalRows = 1000

func (s *study) scoresStep(ctx context.Context, rule autoencoder.Rule, progress reproduce.Progress) (any, error) {
	p, list, err := s.made(ctx, rule)
	if err != nil {
		return nil, err
	}
	errs := make([][]float64, 2)
	for i, x := range []*mat.Dense{p.test, p.others} {
		_, f, err := list[0].post.Autoencoder().Encode(ctx, x)
		if err != nil {
			return nil, err
		}
		errs[i] = autoencoder.SquaredErrors(x, f)
	}
	var out []judged
	for k, v := range list {
		var scores [3]*autoencoder.Scores
		for i, x := range []*mat.Dense{dense.Slice(p.train, 0, min(typicalRows, s.train)), p.test, p.others} {
			d, err := v.post.Draw(ctx, x, &autoencoder.DrawOptions{Samples: s.samples, Progress: func(done, total int) { progress((3*k+i)*total+done, 3*len(list)*total) }})
			if err != nil {
				return nil, err
			}
			typical := 0.0
			if i > 0 {
				typical = scores[0].Typical()
			}
			scores[i] = d.Scores(v.post.Noise(), typical)
		}
		j := judge(v.name, scores[1], scores[2])
		j.Error = result.Float(score.AUROC(errs[0], errs[1]))
		out = append(out, *j)
	}
	return out, nil
}

// A filled is how often a classifier finds the digit in pictures that were filled in.
type filled struct {
	Plain result.Float            `json:"classifier"` // of the digits themselves
	From  map[string]result.Float `json:"accuracy"`
}

// fillSamples is the number of networks that fill in, as in the released code.
const fillSamples = 10

func (s *study) fillStep(ctx context.Context, rule autoencoder.Rule, progress reproduce.Progress) (any, error) {
	p, list, err := s.made(ctx, rule)
	if err != nil {
		return nil, err
	}
	net, err := network.Seeded(1, p.shape, network.Conv2D{Filters: 10, Kernel: 5}, network.MaxPool2D{Size: 2}, network.ReLU, network.Conv2D{Filters: 20, Kernel: 5}, network.MaxPool2D{Size: 2}, network.ReLU,
		network.Flatten{}, network.Dense{Units: 50}, network.ReLU, network.Dense{Units: 10})
	if err != nil {
		return nil, err
	}
	net, _, err = train.MAP(ctx, net, p.train, p.trainY, glm.Categorical{}, &train.Options{Batch: 64, Epochs: s.classifier, LearningRate: 1e-3, LBFGS: -1, Progress: func(_ string, done, total int) { progress(done, 6*total) }})
	if err != nil {
		return nil, err
	}
	x, y := dense.Slice(p.test, 0, s.fill), dense.Slice(p.testY, 0, s.fill)
	out := &filled{From: map[string]result.Float{}}
	if out.Plain, err = accuracy(ctx, net, []*mat.Dense{x}, y); err != nil {
		return nil, err
	}
	all, upper := slices.Repeat([]bool{true}, elements(p.shape)), slices.Repeat([]bool{true}, elements(p.shape))
	w, h := p.shape[len(p.shape)-1], p.shape[len(p.shape)-2]
	for i := range upper {
		upper[i] = i/w%h >= h/2 // is known
	}
	fills := []struct {
		name   string
		known  []bool
		rounds int
	}{{"upper half noise", upper, 1}, {"upper half noise, two rounds", upper, 2}, {"upper half noise, ten rounds", upper, 10},
		{"full picture", all, 1}, {"noise", make([]bool, len(all)), 1}}
	for i, from := range fills {
		samples, err := list[0].post.Impute(ctx, x, from.known, &autoencoder.DrawOptions{Samples: fillSamples, Rounds: from.rounds, Progress: func(done, total int) { progress((i+1)*total+done, (len(fills)+1)*total) }})
		if err != nil {
			return nil, err
		}
		if out.From[from.name], err = accuracy(ctx, net, samples, y); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// accuracy is that of the mean of the probabilities over samples of rows.
func accuracy(ctx context.Context, net *network.Network, samples []*mat.Dense, y *mat.Dense) (result.Float, error) {
	n := dense.Count(y)
	mean := mat.NewDense(n, 10, nil)
	for _, x := range samples {
		f, err := net.Forward(ctx, x)
		if err != nil {
			return 0, err
		}
		for i := range n {
			p := f.RawRowView(i)
			glm.Categorical{}.MeanTo(p, slices.Clone(p))
			floats.Add(mean.RawRowView(i), p)
		}
	}
	right := 0
	for i := range n {
		if floats.MaxIdx(mean.RawRowView(i)) == int(y.At(i, 0)) {
			right++
		}
	}
	return result.Float(float64(right) / float64(n)), nil
}

// A labelled is the accuracy by few labels: of each number of labels, over the choices
// of labelled rows.
type labelled struct {
	Variant string               `json:"variant"`
	Scores  map[string][]float64 `json:"accuracies"` // by "labels"
}

// labelsStep classifies test rows by few labelled ones, as the released code does: each labelled row has a code by each of
// the drawn networks, the others one by the mean parameters, and the number of nearest neighbours is chosen by two-fold
// cross-validation.
func (s *study) labelsStep(ctx context.Context, rule autoencoder.Rule, progress reproduce.Progress) (any, error) {
	p, list, err := s.made(ctx, rule)
	if err != nil {
		return nil, err
	}
	mean := list[0].post.Autoencoder()
	z, _, err := mean.Encode(ctx, p.test)
	if err != nil {
		return nil, err
	}
	out := []labelled{{Variant: "one code by the mean parameters", Scores: map[string][]float64{}}}
	for _, v := range list {
		out = append(out, labelled{Variant: v.name, Scores: map[string][]float64{}})
	}
	classes := 1 + int(mat.Max(p.testY))
	for r := range s.repeats {
		progress(r, s.repeats)
		rows := make([][]int, classes) // of each class, in the order in which they are chosen
		for _, row := range rand.New(rand.NewPCG(uint64(r), 0x1abe1)).Perm(dense.Count(p.test)) {
			y := int(p.testY.At(row, 0))
			rows[y] = append(rows[y], row)
		}
		for k := range out {
			// Codes of the rows that may be chosen, copies of each.
			codes, copies := z, 1
			if k > 0 {
				copies = s.samples
				if codes, err = s.drawnCodes(ctx, list[k-1].post, p.test, rows); err != nil {
					return nil, err
				}
			}
			for _, n := range s.labels {
				right, asked, err := accuracyOf(ctx, codes, z, rows, copies, n)
				if err != nil {
					return nil, err
				}
				key := labelsKey(n)
				out[k].Scores[key] = append(out[k].Scores[key], float64(right)/float64(asked))
			}
		}
	}
	return out, nil
}

// drawnCodes returns the codes of the rows that may be labelled by each of the drawn networks, one below the other for each
// row of x. Those of the other rows are 0.
func (s *study) drawnCodes(ctx context.Context, post *autoencoder.Posterior, x *mat.Dense, rows [][]int) (*mat.Dense, error) {
	var chosen []int
	for _, list := range rows {
		chosen = append(chosen, list[:min(len(list), slices.Max(s.labels))]...)
	}
	_, l := post.Autoencoder().Code()
	some, to, theta := mat.NewDense(len(chosen), x.RawMatrix().Cols, nil), mat.NewDense(dense.Count(x)*s.samples, l, nil), make([]float64, len(post.GGN()))
	for i, row := range chosen {
		some.SetRow(i, x.RawRowView(row))
	}
	for d := range s.samples {
		post.Theta(theta, 0, d)
		a, err := post.Autoencoder().WithTheta(theta)
		if err != nil {
			return nil, err
		}
		z, _, err := a.Encode(ctx, some)
		if err != nil {
			return nil, err
		}
		for i, row := range chosen {
			to.SetRow(row*s.samples+d, z.RawRowView(i))
		}
	}
	return to, nil
}

// accuracyOf counts the right ones of the rows that are asked about: all but the first n of each class, whose copies of codes
// are labelled.
func accuracyOf(ctx context.Context, codes, z *mat.Dense, rows [][]int, copies, n int) (right, asked int, err error) {
	_, l := z.Dims()
	few, others := &labelling{}, &labelling{}
	var fewRows, otherRows []float64
	for y, list := range rows {
		for i, row := range list {
			if i >= n {
				otherRows, others.label = append(otherRows, z.RawRowView(row)...), append(others.label, y)
				continue
			}
			for c := range copies {
				fewRows, few.label = append(fewRows, codes.RawRowView(row*copies+c)...), append(few.label, y)
			}
		}
	}
	few.codes, others.codes = mat.NewDense(len(few.label), l, fewRows), mat.NewDense(len(others.label), l, otherRows)
	k, err := few.neighbours(ctx, copies, n)
	if err != nil {
		return 0, 0, err
	}
	counts, err := few.right(ctx, others.codes, others.label)
	return counts[k-1], len(others.label), err
}

// elements is the number of numbers of a shape.
func elements(shape []int) int {
	n := 1
	for _, k := range shape {
		n *= k
	}
	return n
}
