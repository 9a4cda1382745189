package calibration

import (
	"context"
	"path/filepath"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

// openLeNet opens all of MNIST for a network that gpexplain trained on the first
// 55,000 rows. The next 1,000 are held out.
func openLeNet(ctx context.Context, o *options, _ int) (*problem, error) {
	d, err := openImages(ctx, filepath.Join(o.data, "mnist"), nil)
	if err != nil {
		return nil, err
	}
	letters, err := openTest(ctx, filepath.Join(o.data, "kmnist"))
	if err != nil {
		return nil, err
	}
	p := &problem{lik: glm.Categorical{}, members: 5, recipe: recipe{shape: image, layers: leNet5(), delta: 5, file: o.lenet, opt: train.Options{Epochs: 40, LBFGS: -1}}}
	p.train, p.valid, p.test = d.trainRows(0, 55000), d.trainRows(55000, 56000), d.testRows(0)
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
func (post *posterior) novelty(ctx context.Context, p *problem, dual gp.Latent, net *network.Network, c *score.Calibration, mean, cov *mat.Dense) error {
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
		for i, to := range []*result.Float{&n.Score, &n.Unscaled, &n.Mutual, &n.Calibrated, &n.Network, &n.Probit} {
			*to = result.Float(score.AUROC(test[i], out[i]))
		}
		post.Others = append(post.Others, n)
	}
	return nil
}

// noveltyOf returns the novelty score, the entropy and the mutual information of the
// unscaled predictive, the entropy of the calibrated one, of the network, and that of
// the unscaled predictive by the multi-class probit.
func noveltyOf(ctx context.Context, p *problem, net *network.Network, c *score.Calibration, x, mean, cov *mat.Dense) ([6][]float64, error) {
	var out [6][]float64
	unscaled, err := score.NoveltyOf(ctx, p.link(), p.lik, mean, cov)
	if err != nil {
		return out, err
	}
	out[0], out[2] = unscaled.Score, unscaled.Mutual
	lik, tempered, scaled, err := c.Apply(p.lik, mean, cov)
	if err != nil {
		return out, err
	}
	f, err := forward(ctx, net, x)
	if err != nil {
		return out, err
	}
	for _, of := range []struct {
		at        int
		link      predictive.Link
		lik       glm.Likelihood
		mean, cov *mat.Dense
	}{{1, p.link(), p.lik, mean, cov}, {3, p.link(), lik, tempered, scaled}, {4, predictive.MAP{}, p.lik, f, nil}, {5, predictive.Probit{}, p.lik, mean, cov}} {
		prob := new(mat.Dense)
		if err := of.link.PredictTo(prob, nil, of.lik, of.mean, of.cov); err != nil {
			return out, err
		}
		out[of.at] = make([]float64, len(out[0]))
		score.EntropyTo(out[of.at], prob)
	}
	return out, nil
}
