package parquet

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/fstest"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/linearize/rowfile"
)

type row struct {
	ID    string   `parquet:"id"`
	A     float64  `parquet:"a"`
	B     float32  `parquet:"b,dict"`
	C     int32    `parquet:"c"`
	D     uint64   `parquet:"d"`
	E     bool     `parquet:"e"`
	F     *float64 `parquet:"f,optional"`
	Class string   `parquet:"class,dict"`
}

func (r row) features() []float64 {
	e := 0.0
	if r.E {
		e = 1
	}
	return []float64{r.A, float64(r.B), float64(r.C), float64(r.D), e, *r.F}
}

func rows(rng *rand.Rand, n int) []row {
	out := make([]row, n)
	for i := range out {
		f := rng.NormFloat64()
		out[i] = row{fmt.Sprint("r", i), rng.NormFloat64(), float32(rng.IntN(5)) / 3, -rng.Int32N(1 << 30), rng.Uint64N(1 << 50), rng.IntN(2) == 0, &f, []string{"no", "yes"}[rng.IntN(2)]}
	}
	return out
}

// file writes rows in groups and pages of few rows.
func file[T any](t testing.TB, list []T, codec compress.Codec) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, parquet.PageBufferSize(256), parquet.MaxRowsPerRowGroup(70), parquet.Compression(codec))
	_, err := w.Write(list)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// Any rows of several files, however they are compressed, are those that were written, to the
// last bit.
func TestRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for k, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Zstd, &parquet.Gzip} {
		all := rows(rng, 200+k)
		cut := 1 + rng.IntN(len(all)-1)
		files := fstest.MapFS{"part-0.parquet": {Data: file(t, all[:cut], codec)}, "part-1.parquet": {Data: file(t, all[cut:], codec)}}
		got, err := rowfile.Open(t.Context(), files, "part-*.parquet", &rowfile.Options{ID: "id"})
		require.NoError(t, err)
		require.Equal(t, len(all), got.Len())
		require.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, got.Columns())
		require.Equal(t, []string{"no", "yes"}, got.Classes())
		for range 40 {
			lo := rng.IntN(len(all))
			hi := lo + 1 + rng.IntN(len(all)-lo)
			x, err := got.ReadRows(t.Context(), lo, hi)
			require.NoError(t, err)
			y := got.Targets(lo, hi)
			for i, r := range all[lo:hi] {
				for j, v := range r.features() {
					require.Equal(t, math.Float64bits(v), math.Float64bits(x.At(i, j)))
				}
				require.Equal(t, r.Class == "yes", y.At(i, 0) == 1)
			}
		}
		require.NoError(t, got.Close())
		// A target by its name is a number.
		got, err = rowfile.Open(t.Context(), files, "part-0.parquet,part-1.parquet", &rowfile.Options{ID: "class", Target: "a"})
		require.ErrorContains(t, err, `part-0.parquet: column "id" is text`)
		require.Nil(t, got)
	}
}

func TestErrors(t *testing.T) {
	open := func(data []byte) error {
		files := fstest.MapFS{"a.parquet": {Data: data}}
		f, err := rowfile.Open(t.Context(), files, "a.parquet", nil)
		if err == nil {
			_, err = f.ReadRows(t.Context(), 0, f.Len())
		}
		return err
	}
	good := file(t, []struct{ A, Y float64 }{{1, 2}, {3, 4}}, &parquet.Uncompressed)
	require.NoError(t, open(good))
	require.ErrorContains(t, open(good[:len(good)-9]), "a.parquet: cannot be read: ")
	require.ErrorContains(t, open(nil), "a.parquet: cannot be read: ")
	require.ErrorContains(t, open(file(t, []struct{ A, Y float64 }{{1, 2}, {math.Inf(1), 4}}, &parquet.Uncompressed)), "a.parquet: row 1, column 1 (A): +Inf is not finite")
	require.ErrorContains(t, open(file(t, []struct {
		A *float64 `parquet:"a,optional"`
		Y float64
	}{{nil, 2}}, &parquet.Uncompressed)), `row 0: the value of column "a" is missing`)
	require.ErrorContains(t, open(file(t, []struct {
		A []float64 `parquet:"a,list"`
		Y float64
	}{{nil, 2}}, &parquet.Uncompressed)), "holds lists, which are not read")
	require.ErrorContains(t, open(file(t, []struct {
		A int64 `parquet:"a,decimal(2:9)"`
		Y float64
	}{{3, 2}}, &parquet.Uncompressed)), `column "a" holds values of the type DECIMAL`)
	require.ErrorContains(t, open(file(t, []struct{ A, Y int64 }{{1<<53 + 1, 2}}, &parquet.Uncompressed)), `row 0: 9007199254740993 in column "A" cannot be represented`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := rowfile.Open(ctx, fstest.MapFS{"a.parquet": {Data: good}}, "a.parquet", nil)
	require.ErrorIs(t, err, context.Canceled)
}

func FuzzOpen(f *testing.F) {
	f.Add(file(f, []struct {
		A float64
		Y string
	}{{1, "no"}, {3, "yes"}}, &parquet.Snappy), uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at uint16, flip byte) {
		if len(data) > 0 {
			data[int(at)%len(data)] ^= flip
		}
		table, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		for c := range table.Columns() {
			n := min(table.Len(), 1000)
			if table.IsText(c) {
				_ = table.ReadText(t.Context(), make([]string, n), c, 0)
			} else {
				_ = table.ReadFloats(t.Context(), make([]float64, n), c, 0)
			}
		}
	})
}
