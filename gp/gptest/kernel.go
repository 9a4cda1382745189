package gptest

import (
	"math"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// kernelTol bounds the difference of two ways to the same kernel, relative to
// its largest entry: sums of a few thousand terms in float64, in any order.
const kernelTol = 1e-12

// Kernel checks what every ntk.Kernel promises on a batch of at least four
// examples: symmetry, positive semidefiniteness, agreement of blocks with
// sub-blocks, of the diagonal and of single outputs with the whole, of MulTo
// with the product, destinations of any content and stride, sizes, inputs
// unchanged, and bit-identical results for any GOMAXPROCS and in concurrent
// calls. Examples beyond 40 or so only take time.
//
//	func TestPeriodic(t *testing.T) {
//		rng := rand.New(rand.NewPCG(1, 2))
//		b := gptest.RandomBatch(rng, 12, 3, gptest.RandomLayers(rng)...)
//		gptest.Kernel(t, periodic{}, b)
//	}
func Kernel(t *testing.T, k ntk.Kernel, b *linearize.Batch) {
	t.Helper()
	if b.Len() < 4 {
		t.Fatalf("the batch has %d examples, the suite needs 4", b.Len())
	}
	c := kernelCase{kernel: k, batch: b, whole: new(mat.Dense)}
	k.BlockTo(c.whole, b, b)
	t.Run("Covariance", c.covariance)
	t.Run("Transposed", c.transposed)
	t.Run("SubBlocks", c.subBlocks)
	t.Run("Diagonal", c.diagonal)
	t.Run("Outputs", c.outputs)
	t.Run("Mean", c.mean)
	t.Run("Product", c.product)
	t.Run("Destinations", c.destinations)
	t.Run("Empty", c.empty)
	t.Run("WrongSize", c.wrongSize)
	t.Run("InputsUnchanged", c.inputsUnchanged)
	t.Run("GOMAXPROCS", c.procs)
	t.Run("Concurrent", c.concurrent)
}

type kernelCase struct {
	kernel ntk.Kernel
	batch  *linearize.Batch
	whole  *mat.Dense // κ(batch, batch)
}

func (c kernelCase) close(t *testing.T, what string, got, want mat.Matrix) {
	t.Helper()
	requireWithin(t, what, got, want, kernelTol*largest(c.whole))
}

func (c kernelCase) block(a, b *linearize.Batch) *mat.Dense {
	k := new(mat.Dense)
	c.kernel.BlockTo(k, a, b)
	return k
}

func (c kernelCase) covariance(t *testing.T) {
	n := c.batch.Len() * c.batch.Outputs()
	if rows, cols := c.whole.Dims(); rows != n || cols != n {
		t.Fatalf("an empty destination became %d×%d, want %d×%d", rows, cols, n, n)
	}
	requireCovariance(t, "kernel", c.whole, kernelTol*largest(c.whole))
}

// transposed checks that κ(a, b) = κ(b, a)ᵀ for different batches.
func (c kernelCase) transposed(t *testing.T) {
	n := c.batch.Len()
	a, b := c.batch.Slice(0, n/3+1), c.batch.Slice(1, n)
	c.close(t, "kernel of b and a", c.block(b, a).T(), c.block(a, b))
}

func (c kernelCase) subBlocks(t *testing.T) {
	n, outs := c.batch.Len(), c.batch.Outputs()
	cuts := []int{0, 1, n / 2, n - 1, n}
	for i := range len(cuts) - 1 {
		for j := range len(cuts) - 1 {
			i0, i1, j0, j1 := cuts[i], cuts[i+1], cuts[j], cuts[j+1]
			if i0 == i1 || j0 == j1 {
				continue
			}
			got := c.block(c.batch.Slice(i0, i1), c.batch.Slice(j0, j1))
			c.close(t, "block of slices", got, c.whole.Slice(i0*outs, i1*outs, j0*outs, j1*outs))
		}
	}
	c.close(t, "block of a batch and an equal one", c.block(c.batch, c.batch.Slice(0, n)), c.whole)
}

func (c kernelCase) diagonal(t *testing.T) {
	outs := c.batch.Outputs()
	diag := new(mat.Dense)
	c.kernel.DiagTo(diag, c.batch)
	for n := range c.batch.Len() {
		at := n * outs
		c.close(t, "block of the diagonal", diag.Slice(at, at+outs, 0, outs), c.whole.Slice(at, at+outs, at, at+outs))
		requireCovariance(t, "block of the diagonal", diag.Slice(at, at+outs, 0, outs), kernelTol*largest(c.whole))
	}
}

// outputs checks that the kernel of one output has the entries that the kernel of all outputs has for it.
func (c kernelCase) outputs(t *testing.T) {
	n, outs := c.batch.Len(), c.batch.Outputs()
	for _, p := range [][2]int{{0, 0}, {0, outs - 1}, {outs - 1, outs / 2}} {
		got := c.block(c.batch.Output(p[0]), c.batch.Output(p[1]))
		want := mat.NewDense(n, n, nil)
		for i := range n {
			for j := range n {
				want.Set(i, j, c.whole.At(i*outs+p[0], j*outs+p[1]))
			}
		}
		c.close(t, "kernel of single outputs", got, want)
		diag := new(mat.Dense)
		c.kernel.DiagTo(diag, c.batch.Output(p[0]))
		for i := range n {
			c.close(t, "diagonal of a single output", diag.Slice(i, i+1, 0, 1), c.whole.Slice(i*outs+p[0], i*outs+p[0]+1, i*outs+p[0], i*outs+p[0]+1))
		}
	}
}

func (c kernelCase) meanOf(b *linearize.Batch) *mat.VecDense {
	dst := make([]float64, b.Len()*b.Outputs())
	for i := range dst {
		dst[i] = math.NaN()
	}
	c.kernel.MeanTo(dst, b)
	return mat.NewVecDense(len(dst), dst)
}

func (c kernelCase) mean(t *testing.T) {
	n, outs := c.batch.Len(), c.batch.Outputs()
	want := c.meanOf(c.batch)
	tol := kernelTol * math.Max(largest(want), largest(c.batch.F))
	for _, r := range [][2]int{{0, 1}, {1, n}, {n / 2, n}} {
		got := c.meanOf(c.batch.Slice(r[0], r[1]))
		requireWithin(t, "mean of a slice", got, want.SliceVec(r[0]*outs, r[1]*outs), tol)
	}
	one := c.meanOf(c.batch.Output(outs - 1))
	for i := range n {
		requireWithin(t, "mean of a single output", one.SliceVec(i, i+1), want.SliceVec(i*outs+outs-1, i*outs+outs), tol)
	}
}

// product checks that MulTo, if the kernel has it, gives the product with the whole kernel matrix.
func (c kernelCase) product(t *testing.T) {
	k, ok := c.kernel.(ntk.MulToer)
	if !ok {
		t.Skip("the kernel has no MulTo")
	}
	n, outs := c.batch.Len(), c.batch.Outputs()
	part := c.batch.Slice(1, n-1)
	for _, cols := range []int{1, 3, 200} {
		v := mat.NewDense(n*outs, cols, nil)
		for i := range n * outs {
			for j := range cols {
				v.Set(i, j, math.Sin(float64(1+i*cols+j)))
			}
		}
		var want mat.Dense
		want.Mul(c.whole, v)
		got := poisoned(n*outs, cols)
		k.MulTo(got, c.batch, c.batch, v)
		tol := kernelTol * math.Sqrt(float64(n*outs)) * largest(c.whole)
		requireWithin(t, "product", got, &want, tol)
		sized := new(mat.Dense)
		k.MulTo(sized, part, c.batch, v)
		requireWithin(t, "product with a block", sized, want.Slice(outs, (n-1)*outs, 0, cols), tol)
	}
	requirePanic(t, "a right side of a wrong size", func() { k.MulTo(new(mat.Dense), part, c.batch, mat.NewDense(n*outs+1, 1, nil)) })
	requirePanic(t, "a product of a wrong size", func() {
		k.MulTo(mat.NewDense(1, 1, nil), c.batch, c.batch, mat.NewDense(n*outs, 1, nil))
	})
}

// destinations: views with a stride, full of NaN, of which nothing outside is
// written.
func (c kernelCase) destinations(t *testing.T) {
	n, outs := c.batch.Len(), c.batch.Outputs()
	part := c.batch.Slice(1, n)
	framed(t, "kernel", n*outs, n*outs, c.whole, func(dst *mat.Dense) { c.kernel.BlockTo(dst, c.batch, c.batch) })
	framed(t, "block", (n-1)*outs, n*outs, c.block(part, c.batch), func(dst *mat.Dense) { c.kernel.BlockTo(dst, part, c.batch) })
	diag := new(mat.Dense)
	c.kernel.DiagTo(diag, c.batch)
	framed(t, "diagonal", n*outs, outs, diag, func(dst *mat.Dense) { c.kernel.DiagTo(dst, c.batch) })
}

// framed calls write with an r×c view into a larger matrix of NaN.
func framed(t *testing.T, what string, r, c int, want *mat.Dense, write func(dst *mat.Dense)) {
	t.Helper()
	frame := mat.NewDense(r+2, c+3, nil)
	frame.Apply(func(_, _ int, _ float64) float64 { return math.NaN() }, frame)
	view := frame.Slice(1, r+1, 2, c+2).(*mat.Dense)
	write(view)
	requireEqual(t, what+" in a used view", view, want)
	for i := range r + 2 {
		for j := range c + 3 {
			inside := i >= 1 && i <= r && j >= 2 && j < c+2
			if !inside && !math.IsNaN(frame.At(i, j)) {
				t.Fatalf("%s was written outside of its destination, at (%d, %d)", what, i-1, j-2)
			}
		}
	}
}

func (c kernelCase) empty(t *testing.T) {
	none := c.batch.Slice(1, 1)
	block, diag := new(mat.Dense), new(mat.Dense)
	c.kernel.BlockTo(block, none, c.batch)
	c.kernel.BlockTo(block, c.batch, none)
	c.kernel.BlockTo(block, none, none)
	c.kernel.DiagTo(diag, none)
	c.kernel.MeanTo(nil, none)
	if !block.IsEmpty() || !diag.IsEmpty() {
		t.Error("no examples give a matrix that is not empty")
	}
}

func (c kernelCase) wrongSize(t *testing.T) {
	b, n, outs := c.batch, c.batch.Len(), c.batch.Outputs()
	for what, call := range map[string]func(){
		"mean":        func() { c.kernel.MeanTo(make([]float64, n*outs+1), b) },
		"block":       func() { c.kernel.BlockTo(mat.NewDense(n*outs, n*outs+1, nil), b, b) },
		"slice block": func() { c.kernel.BlockTo(mat.NewDense(n*outs, n*outs, nil), b.Slice(1, n), b) },
		"diagonal":    func() { c.kernel.DiagTo(mat.NewDense(n*outs+1, outs, nil), b) },
		"another P": func() {
			other := *b
			other.P++
			c.kernel.BlockTo(new(mat.Dense), &other, &other)
		},
		"another P in one batch": func() {
			other := *b
			other.P++
			c.kernel.BlockTo(new(mat.Dense), b, &other)
		},
	} {
		requirePanic(t, what, call)
	}
}

func (c kernelCase) inputsUnchanged(t *testing.T) {
	before := snapshot(c.batch)
	c.all()
	requireEqual(t, "inputs", snapshot(c.batch), before)
}

// all returns everything the kernel computes.
func (c kernelCase) all() []mat.Matrix {
	n := c.batch.Len()
	part := c.batch.Slice(0, n-1)
	diag := new(mat.Dense)
	c.kernel.DiagTo(diag, c.batch)
	all := []mat.Matrix{c.block(c.batch, c.batch), c.block(part, c.batch), diag, c.meanOf(c.batch)}
	if k, ok := c.kernel.(ntk.MulToer); ok {
		for _, cols := range []int{2, 100} {
			v := mat.NewDense(n*c.batch.Outputs(), cols, nil)
			for i := range n * c.batch.Outputs() {
				v.Set(i, i%cols, 1+1/float64(i+1))
			}
			p := new(mat.Dense)
			k.MulTo(p, part, c.batch, v)
			all = append(all, p)
		}
	}
	return all
}

func (c kernelCase) procs(t *testing.T) {
	old := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(old)
	want := c.all()
	for _, p := range []int{2, 3} {
		runtime.GOMAXPROCS(p)
		for i, got := range c.all() {
			requireEqual(t, "result", got, want[i])
		}
	}
}

func (c kernelCase) concurrent(t *testing.T) {
	results := make([][]mat.Matrix, 4)
	done := make(chan struct{})
	for i := range results {
		go func() {
			results[i] = c.all()
			done <- struct{}{}
		}()
	}
	for range results {
		<-done
	}
	for _, got := range results[1:] {
		for i := range got {
			requireEqual(t, "result", got[i], results[0][i])
		}
	}
}
