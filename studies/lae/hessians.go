package lae

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/autoencoder"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/reproduce"
)

// Hessians compares the diagonals of the GGN, exact, approximate and mixed, in training and after it. Pictures are
// halved, so that the exact diagonal carries 196 columns back and not 784.
var Hessians = &reproduce.Study{
	Verb: "reproduce", Name: "hessians", Short: "exact, approximate and mixed diagonals of the GGN of an autoencoder, online and post hoc", Source: "[lae] E.4.1 and the table of Hessians",
	Data: Study.Data, Sets: []string{"dense", "convolutional"},
	Plan: func(ctx context.Context, o *reproduce.Options) (*reproduce.Plan, error) {
		h := &hessians{study{train: 2000, valid: 200, test: 500, samples: 100, epochs: 60, data: o.Data}}
		if o.Quick {
			h.quick, h.train, h.valid, h.test, h.samples, h.epochs = true, 200, 40, 40, 5, 2
		}
		var inputs []string
		if !o.Quick {
			sum, err := inputfile.Sum(ctx, h.files()...)
			if err != nil {
				return nil, err
			}
			inputs = []string{"MNIST and Kuzushiji-MNIST " + sum}
		}
		p := &reproduce.Plan{Version: 1, Page: func(r *reproduce.Results) (*reproduce.Page, error) { return h.page(r, o.Only) }}
		for _, kind := range o.Only {
			p.Steps = append(p.Steps, reproduce.Step{Key: "posthoc-" + kind, Inputs: inputs, Run: func(ctx context.Context, _ reproduce.Progress) (any, error) { return h.postHoc(ctx, kind) }})
			for _, curvature := range curvatures(kind) {
				p.Steps = append(p.Steps, reproduce.Step{Key: "online-" + kind + "-" + curvature.String(), Inputs: inputs, Run: func(ctx context.Context, progress reproduce.Progress) (any, error) {
					return h.online(ctx, kind, curvature, progress)
				}})
			}
		}
		return p, nil
	},
}

type hessians struct{ study }

// curvatures are those of a network, the exact one first. Without convolutions it is the mixed one.
func curvatures(kind string) []autoencoder.Curvature {
	if kind == "dense" {
		return []autoencoder.Curvature{autoencoder.Exact, autoencoder.Approximate}
	}
	return []autoencoder.Curvature{autoencoder.Exact, autoencoder.Approximate, autoencoder.Mixed}
}

// A drawnScore judges a posterior by drawn networks.
type drawnScore struct {
	Name  string       `json:"name"`
	Error result.Float `json:"error"` // squared error of a pixel of a test digit, mean over the draws
	Mean  result.Float `json:"mean"`  // of the mean of the draws
	AUROC result.Float `json:"auroc"` // of telling letters by the sum of the deviations of pixels
}

// A diagonalPair compares a diagonal with the exact one in a tensor.
type diagonalPair struct {
	Curvature string       `json:"curvature"`
	Tensor    string       `json:"tensor"`
	Sum       result.Float `json:"sum"`         // over the exact one's
	Relation  result.Float `json:"correlation"` // of logarithms
}

// A postHocResult is what one plainly trained network gives.
type postHocResult struct {
	Plain     result.Float   `json:"plain"` // squared error of a pixel by the network
	Scores    []drawnScore   `json:"scores"`
	Diagonals []diagonalPair `json:"diagonals"`
}

