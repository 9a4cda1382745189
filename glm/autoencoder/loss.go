package autoencoder

import (
	"context"

	"github.com/funcgp/funcgp/linearize/network"
)

// squares is the loss −½‖y − f‖²: the log likelihood under unit noise variance, without its constant.
type squares struct{}

var _ network.Loss = squares{}

// Expand implements network.Loss.
func (squares) Expand(residual, _, _, y, f []float64) float64 {
	sum := 0.0
	for i, v := range y {
		d := v - f[i]
		residual[i] = d
		sum += d * d
	}
	return -sum / 2
}

var uninterrupted = context.Background()

// must panics with err. Its callers do work that cannot fail.
func must(err error) {
	if err != nil {
		panic("autoencoder: " + err.Error())
	}
}
