package autoencoder

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize/network"
)

// An Autoencoder is a network whose output has the shape of its input, with a tensor
// between both that is its code. It is immutable and safe for concurrent use.
type Autoencoder struct {
	net     *network.Network // x → f
	joint   *network.Network // x → (z, f)
	decoder *network.Tail    // z → f
	code    string
	latent  int // L
}

// New returns a network as an autoencoder. code names the tensor that is its code, by the
// tensor or by the node that computes it; "" is the narrowest tensor that everything goes
// through. A network whose output is not as large as its input is an error, and so is
// one in which a path leads around the code. A Sigmoid at the end belongs to the network,
// which must have been read with head.Keep.
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

// Code returns the name of the code, and L, the numbers in it.
func (a *Autoencoder) Code() (name string, length int) { return a.code, a.latent }

// WithTheta returns the autoencoder with other parameters, P numbers.
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

// Check returns an error if the rows of x do not have D numbers from 0 to 1; a number
// outside, or a NaN, is a *RangeError.
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

// Encode returns the codes, N×L, and the reconstructions, N×D, of the rows of x.
func (a *Autoencoder) Encode(ctx context.Context, x *mat.Dense) (z, f *mat.Dense, err error) {
	both, err := a.joint.Forward(ctx, x)
	if err != nil {
		return nil, nil, err
	}
	z, f = a.split(both)
	return z, f, nil
}

// split returns views of the codes and the reconstructions in the outputs of joint.
func (a *Autoencoder) split(both *mat.Dense) (z, f *mat.Dense) {
	n, c := both.Dims()
	return both.Slice(0, n, 0, a.latent).(*mat.Dense), both.Slice(0, n, a.latent, c).(*mat.Dense)
}

// Decode returns the outputs, N×D, at the codes z, N×L.
func (a *Autoencoder) Decode(ctx context.Context, z *mat.Dense) (*mat.Dense, error) {
	return a.decoder.Forward(ctx, nil, z)
}

// Layers returns the layers of a symmetric autoencoder: dense layers of the widths of the
// encoder, whose last is the code, and the widths of the decoder in the reverse order, with an
// activation after each but the code and the output of d numbers. No widths, and widths
// below 1, are an error.
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
