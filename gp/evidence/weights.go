package evidence

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/ntk"
)

// weightSpace computes posteriors from the Cholesky factor of A = I + ΦᵀΛΦ, with Φ = JS^½ and the prior variances
// S. One buffer with P rows of P+1 numbers has H = JᵀΛJ in its lower triangle, and A or its factor in the upper
// triangle, shifted one column to the right. While the sites are held, one H serves for all variances.
type weightSpace struct {
	m    *Model
	mean []float64 // m at the training examples, N·C
	mu   []float64 // μ₀, P numbers

	data  []float64
	h     *gp.Sites // sites of the H in data; nil for none
	scale float64   // Λ relative to these sites: Gaussian noise scales H
	last  []float64 // parameters of the last mode; nil for none
}

// weightRows is about the number of rows of J that are formed at once.
const weightRows = 1024

// weightBytes returns the memory in bytes of weight space for p parameters and c outputs.
func weightBytes(p, c int) int64 {
	rows := int64(weightTile(c) * c)
	matrix := memory.Mul(8, memory.Mul(int64(p), int64(p)+1))
	return memory.Add(matrix, memory.Mul(8, memory.Mul(int64(p), memory.Add(2*rows, 16))))
}

// weightTile returns the number of examples with c outputs in a tile of J.
func weightTile(c int) int { return max(1, weightRows/c) }

// inWeightSpace tells whether an evaluation takes less work in weight space. Both spaces take about five
// factorizations, and weight space also takes the product of P×N·C with N·C×P for each.
func inWeightSpace(p, nc int) bool {
	w, f := float64(p), float64(nc)
	return 2.5*f*w*w+w*w*w < f*f*f
}

func newWeightSpace(m *Model) (*weightSpace, error) {
	x := m.p.X
	c := x.Outputs()
	err := gp.CheckMemory("an evidence in weight space", gp.Parameters, x.P, m.o.Memory, func(p int) int64 { return weightBytes(p, c) })
	if err != nil {
		return nil, err
	}
	w := &weightSpace{m: m, mean: make([]float64, x.Len()*c), mu: make([]float64, x.P), data: make([]float64, x.P*(x.P+1))}
	ntk.New(m.prior, m.p.Theta).MeanTo(w.mean, x)
	m.prior.MeanTo(w.mu)
	return w, nil
}

func (w *weightSpace) p() int { return w.m.p.X.P }

// ggn returns H in its lower triangle.
func (w *weightSpace) ggn() blas64.Symmetric {
	return blas64.Symmetric{Uplo: blas.Lower, N: w.p(), Stride: w.p() + 1, Data: w.data}
}

// form computes H at the sites s. If H at s is a multiple of the present H, it only sets scale.
func (w *weightSpace) form(ctx context.Context, s *gp.Sites) error {
	if w.h != nil && w.m.p.hasNoise() {
		w.scale = s.Lambda.At(0, 0) / w.h.Lambda.At(0, 0)
		return nil
	}
	if w.h != nil && (w.h == s || mat.Equal(w.h.Lambda, s.Lambda)) {
		return nil
	}
	w.h, w.scale = nil, 1
	h := w.ggn()
	for i := range h.N {
		clear(h.Data[i*h.Stride:][:i+1])
	}
	err := w.eachTile(ctx, func(lo int, j blas64.General) error {
		// Replace the rows J_i of each example by R_iᵀJ_i.
		c := w.m.p.X.Outputs()
		if err := par.Do(ctx, j.Rows/c, func(i int) error {
			root := dense.Slice(s.Root, (lo+i)*c, (lo+i+1)*c)
			rows := dense.Rows(j, i*c, (i+1)*c)
			if c == 1 {
				floats.Scale(root.At(0, 0), rows.Data[:rows.Cols])
				return nil
			}
			before := dense.New(c, j.Cols)
			dense.Copy(before, rows)
			dense.Gemm1(blas.Trans, blas.NoTrans, 1, root.RawMatrix(), before, 0, rows)
			return nil
		}); err != nil {
			return err
		}
		return dense.SyrkContext(ctx, blas.Trans, 1, j, 1, h)
	})
	if err != nil {
		return fmt.Errorf("evidence: stopped while forming JᵀΛJ: %w", err)
	}
	for i := range h.N {
		if v := h.Data[i*h.Stride+i]; !finite(v) {
			return &gp.NotFiniteError{What: "JᵀΛJ", Row: i, Value: v, Remedy: "check the network's Jacobian"}
		}
	}
	w.h = s
	return nil
}

// eachTile calls do with tiles of J. The first row of a tile belongs to example lo. do may overwrite them.
func (w *weightSpace) eachTile(ctx context.Context, do func(lo int, j blas64.General) error) error {
	x := w.m.p.X
	n, c, step := x.Len(), x.Outputs(), weightTile(x.Outputs())
	data := make([]float64, min(n, step)*c*x.P)
	for t := range par.Tiles(n, step) {
		lo, hi := par.Bounds(t, n, step)
		j := dense.Of(data[:(hi-lo)*c*x.P], (hi-lo)*c, x.P)
		// Write J for the examples of b, a few examples at a time on each goroutine.
		b := x.Slice(lo, hi)
		const examples = 32
		c := b.Outputs()
		if err := par.Do(ctx, par.Tiles(b.Len(), examples), func(t int) error {
			lo, hi := par.Bounds(t, b.Len(), examples)
			rows := dense.Rows(j, lo*c, hi*c)
			b.Slice(lo, hi).JacobianTo(dense.View(rows))
			return nil
		}); err != nil {
			return err
		}
		if err := do(lo, j); err != nil {
			return err
		}
	}
	return nil
}

// factorize computes A = I + S^½HS^½ and factors it. root is the diagonal of S^½.
func (w *weightSpace) factorize(ctx context.Context, root []float64) (blas64.Triangular, error) {
	a, h := blas64.Symmetric{Uplo: blas.Upper, N: w.p(), Stride: w.p() + 1, Data: w.data[1:]}, w.ggn()
	err := par.Do(ctx, a.N, func(i int) error {
		row := a.Data[i*a.Stride:]
		for j := i; j < a.N; j++ {
			row[j] = root[i] * (w.scale * h.Data[j*h.Stride+i]) * root[j]
		}
		row[i]++
		return nil
	})
	if err != nil {
		return blas64.Triangular{}, fmt.Errorf("evidence: stopped while factoring I + ΦᵀΛΦ: %w", err)
	}
	u, ok, err := dense.PotrfContext(ctx, a)
	if err != nil {
		return u, fmt.Errorf("evidence: stopped while factoring I + ΦᵀΛΦ: %w", err)
	}
	if !ok {
		return u, &gp.NotPDError{What: "I + ΦᵀΛΦ", N: a.N, Reason: "lower the prior variances, or check the network's Jacobian"}
	}
	return u, nil
}

// outputsTo writes f = m + J(v − μ₀) for the parameters v.
func (w *weightSpace) outputsTo(dst, v []float64) {
	d := floats.SubTo(make([]float64, len(v)), v, w.mu)
	x := w.m.p.X
	c := x.Outputs()
	const examples = 64
	par.Do(context.Background(), par.Tiles(x.Len(), examples), func(t int) error {
		lo, hi := par.Bounds(t, x.Len(), examples)
		x.Slice(lo, hi).MulVecTo(dst[lo*c:hi*c], d)
		return nil
	})
	floats.Add(dst, w.mean)
}

// project returns Jᵀu for u with N·C numbers.
func (w *weightSpace) project(u []float64) []float64 {
	v := make([]float64, w.p())
	w.m.p.X.MulTransVecTo(v, u)
	return v
}
