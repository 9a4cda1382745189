package funcgp_test

import (
	"context"
	"fmt"
	"log"

	"github.com/funcgp/funcgp"
)

// Why the built-in network says of a test row that it is a 4.
func Example() {
	ctx := context.Background()
	p, err := funcgp.Fit(ctx, funcgp.Model{}, funcgp.Data{TrainCount: 300}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	rows, err := p.TestRows(ctx, 6)
	if err != nil {
		log.Fatal(err)
	}
	list, err := p.Explain(ctx, rows, &funcgp.ExplainOptions{Top: 3})
	if err != nil {
		log.Fatal(err)
	}
	x := list[0]
	fmt.Printf("%s with probability %.2f\n", x.Prediction.Class, x.Prediction.Probability[x.Prediction.ClassIndex])
	fmt.Printf("%s against %s: %.2f = %.2f + %.2f + %.2f\n", x.For, x.Against, x.Mean, x.PriorMean, x.Sum, x.Remainder)
	for _, t := range x.Terms {
		fmt.Printf("training row %d, a %s: %+.2f\n", t.Row, t.Label, t.Value)
	}
	// Output:
	// 4 with probability 0.95
	// 9 against 4: -5.45 = 21.51 + -25.13 + -1.84
	// training row 1388, a 9: +3.97
	// training row 330, a 9: +2.93
	// training row 172, a 4: -2.85
}
