package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// about is what the caller keeps beside the posterior, to know what it is of.
type about struct{ Model, Data string }

// Saving a posterior, and predicting from the file.
func Example() {
	if err := saveAndLoad(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// true "three points of 1 + 2x": f(10) = 20.952
}

func saveAndLoad() error {
	// f = θ₀ + θ₁ x at θ* = 0, linear in its parameters
	j := mat.NewDense(3, 2, []float64{1, 0, 1, 1, 1, 2})
	params := []linearize.Span{{Name: "θ", Rows: 1, Cols: 2}}
	train := &linearize.Batch{F: mat.NewDense(3, 1, nil), P: 2, Blocks: []linearize.Block{&linearize.Full{J: j, Params: params, C: 1}}}
	test := &linearize.Batch{F: mat.NewDense(1, 1, nil), P: 2, Blocks: []linearize.Block{&linearize.Full{J: mat.NewDense(1, 2, []float64{1, 10}), Params: params, C: 1}}}
	prior, err := ntk.NewIsotropic(0.1, nil)
	if err != nil {
		return err
	}
	lik, err := glm.NewGaussian(0.1)
	if err != nil {
		return err
	}
	kernel := ntk.New(prior, []float64{0, 0})
	post, err := gp.Refit(context.Background(), kernel, train, gp.NewTargets(mat.NewDense(3, 1, []float64{1, 3, 5}), lik), nil)
	if err != nil {
		return err
	}

	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "line.gp")
	err = store.Write(path, "my posterior", 1, func(w *store.Writer) error {
		w.JSON("about", about{Model: "a line", Data: "three points of 1 + 2x"})
		return post.Save(w)
	})
	if err != nil {
		return err
	}

	f, err := store.Open(path, "my posterior", 1)
	if err != nil {
		return err
	}
	defer f.Close()
	var a about
	if err := f.JSON("about", &a); err != nil {
		return err
	}
	loaded, err := gp.Load(f, kernel, train, nil)
	if err != nil {
		return err
	}
	var mean, same mat.Dense
	if err := post.PredictTo(context.Background(), &mean, nil, test); err != nil {
		return err
	}
	if err := loaded.PredictTo(context.Background(), &same, nil, test); err != nil {
		return err
	}
	fmt.Printf("%v %q: f(10) = %.3f\n", same.At(0, 0) == mean.At(0, 0), a.Data, same.At(0, 0))
	return nil
}
