package weightspace

import (
	"context"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
)

// StageFactors is the stage of SumFactors in Options.Progress: it counts training examples that are summed into
// Kronecker factors.
const StageFactors = "factors"

// Factors are the Kronecker factors of the generalized Gauss–Newton matrix H = Σ_n J_nᵀΛ_nJ_n of N training
// examples. They approximate a layer's block of H by G ⊗ A [glm eq. 8]. One pass over the examples sums them. The
// posteriors for all priors then come from them without another pass.
//
// A layer multiplies its weight with inputs a_nt at T positions; a dense layer has one position. Let ã = (a, 1)
// where the layer has a bias, z its result, R_n the root of Λ_n (E4) and g_nct = (∂f_n/∂z_nt)ᵀ R_n[:,c]. Then
//
//	A = 1/(N·T) Σ_n Σ_t ã_nt ã_ntᵀ    and    G = Σ_n Σ_c Σ_t g_nct g_nctᵀ.
//
// A is a mean and G is a sum, so G ⊗ A is a sum over examples, as H is. The approximation assumes that inputs and
// gradients are uncorrelated. For T = 1 it is exact where all inputs are equal, for example for N = 1. For T > 1 it
// also assumes that the gradients at different positions are uncorrelated. G ⊗ A is the product of Grosse and
// Martens (2016), "A Kronecker-factored approximate Fisher matrix for convolution layers", eq. 24 to 27, where the
// factor 1/T is in the other matrix. Each group of a grouped convolution has its own factors.
//
// Scales and shifts that no matrix multiplies, such as those of a normalization, have no factors. Their block of H
// is exact, for up to 4096 parameters in a layer.
type Factors struct {
	n, c, p int
	source  linearize.Source
	sites   *gp.Sites
	layout  *layout
	layers  []*factorSum
	exact   []blas64.Symmetric // block of H of each of layout.vectors
	chained bool
	o       Options
}

// A factorSum has the factors of one matrix layer. Both are upper triangles.
type factorSum struct {
	*matrixLayer
	positions int // T
	a, g      blas64.Symmetric

	// The products with the next layer of a chain: A_{l,l+1} and G_{l,l+1}.
	nextA, nextG blas64.General

	once       sync.Once   // computes spectra
	spectra    [2]spectrum // spectra of A and G
	spectraErr error
}

// LayerFactors has copies of the Kronecker factors of one layer.
type LayerFactors struct {
	Name string        // name of the layer, with the group of a grouped convolution
	A    *mat.SymDense // factor of the inputs; the last one is the constant 1 where there is a bias
	G    *mat.SymDense // factor of the results
}

