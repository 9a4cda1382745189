package weightspace

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/store"
)

// Save adds the posterior to a store, in sections whose names start with
// "structure."; LoadStructure reads it. Besides what every structure has (θ*, the
// center and the sites, see gp.Sites.Save) it writes for each layer two bases, squares
// of its inputs and outputs, and a number for each parameter, and for each dense sum
// the square of its parameters.
func (w *Kronecker) Save(to *store.Writer) error {
	for i, l := range w.layers {
		for _, m := range l.matrices() {
			to.Floats(fmt.Sprintf("structure.layer.%d.%s", i, m.name), m.of.Data)
		}
	}
	for i, b := range w.blocks {
		to.Floats(fmt.Sprintf("structure.block.%d", i), b.h.data)
	}
	return w.save(to)
}

// A namedMatrix is a matrix of a layer that is saved.
type namedMatrix struct {
	name string
	of   *blas64.General
}

func (l *kroneckerLayer) matrices() []namedMatrix {
	m := []namedMatrix{{"a", &l.a}, {"g", &l.g}, {"d", &l.d}}
	if l.next != nil {
		m = append(m, namedMatrix{"next.a", &l.next.a}, namedMatrix{"next.g", &l.next.g})
	}
	return m
}

// loadKronecker reads what Kronecker.Save wrote. The layers are those of the model,
// and the prior says which of them have dense sums.
func (w *structured) loadKronecker(r *store.Reader) (*Kronecker, error) {
	one, err := someExamples(context.Background(), linearize.Factored(w.x))
	if err != nil {
		r.Stop(err)
		return nil, r.Err()
	}
	l, err := layoutOf(one)
	if err != nil {
		r.Stop(err)
		return nil, r.Err()
	}
	k := &Kronecker{structured: *w}
	for i, m := range l.matrices {
		if _, _, ok := rankOne(w.variances(m), m.out, m.cols()); !ok {
			k.blocks = append(k.blocks, &exactBlock{index: m.index()})
			continue
		}
		layer := &kroneckerLayer{matrixLayer: m, a: dense.Of(nil, m.cols(), m.cols()), g: dense.Of(nil, m.out, m.out), d: dense.Of(nil, m.out, m.cols())}
		if w.structure == Chain && i+1 < len(l.matrices) {
			after := l.matrices[i+1]
			layer.next = &link{a: dense.Of(nil, after.cols(), m.cols()), g: dense.Of(nil, after.out, m.out)}
		}
		k.layers = append(k.layers, layer)
	}
	for _, v := range l.vectors {
		k.blocks = append(k.blocks, &exactBlock{index: v.index()})
	}
	if w.structure == Chain && len(k.layers) < len(l.matrices) {
		return nil, r.Fail(saved.WriteAgain, saved.Impossible)
	}
	for i, layer := range k.layers {
		for _, m := range layer.matrices() {
			m.of.Data = r.Floats(fmt.Sprintf("layer.%d.%s", i, m.name), m.of.Rows, m.of.Cols)
		}
	}
	for i, b := range k.blocks {
		n := len(b.index)
		b.h.data, b.h.shared = r.Floats(fmt.Sprintf("block.%d", i), n, n), true
		b.h.u = blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: n, Stride: n, Data: b.h.data}
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	return k, nil
}
