package limits

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize/network"
)

// The counts of a network of two convolutions and a dense layer are those of loops that do nothing else than count. The
// first convolution has 16 positions and forms its columns, the second has one and is contracted, as a dense layer is.
func TestCountsAreThoseOfLoops(t *testing.T) {
	net, err := network.Sequential(network.Shape{1, 6, 6}, network.Conv2D{Filters: 2, Kernel: 3}, network.ReLU,
		network.Conv2D{Filters: 3, Kernel: 4}, network.ReLU, network.Flatten{}, network.Dense{Units: 2})
	require.NoError(t, err)
	b, err := net.Factored().Linearize(t.Context(), mat.NewDense(1, 36, make([]float64, 36)))
	require.NoError(t, err)
	s, err := shapeOf(b)
	require.NoError(t, err)
	const n, c, inputs = 150, 2, 7
	s.choose(s.gram(n), n)
	_, _, params := net.Dims()
	require.Equal(t, float64(params), s.p)

	count := 0.0
	times := func(n int, f func()) {
		for range n {
			f()
		}
	}
	flop := func() { count++ }
	muladds := func(n int) { count += 2 * float64(n) }
	took := func() float64 { v := count; count = 0; return v }

	conv1 := func() { times(2*4*4, func() { muladds(3 * 3) }) }    // filters and positions, taps
	conv2 := func() { times(3, func() { muladds(2 * 4 * 4) }) }    // filters, channels and taps
	last := func() { times(2, func() { muladds(3) }) }             // units, inputs
	columns1 := func() { times(2*3*3, func() { muladds(4 * 4) }) } // weights, positions
	times(n, func() {
		conv1()
		conv2()
		last()
		times(c, func() { last(); conv2(); columns1() })
	})
	fit := s.fit(n)
	require.Equal(t, took(), fit[0].Flops)

	// entries calls do for so many entries of the kernel between two examples.
	kernel := func(same bool) {
		entries := c * c
		if same {
			entries = c * (c + 1) / 2
		}
		times(entries, func() { muladds(2*3*3 + 2) })         // columns of the first weight and bias
		muladds(2 * 4 * 4)                                    // p·p'
		flop()                                                // + 1 for the bias
		times(entries, func() { muladds(3); flop(); flop() }) // g·g', times, added
		muladds(3)                                            // of the dense layer
		flop()                                                //
		times(entries, func() { muladds(2); flop(); flop() }) //
	}
	for i := range n {
		for j := range i + 1 {
			kernel(i == j)
		}
	}
	times(n, func() {
		times(c, func() { muladds(2 * 3 * 3) }) // J v by columns
		conv2()                                 // V a
		last()
		times(c, func() { muladds(3); muladds(2) }) // g·(V a)
	})
	require.Equal(t, took(), fit[1].Flops)

	const rows = n * c
	for range rows * (rows + 1) / 2 / c { // C numbers times R on either side
		times(2, func() { muladds(c); times(c, flop); muladds(c) })
	}
	for j := range rows { // Cholesky
		for range rows - j {
			muladds(j)
			flop()
		}
	}
	muladds(rows * rows) // K b
	triangular := func() {
		for i := range rows {
			muladds(i)
			flop()
		}
	}
	triangular()
	triangular()
	require.InEpsilon(t, took(), fit[2].Flops, .02)

	predict := s.predict(inputs, n)
	require.Equal(t, s.fit(inputs)[0], predict[0])
	for range inputs * n {
		kernel(false)
	}
	require.Equal(t, took(), predict[1].Flops)
	times(inputs*c, func() {
		triangular()
		times(n, func() { muladds(c); times(c, flop); muladds(c) })
	})
	require.Equal(t, took(), predict[2].Flops)
	times(inputs, func() {
		kernel(true)
		times(c*(c+1)/2, func() { muladds(rows) })
	})
	require.Equal(t, took(), predict[3].Flops)

	times(inputs, func() { kernel(true); times(c*(c+1)/2, func() { muladds(rows) }) })
	times(inputs*c, func() { // a row times a triangle
		for j := range rows {
			muladds(j + 1)
		}
	})
	require.InEpsilon(t, took(), s.inducing(inputs, n)[2].Flops, .01)
}

// A run of a small job fills each stage, in the order of the counts, and all runs give the same numbers.
func TestRunTimesEachStage(t *testing.T) {
	for _, j := range jobs {
		j.N, j.T, j.Inducing = 40, 20, min(j.Inducing, 10)
		p, err := j.prepare(t.Context())
		require.NoError(t, err)
		first, check, err := p.run(t.Context())
		require.NoError(t, err)
		second, again, err := p.run(t.Context())
		require.NoError(t, err)
		require.Equal(t, check, again)
		require.Positive(t, check)
		require.Len(t, second, len(first))
		for _, s := range slices.Concat(first, second) {
			require.Positive(t, s.Seconds, "%s: %s", j.Name, s.Name)
			require.Positive(t, s.Flops)
			require.Positive(t, s.Bytes)
		}
	}
}

func TestTableOfRecordedFigures(t *testing.T) {
	data, err := os.ReadFile("testdata/small.json")
	require.NoError(t, err)
	var r results
	require.NoError(t, json.Unmarshal(data, &r))
	want, err := os.ReadFile("testdata/small.md")
	require.NoError(t, err)
	require.Equal(t, string(want), r.markdown())
}
