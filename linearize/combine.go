package linearize

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// sumsEach returns the number K of sums in the weights w of n examples with c outputs. It panics for a w of another
// size.
func sumsEach(w *mat.Dense, n, c int) int {
	if _, cols := w.Dims(); cols != c {
		panic("linearize: weights of outputs have wrong size")
	}
	return sumsOfEach(w, n)
}

// sumsOfEach is sumsEach without a check of the number of columns.
func sumsOfEach(w *mat.Dense, n int) int {
	rows, _ := w.Dims()
	if n == 0 || rows == 0 || rows%n != 0 {
		panic("linearize: weights of outputs have wrong size")
	}
	return rows / n
}

// A Combiner is a Source that can linearize sums of outputs without linearizing each output.
type Combiner interface {
	// Combine is the function Combine for this Source.
	Combine(w *mat.Dense) Source
}

var _ Combiner = (*stream)(nil)

// Combine returns the examples of src with K sums of outputs in place of their C outputs. Output k of example n is
// Σ_c w_{nK+k,c} f_nc, with w N·K×C, which must not change afterwards. For a Combiner, such as the NewSource of a
// CombinedModel, this takes the work of K outputs. For any other Source the Jacobians of all C outputs are formed
// and summed. A w of another size panics, at the latest when the examples are read.
func Combine(src Source, w *mat.Dense) Source {
	if c, ok := src.(Combiner); ok {
		return c.Combine(w)
	}
	return combined{src, w}
}

// gatherCombined is the number of examples that are in memory with all their outputs while sums of outputs are
// gathered.
const gatherCombined = 64

// GatherCombined is Gather with K sums of outputs in place of the C outputs. Output k of the i-th example of the
// result is Σ_c w_{iK+k,c} f_c, with w len(rows)·K×C. A row may occur several times with different weights. For a
// Source of a CombinedModel this takes the work of K outputs. For any other Source a few examples at a time have
// the Jacobian of all outputs in memory. GatherCombined panics for a row outside src, and for a w of another size.
func GatherCombined(ctx context.Context, src Source, rows []int, w *mat.Dense) (*Batch, error) {
	k := sumsOfEach(w, len(rows))
	if slices.Min(rows) < 0 || slices.Max(rows) >= src.Len() {
		panic("linearize: gathered row out of range")
	}
	if s, ok := src.(*stream); ok {
		return s.gatherCombined(ctx, rows, w)
	}
	weights := func(lo, hi int) *mat.Dense { return dense.Slice(w, lo*k, hi*k) }
	if _, ok := src.(Gatherer); !ok {
		return gatherEach(ctx, src, rows, func(b *Batch, place int) *Batch { return Concat(b.combine(weights(place, place+1))) })
	}
	var parts []*Batch
	for lo := 0; lo < len(rows); lo += gatherCombined {
		hi := min(lo+gatherCombined, len(rows))
		b, err := Gather(ctx, src, rows[lo:hi])
		if err != nil {
			return nil, err
		}
		parts = append(parts, b.combine(weights(lo, hi)))
	}
	return Concat(parts...), nil
}

// gatherCombined is GatherCombined of a source made by NewSource.
func (s *stream) gatherCombined(ctx context.Context, rows []int, w *mat.Dense) (*Batch, error) {
	m, ok := s.model.(CombinedModel)
	if !ok {
		b, err := s.Gather(ctx, rows)
		if err != nil {
			return nil, err
		}
		return b.combine(w), nil
	}
	x, err := s.at(rows)
	if err != nil {
		return nil, err
	}
	return m.LinearizeCombined(ctx, x, w)
}

// A combined is a Source with sums of the outputs of src.
type combined struct {
	src Source
	w   *mat.Dense
}

func (s combined) Len() int { return s.src.Len() }

// combineExamples is the number of examples that are summed at once.
const combineExamples = 256

