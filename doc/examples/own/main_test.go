package main

import (
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/linearize"
)

func TestModel(t *testing.T) {
	model := fourier{0.5, -1, 0.2, 0}
	gptest.Model(t, gptest.ModelCase{
		Model: model, X: mat.NewDense(5, 1, []float64{-2, -0.5, 0.1, 1, 3}), Theta: model,
		At: func(theta []float64) (linearize.Model, error) { return fourier(theta), nil },
	})
}

func TestPrior(t *testing.T) { gptest.Prior(t, smooth{1, 0.5, 0.25}, 3) }

func TestLikelihood(t *testing.T) {
	gptest.Likelihood(t, gptest.LikelihoodCase{
		Likelihood: heavy{}, Outputs: 1, Y: mat.NewDense(3, 1, []float64{-1, 0, 2}), Step: 1e-4, // noise of scale 0.1 is narrow
	})
}
