package npy

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// Any range of rows is that of the whole array, bit for bit, for every type, byte order,
// shape and order of the elements.
func TestReadRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, descr := range []string{"|u1", "<i2", ">u4", "<f2", "<f4", ">f4", "<f8", ">f8"} {
		for range 30 {
			shape, n := make([]int, 1+rng.IntN(4)), 1
			for k := range shape {
				shape[k] = 1 + rng.IntN(5)
				n *= shape[k]
			}
			e := testref.Must(elementOf(descr))(t)
			data := make([]byte, n*e.size)
			for i := range data {
				data[i] = byte(rng.Uint32())
			}
			text := strings.NewReplacer("[", "(", "]", ",)", " ", ", ").Replace(fmt.Sprint(shape))
			order := []string{"False", "True"}[rng.IntN(2)]
			whole := file(fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", descr, order, text), data...)
			want := testref.Must(Read(bytes.NewReader(whole), 0))(t)
			rows := testref.Must(OpenRows(bytes.NewReader(whole), int64(len(whole))))(t)
			require.Equal(t, want.Shape, rows.Shape)
			require.Equal(t, want.Bytes != nil, rows.IsBytes())
			lo := rng.IntN(rows.Len() + 1)
			got := make([]float64, rng.IntN(rows.Len()-lo+1)*rows.Dim())
			require.NoError(t, rows.ReadRows(got, lo))
			for i, v := range got {
				require.Equal(t, math.Float64bits(want.Float(lo*rows.Dim()+i)), math.Float64bits(v), "%s %s %v", descr, order, shape)
			}
		}
	}
}

func TestReadRowsErrors(t *testing.T) {
	shape := func(text string) []byte { return file(strings.Replace(small, "(2,)", text, 1), 1, 2) }
	for _, c := range []struct {
		file []byte
		want string
	}{
		{file(small, 1), "it ends after 1 of 2 elements"},
		{file(small, 1, 2, 3), "there is more after the array"},
		{shape("()"), "it is a single value; save an array with rows"},
		{shape("(0, 3)"), "there is more after the array"},
		{file(strings.Replace(small, "(2,)", "(0, 3)", 1)), "its shape [0 3] has no elements"},
		{file(strings.Replace(small, "|u1", "<U1", 1), make([]byte, 8)...), "its elements are text; save numbers"},
		{[]byte("no array"), "it does not begin as NumPy files do"},
	} {
		require.EqualError(t, testref.Err(OpenRows(bytes.NewReader(c.file), int64(len(c.file)))), c.want)
	}
	truth := file(strings.Replace(small, "|u1", "|b1", 1), 1, 2)
	rows := testref.Must(OpenRows(bytes.NewReader(truth), int64(len(truth))))(t)
	require.EqualError(t, rows.ReadRows(make([]float64, 2), 0), "element 1: the truth value 2 cannot be represented")
	rows.file = bytes.NewReader(truth[:len(truth)-1])
	require.EqualError(t, rows.ReadRows(make([]float64, 2), 0), "it has become shorter since it was opened")
}

func FuzzReadRows(f *testing.F) {
	f.Add(file(small, 1, 2), uint8(0))
	f.Add(file("{'descr': '>f4', 'fortran_order': True, 'shape': (2, 2), }", make([]byte, 16)...), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, from uint8) {
		rows, err := OpenRows(bytes.NewReader(data), int64(len(data)))
		whole, wholeErr := Read(bytes.NewReader(data), 1<<20)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		lo := int(from) % rows.Len()
		got := make([]float64, min(rows.Len()-lo, 3)*rows.Dim())
		if err := rows.ReadRows(got, lo); err != nil {
			require.Error(t, wholeErr)
			return
		}
		for i := range got {
			if wholeErr == nil {
				require.Equal(t, math.Float64bits(whole.Float(lo*rows.Dim()+i)), math.Float64bits(got[i]))
			}
		}
	})
}
