package sparse

import (
	"hash/maphash"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// An own knows the features of the inducing examples from the factor of K_ZZ.
// Where K_ZZ is singular to working precision, Gᵀk_Z amplifies the rounding of
// k_Z; for an input that is one of the inducing examples there is no need to
// take that way. With M = N this is what keeps the posterior the exact one.
// The same inputs with other outputs are another example.
type own struct {
	c     int        // outputs of the data
	of    []int      // the outputs of pairs; nil for examples
	x, f  *mat.Dense // inputs and outputs
	phi   blas64.General
	seed  maphash.Seed
	index map[uint64][]int // elements by the hash of their inputs
}

// newOwn returns nil where the inducing examples have no inputs to show.
func newOwn(z *Inducing, phi blas64.General) *own {
	x, f := z.Batch.X, z.Batch.F
	if x == nil {
		return nil
	}
	o := &own{c: z.outputs(), of: z.Outputs, x: x, f: f, phi: phi, seed: maphash.MakeSeed(), index: make(map[uint64][]int, z.Len())}
	for i := range z.Len() {
		h := o.hash(x.RawRowView(i))
		o.index[h] = append(o.index[h], i)
	}
	return o
}

func (o *own) hash(x []float64) uint64 {
	var h maphash.Hash
	h.SetSeed(o.seed)
	var buf [8]byte
	for _, v := range x {
		u := math.Float64bits(v)
		for i := range buf {
			buf[i] = byte(u >> (8 * i))
		}
		h.Write(buf[:])
	}
	return h.Sum64()
}

// set overwrites the features of examples of x that are inducing ones.
func (o *own) set(phi blas64.General, x *linearize.Batch) {
	if o == nil || x.X == nil {
		return
	}
	for i := range x.Len() {
		row := x.X.RawRowView(i)
		for _, z := range o.index[o.hash(row)] {
			if !slices.Equal(row, o.x.RawRowView(z)) {
				continue
			}
			if o.setFrom(phi, i, z, x.F.RawRowView(i)) && o.of == nil {
				break
			}
		}
	}
}

// setFrom overwrites the features of example i of a batch, all or those of one
// output, by those of element z. It does not where the outputs f are others.
func (o *own) setFrom(phi blas64.General, i, z int, f []float64) bool {
	lo, n := i*o.c, o.c
	if o.of != nil {
		f, lo, n = f[o.of[z]:][:1], lo+o.of[z], 1
	}
	if !floats.EqualApprox(f, o.f.RawRowView(z), sameOutput) {
		return false
	}
	for a := range n {
		copy(phi.Data[(lo+a)*phi.Stride:][:phi.Cols], o.phi.Data[(z*n+a)*o.phi.Stride:])
	}
	return true
}

// sameOutput is the relative difference that rounding may make of an output.
const sameOutput = 1e-9