// rows returns the pictures with half the width and height, and an untrained autoencoder of them.
func (h *hessians) rows(ctx context.Context, kind string) (*pictures, *autoencoder.Autoencoder, error) {
	p, err := h.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	side := p.shape[len(p.shape)-1]
	for _, x := range []**mat.Dense{&p.train, &p.valid, &p.test, &p.others} {
		*x = halve(*x, side)
	}
	side /= 2
	layers := []network.Layer{network.Flatten{}, network.Dense{Units: 64}, network.Tanh}
	if kind == "convolutional" {
		layers = []network.Layer{network.Conv2D{Filters: 4, Kernel: 3, Stride: 2}, network.Tanh, network.Flatten{}}
	}
	layers = append(layers, network.Dense{Units: 2}, network.Dense{Units: 64}, network.Tanh, network.Dense{Units: side * side})
	net, err := network.Seeded(0, network.Shape{1, side, side}, layers...)
	if err != nil {
		return nil, nil, err
	}
	a, err := autoencoder.New(net, "")
	return p, a, err
}

// halve returns pictures whose pixels are the means of four.
func halve(x *mat.Dense, side int) *mat.Dense {
	half := side / 2
	out := mat.NewDense(dense.Count(x), half*half, nil)
	dense.EachRow(x.RawMatrix(), func(i int, row []float64) {
		for k := range half * half {
			at := k/half*2*side + k%half*2
			out.Set(i, k, (row[at]+row[at+1]+row[at+side]+row[at+side+1])/4)
		}
	})
	return out
}

// judge draws networks for test digits and letters.
func (h *hessians) judge(ctx context.Context, name string, post *autoencoder.Posterior, p *pictures) (*drawnScore, error) {
	var sd [2][]float64
	s := &drawnScore{Name: name}
	for i, x := range []*mat.Dense{p.test, p.others} {
		d, err := post.Draw(ctx, x, &autoencoder.DrawOptions{Samples: h.samples})
		if err != nil {
			return nil, err
		}
		sd[i] = d.Scores(post.Noise(), math.NaN()).OutputSD
		if n, pixels := x.Dims(); i == 0 {
			s.Error = result.Float(floats.Sum(d.Errors) / float64(n*pixels))
			s.Mean = result.Float(floats.Sum(autoencoder.SquaredErrors(x, d.Mean)) / float64(n*pixels))
		}
	}
	s.AUROC = result.Float(score.AUROC(sd[0], sd[1]))
	return s, nil
}

func (h *hessians) online(ctx context.Context, kind string, curvature autoencoder.Curvature, progress reproduce.Progress) (*drawnScore, error) {
	p, a, err := h.rows(ctx, kind)
	if err != nil {
		return nil, err
	}
	post, _, err := autoencoder.Train(ctx, a, p.train, &autoencoder.TrainOptions{Curvature: curvature, Epochs: h.epochs, Validation: p.valid, Progress: progress})
	if err != nil {
		return nil, err
	}
	return h.judge(ctx, curvature.String()+", online", post, p)
}

// postHoc trains the network alone, and fits a posterior by each curvature, with prior 1 and with that of highest
// evidence.
func (h *hessians) postHoc(ctx context.Context, kind string) (*postHocResult, error) {
	p, a, err := h.rows(ctx, kind)
	if err != nil {
		return nil, err
	}
	lik, err := glm.NewGaussian(1)
	if err != nil {
		return nil, err
	}
	net, _, err := train.MAP(ctx, a.Network(), p.train, p.train, lik, &train.Options{Batch: 64, Epochs: h.epochs, LearningRate: 1e-3, LBFGS: -1})
	if err != nil {
		return nil, err
	}
	if a, err = a.WithTheta(net.Theta()); err != nil {
		return nil, err
	}
	r := &postHocResult{}
	f, err := net.Forward(ctx, p.test)
	if err != nil {
		return nil, err
	}
	n, pixels := f.Dims()
	r.Plain = result.Float(floats.Sum(autoencoder.SquaredErrors(p.test, f)) / float64(n*pixels))
	var exact []float64
	for _, curvature := range curvatures(kind) {
		post, err := autoencoder.Fit(ctx, a, p.train, curvature, 1, 1, nil)
		if err != nil {
			return nil, err
		}
		tuned, err := post.TunePrior(ctx)
		if err != nil {
			return nil, err
		}
		for i, post := range []*autoencoder.Posterior{post, tuned} {
			s, err := h.judge(ctx, curvature.String()+[]string{", post hoc", ", post hoc, prior of highest evidence"}[i], post, p)
			if err != nil {
				return nil, err
			}
			r.Scores = append(r.Scores, *s)
		}
		if curvature == autoencoder.Exact {
			exact = post.GGN()
			continue
		}
		for _, q := range net.Params() {
			of, to := post.GGN()[q.Offset:q.Offset+q.Len()], exact[q.Offset:q.Offset+q.Len()]
			r.Diagonals = append(r.Diagonals, diagonalPair{curvature.String(), q.Name, result.Float(floats.Sum(of) / floats.Sum(to)), result.Float(evaluate.Spearman(of, to))})
		}
	}
	return r, nil
}

