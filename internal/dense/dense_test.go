package dense

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// counted is r×c and holds 0, 1, … in row order, with gap numbers of −1 after
// each row but the last.
func counted(r, c, gap int) blas64.General {
	g := blas64.General{Rows: r, Cols: c, Stride: c + gap}
	for i := range r {
		for j := range c {
			g.Data = append(g.Data, float64(i*c+j))
		}
		for k := 0; k < gap && i < r-1; k++ {
			g.Data = append(g.Data, -1)
		}
	}
	return g
}

func numbers(g blas64.General) [][]float64 {
	rows := make([][]float64, g.Rows)
	for i := range rows {
		rows[i] = Row(g, i)
	}
	return rows
}

// Views of rows and columns read and write the same memory, with and without
// gaps between the rows.
func TestViews(t *testing.T) {
	for _, gap := range []int{0, 2} {
		g := counted(4, 3, gap)
		rows, cols := Rows(g, 1, 3), Cols(g, 1, 3)
		require.Equal(t, [][]float64{{3, 4, 5}, {6, 7, 8}}, numbers(rows))
		require.Equal(t, [][]float64{{1, 2}, {4, 5}, {7, 8}, {10, 11}}, numbers(cols))
		require.Equal(t, [][]float64{{4, 5}, {7, 8}}, numbers(Rows(cols, 1, 3)))
		require.Equal(t, [][]float64{{4, 5}, {7, 8}}, numbers(Cols(rows, 1, 3)))
		Zero(Cols(rows, 1, 2))
		require.Equal(t, [][]float64{{0, 1, 2}, {3, 0, 5}, {6, 0, 8}, {9, 10, 11}}, numbers(g))
		Copy(g, New(4, 2))
		require.Equal(t, [][]float64{{0, 0, 2}, {0, 0, 5}, {0, 0, 8}, {0, 0, 11}}, numbers(g))
		View(g).Set(3, 0, 7)
		require.Equal(t, []float64{7, 0, 11}, Row(g, 3))
		for k := range gap {
			require.Equal(t, -1.0, g.Data[3+k], "the gap")
		}
	}
}

// No rows and no columns are views too, also at the end of the data.
func TestEmptyViews(t *testing.T) {
	g := counted(4, 3, 2)
	for _, at := range []int{0, 2, 4} {
		v := Rows(g, at, at)
		require.Zero(t, v.Rows)
		require.Equal(t, 3, v.Cols)
		require.True(t, View(v).IsEmpty())
		require.Zero(t, Cols(v, 1, 2).Rows)
	}
	for _, at := range []int{0, 3} {
		v := Cols(g, at, at)
		require.Equal(t, [2]int{4, 0}, [2]int{v.Rows, v.Cols})
		require.Zero(t, Rows(v, 2, 2).Rows)
	}
	require.Empty(t, Flat(View(New(0, 3))))
	require.True(t, Slice(mat.NewDense(2, 2, nil), 1, 1).IsEmpty())
	require.Nil(t, Slice(nil, 0, 1))
	require.Nil(t, Every(nil, 0, 1))
}

// In uses data where it is long enough and clears nothing in it.
func TestIn(t *testing.T) {
	data := []float64{1, 2, 3, 4, 5, 6, 7}
	g := In(data, 2, 3)
	require.Equal(t, [][]float64{{1, 2, 3}, {4, 5, 6}}, numbers(g))
	g.Data[0] = 9
	require.Equal(t, 9.0, data[0])
	require.Len(t, g.Data, 6)
	g = In(data, 2, 4)
	require.Equal(t, [][]float64{{0, 0, 0, 0}, {0, 0, 0, 0}}, numbers(g))
	require.Equal(t, 9.0, data[0])
	require.Empty(t, In(nil, 0, 3).Data)
}

func TestSizeTo(t *testing.T) {
	SizeTo(nil, 2, 3)
	var m mat.Dense
	SizeTo(&m, 0, 3)
	require.True(t, m.IsEmpty())
	SizeTo(&m, 2, 3)
	require.True(t, Is(&m, 2, 3))
	m.Set(1, 2, 5)
	SizeTo(&m, 2, 3)
	require.Equal(t, 5.0, m.At(1, 2), "a destination of the right size is left alone")
	for _, size := range [][2]int{{3, 2}, {2, 2}, {0, 3}} {
		require.PanicsWithValue(t, "dense: destination has a wrong size", func() { SizeTo(&m, size[0], size[1]) })
	}
}

func TestTransposeTo(t *testing.T) {
	for _, gap := range []int{0, 2} {
		dst := Cols(New(3, 4), 1, 3)
		TransposeTo(dst, counted(2, 3, gap))
		require.Equal(t, [][]float64{{0, 3}, {1, 4}, {2, 5}}, numbers(dst))
	}
	TransposeTo(New(3, 0), New(0, 3))
}

// Every takes the same row of each group and leaves its memory where it is.
func TestEvery(t *testing.T) {
	for _, gap := range []int{0, 2} {
		m := View(counted(6, 2, gap))
		require.Equal(t, []float64{0, 1, 6, 7}, Flat(Every(m, 0, 3)))
		require.Equal(t, []float64{4, 5, 10, 11}, Flat(Every(m, 2, 3)))
		Every(m, 1, 3).Set(1, 0, -7)
		require.Equal(t, -7.0, m.At(4, 0))
		require.Equal(t, Flat(m), Flat(Every(m, 0, 1)))
	}
}

// Stack copies, skips empty parts, and is nil where a part is missing.
func TestStack(t *testing.T) {
	a, b := View(counted(2, 2, 1)), View(counted(1, 2, 0))
	s := Stack([]*mat.Dense{a, new(mat.Dense), b})
	require.Equal(t, []float64{0, 1, 2, 3, 0, 1}, Flat(s))
	s.Set(0, 0, 9)
	require.Zero(t, a.At(0, 0))
	require.Nil(t, Stack([]*mat.Dense{a, nil}))
	require.True(t, Stack(nil).IsEmpty())
	require.True(t, Stack([]*mat.Dense{new(mat.Dense)}).IsEmpty())
}

// Contiguous copies only where there are gaps.
func TestContiguous(t *testing.T) {
	for _, gap := range []int{0, 2} {
		m := View(counted(3, 2, gap))
		v := Contiguous(m)
		require.Equal(t, []float64{0, 1, 2, 3, 4, 5}, v)
		v[5] = 8
		require.Equal(t, gap == 0, m.At(2, 1) == 8)
	}
}
