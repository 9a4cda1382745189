package linearize_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// inputs returns a batch of 13 examples with one output, whose inputs are 0, 1, …
func inputs(t *testing.T) *linearize.Batch {
	t.Helper()
	const n, d = 13, 3
	x := mat.NewDense(n, d, nil)
	for i := range n * d {
		x.RawMatrix().Data[i] = float64(i)
	}
	return &linearize.Batch{X: x, F: mat.NewDense(n, 1, nil), Model: linearize.ModelFingerprint{Graph: linearize.Sum{1}, Parameters: linearize.Sum{2}}}
}

func printOf(t *testing.T, src linearize.Source) linearize.Fingerprint {
	t.Helper()
	return testref.Must(linearize.FingerprintOf(t.Context(), src))(t)
}

// plain is a Source that can only be passed over.
type plain struct{ linearize.Source }

// A fingerprint depends on the examples and on nothing that they come in.
func TestFingerprintOfSources(t *testing.T) {
	b := inputs(t)
	want := printOf(t, b)
	require.True(t, want.Complete())
	for name, src := range map[string]linearize.Source{
		"rebatched": linearize.Rebatch(b, 4), "plain": plain{linearize.Rebatch(b, 5)},
		"from":   linearize.From(plain{linearize.Concat(b.Slice(3, 7), b)}, 4),
		"concat": linearize.Concat(b.Slice(0, 6), b.Slice(6, 13)),
		"view":   &linearize.Batch{X: wide(b.X), F: b.F, Model: b.Model},
	} {
		got := printOf(t, src)
		require.Equal(t, want, got, name)
		require.Empty(t, want.Difference(got), name)
	}
}

// wide returns m as a view of a wider matrix.
func wide(m *mat.Dense) *mat.Dense {
	n, d := m.Dims()
	w := mat.NewDense(n, d+2, nil)
	v := w.Slice(0, n, 1, d+1).(*mat.Dense)
	v.Copy(m)
	return v
}

// model linearizes nothing: only its inputs may be asked for.
type model struct{ linearize.Model }

func (model) Linearize(context.Context, *mat.Dense) (*linearize.Batch, error) {
	return nil, errors.New("linearized")
}

func (model) Fingerprint() linearize.ModelFingerprint {
	return linearize.ModelFingerprint{Graph: linearize.Sum{1}, Parameters: linearize.Sum{2}}
}

// The inputs of NewSource, and of what is made of it, are read and not
// linearized.
func TestFingerprintDoesNotLinearize(t *testing.T) {
	b := inputs(t)
	src := linearize.NewSource(model{}, 13, 5, func(lo, hi int) (*mat.Dense, error) { return b.X.Slice(lo, hi, 0, 3).(*mat.Dense), nil })
	require.Equal(t, printOf(t, b), printOf(t, src))
	require.Equal(t, printOf(t, b.Slice(7, 13)), printOf(t, linearize.From(src, 7)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testref.Err(linearize.FingerprintOf(ctx, src)), context.Canceled)
	failed := errors.New("unreadable")
	_, err := linearize.FingerprintOf(t.Context(), linearize.NewSource(model{}, 13, 5, func(int, int) (*mat.Dense, error) { return nil, failed }))
	require.ErrorIs(t, err, failed)
}

// Difference names what differs, bit for bit.
func TestFingerprintDifference(t *testing.T) {
	b := inputs(t)
	edit := func(change func(b *linearize.Batch)) *linearize.Batch {
		e := *b
		e.X = mat.DenseCopyOf(b.X)
		change(&e)
		return &e
	}
	was := printOf(t, b)
	for want, src := range map[string]linearize.Source{
		"the graph of the network is another":      edit(func(b *linearize.Batch) { b.Model.Graph[3]++ }),
		"the parameters of the network are others": edit(func(b *linearize.Batch) { b.Model.Parameters[3]++ }),
		"one of the models has no fingerprint":     edit(func(b *linearize.Batch) { b.Model = linearize.ModelFingerprint{} }),
		"the number of rows is 12, not 13":         b.Slice(0, 12),
		"an example has 2 inputs, not 3":           edit(func(b *linearize.Batch) { b.X = b.X.Slice(0, 13, 0, 2).(*mat.Dense) }),
		"the order of the rows is another":         linearize.Concat(b.Slice(1, 2), b.Slice(0, 1), b.Slice(2, 13)),
		"the inputs are others":                    edit(func(b *linearize.Batch) { b.X.Set(12, 2, math.Nextafter(b.X.At(12, 2), 99)) }),
	} {
		require.Equal(t, want, was.Difference(printOf(t, src)))
	}
	require.Equal(t, "the inputs are others", was.Difference(printOf(t, edit(func(b *linearize.Batch) { b.X.Set(0, 0, math.Copysign(0, -1)) }))), "−0")
	require.Equal(t, "the graph of the network is another", was.Difference(printOf(t, b.Output(0))), "one output alone")
	unknown := printOf(t, &linearize.Batch{F: b.F})
	require.False(t, unknown.Complete())
	require.Equal(t, 13, unknown.Data.N)
}

// Mismatch compares what is known of two models.
func TestModelMismatch(t *testing.T) {
	m := linearize.ModelFingerprint{Graph: linearize.Sum{1}, Parameters: linearize.Sum{2}}
	for _, same := range []linearize.ModelFingerprint{m, {}, {Graph: m.Graph}, {Parameters: m.Parameters}} {
		require.Empty(t, m.Mismatch(same))
		require.Empty(t, same.Mismatch(m))
	}
	require.Contains(t, m.Mismatch(linearize.ModelFingerprint{Graph: linearize.Sum{3}}), "graph")
	require.Contains(t, m.Mismatch(linearize.ModelFingerprint{Parameters: linearize.Sum{3}}), "parameters")
}

// A fingerprint goes through JSON, and other text is refused.
func TestFingerprintJSON(t *testing.T) {
	want := printOf(t, inputs(t))
	text := testref.Must(json.Marshal(want))(t)
	var got linearize.Fingerprint
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, want, got)
	require.Error(t, json.Unmarshal([]byte(`{"Model":{"Graph":"00"}}`), &got))
	require.Len(t, want.Data.Inputs.String(), 16)
	require.NotEqual(t, linearize.SumOf([]float64{1}, []float64{2}), linearize.SumOf([]float64{1, 2}))
}

// The inputs of MNIST are 345 MB.
func BenchmarkFingerprint(b *testing.B) {
	for _, n := range []int{1000, 55000} {
		b.Run(fmt.Sprintf("N=%d/D=784", n), func(b *testing.B) {
			batch := &linearize.Batch{X: mat.NewDense(1000, 784, nil), F: mat.NewDense(1000, 1, nil)}
			src := linearize.NewSource(model{}, n, 1000, func(lo, hi int) (*mat.Dense, error) { return batch.X, nil })
			for b.Loop() {
				if _, err := linearize.FingerprintOf(b.Context(), src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
