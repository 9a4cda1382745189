package audit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// A suspect is an example whose label other examples contradict.
type suspect struct {
	at     int       // position in Audit.Examples
	weight []float64 // u = (I − Λ_i h_i)⁻¹w, length C
	terms  []float64 // uᵀ C(x_i,x_j) b_j of every training example
}

// support finds the examples that speak against the labels of the first suspects.
func (a *auditor) support(ctx context.Context) error {
	list := a.suspects()
	if a.o.Supports < 0 || len(list) == 0 {
		return nil
	}
	if err := a.fillTerms(ctx, list); err != nil {
		return err
	}
	for _, s := range list {
		a.audit.Examples[s.at].Supports = s.largest(a.rows[s.at], a.o.Supports)
	}
	return nil
}

// suspects returns the first Options.Top of them, in the order of the data.
func (a *auditor) suspects() []*suspect {
	var list []*suspect
	for _, k := range a.audit.Mislabelled {
		x := &a.audit.Examples[k]
		w := a.direction(x, k)
		if len(list) == a.o.Top {
			break
		} else if w == nil {
			continue
		}
		s := &suspect{at: k, weight: slices.Clone(w), terms: make([]float64, a.n)}
		var move, shift mat.VecDense
		// u = (I − Λh)⁻¹w = w + Λ cov_−i w
		move.MulVec(dense.Slice(a.cov, k*a.c, (k+1)*a.c), mat.NewVecDense(a.c, w))
		shift.MulVec(dense.Slice(a.dual.Sites().Lambda, x.Index*a.c, (x.Index+1)*a.c), &move)
		for r := range s.weight {
			s.weight[r] += shift.AtVec(r)
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(s, t *suspect) int { return cmp.Compare(s.at, t.at) })
	return list
}

// direction returns w, with which wᵀf grows away from the label; nil where the
// prediction agrees with it.
func (a *auditor) direction(x *Example, k int) []float64 {
	w := make([]float64, a.c)
	switch {
	case x.Label >= 0 && !x.Suspect():
		return nil
	case x.Label >= 0 && a.c == 1:
		// One output speaks for class 1.
		w[0] = float64(x.Suggested - x.Label)
	case x.Label >= 0:
		w[x.Suggested], w[x.Label] = 1, -1
	default:
		largest := 0
		for j, z := range x.Residual {
			if math.Abs(z) > math.Abs(x.Residual[largest]) {
				largest = j
			}
		}
		if w[largest] = 1; x.Residual[largest] > 0 {
			w[largest] = -1
		}
	}
	return w
}

// fillTerms passes over the training examples for the terms of all suspects.
func (a *auditor) fillTerms(ctx context.Context, list []*suspect) error {
	rows := make([]int, len(list))
	for t, s := range list {
		rows[t] = a.rows[s.at]
	}
	x, err := linearize.Gather(ctx, a.dual.Data(), rows)
	if err != nil {
		return fmt.Errorf("audit: training example %d and others: %w", rows[0], err)
	}
	pseudo := a.dual.PseudoTargets()
	return a.covariances(ctx, x, 0, StageSupports, func(first, n int, tile *mat.Dense) error {
		return par.Do(ctx, a.o.Workers, len(list), func(t int) error {
			s := list[t]
			for j := range n {
				at := (first + j) * a.c
				for r, u := range s.weight {
					// uᵀ C(x_i,x_j) b_j
					s.terms[first+j] += u * dense.Dot(tile.RawRowView(t*a.c + r)[j*a.c:(j+1)*a.c], pseudo[at:at+a.c])
				}
			}
			return nil
		})
	})
}

// tileFloats bounds a tile of covariances: 16 MiB.
const tileFloats = 1 << 21

// covariances calls do with C(x, training examples), T·C×n·C, tile by tile from the
// given training example on.
func (a *auditor) covariances(ctx context.Context, x *linearize.Batch, from int, stage string, do func(first, n int, tile *mat.Dense) error) error {
	cross, err := a.dual.Cross(ctx, x)
	if err != nil {
		return fmt.Errorf("audit: posterior covariance of training examples: %w", err)
	}
	size := max(1, tileFloats/(x.Len()*a.c*a.c))
	source := linearize.From(linearize.Rebatch(a.dual.Data(), size), from)
	return source.Batches(ctx, func(first int, b *linearize.Batch) error {
		var tile mat.Dense
		if err := cross.TileTo(ctx, &tile, from+first, b, gp.Posterior); err != nil {
			return fmt.Errorf("audit: posterior covariance with training example %d and others: %w", from+first, err)
		}
		if stage != "" {
			a.o.Progress(stage, from+first+b.Len(), a.n)
		}
		return do(from+first, b.Len(), &tile)
	})
}

// largest returns the k largest positive terms but the term of the example itself.
func (s *suspect) largest(self, k int) []Support {
	var list []Support
	for j, v := range s.terms {
		if v > 0 && j != self {
			list = append(list, Support{Index: j, Value: v})
		}
	}
	slices.SortStableFunc(list, func(a, b Support) int { return cmp.Compare(b.Value, a.Value) })
	return slices.Clone(list[:min(k, len(list))])
}
