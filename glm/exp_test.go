package glm

import (
	"fmt"
	"math"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
)

func TestExperiment(t *testing.T) {
	for _, name := range []string{"categorical", "categorical-diagonal-prior"} {
		base := testref.Open(t, name)
		ref := testref.Open(t, "selection/"+name)
		f := base.Matrix("f_test").Slice(0, 30, 0, 4).(*mat.Dense)
		covAll := base.Floats("posterior_cov_test")
		for _, scale := range []float64{1, 25} {
			prefix := map[float64]string{1: "predictive_", 25: "wide_"}[scale]
			cov := mat.NewDense(120, 4, nil)
			for i := range cov.RawMatrix().Data {
				cov.RawMatrix().Data[i] = scale * covAll[i]
			}
			want := ref.Floats(prefix + "probability")
			for _, l := range []QMC{{}, {noGrid: true, Tol: 1}, {noGrid: true}, {noGrid: true, Tol: 1e-5}} {
				out := Integrals{Mean: new(mat.Dense), SD: new(mat.Dense), Entropy: make([]float64, 30), Mutual: make([]float64, 30), Error: make([]float64, 30)}
				start := time.Now()
				if err := l.IntegralsTo(t.Context(), &out, Categorical{}, f, cov); err != nil {
					t.Fatal(err)
				}
				took := time.Since(start)
				worst, claimed, bad, rms := 0.0, 0.0, 0, 0.0
				for i := range 30 {
					row := 0.0
					for c := range 4 {
						row = max(row, math.Abs(out.Mean.At(i, c)-want[i*4+c]))
					}
					worst, claimed = max(worst, row), max(claimed, out.Error[i])
					rms += row * row / 30
					if row > out.Error[i] {
						bad++
					}
				}
				mi := ref.Floats(prefix + "mutual_information")
				wmi := 0.0
				for i := range 30 {
					wmi = max(wmi, math.Abs(mi[i]-out.Mutual[i]))
				}
				fmt.Printf("%s %v %+v: worst %.2g rms %.2g claimed %.2g bad %d mi %.2g %v\n", name, scale, l, worst, math.Sqrt(rms), claimed, bad, wmi, took)
			}
		}
	}
}
