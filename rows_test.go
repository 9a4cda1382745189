package funcgp_test

import (
	"image"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// digitsIn is a posterior of the built-in network, whose inputs are grey levels.
func digitsIn(t testing.TB) *funcgp.Posterior {
	p := testref.Must(funcgp.Fit(t.Context(), funcgp.Model{}, funcgp.Data{TrainCount: 40}, nil))(t)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// Grey levels in memory may be any numbers from 0 to 255. Whole ones are answered as the same picture is, to the last bit,
// and a level between two of them in between.
func TestRowsOfGreyLevels(t *testing.T) {
	p := digitsIn(t)
	img, x := image.NewGray(image.Rect(0, 0, 28, 28)), mat.NewDense(3, 784, nil)
	for i := range img.Pix {
		if i%28 == 14 && i > 112 && i < 560 {
			img.Pix[i] = byte(i % 256)
			for r, more := range []float64{0, .5, 1} {
				x.Set(r, i, float64(img.Pix[i])-more)
			}
		}
	}
	x.Apply(func(_, _ int, v float64) float64 { return max(v, 0) }, x)
	rows := testref.Must(p.Rows(t.Context(), x))(t)
	x.Zero() // the rows are a copy
	list := testref.Must(p.Predict(t.Context(), rows))(t)
	own := testref.Must(p.Picture(t.Context(), img, nil))(t)
	require.Equal(t, testref.Must(p.Predict(t.Context(), own))(t)[0].Mean, list[0].Mean)
	lo, mid, hi := float64(list[0].Mean[0]), float64(list[1].Mean[0]), float64(list[2].Mean[0])
	require.InDelta(t, (lo+hi)/2, mid, math.Abs(hi-lo)/4) // a tanh network is nearly linear over one grey level
}

// An error of numbers in memory names their row and column.
func TestRowsThatAreWrong(t *testing.T) {
	p := digitsIn(t)
	at := func(i, j int, v float64) *mat.Dense {
		x := mat.NewDense(3, 784, nil)
		x.Set(i, j, v)
		return x
	}
	for want, x := range map[string]*mat.Dense{
		"funcgp: the rows: row 2, column 8: 255.5 is not a grey level; give numbers from 0 to 255": at(2, 7, 255.5),
		"funcgp: the rows: row 0, column 1: -1 is not a grey level; give numbers from 0 to 255":    at(0, 0, -1),
		"funcgp: the rows: row 1, column 784: NaN is not a grey level; give numbers from 0 to 255": at(1, 783, math.NaN()),
		"funcgp: the rows: 3 numbers a row, want 784; give rows of inputs of shape [1 28 28]":      mat.NewDense(1, 3, nil),
		"funcgp: the rows: there are no rows; give at least one":                                   {},
	} {
		require.EqualError(t, testref.Err(p.Rows(t.Context(), x)), want)
	}
	require.ErrorContains(t, testref.Err(p.Rows(t.Context(), at(0, 0, 1), "a")), "the inputs have shape [1 28 28], and their numbers no names")
	require.ErrorContains(t, testref.Err(p.Picture(t.Context(), image.NewGray(image.Rectangle{}), nil)), "the picture: it has 0×0 pixels")

	net := testref.Must(network.Seeded(1, network.Shape{2}, network.Dense{Units: 3}, network.Tanh, network.Dense{Units: 1}))(t)
	x, y := mat.NewDense(9, 2, nil), mat.NewDense(9, 1, nil)
	for i := range 9 {
		x.SetRow(i, []float64{float64(i), float64(i % 4)})
		y.Set(i, 0, float64(i%5))
	}
	data := funcgp.Data{X: x, Y: y, Columns: []string{"a", "b"}}
	o := &funcgp.FitOptions{Likelihood: "gaussian", Standardize: "no", Prior: funcgp.Precision(1), NoiseVariance: new(.1)}
	q := testref.Must(funcgp.Fit(t.Context(), funcgp.Model{Network: net}, data, o))(t)
	defer q.Close()
	require.ErrorContains(t, testref.Err(q.Rows(t.Context(), mat.NewDense(2, 3, []float64{1, 2, 3, 4, 5, math.Inf(1)}), "b", "c", "a")), `the rows: row 1, column 1 (a): +Inf is not finite`)
	require.ErrorContains(t, testref.Err(q.Rows(t.Context(), x, "a")), "1 names of columns, but there are 2 columns; name each")
	x.Set(4, 1, math.NaN())
	require.ErrorContains(t, testref.Err(funcgp.Fit(t.Context(), funcgp.Model{Network: net}, data, o)), "X: row 4, column 2 (b): NaN is not finite; fill it in or leave the row out")
	x.Set(4, 1, 1)
	y.Set(3, 0, math.Inf(-1))
	require.ErrorContains(t, testref.Err(funcgp.Fit(t.Context(), funcgp.Model{Network: net}, data, o)), "Y: row 3, column 1: -Inf is not finite; fill it in or leave the row out")
}

// Taking 4,000 rows of 784 numbers takes memory for one copy.
func BenchmarkRows(b *testing.B) {
	p := digitsIn(b)
	x := mat.NewDense(4000, 784, nil)
	x.Apply(func(i, j int, _ float64) float64 { return float64((i+j)%256) + .25*float64(j%2) - .25*float64(i%2) }, x)
	x.Apply(func(_, _ int, v float64) float64 { return min(max(v, 0), 255) }, x)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Rows(b.Context(), x); err != nil {
			b.Fatal(err)
		}
	}
}

// A query that lists no rows is refused, and does not stand for all rows.
func TestQueryOfNoNumbers(t *testing.T) {
	s := testref.Must(funcgp.Start(t.Context(), funcgp.Model{}, funcgp.Data{TrainCount: 20}, nil))(t)
	defer s.Close()
	for _, q := range []funcgp.Query{{Index: "x"}, {Index: "1-"}, {Index: "1", All: true}, {Index: "1", Invert: "yes"}} {
		_, err := s.Select(t.Context(), &q, 1)
		require.Error(t, err, q)
	}
}