// SumFactors sums the factors of the training examples of x with the sites s. chained says that the products of
// neighbouring layers are summed too, for a Chain. For each layer it takes two squares of its inputs and two of its
// outputs in memory.
//
// x is read as linearize.Factored(x). The error is a *NoFactorsError for a layer without factors, a *gp.MemoryError
// before anything large is allocated, a *gp.NotFiniteError, gp.ErrNoExamples, ctx.Err() or an error of x.
// SumFactors panics where the sites do not fit the examples.
func SumFactors(ctx context.Context, x linearize.Source, s *gp.Sites, chained bool, o *Options) (*Factors, error) {
	if x.Len() == 0 {
		return nil, gp.ErrNoExamples
	}
	f := &Factors{n: x.Len(), source: x, sites: s, chained: chained, o: o.withDefaults()}
	_, f.c = s.F.Dims()
	if _, err := sites.New(s, f.n, f.c); err != nil {
		return nil, err
	}
	x = linearize.Factored(x)
	first, err := linearize.First(ctx, x, few)
	if err != nil {
		return nil, err
	}
	if err := f.allocate(first.Slice(0, 1)); err != nil {
		return nil, err
	}
	f.o.Show(StageFactors, 0, f.n)
	// The number of examples that are summed at a time: linearize.Tile, or less where the factors of one example
	// are large. It depends on the network alone, so the sums do not depend on the batches of the source.
	one := first.Slice(0, 1)
	floats := one.P/8 + 1
	for _, k := range one.Blocks {
		switch k := k.(type) {
		case *linearize.Outer:
			floats += len(k.G.RawMatrix().Data)
		case *linearize.Conv:
			floats += len(k.G.RawMatrix().Data) + len(k.X.RawMatrix().Data)
		case *linearize.Full:
			floats += len(k.J.RawMatrix().Data)
		}
	}
	tile := linearize.Tile(one.Outputs())
	err = linearize.Rebatch(x, max(1, tile/par.Tiles(tile, max(1, 2*panelBytes/8/floats)))).Batches(ctx, func(at int, b *linearize.Batch) error {
		if err := f.add(ctx, at, b); err != nil {
			return err
		}
		f.o.Show(StageFactors, at+b.Len(), f.n)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, f.finish()
}

// allocate checks the memory and allocates the sums. one is a batch with one example.
func (f *Factors) allocate(one *linearize.Batch) error {
	if one.Outputs() != f.c {
		panic("weightspace: sites and examples differ in the number of outputs")
	}
	f.p = one.P
	var err error
	if f.layout, err = layoutOf(one); err != nil {
		return err
	}
	if f.chained {
		// Refuse a layer that a chain cannot hold with a *NoFactorsError.
		l := f.layout
		const remedy = "use the structure kfac"
		for _, m := range l.matrices {
			if _, ok := one.Blocks[m.block].(*linearize.Outer); !ok {
				return &NoFactorsError{Layer: m.name, Reason: "a chain needs dense layers that are used once per example", Remedy: remedy}
			}
		}
		for _, v := range l.vectors {
			return &NoFactorsError{Layer: v.name, Reason: "a chain needs dense layers, and no matrix multiplies its parameters", Remedy: remedy}
		}
	}
	// A network of p parameters with the same proportions is taken to need p/P times the memory of this one.
	all := f.layout.bytes(one, f.chained)
	need := func(p int) int64 { return int64(float64(all) / float64(f.p) * float64(p)) }
	if err := gp.CheckMemory("the posterior with Kronecker factors", gp.Parameters, f.p, f.o.Memory, need); err != nil {
		return err
	}
	for i, m := range f.layout.matrices {
		s := &factorSum{matrixLayer: m, positions: 1, a: symmetric(m.cols()), g: symmetric(m.out)}
		if v, ok := one.Blocks[m.block].(*linearize.Conv); ok {
			s.positions, _, _ = v.Factors()
		}
		if f.chained && i+1 < len(f.layout.matrices) {
			next := f.layout.matrices[i+1]
			s.nextA, s.nextG = dense.New(m.cols(), next.cols()), dense.New(m.out, next.out)
		}
		f.layers = append(f.layers, s)
	}
	for _, v := range f.layout.vectors {
		f.exact = append(f.exact, symmetric(v.size()))
	}
	return nil
}

// bytes returns the memory in bytes of the factors, of the bases that a posterior makes from them, and of the
// numbers gathered from a batch.
func (l *layout) bytes(one *linearize.Batch, chained bool) int64 {
	square := func(n int) int64 { return memory.Mul(int64(n), int64(n)) }
	floats, gathered := int64(0), int64(0)
	rows := linearize.Tile(one.Outputs()) * one.Outputs()
	for _, m := range l.matrices {
		copies := int64(5)
		if chained {
			copies = 9
		}
		floats = memory.Add(floats, memory.Mul(copies, memory.Add(square(m.cols()), square(m.out))))
		floats = memory.Add(floats, memory.Mul(int64(m.cols()), int64(m.out)))
		gathered = max(gathered, memory.Mul(int64(rows), int64(m.cols()+m.out)))
		if _, ok := one.Blocks[m.block].(*linearize.Conv); ok {
			gathered = max(gathered, 3*convFloats)
		}
	}
	for _, v := range l.vectors {
		floats = memory.Add(floats, memory.Mul(2, square(v.size())))
		gathered = max(gathered, memory.Mul(2*int64(rows), int64(v.size())))
	}
	return memory.Mul(8, memory.Add(floats, gathered))
}

func symmetric(n int) blas64.Symmetric {
	return blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: max(1, n), Data: make([]float64, n*n)}
}

// add adds the factors of the examples of b, which begin at example first.
func (f *Factors) add(ctx context.Context, first int, b *linearize.Batch) error {
	// Return a *gp.NotFiniteError where a factor of the Jacobian of b has a NaN or Inf.
	for _, k := range b.Blocks {
		var input, gradient *mat.Dense
		switch k := k.(type) {
		case *linearize.Outer:
			input, gradient = k.A, k.G
		case *linearize.Conv:
			input, gradient = k.X, k.G
		case *linearize.Full:
			gradient = k.J
		}
		if input != nil {
			if err := checkMatrix("input of layer "+layerName(k.Spans()[0].Name), input, first); err != nil {
				return err
			}
		}
		if gradient != nil {
			for i := range dense.Count(gradient) {
				row := gradient.RawRowView(i)
				if sum := floats.Sum(row); sum-sum == 0 { // neither a NaN nor an Inf
					continue
				}
				if at := dense.NotFinite(row); at >= 0 {
					c := b.Outputs()
					return &gp.NotFiniteError{What: "Jacobian", Row: first + i/c, Output: i % c, Value: row[at]}
				}
			}
		}
	}
	root := dense.Slice(f.sites.Root, first*f.c, (first+b.Len())*f.c)
	var inputs, gradients []blas64.General // of the dense layers, for a chain
	for block, k := range b.Blocks {
		switch k := k.(type) {
		case *linearize.Outer:
			s := f.layers[f.layerOf(block)]
			a, g := s.inputs(k), f.rooted(root, k.G)
			if err := addGram(ctx, a, s.a); err != nil {
				return err
			}
			if err := addGram(ctx, g, s.g); err != nil {
				return err
			}
			if f.chained {
				inputs, gradients = append(inputs, a), append(gradients, g)
			}
		case *linearize.Conv:
			if err := f.addConv(ctx, block, k, root); err != nil {
				return err
			}
		}
	}
	for i := range len(inputs) - 1 {
		s := f.layers[i]
		if err := dense.GemmContext(ctx, blas.Trans, blas.NoTrans, 1, inputs[i], inputs[i+1], 1, s.nextA); err != nil {
			return err
		}
		if err := dense.GemmContext(ctx, blas.Trans, blas.NoTrans, 1, gradients[i], gradients[i+1], 1, s.nextG); err != nil {
			return err
		}
	}
	// Add the blocks of H of the vector layers.
	for i, v := range f.layout.vectors {
		j := jacobianColumns(b, v.index())
		if err := addGram(ctx, f.rooted(root, dense.View(j)), f.exact[i]); err != nil {
			return err
		}
	}
	return nil
}

// layerOf returns the position in f.layers of the first matrix of a block, or −1.
func (f *Factors) layerOf(block int) int {
	for i, s := range f.layers {
		if s.block == block {
			return i
		}
	}
	return -1
}

// inputs returns the inputs ã of a dense layer, N×cols.
func (s *matrixLayer) inputs(o *linearize.Outer) blas64.General {
	n := dense.Count(o.G) / o.C
	if s.bias == nil {
		return o.A.RawMatrix()
	}
	a := dense.New(n, s.cols())
	for i := range n {
		row := dense.Row(a, i)
		if s.in > 0 {
			copy(row, o.A.RawRowView(i))
		}
		row[s.in] = 1
	}
	return a
}

// rooted returns m with the C rows of each example multiplied by Rᵀ.
func (f *Factors) rooted(root, m *mat.Dense) blas64.General {
	rows, cols := m.Dims()
	out := dense.New(rows, cols)
	n := rows / f.c
	step := max(1, panelTile/f.c)
	// A context that never ends gives no error.
	_ = par.Do(context.Background(), par.Tiles(n, step), func(t int) error {
		lo, hi := par.Bounds(t, n, step)
		for i := lo; i < hi; i++ {
			rootTimes(dense.Rows(out, i*f.c, (i+1)*f.c), dense.Slice(root, i*f.c, (i+1)*f.c), dense.Slice(m, i*f.c, (i+1)*f.c))
		}
		return nil
	})
	return out
}

// rootTimes writes Rᵀ M for the C×C root R = r of one example.
func rootTimes(dst blas64.General, r, m *mat.Dense) {
	if isDiagonal(r) {
		dense.Copy(dst, m.RawMatrix())
		// Multiply row i of m by r_ii.
		m := dense.View(dst)
		for i := range dense.Count(m) {
			s := r.At(i, i)
			for k, row := 0, m.RawRowView(i); k < len(row); k++ {
				row[k] *= s
			}
		}
		return
	}
	dense.Gemm1(blas.Trans, blas.NoTrans, 1, r.RawMatrix(), m.RawMatrix(), 0, dst)
}

// finish divides A by N·T, and checks that all sums are finite.
func (f *Factors) finish() error {
	for _, s := range f.layers {
		scale := 1 / (float64(f.n) * float64(s.positions))
		for _, sum := range [][]float64{s.a.Data, s.nextA.Data} {
			for i := range sum {
				sum[i] *= scale
			}
		}
		for _, sum := range [][]float64{s.a.Data, s.g.Data, s.nextA.Data, s.nextG.Data} {
			if dense.NotFinite(sum) >= 0 {
				return tooLarge("a Kronecker factor of layer "+s.name, s.size())
			}
		}
	}
	for i, sum := range f.exact {
		if dense.NotFinite(sum.Data) >= 0 {
			return tooLarge("the block of layer "+f.layout.vectors[i].name, sum.N)
		}
	}
	return nil
}

// tooLarge returns the error for a sum that overflowed.
func tooLarge(what string, n int) error {
	return &gp.NotPDError{What: what, N: n, Reason: "its numbers are too large for float64; scale the inputs or raise the prior precision"}
}

// Layers returns copies of the factors of all layers that have factors, in the order of a batch's blocks.
func (f *Factors) Layers() []LayerFactors {
	out := make([]LayerFactors, len(f.layers))
	for i, s := range f.layers {
		out[i] = LayerFactors{Name: s.name, A: copySymmetric(s.a), G: copySymmetric(s.g)}
	}
	return out
}

func copySymmetric(s blas64.Symmetric) *mat.SymDense {
	m := mat.NewSymDense(s.N, nil)
	for i := range s.N {
		for j := i; j < s.N; j++ {
			m.SetSym(i, j, s.Data[i*s.Stride+j])
		}
	}
	return m
}
