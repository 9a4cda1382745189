package network_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
)

// A chain is a random sequence of operators that move, split and join
// dimensions. Its dimensions are lists of factors, of which one is the batch:
// chainBatch stands for it, a number that nothing else is a multiple of.
type chain struct {
	g    *graph
	rng  *rand.Rand
	at   string
	dims [][]int
	past []chain // earlier values
}

const chainBatch = 7

func newChain(seed uint64) *chain {
	rng := rand.New(rand.NewPCG(seed, 21))
	dims := [][]int{{chainBatch}}
	var shape []int
	for range 1 + rng.IntN(3) {
		d := []int{1, 2, 3, 4, 5, 6}[rng.IntN(6)]
		shape = append(shape, d)
		dims = append(dims, factors(d))
	}
	c := &chain{g: newGraph(17, shape...), rng: rng, dims: dims}
	c.at = c.g.input()
	return c
}

func factors(d int) []int {
	switch d {
	case 1:
		return nil
	case 4:
		return []int{2, 2}
	case 6:
		return []int{2, 3}
	}
	return []int{d}
}

func (c *chain) holdsBatch(d int) bool { return slices.Contains(c.dims[d], chainBatch) }

func (c *chain) axis() int { return c.rng.IntN(len(c.dims)) }

func (c *chain) sizes() []int {
	var out []int
	for _, d := range c.dims {
		out = append(out, size(d))
	}
	return out
}

func (c *chain) to(name string, dims [][]int) {
	c.past = append(c.past, chain{at: c.at, dims: c.dims})
	c.at, c.dims = name, dims
}

func (c *chain) transpose() {
	perm, dims := []int64{}, [][]int{}
	for _, p := range c.rng.Perm(len(c.dims)) {
		perm, dims = append(perm, int64(p)), append(dims, c.dims[p])
	}
	c.to(c.g.op("Transpose", in(c.at), intsA("perm", perm...)), dims)
}

// reshape joins and splits neighbouring dimensions at random.
func (c *chain) reshape() {
	all := slices.Concat(c.dims...)
	var dims [][]int
	for len(all) > 0 {
		n := 1 + c.rng.IntN(min(3, len(all)))
		if c.rng.IntN(6) == 0 {
			n = 0
		}
		dims = append(dims, all[:n:n])
		all = all[n:]
	}
	var target []int64
	for _, d := range dims {
		if slices.Contains(d, chainBatch) {
			target = append(target, -1)
		} else {
			target = append(target, int64(size(d)))
		}
	}
	c.to(c.g.op("Reshape", in(c.at, c.g.ints(target...))), dims)
}

func (c *chain) flatten() {
	ax := c.rng.IntN(len(c.dims) + 1)
	c.to(c.g.op("Flatten", in(c.at), intA("axis", int64(ax))), [][]int{slices.Concat(c.dims[:ax]...), slices.Concat(c.dims[ax:]...)})
}

func (c *chain) unsqueeze() {
	ax := c.rng.IntN(len(c.dims) + 1)
	c.to(c.g.op("Unsqueeze", in(c.at, c.g.ints(int64(ax)))), slices.Insert(slices.Clone(c.dims), ax, nil))
}

// combine adds a parameter that broadcasts, or an earlier value.
func (c *chain) combine() {
	for _, other := range c.past {
		if c.rng.IntN(2) == 0 && slices.Equal(other.sizes(), c.sizes()) {
			c.to(c.g.op("Sub", in(c.at, other.at)), c.dims)
			return
		}
	}
	shape := c.sizes()
	for d := range shape {
		if c.holdsBatch(d) || c.rng.IntN(2) == 0 {
			shape[d] = 1
		}
	}
	c.to(c.g.op("Mul", in(c.at, c.g.positive(shape...))), c.dims)
}

func (c *chain) product() {
	last := len(c.dims) - 1
	w := c.g.spread(0, 0.5, size(c.dims[last]), 3)
	c.to(c.g.op("MatMul", in(c.at, w)), append(slices.Clone(c.dims[:last]), []int{3}))
}

func (c *chain) softmax() {
	c.to(c.g.op("LogSoftmax", in(c.at), intA("axis", int64(c.axis()))), c.dims)
}

