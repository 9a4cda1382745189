package calibration

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

func readNetwork(path string) (*network.Network, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	net, err := network.ReadONNX(bytes.NewReader(data), nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return net, nil
}

// networks returns the problem's networks, which differ in their seed. Those
// in the cache are not trained again.
func (p *problem) networks(ctx context.Context, cache string) ([]*network.Network, error) {
	var nets []*network.Network
	for k := range p.members {
		seed := p.recipe.first + k
		path := fmt.Sprintf("%s-seed%d.onnx", cache, seed)
		if k == 0 && p.recipe.file != "" {
			path = p.recipe.file
		}
		net, err := readNetwork(path)
		if os.IsNotExist(err) {
			net, err = p.train1(ctx, path, uint64(seed))
		}
		if err != nil {
			return nil, err
		}
		nets = append(nets, net)
	}
	return nets, nil
}

func (p *problem) train1(ctx context.Context, path string, seed uint64) (*network.Network, error) {
	from, r := time.Now(), &p.recipe
	net, err := network.Seeded(seed, r.shape, r.layers...)
	if err != nil {
		return nil, err
	}
	if r.sgd != nil {
		net, err = r.sgd.train(ctx, net, p.train, p.lik, seed)
	} else {
		_, _, n := net.Dims()
		opt := r.opt
		opt.Precision, opt.Seed = slices.Repeat([]float64{r.delta}, n), seed
		var res *train.Result
		if net, res, err = train.MAP(ctx, net, p.train.x, p.train.y, p.lik, &opt); err == nil {
			fmt.Fprintf(os.Stderr, "%s: objective %.6g, gradient norm %.3g, %d iterations, %.1f s\n", filepath.Base(path), res.Objective, res.GradientNorm, res.Iterations, time.Since(from).Seconds())
			net = net.WithMetadata(map[string]string{"funcgp.prior_precision": strconv.FormatFloat(r.delta, 'g', -1, 64), "funcgp.likelihood": p.lik.Name()})
		}
	}
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := net.WriteONNX(&b); err != nil {
		return nil, err
	}
	if err := os.WriteFile(path+".tmp", b.Bytes(), 0o644); err != nil {
		return nil, err
	}
	return net, os.Rename(path+".tmp", path)
}

// sgd is stochastic gradient descent with momentum on the mean of −log p(y|f),
// with neither a prior nor weight decay, as most networks are trained.
type sgd struct {
	rate, momentum float64
	batch, epochs  int
}

func (s *sgd) train(ctx context.Context, net *network.Network, data part, lik network.Loss, seed uint64) (*network.Network, error) {
	n, _ := data.x.Dims()
	_, c, params := net.Dims()
	_, d := data.x.Dims()
	theta, velocity, gradient := slices.Clone(net.Theta()), make([]float64, params), make([]float64, params)
	rng := rand.New(rand.NewPCG(seed, 1))
	x := mat.NewDense(s.batch, d, nil)
	for range s.epochs {
		order := rng.Perm(n)
		for lo := 0; lo+s.batch <= n; lo += s.batch {
			rows := order[lo : lo+s.batch]
			for i, r := range rows {
				x.SetRow(i, data.x.RawRowView(r))
			}
			f, err := net.Forward(ctx, x)
			if err != nil {
				return nil, err
			}
			u := mat.NewDense(s.batch, c, nil)
			for i, r := range rows {
				lik.Expand(u.RawRowView(i), nil, nil, data.y.RawRowView(r), f.RawRowView(i))
			}
			if err := net.VJP(ctx, gradient, x, u); err != nil {
				return nil, err
			}
			// v ← momentum·v + ∇ mean log p, θ ← θ + rate·v
			for j := range theta {
				velocity[j] = s.momentum*velocity[j] + gradient[j]/float64(s.batch)
				theta[j] += s.rate * velocity[j]
			}
			if net, err = net.WithTheta(theta); err != nil {
				return nil, err
			}
		}
	}
	return net, nil
}
