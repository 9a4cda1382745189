package linearize_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// A decay is the model f(x;θ) = θ₀ exp(−θ₁ x) of one's own.
type decay [2]float64

func (decay) Dims() (d, c, p int) { return 1, 1, 2 }

func (m decay) Linearize(_ context.Context, x *mat.Dense) (*linearize.Batch, error) {
	n, d := x.Dims()
	if d != 1 {
		return nil, fmt.Errorf("decay: %d inputs an example, want 1", d)
	}
	f, j := mat.NewDense(n, 1, nil), mat.NewDense(n, 2, nil)
	for i := range n {
		v := x.At(i, 0)
		e := math.Exp(-m[1] * v)
		if math.IsNaN(e) || math.IsInf(e, 0) {
			return nil, fmt.Errorf("decay: exp is %v at input %d, %v", e, i, v)
		}
		f.Set(i, 0, m[0]*e)
		j.SetRow(i, []float64{e, -v * m[0] * e}) // ∂f/∂θ₀, ∂f/∂θ₁
	}
	span := linearize.Span{Name: "theta", Rows: 1, Cols: 2}
	full := &linearize.Full{J: j, Params: []linearize.Span{span}, C: 1}
	return &linearize.Batch{X: x, F: f, Blocks: []linearize.Block{full}, P: 2}, nil
}

// A Model of one's own returns its outputs and their derivatives in one dense
// block.
func ExampleModel() {
	var model linearize.Model = decay{2, 0.5}
	b, err := model.Linearize(context.Background(), mat.NewDense(3, 1, []float64{0, 1, 2}))
	if err != nil {
		log.Fatal(err)
	}
	moved := make([]float64, 3)
	b.MulVecTo(moved, []float64{0.1, 0}) // J v: θ₀ larger by 0.1
	for i, df := range moved {
		fmt.Printf("f(%v) = %.3f, and %.3f with it\n", b.X.At(i, 0), b.F.At(i, 0), b.F.At(i, 0)+df)
	}
	// Output:
	// f(0) = 2.000, and 2.100 with it
	// f(1) = 1.213, and 1.274 with it
	// f(2) = 0.736, and 0.773 with it
}
