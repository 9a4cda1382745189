package weightspace

import (
	"context"
	"runtime"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

const (
	// smallFactors is the most elements of all factors of a convolution for which each worker sums the factors of
	// some examples by itself.
	smallFactors = 1 << 16
	// convExamples is the number of these examples for each worker.
	convExamples = 16
	// convFloats bounds the patches and gradients, in numbers, that are gathered at once for a convolution with
	// larger factors.
	convFloats = 4 << 20
)

// addConv adds the factors of all groups of a convolution. root has the roots R of Λ of its examples.
func (f *Factors) addConv(ctx context.Context, block int, v *linearize.Conv, root *mat.Dense) error {
	first := f.layerOf(block)
	if first < 0 {
		return nil
	}
	layers := f.layers[first : first+v.Groups()]
	if s := layers[0]; len(layers)*(s.a.N*s.a.N+s.g.N*s.g.N) <= smallFactors {
		// Small factors: each worker sums the factors of some examples in memory that stays in its cache, and the
		// sums are added in order.
		type sums struct{ a, g []blas64.Symmetric }
		t, _, out := v.Factors()
		_, size := v.G.Dims()
		n := dense.Count(v.X)
		parts := make([]sums, par.Tiles(n, convExamples))
		scratch := make([][3]blas64.General, runtime.GOMAXPROCS(0))
		err := par.DoWorker(ctx, len(scratch), len(parts), func(w, tile int) error {
			buf := &scratch[w]
			if buf[0].Data == nil {
				*buf = [3]blas64.General{dense.New(v.C, size), dense.New(t, layers[0].cols()), dense.New(v.C*t, out)}
			}
			rooted, a, g := buf[0], buf[1], buf[2]
			p := &parts[tile]
			for _, s := range layers {
				p.a, p.g = append(p.a, symmetric(s.a.N)), append(p.g, symmetric(s.g.N))
			}
			lo, hi := par.Bounds(tile, n, convExamples)
			for i := lo; i < hi; i++ {
				rootTimes(rooted, dense.Slice(root, i*f.c, (i+1)*f.c), dense.Slice(v.G, i*f.c, (i+1)*f.c))
				for k, s := range layers {
					s.patchesTo(a, v, i)
					dense.Syrk1(blas.Trans, 1, a, 1, p.a[k])
					s.gradientsTo(g, v.Layout, rooted)
					dense.Syrk1(blas.Trans, 1, g, 1, p.g[k])
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, p := range parts {
			for k, s := range layers {
				dense.Axpy(s.a.Data, 1, p.a[k].Data)
				dense.Axpy(s.g.Data, 1, p.g[k].Data)
			}
		}
		return nil
	}
	t, in, out := v.Factors()
	_, size := v.G.Dims()
	n, step := dense.Count(v.X), max(1, convFloats/max(v.C*size, v.C*t*out, t*(in+1)))
	for lo := 0; lo < n; lo += step {
		hi := min(lo+step, n)
		part := v.Slice(lo, hi).(*linearize.Conv)
		part.G = dense.View(f.rooted(dense.Slice(root, lo*f.c, hi*f.c), part.G))
		for _, s := range layers {
			a, g := dense.New((hi-lo)*t, s.cols()), dense.New((hi-lo)*v.C*t, out)
			each(hi-lo, func(i int) {
				s.patchesTo(dense.Rows(a, i*t, (i+1)*t), part, i)
				s.gradientsTo(dense.Rows(g, i*v.C*t, (i+1)*v.C*t), part.Layout, dense.Rows(part.G.RawMatrix(), i*v.C, (i+1)*v.C))
			})
			if err := addGram(ctx, a, s.a); err != nil {
				return err
			}
			if err := addGram(ctx, g, s.g); err != nil {
				return err
			}
		}
	}
	return nil
}

// patchesTo writes ã = (a, 1) of a convolution in example i, T×cols: at each of T positions the patch a of the layer's
// group, and then 1 if the layer has a bias.
func (l *matrixLayer) patchesTo(dst blas64.General, v *linearize.Conv, i int) {
	t, cols := dst.Rows, dst.Cols
	if l.in > 0 {
		v.Layout.Patches(dst.Data[:t*l.in], v.X.RawRowView(i), l.group)
	}
	if l.bias == nil {
		return
	}
	// Move each row to its place with room for the 1 at its end, the last row first.
	for j := t - 1; j >= 0; j-- {
		copy(dst.Data[j*cols:], dst.Data[j*l.in:(j+1)*l.in])
		dst.Data[j*cols+l.in] = 1
	}
}

// gradientsTo writes the gradients of the layer's group, C·T×out, from the rows of g, one for each of C outputs of
// an example.
func (l *matrixLayer) gradientsTo(dst blas64.General, at linearize.Positions, g blas64.General) {
	t := dst.Rows / g.Rows * dst.Cols
	for c := range g.Rows {
		at.Gradients(dst.Data[c*t:(c+1)*t], dense.Row(g, c), l.group)
	}
}

// each calls do(i) for i = 0 … n−1 on several workers.
func each(n int, do func(i int)) {
	const step = 8
	// A context that never ends gives no error.
	_ = par.Do(context.Background(), par.Tiles(n, step), func(t int) error {
		lo, hi := par.Bounds(t, n, step)
		for i := lo; i < hi; i++ {
			do(i)
		}
		return nil
	})
}

// addGram adds XᵀX to the upper triangle sum. If sum is too small to be divided between workers, they share the
// rows of X instead, and the partial sums are added in a fixed order.
func addGram(ctx context.Context, x blas64.General, sum blas64.Symmetric) error {
	const small, rows = 128, 2048
	if x.Cols > small || x.Rows <= rows {
		return dense.SyrkContext(ctx, blas.Trans, 1, x, 1, sum)
	}
	parts := make([]blas64.Symmetric, par.Tiles(x.Rows, rows))
	err := par.Do(ctx, len(parts), func(i int) error {
		lo, hi := par.Bounds(i, x.Rows, rows)
		parts[i] = symmetric(x.Cols)
		dense.Syrk1(blas.Trans, 1, dense.Rows(x, lo, hi), 0, parts[i])
		return nil
	})
	if err != nil {
		return err
	}
	for _, part := range parts {
		dense.Axpy(sum.Data, 1, part.Data)
	}
	return nil
}
