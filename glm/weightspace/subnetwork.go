package weightspace

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/linearize"
)

// defaultSize is the number of parameters of a subnetwork by default.
const defaultSize = 256

// subnetwork fits the posterior of the parameters Options.Parameters. Where these are empty, it selects the
// parameters with the largest marginal variances [note 4.2], the largest first; or with Options.Informed the
// smallest, the smallest first. Of equal variances, the one with the lower index counts as larger. A parameter with
// prior variance zero is not selected.
func (f *structured) subnetwork(ctx context.Context) (*BlockPosterior, error) {
	selected := slices.Clone(f.o.Parameters)
	sorted := slices.Sorted(slices.Values(selected))
	for i, p := range sorted {
		if p < 0 || p >= len(f.theta) {
			return nil, fmt.Errorf("weightspace: a subnetwork of parameter %d is asked for, and the parameters are 0 to %d", p, len(f.theta)-1)
		}
		if i > 0 && p == sorted[i-1] {
			return nil, fmt.Errorf("weightspace: a subnetwork of parameter %d twice is asked for; name it once", p)
		}
	}
	if len(selected) == 0 {
		d, err := f.diagonal(ctx)
		if err != nil {
			return nil, err
		}
		for p, s := range f.white.Root {
			if s > 0 {
				selected = append(selected, p)
			}
		}
		size := f.o.Size
		if size == 0 {
			size = min(defaultSize, len(selected))
		}
		if size > len(selected) || size == 0 {
			return nil, fmt.Errorf("weightspace: a subnetwork of %d parameters is asked for, and %d have a prior variance; ask for fewer", size, len(selected))
		}
		slices.SortStableFunc(selected, func(a, b int) int { return cmp.Compare(d.variance[b], d.variance[a]) })
		if f.o.Informed {
			slices.Reverse(selected)
		}
		selected = selected[:size]
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