func (h *hessians) page(r *reproduce.Results, kinds []string) (*reproduce.Page, error) {
	p := &reproduce.Page{Title: "Diagonals of the GGN of an autoencoder", Lead: []string{
		fmt.Sprintf("Autoencoders of %d digits of MNIST, halved to 14×14 pixels, have a code of two numbers. Online they are trained under their posterior by the settings of the source's text, at most %d epochs; post hoc a posterior is fitted to a network that was trained without one for as many.", h.train, h.epochs),
		"The exact diagonal carries one column a pixel back through the layers, the approximate one keeps the diagonal alone between layers, the mixed one only before and after convolutions; without any it is the exact one.",
		fmt.Sprintf("%d test digits and as many letters, %d drawn networks.", h.test, h.samples),
	}}
	for _, kind := range kinds {
		var after postHocResult
		if err := r.Get("posthoc-"+kind, &after); err != nil {
			return nil, err
		}
		scores := after.Scores
		for _, curvature := range curvatures(kind) {
			var one drawnScore
			if err := r.Get("online-"+kind+"-"+curvature.String(), &one); err != nil {
				return nil, err
			}
			scores = append(scores, one)
		}
		of := map[string]float64{}
		table := &reproduce.Table{Name: kind, Digits: 4, Head: []string{"diagonal", "error of a pixel, drawn network", "error of the mean of draws", "AUROC, letters"}}
		for _, s := range scores {
			of[s.Name] = float64(s.Error)
			table.Rows = append(table.Rows, []reproduce.Cell{reproduce.Text(s.Name), cell(s.Error), cell(s.Mean), cell(s.AUROC)})
		}
		table.Rows = append(table.Rows, []reproduce.Cell{reproduce.Text("the network alone, without a posterior"), cell(after.Plain), {}, {}})
		table.Caption = fmt.Sprintf("The source's claims: online is better than post hoc, which %s by the error of drawn networks (%.4f against %.4f of the exact diagonal); the approximate diagonal is as good as the exact one, which %s (%.4f against %.4f online).",
			verdict(of["exact, online"] < of["exact, post hoc"]), of["exact, online"], of["exact, post hoc"],
			verdict(of["approximate, online"] < 1.05*of["exact, online"]), of["approximate, online"], of["exact, online"])
		diagonals := &reproduce.Table{Name: kind + "-diagonals", Caption: "Diagonals against the exact one at the same parameters, tensor by tensor.", Head: []string{"diagonal", "tensor", "sum over that of the exact one", "rank correlation"}}
		for _, d := range after.Diagonals {
			diagonals.Rows = append(diagonals.Rows, []reproduce.Cell{reproduce.Text(d.Curvature), reproduce.Text(d.Tensor), cell(d.Sum), cell(d.Relation)})
		}
		p.Sections = append(p.Sections, reproduce.Section{Title: "A " + kind + " autoencoder", Tables: []*reproduce.Table{table, diagonals}})
	}
	return p, nil
}

func verdict(holds bool) string {
	if holds {
		return "holds"
	}
	return "does not hold"
}
