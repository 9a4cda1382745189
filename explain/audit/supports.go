package audit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
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
	if a.o.Supports < 0 {
		return nil
	}
	list, err := a.suspects(ctx)
	if err != nil || len(list) == 0 {
		return err
	}
	if err := a.fillTerms(ctx, list); err != nil {
		return err
	}
	for _, s := range list {
		a.audit.Examples[s.at].Supports = s.largest(a.rows[s.at], a.o.Supports)
	}
	return nil
}

// suspects returns the first Options.Top suspects, in the order of the data.
func (a *auditor) suspects(ctx context.Context) ([]*suspect, error) {
	var list []*suspect
	for _, k := range a.audit.Mislabelled {
		if len(list) == a.o.Top {
			break
		}
		if w := a.direction(&a.audit.Examples[k], k); w != nil {
			list = append(list, &suspect{at: k, weight: w, terms: make([]float64, a.n)})
		}
	}
	slices.SortFunc(list, func(s, t *suspect) int { return cmp.Compare(s.at, t.at) })
	cov := func(t int) mat.Matrix { return dense.Slice(a.cov, list[t].at*a.c, (list[t].at+1)*a.c) }
	if a.cov == nil && len(list) > 0 { // List was given scores, and not these covariances
		few := &auditor{dual: a.dual, o: a.o, n: a.n, c: a.c}
		for _, s := range list {
			few.rows = append(few.rows, a.rows[s.at])
		}
		if err := few.leaveOut(ctx); err != nil {
			return nil, err
		}
		cov = func(t int) mat.Matrix { return dense.Slice(few.cov, t*a.c, (t+1)*a.c) }
	}
	for t, s := range list {
		i := a.rows[s.at]
		var move, shift mat.VecDense
		// u = (I − Λh)⁻¹w = w + Λ cov_−i w
		move.MulVec(cov(t), mat.NewVecDense(a.c, s.weight))
		shift.MulVec(dense.Slice(a.dual.Sites().Lambda, i*a.c, (i+1)*a.c), &move)
		floats.Add(s.weight, shift.RawVector().Data)
	}
	return list, nil
}

// direction returns weights w such that wᵀf grows as the prediction moves away from the label, or
// nil if the prediction agrees with the label.
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

// fillTerms computes the terms of all suspects in one pass over the training examples.
func (a *auditor) fillTerms(ctx context.Context, list []*suspect) error {
	rows := make([]int, len(list))
	for t, s := range list {
		rows[t] = a.rows[s.at]
	}
	x, err := linearize.Gather(ctx, a.dual.Data(), rows)
	if err != nil {
		return fmt.Errorf("audit: training example %d and others: %w", rows[0], err)
	}
	cross, err := a.cross(ctx, x)
	if err != nil {
		return err
	}
	data, pseudo := a.dual.Data(), mat.NewDense(a.n, a.c, a.dual.PseudoTargets())
	weights, per := pseudo, a.c
	if q, ok := cross.(gp.CombinedCross); ok && a.c > 1 {
		// The Jacobians of the sums b_jᵀf suffice.
		cross, data = sumsCross{q}, linearize.Combine(data, pseudo)
		weights, per = mat.NewDense(a.n, 1, slices.Repeat([]float64{1}, a.n)), 1
	}
	return a.covariances(ctx, cross, data, x.Len()*a.c*per, 0, StageSupports, func(first, n int, tile *mat.Dense) error {
		return par.Do(ctx, len(list), func(t int) error {
			s := list[t]
			for j := range n {
				for r, u := range s.weight {
					// uᵀ C(x_i,x_j) b_j
					s.terms[first+j] += u * dense.Dot(tile.RawRowView(t*a.c + r)[j*per:(j+1)*per], weights.RawRowView(first+j))
				}
			}
			return nil
		})
	})
}

// A sumsCross is a gp.Cross whose tiles hold covariances with weighted sums of the outputs of training examples.
type sumsCross struct{ gp.CombinedCross }

// TileTo implements gp.Cross.
func (q sumsCross) TileTo(ctx context.Context, dst *mat.Dense, _ int, train *linearize.Batch, t gp.Terms) error {
	return q.CombinedTo(ctx, dst, train, t)
}

// tileFloats bounds a tile of covariances: 16 MiB.
const tileFloats = 1 << 21

// cross returns the gp.Cross of the training examples x.
func (a *auditor) cross(ctx context.Context, x *linearize.Batch) (gp.Cross, error) {
	q, err := a.dual.Cross(ctx, x)
	if err != nil {
		return nil, fmt.Errorf("audit: posterior covariance of training examples: %w", err)
	}
	return q, nil
}

// covariances calls do with tiles of the covariances that cross gives, from training example from on. numbers is how
// many numbers a tile holds for one training example.
func (a *auditor) covariances(ctx context.Context, cross gp.Cross, data linearize.Source, numbers, from int, stage string, do func(first, n int, tile *mat.Dense) error) error {
	source := linearize.From(linearize.Rebatch(data, max(1, tileFloats/numbers)), from)
	return source.Batches(ctx, func(first int, b *linearize.Batch) error {
		var tile mat.Dense
		if err := cross.TileTo(ctx, &tile, from+first, b, gp.PosteriorTerms); err != nil {
			return fmt.Errorf("audit: posterior covariance with training example %d and others: %w", from+first, err)
		}
		if stage != "" {
			a.o.Show(stage, from+first+b.Len(), a.n)
		}
		return do(from+first, b.Len(), &tile)
	})
}

// largest returns the k largest positive terms, without the term of the example itself.
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
