package autoencoder

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize/network"
)

// An Autoencoder is a network whose output has the shape of its input. A tensor between input and output is its
// code z, L numbers. It is immutable and safe for concurrent use.
type Autoencoder struct {
	net     *network.Network // x → f
	joint   *network.Network // x → (z, f)
	decoder *network.Tail    // z → f
	code    string
	latent  int // L
}

// New returns the network as an autoencoder. code is the name of the code tensor, or of the node that computes it.
// With "" the code is the narrowest tensor that every path from input to output goes through. New returns an error
// where the output has another size than the input, where a path leads around the code, and where the head of the
// network was removed. A Sigmoid at the end is part of an autoencoder, so read the network with head.Keep.
func New(net *network.Network, code string) (*Autoencoder, error) {
	d, c, _ := net.Dims()
	if d != c {
		return nil, fmt.Errorf("autoencoder: the network has %d outputs for inputs of shape %v; an autoencoder has as many outputs as inputs, %d", c, []int(net.InputShape()), d)
	}
	if net.Head().Removed {
		return nil, fmt.Errorf("autoencoder: the %s at the end of the network was removed; read it with its head", net.Head().Function)
	}
	if code == "" {
		if code = net.Bottleneck(); code == "" {
			return nil, fmt.Errorf("autoencoder: the network has no layer between input and output that everything goes through; name its code")
		}
	}
	a := &Autoencoder{net: net, code: code}
	var err error
	if a.joint, a.latent, err = net.WithCode(code); err != nil {
		return nil, fmt.Errorf("autoencoder: the code: %w", err)
	}
	if a.decoder, err = net.After(code); err != nil {
		return nil, fmt.Errorf("autoencoder: the code: %w", err)
	}
	return a, nil
}

// Network returns the whole network.
func (a *Autoencoder) Network() *network.Network { return a.net }

// Code returns the name of the code tensor, and its length L.
func (a *Autoencoder) Code() (name string, length int) { return a.code, a.latent }

// WithTheta returns the autoencoder with the parameters theta, P numbers.
func (a *Autoencoder) WithTheta(theta []float64) (*Autoencoder, error) {
	net, err := a.net.WithTheta(theta)
	if err != nil {
		return nil, err
	}
	return New(net, a.code)
}

// A RangeError reports an input that is not between 0 and 1.
type RangeError struct {
	Row, Column int
	Value       float64
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("row %d has %v in column %d; an autoencoder of pictures takes numbers from 0 to 1, so divide grey levels by 255", e.Row, e.Value, e.Column)
}

// Check returns an error unless each row of x has D numbers from 0 to 1. For a number outside, or a NaN, the error
// is a *RangeError.
func (a *Autoencoder) Check(x *mat.Dense) error {
	d, _, _ := a.net.Dims()
	rows, cols := x.Dims()
	if cols != d {
		return fmt.Errorf("autoencoder: rows have %d numbers, the network takes %d", cols, d)
	}
	for i := range rows {
		for j, v := range x.RawRowView(i) {
			if !(v >= 0 && v <= 1) {
				return &RangeError{i, j, v}
			}
		}
	}
	return nil
}

// Encode returns the codes z, N×L, and the reconstructions f, N×D, of the rows of x.
func (a *Autoencoder) Encode(ctx context.Context, x *mat.Dense) (z, f *mat.Dense, err error) {
	both, err := a.joint.Forward(ctx, x)
	if err != nil {
		return nil, nil, err
	}
	z, f = a.split(both)
	return z, f, nil
}

// split returns views of the codes and of the reconstructions in the outputs of joint, N×(L+D).
func (a *Autoencoder) split(both *mat.Dense) (z, f *mat.Dense) {
	n, c := both.Dims()
	return both.Slice(0, n, 0, a.latent).(*mat.Dense), both.Slice(0, n, a.latent, c).(*mat.Dense)
}

// Decode returns the reconstructions, N×D, of the codes z, N×L.
func (a *Autoencoder) Decode(ctx context.Context, z *mat.Dense) (*mat.Dense, error) {
	return a.decoder.Forward(ctx, nil, z)
}

// Layers returns the layers of a symmetric autoencoder for rows of d numbers. widths are the widths of the
// encoder's dense layers; the last one is the code. The decoder has the same widths in reverse order. The
// activation follows each layer except the code and the output. The error reports an empty list, or a width below
// 1.
func Layers(d int, widths []int, act network.Activation) ([]network.Layer, error) {
	if len(widths) == 0 {
		return nil, fmt.Errorf("autoencoder: no widths; give those of the encoder, the code last, such as 512-256-2")
	}
	for i, w := range widths {
		if w < 1 && i == len(widths)-1 {
			return nil, fmt.Errorf("autoencoder: a code of %d numbers; it must have at least 1", w)
		}
		if w < 1 {
			return nil, fmt.Errorf("autoencoder: a layer of width %d; it must have at least 1", w)
		}
	}
	layers := []network.Layer{network.Flatten{}}
	for i, w := range widths {
		layers = append(layers, network.Dense{Units: w})
		if i < len(widths)-1 {
			layers = append(layers, act)
		}
	}
	for i := len(widths) - 2; i >= 0; i-- {
		layers = append(layers, network.Dense{Units: widths[i]}, act)
	}
	return append(layers, network.Dense{Units: d}), nil
}