// Batches implements Source.
func (s combined) Batches(ctx context.Context, yield func(first int, b *Batch) error) error {
	n := s.Len()
	return s.src.Batches(ctx, func(first int, b *Batch) error {
		k := sumsEach(s.w, n, b.Outputs())
		for lo := 0; lo < b.Len(); lo += combineExamples {
			hi := min(lo+combineExamples, b.Len())
			if err := yield(first+lo, b.Slice(lo, hi).combine(dense.Slice(s.w, (first+lo)*k, (first+hi)*k))); err != nil {
				return err
			}
		}
		return nil
	})
}

// A CombinedModel is a Model that can linearize sums of its outputs without linearizing each output. A network does
// so by backward passes that start from the weights of a sum: every network.Network is a CombinedModel.
type CombinedModel interface {
	Model
	// LinearizeCombined is Linearize with K sums in place of the C outputs of each example. Output k of example n
	// is Σ_c w_{nK+k,c} f_c(x_n;θ*), with w N·K×C and x N×D.
	LinearizeCombined(ctx context.Context, x, w *mat.Dense) (*Batch, error)
}

// Combine implements Combiner.
func (s *stream) Combine(w *mat.Dense) Source {
	if m, ok := s.model.(CombinedModel); ok && s.n > 0 {
		_, c, _ := s.model.Dims()
		return &combinedStream{s: s, model: m, w: w, k: sumsEach(w, s.n, c)}
	}
	return combined{s, w}
}

// A combinedStream is a stream with sums of outputs.
type combinedStream struct {
	s     *stream
	model CombinedModel
	w     *mat.Dense
	k     int // K, the sums of each example
}

func (c *combinedStream) Len() int { return c.s.n }

// Batches implements Source.
func (c *combinedStream) Batches(ctx context.Context, yield func(first int, b *Batch) error) error {
	return c.s.pass(ctx, yield, func(lo, hi int, x *mat.Dense) (*Batch, error) {
		return c.model.LinearizeCombined(ctx, x, dense.Slice(c.w, lo*c.k, hi*c.k))
	})
}

// combine returns the batch with sums of the outputs, with weights w, N·K×C.
func (b *Batch) combine(w *mat.Dense) *Batch {
	c := b.Outputs()
	k := sumsEach(w, b.Len(), c)
	s := &Batch{X: b.X, F: mat.NewDense(b.Len(), k, nil), P: b.P, Model: b.Model}
	for i := range b.Len() {
		for j := range k {
			s.F.Set(i, j, dense.Dot(w.RawRowView(i*k+j), b.F.RawRowView(i)))
		}
	}
	for _, block := range b.Blocks {
		s.Blocks = append(s.Blocks, combineBlock(block, w, b.Len(), c, k))
	}
	return s
}

func combineBlock(block Block, w *mat.Dense, n, c, k int) Block {
	rows := func(m *mat.Dense) *mat.Dense {
		// Multiply the c rows of each example by its weights, k×c.
		_, width := m.Dims()
		out := mat.NewDense(n*k, width, nil)
		part := func(m *mat.Dense, i, rows int) blas64.General {
			return dense.Slice(m, i*rows, (i+1)*rows).RawMatrix()
		}
		for i := range n {
			dense.Gemm1(blas.NoTrans, blas.NoTrans, 1, part(w, i, k), part(m, i, c), 0, part(out, i, k))
		}
		return out
	}
	switch v := block.(type) {
	case *Outer:
		o := *v
		o.G, o.C = rows(v.G), k
		return &o
	case *Conv:
		o := *v
		o.G, o.C = rows(v.G), k
		return &o
	case *Embedding:
		o := *v
		o.G, o.C = rows(v.G), k
		return &o
	case *Full:
		return &Full{J: rows(v.J), Params: v.Params, C: k}
	}
	tile := mat.NewDense(n*c, Width(block), nil)
	block.TileTo(tile)
	return &Full{J: rows(tile), Params: block.Spans(), C: k}
}
