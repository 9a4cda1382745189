package linearize

import (
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// Concat returns the examples of several batches of one model as one batch, with memory of its own. A Block whose
// type is from another package becomes a Full. Concat panics without batches, and for batches that differ in P, C
// or the number of blocks.
func Concat(batches ...*Batch) *Batch {
	if len(batches) == 0 {
		panic("linearize: no batches")
	}
	first := batches[0]
	out := &Batch{P: first.P, Model: first.Model}
	var xs, fs []*mat.Dense
	for _, b := range batches {
		if b.P != first.P || b.Outputs() != first.Outputs() || len(b.Blocks) != len(first.Blocks) {
			panic("linearize: batches of different networks")
		}
		if b.Model != first.Model {
			out.Model = ModelFingerprint{}
		}
		xs, fs = append(xs, b.X), append(fs, b.F)
	}
	out.X, out.F = dense.Stack(xs), dense.Stack(fs)
	for i := range first.Blocks {
		blocks := make([]Block, len(batches))
		for j, b := range batches {
			blocks[j] = b.Blocks[i]
		}
		out.Blocks = append(out.Blocks, concatBlocks(blocks, batches))
	}
	return out
}

// concatBlocks joins blocks of the same parameters from several batches.
func concatBlocks(blocks []Block, batches []*Batch) Block {
	switch blocks[0].(type) {
	case *Outer:
		if all, ok := allAs[*Outer](blocks); ok {
			o := *all[0]
			o.A = stackOf(all, func(o *Outer) *mat.Dense { return o.A })
			o.G = stackOf(all, func(o *Outer) *mat.Dense { return o.G })
			return &o
		}
	case *Conv:
		if all, ok := allAs[*Conv](blocks); ok {
			v := *all[0]
			v.X = stackOf(all, func(v *Conv) *mat.Dense { return v.X })
			v.G = stackOf(all, func(v *Conv) *mat.Dense { return v.G })
			return &v
		}
	case *Embedding:
		if all, ok := allAs[*Embedding](blocks); ok {
			e := *all[0]
			e.Index = stackOf(all, func(e *Embedding) *mat.Dense { return e.Index })
			e.G = stackOf(all, func(e *Embedding) *mat.Dense { return e.G })
			return &e
		}
	case *Full:
		if all, ok := allAs[*Full](blocks); ok {
			f := *all[0]
			f.J = stackOf(all, func(f *Full) *mat.Dense { return f.J })
			return &f
		}
	}
	tiles, c := make([]*mat.Dense, len(blocks)), batches[0].Outputs()
	for j, b := range blocks {
		if rows := batches[j].Len() * c; rows > 0 {
			tiles[j] = mat.NewDense(rows, Width(b), nil)
			b.TileTo(tiles[j])
		} else {
			tiles[j] = new(mat.Dense)
		}
	}
	return &Full{J: dense.Stack(tiles), Params: blocks[0].Spans(), C: c}
}

// allAs returns the blocks as type T. ok is false unless all of them have this type.
func allAs[T Block](blocks []Block) ([]T, bool) {
	all := make([]T, len(blocks))
	for i, b := range blocks {
		t, ok := b.(T)
		if !ok {
			return nil, false
		}
		all[i] = t
	}
	return all, true
}

// stackOf stacks the matrices of(b) of the blocks b.
func stackOf[T any](blocks []T, of func(T) *mat.Dense) *mat.Dense {
	parts := make([]*mat.Dense, len(blocks))
	for i, b := range blocks {
		parts[i] = of(b)
	}
	return dense.Stack(parts)
}
