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

// hidden hides that a source is a Skipper or a Combiner.
type hidden struct{ linearize.Source }

// From returns the remaining examples of every kind of source, bit for bit, also
// when it is applied twice.
func TestFrom(t *testing.T) {
	net, x := convNet(t)
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	stream := linearize.NewSource(net, 11, 4, rowsOf(x))
	for name, src := range map[string]linearize.Source{
		"batch": b, "stream": stream, "foreign": hidden{stream}, "batched again": linearize.Rebatch(stream, 3),
	} {
		all, _ := collect(t, src)
		for first := range src.Len() {
			want := whole(all.Slice(first, all.Len()))
			got, _ := collect(t, linearize.From(src, first))
			require.Equal(t, want, whole(got), "%s from %d", name, first)
			twice, _ := collect(t, linearize.From(linearize.From(src, first/2), first-first/2))
			require.Equal(t, want, whole(twice), "%s from %d by two steps", name, first)
		}
		none := linearize.From(src, src.Len())
		require.Zero(t, none.Len())
		require.NoError(t, none.Batches(t.Context(), func(int, *linearize.Batch) error { return errors.New("there is nothing left") }))
		require.Panics(t, func() { linearize.From(src, -1) })
		require.Panics(t, func() { linearize.From(src, src.Len()+1) })
	}
}

// The examples before the first are not loaded, and errors name examples by
// their positions in the original source.
func TestFromLoadsNothingBefore(t *testing.T) {
	net, x := convNet(t)
	first := 11
	fail := errors.New("disk")
	var broken bool
	stream := linearize.NewSource(net, 11, 2, func(lo, hi int) (*mat.Dense, error) {
		first = min(first, lo)
		if broken {
			return nil, fail
		}
		return rowsOf(x)(lo, hi)
	})
	for _, src := range []linearize.Source{stream, linearize.Rebatch(stream, 3)} {
		first = 11
		collect(t, linearize.From(linearize.From(src, 3), 2))
		require.Equal(t, 5, first)
	}
	ignore := func(int, *linearize.Batch) error { return nil }
	broken = true
	err := linearize.From(stream, 5).Batches(t.Context(), ignore)
	require.ErrorIs(t, err, fail)
	require.ErrorContains(t, err, "examples 5 to 6")

	bad := mat.DenseCopyOf(x)
	bad.Set(8, 0, 1/(bad.At(8, 0)-bad.At(8, 0)))
	require.ErrorContains(t, linearize.From(linearize.NewSource(net, 11, 4, rowsOf(bad)), 7).Batches(t.Context(), ignore), "examples from 7")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, linearize.From(stream, 5).Batches(ctx, ignore), context.Canceled)
	stop := errors.New("enough")
	require.ErrorIs(t, linearize.From(linearize.NewSource(net, 11, 2, rowsOf(x)), 5).Batches(t.Context(), func(int, *linearize.Batch) error { return stop }), stop)
}

// Warnings go through JSON, with null for a number that there is not, and an error of another
// type has no code. Files of older versions have the text alone.
func TestWarningsInJSON(t *testing.T) {
	list := linearize.Warnings{
		linearize.NewWarning("jitter", 1e-10, math.NaN(), "Do %d.", "What is %d.", 1),
		fmt.Errorf("wrapped: %w", linearize.NewWarning("maxima", 2, 3, "", "Two.")),
		errors.New("another"),
	}
	data := testref.Must(json.Marshal(list))(t)
	require.JSONEq(t, `[{"code":"jitter","text":"What is 1.","remedy":"Do %d.","value":1e-10,"limit":null,"see":"doc/warnings.md#jitter"},
		{"code":"maxima","text":"Two.","remedy":"","value":2,"limit":3,"see":"doc/warnings.md#maxima"},
		{"code":"","text":"another","remedy":"","value":null,"limit":null,"see":"doc/warnings.md#"}]`, string(data))
	var back linearize.Warnings
	require.NoError(t, json.Unmarshal(data, &back))
	again := testref.Must(json.Marshal(back))(t)
	require.JSONEq(t, string(data), string(again))
	require.EqualError(t, back[0], "What is 1. Do %d.")
	require.Equal(t, 3.0, linearize.FindWarning(back, "maxima").Limit)
	require.Nil(t, linearize.FindWarning(back, "head"))

	data = testref.Must(json.Marshal(linearize.Warnings(nil)))(t)
	require.Equal(t, "[]", string(data))
	require.NoError(t, json.Unmarshal([]byte(`["gp: a text"]`), &back))
	require.EqualError(t, back[0], "gp: a text")
	require.Error(t, json.Unmarshal([]byte(`[3]`), &back))
}
