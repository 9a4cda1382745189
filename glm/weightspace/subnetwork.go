package weightspace

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/linearize"
)

// defaultSize is the number of parameters of a subnetwork where Options do not say.
const defaultSize = 256

// subnetwork fits the posterior of the parameters of largest marginal variance
// [note 4.2], or of those that the options choose.
func (f *structured) subnetwork(ctx context.Context) (*BlockPosterior, error) {
	selected, err := f.selected(ctx)
	if err != nil {
		return nil, err
	}
	b, err := linearize.First(ctx, f.x, few)
	if err != nil {
		return nil, err
	}
	w, err := f.blocks(ctx, []group{groupOf(b, "subnetwork", selected)})
	if err != nil {
		return nil, err
	}
	w.selected = selected
	return w, nil
}

// selected returns the parameters of a subnetwork.
func (f *structured) selected(ctx context.Context) ([]int, error) {
	if len(f.o.Parameters) > 0 {
		return f.given()
	}
	d, err := f.diagonal(ctx)
	if err != nil {
		return nil, err
	}
	return f.selects(d.variance)
}

// selects returns the parameters with the largest of these variances, largest first,
// or those with the smallest, smallest first. Of equal variances that of the lower
// index counts as larger. A parameter without prior variance is not selected.
func (f *structured) selects(variance []float64) ([]int, error) {
	var index []int
	for p, s := range f.white.Root {
		if s > 0 {
			index = append(index, p)
		}
	}
	size := f.o.Size
	if size == 0 {
		size = min(defaultSize, len(index))
	}
	if size > len(index) || size == 0 {
		return nil, fmt.Errorf("weightspace: a subnetwork of %d parameters is asked for, and %d have a prior variance; ask for fewer", size, len(index))
	}
	slices.SortStableFunc(index, func(a, b int) int { return cmp.Compare(variance[b], variance[a]) })
	if f.o.Informed {
		slices.Reverse(index)
	}
	return index[:size], nil
}

// given returns Options.Parameters, or an error where they are no subset.
func (f *structured) given() ([]int, error) {
	index := slices.Sorted(slices.Values(f.o.Parameters))
	for i, p := range index {
		if p < 0 || p >= len(f.theta) {
			return nil, fmt.Errorf("weightspace: a subnetwork of parameter %d is asked for, and the parameters are 0 to %d", p, len(f.theta)-1)
		}
		if i > 0 && p == index[i-1] {
			return nil, fmt.Errorf("weightspace: a subnetwork of parameter %d twice is asked for; name it once", p)
		}
	}
	return slices.Clone(f.o.Parameters), nil
}
