package dataset_test

import (
	"context"
	"fmt"

	"github.com/funcgp/funcgp/internal/dataset"
)

func ExampleOpen() {
	d, err := dataset.Open(context.Background(), "digits", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	train, err := d.Train.Select([]int{4, 9}, 3000)
	if err != nil {
		fmt.Println(err)
		return
	}
	n, dim := train.Matrix().Dims()
	fmt.Println(n, dim, train.Index[:4], train.Labels[:4], train.Targets[:4])
	_, err = d.Test.Pick([]int{4, 9}, []int{0}, "--index")
	fmt.Println(err)
	// Output:
	// 3000 784 [1 4 8 18] [4 4 9 4] [0 0 1 0]
	// --index: row 0 of digits (seed 0): has label 6, which is not one of the classes 4,9; name another row
}
