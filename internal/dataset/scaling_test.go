package dataset

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// The training rows have mean 0 and population variance 1 after scaling;
// columns that do not vary are only centred.
func TestScalingStandardizes(t *testing.T) {
	split := 2
	d, err := Open(context.Background(), shared(t, "uci", "ionosphere.csv"), &OpenOptions{Split: &split})
	require.NoError(t, err)
	x := d.Train.Matrix(nil)
	s, err := NewScaling(x)
	require.NoError(t, err)
	s.Apply(x)
	n, dim := x.Dims()
	for j := range dim {
		col := mat.Col(nil, j, x)
		mean, variance := stat.PopMeanVariance(col, nil)
		require.InDelta(t, 0, mean, 1e-13) // n·eps of values near one
		want := 1.0
		if j == 1 { // all zero in this data set
			want = 0
		}
		require.InDelta(t, want, variance, 1e-12, "column %d of %d rows", j, n)
	}
	// Other parts use the same numbers.
	v := d.Valid.Matrix(nil)
	raw := v.At(3, 0)
	s.Apply(v)
	require.Equal(t, (raw-s.Mean[0])/s.Scale[0], v.At(3, 0))
}

func TestScalingExtremes(t *testing.T) {
	column := func(v ...float64) (*Scaling, error) { return NewScaling(mat.NewDense(len(v), 1, v)) }
	s, err := column(0.1, 0.1, 0.1) // the mean of these is not 0.1
	require.NoError(t, err)
	require.Equal(t, &Scaling{[]float64{0.1}, []float64{1}}, s)
	s, err = column(1e-200, 2e-200)
	require.NoError(t, err)
	require.Equal(t, 1.0, s.Scale[0])
	for _, v := range [][]float64{{1e308, 1.1e308}, {1e200, -1e200}} {
		_, err = column(v...)
		require.ErrorContains(t, err, "feature 0: its spread is too large to standardize")
	}
}

func TestScalingRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	s := &Scaling{Mean: make([]float64, 50), Scale: make([]float64, 50)}
	for j := range s.Mean {
		s.Mean[j] = r.NormFloat64() * math.Pow(10, float64(j-25))
		s.Scale[j] = r.ExpFloat64() * math.Pow(10, float64(25-j))
	}
	got, err := ParseScaling(s.String())
	require.NoError(t, err)
	require.Equal(t, s, got)
	got, err = ParseScaling((*Scaling)(nil).String())
	require.NoError(t, err)
	require.Nil(t, got)
}

func TestParseScalingErrors(t *testing.T) {
	for text, want := range map[string]string{
		"1,2":     "no \";\"",
		"1;2,3":   "1 means but 2 scales",
		"a;1":     `holds "a"`,
		"1;NaN":   `holds "NaN"`,
		"1;0":     "scale 0 is 0",
		"1,2;1,-": `holds "-"`,
		";":       `holds ""`,
	} {
		_, err := ParseScaling(text)
		require.ErrorContains(t, err, want, text)
	}
}

// A nil scaling leaves pixels alone; a wrong width is the caller's mistake.
func TestScalingApply(t *testing.T) {
	x := mat.NewDense(1, 2, []float64{1, 2})
	(*Scaling)(nil).Apply(x)
	require.Equal(t, []float64{1, 2}, x.RawRowView(0))
	require.PanicsWithValue(t, "dataset: dimension mismatch", func() {
		(&Scaling{[]float64{1}, []float64{1}}).Apply(x)
	})
}
