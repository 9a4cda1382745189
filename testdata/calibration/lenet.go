package main

import (
	"context"
	"path/filepath"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize/network"
)

// openLeNet opens all of MNIST for a network that gpexplain trained on the first
// 55,000 rows. The last 5,000 are held out.
func openLeNet(ctx context.Context, o *options, _ int) (*problem, error) {
	d, err := openImages(ctx, filepath.Join(o.data, "mnist"), nil)
	if err != nil {
		return nil, err
	}
	letters, err := openTest(ctx, filepath.Join(o.data, "kmnist"))
	if err != nil {
		return nil, err
	}
	p := &problem{lik: glm.Categorical{}, members: 2, recipe: recipe{shape: image, layers: leNet5(), delta: 5, file: o.lenet, opt: network.TrainOptions{Epochs: 40, LBFGS: -1}}}
	p.train, p.valid, p.test = d.trainRows(0, 55000), d.trainRows(55000, 60000), d.testRows(0)
	turned := mat.DenseCopyOf(p.test.x)
	for i := range p.test.len() {
		rotate(turned.RawRowView(i), 28)
	}
	p.others = []other{{"Kuzushiji-MNIST", letters}, {"test digits turned by 90°", turned}}
	return p, nil
}

func leNet5() []network.Layer {
	return []network.Layer{
		network.Conv2D{Filters: 6, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Conv2D{Filters: 16, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Flatten{}, network.Dense{Units: 120}, network.ReLU, network.Dense{Units: 84}, network.ReLU, network.Dense{Units: 10},
	}
}

// rotate turns a square picture by 90° against the clock.
func rotate(px []float64, side int) {
	before := append([]float64(nil), px...)
	for i := range side {
		for j := range side {
			px[i*side+j] = before[j*side+side-1-i]
		}
	}
}

// novelty notes how well inputs of another kind are told from the test rows.
func (post *posterior) novelty(ctx context.Context, p *problem, dual gp.Latent, net *network.Network, c *glm.Calibration, mean, cov *mat.Dense) error {
	if len(p.others) == 0 {
		return nil
	}
	test, err := noveltyOf(ctx, p, net, c, p.test.x, mean, cov)
	if err != nil {
		return err
	}
	for _, o := range p.others {
		mean, cov, err := predict(ctx, dual, net, o.x)
		if err != nil {
			return err
		}
		out, err := noveltyOf(ctx, p, net, c, o.x, mean, cov)
		if err != nil {
			return err
		}
		n := novelty{Set: o.name}
		for i, to := range []*report.Float{&n.Unscaled, &n.Mutual, &n.Calibrated, &n.Network} {
			*to = report.Float(glm.AUROC(test[i], out[i]))
		}
		post.Others = append(post.Others, n)
	}
	return nil
}

// noveltyOf returns the entropy and the mutual information of the unscaled
// predictive, the entropy of the calibrated one, and that of the network.
func noveltyOf(ctx context.Context, p *problem, net *network.Network, c *glm.Calibration, x, mean, cov *mat.Dense) ([4][]float64, error) {
	var out [4][]float64
	unscaled, err := glm.NoveltyOf(ctx, p.link(), p.lik, mean, cov, 0)
	if err != nil {
		return out, err
	}
	out[0], out[1] = unscaled.Score, unscaled.Mutual
	lik, scaled, err := c.Apply(p.lik, cov)
	if err != nil {
		return out, err
	}
	calibrated, err := glm.NoveltyOf(ctx, p.link(), lik, mean, scaled, 0)
	if err != nil {
		return out, err
	}
	out[2] = calibrated.Score
	f, err := forward(ctx, net, x)
	if err != nil {
		return out, err
	}
	prob := new(mat.Dense)
	if err := (glm.MAP{}).PredictTo(prob, nil, p.lik, f, nil); err != nil {
		return out, err
	}
	out[3] = make([]float64, len(out[0]))
	glm.EntropyTo(out[3], prob)
	return out, nil
}
