package network_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// FuzzIntegers reads graphs in which a chain of integer operators, the last of
// them Div or Mod, gives the shape of a Reshape. A graph that is read must
// compute what the evaluator computes, for batches of any size.
func FuzzIntegers(f *testing.F) {
	rng := rand.New(rand.NewPCG(5, 7))
	for range 64 {
		choices := make([]byte, 24)
		for i := range choices {
			choices[i] = byte(rng.Uint32())
		}
		f.Add(choices)
	}
	f.Add([]byte{0, 2, 1, 4, 8, 0, 8, 1, 9, 2, 2, 0, 2}) // (N, 0) divided by N in floating point
	f.Fuzz(func(t *testing.T, choices []byte) {
		m, batch := integerChain(choices)
		data, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var net *network.Network
		limit := uint64(hostileBytes + 400*len(data))
		if used := allocated(func() { net, err = network.ReadONNX(bytes.NewReader(data), nil) }); used > limit {
			t.Fatalf("reading %d bytes allocated %d", len(data), used)
		}
		if err != nil {
			requireOneLine(t, err)
			return
		}
		for _, rows := range []int{1, 2, 3, 5} {
			if batch > 0 {
				rows = batch
			}
			x := gaussianMatrix(rand.New(rand.NewPCG(3, 4)), rows, chainWidth)
			want := testref.Must(evaluate(m, &tensor{shape: []int{rows, chainWidth}, data: x.RawMatrix().Data}, nil))(t)
			got := testref.Must(net.Forward(t.Context(), x))(t)
			testref.RequireClose(t, got.RawMatrix().Data, want.data, 1e-15, "f")
		}
	})
}

// chainWidth is the number of inputs of an integerChain's model.
const chainWidth = 12

// integerChain builds the graph that the choices stand for, and returns the
// batch size that it declares; 0 is an open one.
func integerChain(choices []byte) (*onnx.Model, int) {
	g, m := newGraph(18, chainWidth), &mutator{bytes: choices}
	batch := []int{0, 0, 4}[m.pick(3)]
	if batch > 0 {
		g.fixed(batch)
	}
	x := g.input()
	// The vectors so far. Small numbers come first, as most shapes have them.
	made := []string{g.op("Shape", in("x")), g.batchVector(), g.ints(2), g.ints(3, 4), g.ints(0), g.ints(-1), g.ints(6), g.ints(math.MinInt64)}
	any := func() string { return made[m.pick(len(made))] }
	one := func() string { return g.op("Slice", in(any(), g.ints(0), g.ints(1))) }
	scalar := func() string { return g.op("Squeeze", in(one(), g.ints(0))) }
	small := func() string { return g.ints(int64(m.pick(7) - 2)) }
	quotient := func(a, b string) string {
		switch m.pick(3) {
		case 0:
			return g.op("Mod", in(a, b))
		case 1:
			return g.op("Mod", in(a, b), intA("fmod", 1))
		}
		return g.op("Div", in(a, b))
	}
	steps := []func() string{
		func() string { return g.op("Gather", in(any(), small())) },
		func() string { return g.op("Slice", in(any(), small(), small(), g.ints(0), small())) },
		func() string { return g.op("Concat", in(any(), any()), intA("axis", 0)) },
		func() string { return g.op("Add", in(any(), any())) },
		func() string { return g.op("Sub", in(any(), any())) },
		func() string { return g.op("Mul", in(any(), any())) },
		func() string { return quotient(any(), any()) },
		func() string { return g.cast(any(), []onnx.DataType{onnx.Int64, onnx.Int32, onnx.Bool}[m.pick(3)]) },
		func() string { // arithmetic in floating point
			kind := []string{"Div", "Mul", "Add", "Sub"}[m.pick(4)]
			return g.cast(g.op(kind, in(g.cast(any(), onnx.Float), g.cast(any(), onnx.Float))), onnx.Int64)
		},
		func() string { return g.op("Range", in(scalar(), scalar(), scalar())) },
		func() string {
			fill := &onnx.Tensor{Dims: []int64{1}, Type: onnx.Int64, Ints: []int64{m.number()}}
			return g.op("ConstantOfShape", in(one()), tensorA("value", fill))
		},
		func() string { return g.op("Expand", in(any(), one())) },
		func() string { return g.ints(m.number()) },
		func() string { return g.op("Reshape", in(any(), small())) },
	}
	for range 6 {
		if len(m.bytes) < 8 {
			break
		}
		made = append(made, steps[m.pick(len(steps))]())
	}
	end := quotient(any(), any())
	if m.pick(2) == 1 {
		end = g.op("Slice", in(end, g.ints(0), g.ints(1)))
	}
	shape := [][]string{{g.batchVector(), end, g.ints(-1)}, {g.batchVector(), g.ints(-1), end}, {g.ints(-1), end}, {end, g.ints(-1)}, {end}}[m.pick(5)]
	return g.output(g.op("Reshape", in(x, g.op("Concat", shape, intA("axis", 0))))), batch
}

// TestIntegerChains checks that enough of the chains of FuzzIntegers are read
// for it to compare something.
func TestIntegerChains(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 7))
	read := 0
	for range 2000 {
		choices := make([]byte, 24)
		for i := range choices {
			choices[i] = byte(rng.Uint32())
		}
		m, _ := integerChain(choices)
		if _, err := load(m); err == nil {
			read++
		}
	}
	require.Greater(t, read, 100)
}
