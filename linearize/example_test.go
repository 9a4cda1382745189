package linearize_test

import (
	"context"
	"fmt"
	"log"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// A thousand examples that are never in memory at once.
func ExampleNewSource() {
	load := func(lo, hi int) (*mat.Dense, error) { // or from a file
		x := mat.NewDense(hi-lo, 1, nil)
		for i := range hi - lo {
			x.Set(i, 0, float64(lo+i)/1000)
		}
		return x, nil
	}
	data := linearize.NewSource(decay{2, 0.5}, 1000, 300, load)
	sum := 0.0
	err := data.Batches(context.Background(), func(first int, b *linearize.Batch) error {
		fmt.Printf("examples %d to %d\n", first, first+b.Len()-1)
		sum += mat.Sum(b.F)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("mean output %.3f\n", sum/float64(data.Len()))
	// Output:
	// examples 0 to 299
	// examples 300 to 599
	// examples 600 to 899
	// examples 900 to 999
	// mean output 1.574
}