func (c *chain) reduce() {
	ax := c.axis()
	dims := slices.Clone(c.dims)
	if keep := c.rng.IntN(2); keep == 1 {
		dims[ax] = nil
		c.to(c.g.op("ReduceMean", in(c.at), intsA("axes", int64(ax)), intA("keepdims", 1)), dims)
	} else if len(dims) > 1 {
		c.to(c.g.op("ReduceMean", in(c.at), intsA("axes", int64(ax)), intA("keepdims", 0)), slices.Delete(dims, ax, ax+1))
	}
}

func (c *chain) gather() {
	ax := c.axis()
	n := size(c.dims[ax])
	dims := slices.Clone(c.dims)
	if c.holdsBatch(ax) {
		n = 1
	}
	dims[ax] = []int{2}
	c.to(c.g.op("Gather", in(c.at, c.g.ints(int64(n-1), 0)), intA("axis", int64(ax))), dims)
}

func (c *chain) concat() {
	ax := c.axis()
	dims := slices.Clone(c.dims)
	dims[ax] = append([]int{2}, dims[ax]...)
	c.to(c.g.op("Concat", in(c.at, c.g.op("Tanh", in(c.at))), intA("axis", int64(ax))), dims)
}

// finish moves the batch to the front where it can.
func (c *chain) finish() string {
	for d := range c.dims {
		if len(c.dims[d]) == 1 && c.holdsBatch(d) {
			perm := []int64{int64(d)}
			for i := range c.dims {
				if i != d {
					perm = append(perm, int64(i))
				}
			}
			return c.g.op("Transpose", in(c.at), intsA("perm", perm...))
		}
	}
	return c.at
}

func (c *chain) sample(rows int) *tensor {
	x := newTensor(append([]int{rows}, c.g.dims...))
	for i := range x.data {
		x.data[i] = c.rng.NormFloat64()
	}
	return x
}

func matrixOf(x *tensor) *mat.Dense { return mat.NewDense(x.shape[0], len(x.data)/x.shape[0], x.data) }

// byExample reports whether each example changes its own row of the output
// and nothing else.
func (c *chain) byExample(x *tensor) bool {
	before, err := evaluate(c.g.model, x, nil)
	if err != nil || len(before.shape) == 0 || before.shape[0] != x.shape[0] {
		return false
	}
	rows, width := x.shape[0], len(before.data)/x.shape[0]
	for r := range rows {
		y := x.with(x.shape...)
		y.data = slices.Clone(x.data)
		for i := range len(x.data) / rows {
			y.data[r*len(x.data)/rows+i]++
		}
		after, err := evaluate(c.g.model, y, nil)
		if err != nil {
			return false
		}
		for i := range before.data {
			if i/width != r && before.data[i] != after.data[i] {
				return false
			}
		}
	}
	return true
}

// TestChains builds random chains. A chain that is read must compute what the
// evaluator computes, with 7 and with 4 examples. In a chain that is refused, an
// example must depend on another or have no output row of its own.
func TestChains(t *testing.T) {
	read, refused, strict := 0, 0, 0
	for seed := range uint64(800) {
		c := newChain(seed)
		steps := []func(){c.transpose, c.transpose, c.reshape, c.reshape, c.reshape, c.flatten, c.unsqueeze, c.combine, c.combine, c.product, c.softmax, c.reduce, c.gather, c.concat}
		for range 2 + c.rng.IntN(5) {
			if len(c.dims) > 0 && len(c.dims) < 8 {
				steps[c.rng.IntN(len(steps))]()
			}
		}
		m := c.g.output(c.finish())
		net, err := load(m)
		if err != nil {
			refused++
			requireOneLine(t, err)
			if x := c.sample(chainBatch); c.byExample(x) {
				strict++
				t.Logf("seed %d: %v", seed, err)
			}
			continue
		}
		read++
		for _, rows := range []int{chainBatch, 4} {
			x := c.sample(rows)
			want, err := evaluate(m, x, nil)
			require.NoError(t, err, "seed %d", seed)
			f, err := net.Forward(t.Context(), matrixOf(x))
			require.NoError(t, err)
			want = examplesFirst(m, x, want, true)
			worst, scale := distance(f.RawMatrix().Data, want.data)
			require.Len(t, want.data, len(f.RawMatrix().Data), "seed %d", seed)
			require.LessOrEqual(t, worst, 1e-12*(1+scale), "seed %d", seed)
		}
	}
	t.Logf("%d read, %d refused, %d of them although they do not mix", read, refused, strict)
	require.Greater(t, read, 300)
	require.Less(t, strict, refused/10)
}
