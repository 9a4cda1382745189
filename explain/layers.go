package explain

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Splitter is a posterior whose terms can be split by groups of parameters. gp.Exact and
// kept.Posterior implement it.
type Splitter interface {
	gp.Dual
	// MulKernelTo writes K v for each row v of a, N·C numbers.
	MulKernelTo(ctx context.Context, dst, a *mat.Dense) error
	// Downdate, called without rows, returns a solver that multiplies by R B⁻¹ Rᵀ.
	Downdate(ctx context.Context, rows []int) (*gp.Downdate, error)
}

// split computes the part of each layer in the terms of every tally.
//
// κ = Σ_g κ_g over groups of parameters (E10), so κ_g(x*,x_i) α_i are parts of a raw term
// (E12).
// The posterior covariance is linear in the parameters at x*: with Σ the posterior
// covariance of θ, C(x*,x_i) = J(x*) Σ J(x_i)ᵀ = Σ_g J_g(x*) [Σ J(x_i)ᵀ]_g, whose addends are (E14)
//
//	C_g(x*,x_i) = κ_g(x*,x_i) − κ_g(x*,X) R B⁻¹ Rᵀ κ(X,x_i).
//
// They add up to C, and Σ_i C_g(x*,x_i) b_i = Σ_i κ_g(x*,x_i) α_i. C_g(x*,x_i) b_i is the
// contribution of the example to f(x*) through the parameters of g, with all parameters learnt
// together.
func (e *Explainer) split(ctx context.Context, x *linearize.Batch, work [][]tally) error {
	groups := len(e.options.Layers)
	if groups == 0 {
		return nil
	}
	// Refuse more training examples than there is memory for.
	vectors := 4 * groups // scratch of one target, while its layers are conditioned
	for t := range work {
		vectors += groups * len(work[t])
	}
	need := func(n int) int64 { return memory.Mul(8*int64(vectors), memory.Mul(int64(n), int64(e.c))) }
	if err := gp.CheckMemory("terms split by layer", gp.TrainingExamples, e.n, e.options.Memory, need); err != nil {
		return err
	}
	// Compute wᵀκ_g(x*,X) of each tally, a row for each group.
	rows := make([][]*mat.Dense, len(work))
	for t := range work {
		for range work[t] {
			rows[t] = append(rows[t], mat.NewDense(len(e.options.Layers), e.n*e.c, nil))
		}
	}
	size := max(1, tileFloats/(len(work)*e.c*e.c))
	err := e.tiles(ctx, e.dual.Data(), min(size, e.n), func(first int, b *linearize.Batch) error {
		for g, kernel := range e.options.Layers {
			var tile mat.Dense
			if err := ntk.BlockContextTo(ctx, kernel, &tile, x, b); err != nil {
				return err
			}
			for t := range work {
				for k := range work[t] {
					to := rows[t][k].RawRowView(g)[first*e.c : (first+b.Len())*e.c]
					work[t][k].target.rowTo(to, func(c int) []float64 { return tile.RawRowView(t*e.c + c) })
					if j := dense.NotFinite(to); j >= 0 {
						return fmt.Errorf("explain: the kernel of layer %d between test row %d and training example %d is %g; check the data", g, t, first+j/e.c, to[j])
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	post := e.dual.(Splitter)
	none, err := post.Downdate(ctx, nil)
	if err != nil {
		return fmt.Errorf("explain: splitting terms by layer: %w", err)
	}
	for t := range work {
		for k := range work[t] {
			a, weights := rows[t][k], e.alpha
			if e.options.Terms == gp.PosteriorTerms {
				if err := e.conditionLayers(ctx, post, none, a); err != nil {
					return fmt.Errorf("explain: splitting the terms of test row %d by layer: %w", t, err)
				}
				weights = e.pseudo
			}
			// Compute the part of each group in the term of each example.
			for g := range groups {
				row, parts := a.RawRowView(g), make([]float64, e.n)
				for i := range parts {
					parts[i] = dense.Dot(row[i*e.c:(i+1)*e.c], weights[i*e.c:(i+1)*e.c])
				}
				work[t][k].layers = append(work[t][k].layers, parts)
			}
			rows[t][k] = nil
		}
	}
	return nil
}

const (
	// layerCloses is the gap, relative to Σ|C_g b|, at which a sum over examples is as
	// good as rounding allows.
	layerCloses = 1e-11
	// layerCancels is the ratio of C_g to κ_g below which the difference has lost digits.
	layerCancels = 1e-7
	// layerSteps bounds the steps of iterative refinement.
	layerSteps = 3
)

// conditionLayers replaces the rows κ_g by C_g = κ_g (I + ΛK)⁻¹. Where Σ C_g b misses
// κ_g α, iterative refinement restores the digits that the difference has lost.
func (e *Explainer) conditionLayers(ctx context.Context, post Splitter, none *gp.Downdate, a *mat.Dense) error {
	given := mat.DenseCopyOf(a)
	if err := subtractExplained(ctx, post, none, a); err != nil {
		return err
	}
	var lambda mat.Dense
	for step := range layerSteps {
		gap, closed := e.layerGap(a, given)
		if closed && (step > 0 || !cancelled(a, given)) {
			return nil
		}
		if lambda.IsEmpty() {
			none.LambdaTo(&lambda)
		}
		// κ_g − C_g − C_g Λ K
		better, work := mat.DenseCopyOf(given), mat.DenseCopyOf(a)
		better.Sub(better, a)
		groups, _ := a.Dims()
		for g := range groups {
			// Replace a row by its product with Λ.
			row := work.RawRowView(g)
			lambda := &lambda
			work := make([]float64, e.c)
			for i := range e.n {
				part := row[i*e.c : (i+1)*e.c]
				clear(work)
				for a, v := range part {
					floats.AddScaled(work, v, lambda.RawRowView(i*e.c+a))
				}
				copy(part, work)
			}
		}
		var product mat.Dense
		if err := post.MulKernelTo(ctx, &product, work); err != nil {
			return err
		}
		better.Sub(better, &product)
		if err := subtractExplained(ctx, post, none, better); err != nil {
			return err
		}
		better.Add(better, a)
		if now, closes := e.layerGap(better, given); !(now < gap || closes) {
			return nil
		}
		a.Copy(better)
	}
	return nil
}

// subtractExplained replaces each row v of a by v − v R B⁻¹ Rᵀ K.
func subtractExplained(ctx context.Context, post Splitter, none *gp.Downdate, a *mat.Dense) error {
	solved := mat.DenseCopyOf(a)
	if err := none.SolveTo(ctx, solved); err != nil {
		return err
	}
	var product mat.Dense
	if err := post.MulKernelTo(ctx, &product, solved); err != nil {
		return err
	}
	a.Sub(a, &product)
	return nil
}

// layerGap is the largest |C_g b − κ_g α| of the rows. closed tells whether each is
// negligible.
func (e *Explainer) layerGap(post, given *mat.Dense) (gap float64, closed bool) {
	closed = true
	groups, _ := post.Dims()
	for g := range groups {
		sum, size := 0.0, 0.0
		for i, v := range post.RawRowView(g) {
			sum += v * e.pseudo[i]
			size += math.Abs(v * e.pseudo[i])
		}
		d := math.Abs(sum - floats.Dot(given.RawRowView(g), e.alpha))
		gap, closed = math.Max(gap, d), closed && d <= layerCloses*size
	}
	return gap, closed
}

// cancelled tells whether most digits of a row of C_g were lost in the difference.
func cancelled(post, given *mat.Dense) bool {
	groups, _ := post.Dims()
	for g := range groups {
		if floats.Norm(post.RawRowView(g), math.Inf(1)) < layerCancels*floats.Norm(given.RawRowView(g), math.Inf(1)) {
			return true
		}
	}
	return false
}
