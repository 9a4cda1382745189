package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// pair finds duplicates, and near-duplicates by near if it is not nil. near is given, for each
// example, the first example with the same input.
func (a *auditor) pair(ctx context.Context, data linearize.Source, near func(ctx context.Context, first []int) ([]Pair, error)) error {
	// Find for each example the first example with the same input, which may be the example itself.
	// Without inputs, no two examples are equal.
	first := dense.Range(data.Len())
	seen := map[[sha256.Size]byte]int{}
	at := 0
	visit := func(x *mat.Dense) error {
		if x == nil {
			return errNoInputs
		}
		var bytes []byte
		for i := range x.RawMatrix().Rows {
			bytes = bytes[:0]
			for _, v := range x.RawRowView(i) {
				bytes = binary.LittleEndian.AppendUint64(bytes, math.Float64bits(v+0)) // −0 is 0
			}
			sum := sha256.Sum256(bytes)
			if f, ok := seen[sum]; ok {
				first[at] = f
			} else {
				seen[sum] = at
			}
			at++
		}
		return ctx.Err()
	}
	var err error
	if s, ok := data.(linearize.InputSource); ok {
		err = s.Inputs(ctx, func(x *mat.Dense, _ linearize.ModelFingerprint) error { return visit(x) })
	} else {
		err = data.Batches(ctx, func(_ int, b *linearize.Batch) error { return visit(b.X) })
	}
	if errors.Is(err, errNoInputs) {
		err = nil
	}
	if err != nil {
		return err
	}
	for k, i := range a.rows {
		if first[i] < i {
			a.audit.Examples[k].EqualTo = first[i]
		}
	}
	var pairs []Pair
	for i, f := range first {
		if f < i {
			p := a.newPair(f, i, 1)
			p.Equal = true
			pairs = append(pairs, p)
		}
	}
	if near != nil {
		more, err := near(ctx, first)
		if err != nil {
			return err
		}
		pairs = append(pairs, more...)
	}
	slices.SortStableFunc(pairs, comparePairs)
	a.audit.Duplicates = pairs[:min(len(pairs), a.o.Top)]
	return nil
}

func comparePairs(p, q Pair) int {
	switch {
	case p.Equal != q.Equal && p.Equal:
		return -1
	case p.Equal != q.Equal:
		return 1
	}
	return cmp.Or(cmp.Compare(q.Correlation, p.Correlation), cmp.Compare(p.First, q.First), cmp.Compare(p.Second, q.Second))
}

func (a *auditor) newPair(i, j int, correlation float64) Pair {
	return Pair{First: i, Second: j, Correlation: correlation, Conflict: !slices.Equal(a.all.RawRowView(i), a.all.RawRowView(j))}
}

// errNoInputs ends a pass over examples that come without inputs.
var errNoInputs = errors.New("audit: the examples show no inputs")

// near finds near-duplicates by the posterior correlation. Examples with the same input as an earlier one are
// skipped.
func (a *auditor) near(ctx context.Context, first []int) ([]Pair, error) {
	// Compute tr C(x_i,x_i) of all training examples.
	variance := make([]float64, a.n)
	all := &auditor{dual: a.dual, n: a.n, rows: dense.Range(a.n), o: a.o}
	err := all.each(ctx, StagePairs, func(lo int, rows []int, x *linearize.Batch) error {
		var h, q mat.Dense
		if err := a.dual.InfluenceTo(ctx, &h, &q, rows, x); err != nil {
			return fmt.Errorf("audit: influence of training example %d and others: %w", rows[0], err)
		}
		for j := range rows {
			for r := range a.c {
				variance[lo+j] += h.At(j*a.c+r, r)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var pairs []Pair
	var mu sync.Mutex
	size := max(1, tileFloats/max(1, a.n*a.c*a.c))
	for lo := 0; lo < a.n; lo += size {
		rows := dense.Range(min(size, a.n-lo))
		for k := range rows {
			rows[k] += lo
		}
		x, err := linearize.Gather(ctx, a.dual.Data(), rows)
		if err != nil {
			return nil, err
		}
		cross, err := a.cross(ctx, x)
		if err != nil {
			return nil, err
		}
		err = a.covariances(ctx, cross, a.dual.Data(), x.Len()*a.c*a.c, lo, "", func(from, n int, tile *mat.Dense) error {
			return par.Do(ctx, len(rows), func(t int) error {
				i := lo + t
				var found []Pair
				for j := max(i+1, from); j < from+n; j++ {
					if first[i] != i || first[j] != j {
						continue
					}
					sum := 0.0
					for r := range a.c {
						sum += tile.At(t*a.c+r, (j-from)*a.c+r)
					}
					v := math.Min(1, sum/math.Sqrt(variance[i]*variance[j]))
					if v >= a.o.LeastCorrelation {
						found = append(found, a.newPair(i, j, v))
					}
				}
				mu.Lock()
				defer mu.Unlock()
				pairs = append(pairs, found...)
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
		// Sort the pairs, since workers find them in any order.
		slices.SortFunc(pairs, comparePairs)
		pairs = pairs[:min(len(pairs), a.o.Top)]
		a.o.Show(StagePairs, lo+len(rows), a.n)
	}
	return pairs, nil
}
