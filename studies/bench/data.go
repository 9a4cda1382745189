package bench

import (
	"bytes"
	"context"
	"math"
	"os"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// A problem is a network with the rows to fit and to judge it on.
type problem struct {
	net   *network.Network
	delta float64
	train rows
	valid rows
	test  rows
	// Inputs of another kind.
	kmnist, rotated rows
}

// rows are inputs that are linearized as they are needed.
type rows struct {
	name   string
	n      int
	labels []int
	at     func(i int, dst []float64)
	net    *network.Network
}

const tile = 204 // linearize.Tile of ten outputs

// source gives rows [lo, hi).
func (r rows) source(lo, hi int) linearize.Source {
	return linearize.NewSource(r.net, hi-lo, tile, func(a, b int) (*mat.Dense, error) { return r.inputs(lo+a, lo+b), nil })
}

func (r rows) inputs(lo, hi int) *mat.Dense {
	d, _, _ := r.net.Dims()
	x := mat.NewDense(hi-lo, d, nil)
	for i := range hi - lo {
		r.at(lo+i, x.RawRowView(i))
	}
	return x
}

// targets returns the numbers of the classes, N×1, as glm.Categorical takes them.
func (r rows) targets() *mat.Dense {
	y := mat.NewDense(r.n, 1, nil)
	for i, l := range r.labels {
		y.Set(i, 0, float64(l))
	}
	return y
}

func openProblem(ctx context.Context, o *options) (*problem, error) {
	data, err := os.ReadFile(o.model)
	if err != nil {
		return nil, err
	}
	p := new(problem)
	if p.net, err = network.ReadONNX(bytes.NewReader(data), nil); err != nil {
		return nil, err
	}
	p.delta = math.NaN() // of a network that says none, for which -precisions stands
	if text := p.net.Metadata()["funcgp.prior_precision"]; text != "" {
		if p.delta, err = strconv.ParseFloat(text, 64); err != nil {
			return nil, err
		}
	}
	digits, err := dataset.Open(ctx, o.mnist, nil)
	if err != nil {
		return nil, err
	}
	letters, err := dataset.Open(ctx, o.kmnist, nil)
	if err != nil {
		return nil, err
	}
	n := digits.Train.Len()
	p.train = p.rows("train", digits.Train, 0, o.train)
	p.valid = p.rows("valid", digits.Train, n-o.valid, n)
	p.test = p.rows("test", digits.Test, 0, min(o.limit, digits.Test.Len()))
	p.kmnist = p.rows("Kuzushiji-MNIST", letters.Test, 0, min(o.limit, letters.Test.Len()))
	p.rotated = p.test
	p.rotated.name = "test rotated by 90°"
	p.rotated.at = func(i int, dst []float64) {
		p.test.at(i, dst)
		rotate(dst, digits.Shape[1])
	}
	return p, nil
}

// rows returns rows [lo, hi) of a part.
func (p *problem) rows(name string, s *dataset.Rows, lo, hi int) rows {
	return rows{name: name, n: hi - lo, labels: s.Labels[lo:hi], net: p.net, at: func(i int, dst []float64) {
		s.Slice(lo+i, lo+i+1).MatrixTo(mat.NewDense(1, len(dst), dst))
	}}
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
