package dataset

import (
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
)

// Matrices become training rows that are in no file, also where a file has the name by which messages call them.
func TestMatrices(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("the rows", nil, 0o600))
	x, y := mat.NewDense(3, 2, []float64{1, 2, 3, 4, 5, 6}), mat.NewDense(3, 1, []float64{1, 0, 1})
	d := testref.Must(Matrices(x, y, []float64{1, 2, 0}, []string{"a", "b"}, nil))(t)
	require.Empty(t, d.Files())
	require.Equal(t, []int{0, 1}, d.Classes())
	require.Equal(t, []int{2}, d.Shape)
	require.True(t, mat.Equal(x, d.Train.Matrix()))
	x.Set(0, 0, 9) // the data are a copy
	rows := testref.Must(d.Train.Pick(nil, []int{2, 0}, ""))(t)
	require.Equal(t, []float64{5, 6, 1, 2}, rows.Matrix().RawMatrix().Data)
	require.Equal(t, []float64{0, 1}, rows.Weights)
	require.Nil(t, testref.Must(Matrices(x, mat.NewDense(3, 1, []float64{.5, 0, 1}), nil, nil, nil))(t).Classes())
	require.True(t, testref.Must(Matrices(mat.NewDense(3, 4, nil), y, nil, nil, []int{1, 2, 2}))(t).Images())
	for want, err := range map[string]error{
		"X: 3 columns, but the network takes inputs of shape [2 2]": testref.Err(Matrices(mat.NewDense(3, 3, nil), y, nil, nil, []int{2, 2})),
		"X: 1 names of columns, but there are 2 columns; name each": testref.Err(Matrices(x, y, nil, []string{"a"}, nil)),
		`X: two columns have the same name "a"; rename one`:         testref.Err(Matrices(x, y, nil, []string{"a", "a"}, nil)),
		"X: the weight of row 1 is NaN; give numbers of 0 or more":  testref.Err(Matrices(x, y, []float64{1, math.NaN(), 1}, nil, nil)),
		"X: 3 rows, but Y has other than that; give Y as many":      testref.Err(Matrices(x, nil, nil, nil, nil)),
	} {
		require.ErrorContains(t, err, want)
	}
}

// A column that no input takes may be missing, or have numbers that are none.
func TestNumbersOfSpareColumns(t *testing.T) {
	o := likeOf(3)
	o.Spare, o.Name = []bool{false, true, false}, "the rows"
	rows := testref.Must(o.Numbers(mat.NewDense(1, 2, []float64{1, 2}), []string{"c2", "c0"}))(t)
	x := rows.Matrix().RawRowView(0)
	require.Equal(t, []float64{2, 1}, []float64{x[0], x[2]})
	require.NoError(t, testref.Err(o.Numbers(mat.NewDense(1, 3, []float64{1, math.NaN(), 2}), nil)))
	require.ErrorContains(t, testref.Err(o.Numbers(mat.NewDense(1, 3, []float64{1, 2, math.NaN()}), nil)), "the rows: row 0, column 3 (c2): NaN is not finite")
	require.ErrorContains(t, testref.Err(o.Numbers(mat.NewDense(1, 1, nil), []string{"c2"})), `there is no column "c0"`)
	o.MaxBytes = 40
	require.ErrorContains(t, testref.Err(o.Numbers(mat.NewDense(2, 3, nil), nil)), "2 rows of 3 numbers take more than the 40 bytes of memory that may be used")
}
