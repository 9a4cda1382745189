package dataset

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/internal/testref"
)

// The training rows have mean 0 and population variance 1 after scaling;
// columns that do not vary are only centred.
func TestScalingStandardizes(t *testing.T) {
	split := 2
	d := testref.Must(Open(context.Background(), shared(t, "uci", "ionosphere.csv"), &OpenOptions{Split: &split}))(t)
	x := d.Train.Matrix()
	s := testref.Must(NewScaling(x))(t)
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
	v := d.Valid.Matrix()
	raw := v.At(3, 0)
	s.Apply(v)
	require.Equal(t, (raw-s.Mean[0])/s.Scale[0], v.At(3, 0))
}

func TestScalingExtremes(t *testing.T) {
	column := func(v ...float64) (*Scaling, error) { return NewScaling(mat.NewDense(len(v), 1, v)) }
	s, err := column(0.1, 0.1, 0.1) // the mean of these is not 0.1
	require.NoError(t, err)
	require.Equal(t, &Scaling{[]float64{0.1}, []float64{1}}, s)
	s = testref.Must(column(1e-200, 2e-200))(t)
	require.Equal(t, 1.0, s.Scale[0])
	for _, v := range [][]float64{{1e308, 1.1e308}, {1e200, -1e200}} {
		require.ErrorContains(t, testref.Err(column(v...)), "feature 0: its spread is too large to standardize")
	}
}

func TestScalingRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	s := &Scaling{Mean: make([]float64, 50), Scale: make([]float64, 50)}
	for j := range s.Mean {
		s.Mean[j] = r.NormFloat64() * math.Pow(10, float64(j-25))
		s.Scale[j] = r.ExpFloat64() * math.Pow(10, float64(25-j))
	}
	got := testref.Must(ParseScaling(s.String()))(t)
	require.Equal(t, s, got)
	got = testref.Must(ParseScaling((*Scaling)(nil).String()))(t)
	require.Nil(t, got)
}

func TestParseScalingErrors(t *testing.T) {
	for text, want := range map[string]string{
		"1,2":     "no \";\"",
		"1;2,3":   "1 means but 2 scales",
		"a;1":     `holds "a"`,
		"1;NaN":   `holds "NaN"`,
		"1;0":     "deviation 0 is 0",
		"1,2;1,-": `holds "-"`,
		";":       `holds ""`,
	} {
		require.ErrorContains(t, testref.Err(ParseScaling(text)), want, text)
	}
}

// A nil scaling leaves pixels alone; a wrong width is the caller's mistake.
func TestScalingApply(t *testing.T) {
	x := mat.NewDense(1, 2, []float64{1, 2})
	(*Scaling)(nil).Apply(x)
	require.Equal(t, []float64{1, 2}, x.RawRowView(0))
	require.PanicsWithValue(t, "dataset: dimension mismatch", func() {
		(&Scaling{[]float64{1, 1, 1}, []float64{1, 1, 1}}).Apply(x)
	})
}

// One number is for all columns, one a channel for its pixels.
func TestScalingOfChannels(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	for _, shape := range [][]int{{3, 4, 5}, {1, 2, 3}, {6}, {2, 7}} {
		d, channels := 1, shape[0]
		for _, n := range shape {
			d *= n
		}
		for _, k := range []int{1, channels, d} {
			s := &Scaling{Mean: make([]float64, k), Scale: make([]float64, k)}
			for c := range k {
				s.Mean[c], s.Scale[c] = r.NormFloat64(), r.ExpFloat64()
			}
			require.NoError(t, s.Fits(shape))
			x := mat.NewDense(2, d, nil)
			x.Apply(func(_, _ int, _ float64) float64 { return r.NormFloat64() }, x)
			want := mat.NewDense(2, d, nil)
			want.Apply(func(_, j int, v float64) float64 {
				c := 0
				switch k {
				case d:
					c = j
				case channels:
					c = j / (d / channels)
				}
				return (v - s.Mean[c]) / s.Scale[c]
			}, x)
			s.Apply(x)
			require.Equal(t, want.RawMatrix().Data, x.RawMatrix().Data)
		}
	}
}

// The rows of a picture set are standardized by channel, as all the pixels of a
// channel in one column would be.
func TestScalingOfPictures(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	n, shape := 700, []int{3, 2, 2}
	x := make([]float64, n*12)
	for i := range x {
		if c := i % 12 / 4; c < 2 {
			x[i] = float64(c) + r.NormFloat64()
		} else {
			x[i] = 0.1 // one that never changes
		}
	}
	set := &Rows{Shape: shape, n: n, inputs: &inputs{x: x}, Labels: make([]int, n)}
	sub := testref.Must(set.Select(nil, 600))(t)
	s := testref.Must(sub.Scaling(t.Context()))(t)
	for c := range 3 {
		var v []float64
		for i := range 600 {
			v = append(v, x[12*i+4*c:12*i+4*c+4]...)
		}
		one := testref.Must(NewScaling(mat.NewDense(len(v), 1, v)))(t)
		require.InDelta(t, one.Mean[0], s.Mean[c], 1e-13)
		require.InDelta(t, one.Scale[0], s.Scale[c], 1e-13)
	}
	require.Equal(t, 0.1, s.Mean[2])
	require.Equal(t, 1.0, s.Scale[2])
	table := &Rows{Shape: []int{12}, n: n, inputs: &inputs{x: x}, Labels: make([]int, n)}
	sub = testref.Must(table.Select(nil, 0))(t)
	s = testref.Must(sub.Scaling(t.Context()))(t)
	want := testref.Must(NewScaling(mat.NewDense(n, 12, x)))(t)
	require.Equal(t, want, s)
}

func TestScalingBy(t *testing.T) {
	for _, c := range []struct {
		mean, sd []float64
		want     *Scaling
		err      string
	}{
		{[]float64{1, 2}, []float64{3, 4}, &Scaling{[]float64{1, 2}, []float64{3, 4}}, ""},
		{[]float64{1, 2}, []float64{3}, &Scaling{[]float64{1, 2}, []float64{3, 3}}, ""},
		{nil, []float64{255}, &Scaling{[]float64{0}, []float64{255}}, ""},
		{[]float64{7}, nil, &Scaling{[]float64{7}, []float64{1}}, ""},
		{[]float64{1, 2}, []float64{3, 4, 5}, nil, "2 means but 3 deviations"},
		{[]float64{1, math.NaN()}, nil, nil, "mean 1 is NaN"},
		{nil, []float64{1, 0}, nil, "deviation 1 is 0"},
		{nil, []float64{-1}, nil, "deviation 0 is -1"},
		{nil, []float64{math.Inf(1)}, nil, "deviation 0 is +Inf"},
	} {
		s, err := ScalingBy(c.mean, c.sd)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, s)
	}
	two := &Scaling{Mean: make([]float64, 2), Scale: []float64{1, 1}}
	require.ErrorContains(t, two.Fits([]int{3, 4, 4}), "2 means and deviations, but a picture has 3 channels")
	require.ErrorContains(t, two.Fits([]int{4}), "2 means and deviations, but the data have 4 columns")
}

func scalingFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scaling.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestReadScaling(t *testing.T) {
	columns := []string{"age", "income"}
	for _, c := range []struct {
		text            string
		inputs, targets *Scaling
	}{
		{`{"mean": [1, 2], "sd": [3, 4]}`, &Scaling{[]float64{1, 2}, []float64{3, 4}}, &Scaling{[]float64{1, 2}, []float64{3, 4}}},
		{`{"mean_": [1, 2], "scale_": [3, 4], "var_": [9, 16], "n_samples_seen_": 7}`, &Scaling{[]float64{1, 2}, []float64{3, 4}}, &Scaling{[]float64{1, 2}, []float64{3, 4}}},
		{`{"mean": 0.5, "std": 0.25}`, &Scaling{[]float64{0.5}, []float64{0.25}}, &Scaling{[]float64{0.5}, []float64{0.25}}},
		{`{"sd": 255}`, &Scaling{[]float64{0}, []float64{255}}, &Scaling{[]float64{0}, []float64{255}}},
		{`{"inputs": {"mean": {"income": 2, "age": 1}, "sd": {"income": 4}}}`, &Scaling{[]float64{1, 2}, []float64{1, 4}}, nil},
		{`{"inputs": {"mean": [1, 2]}, "targets": {"mean": 5, "sd": 6}}`, &Scaling{[]float64{1, 2}, []float64{1, 1}}, &Scaling{[]float64{5}, []float64{6}}},
		{`{"targets": {"mean": {"price": 5}, "sd": {"price": 6}}}`, nil, &Scaling{[]float64{5}, []float64{6}}},
	} {
		f, err := ReadScaling(t.Context(), scalingFile(t, c.text))
		require.NoError(t, err, c.text)
		in, ok, err := f.Inputs(columns)
		require.NoError(t, err, c.text)
		require.Equal(t, c.inputs != nil, ok)
		require.Equal(t, c.inputs, in, c.text)
		out, ok, err := f.Targets([]string{"price"})
		require.NoError(t, err, c.text)
		require.Equal(t, c.targets != nil, ok)
		require.Equal(t, c.targets, out, c.text)
	}
}

func TestReadScalingErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                                   "is no JSON object",
		`[1, 2]`:                             "is no JSON object",
		`{"a": 1}`:                           "holds neither means nor deviations",
		`{"inputs": {}}`:                     `"inputs": holds neither`,
		`{"inputs": 3}`:                      `"inputs": is no object`,
		`{"inputs": {"mean": 1}, "mean": 1}`: `"mean": is beside inputs and targets`,
		`{"mean": 1, "mean_": 2}`:            "a second list of the same kind",
		`{"mean": ["a"]}`:                    "means: element 0 is no number",
		`{"mean": []}`:                       "means: the list is empty",
		`{"mean": "1"}`:                      "means: neither a number nor a list",
		`{"mean": {"wealth": 1}}`:            `means: there is no column "wealth"; choose from "age"`,
		`{"mean": {"age": "x"}}`:             `means: "age" is no number`,
		`{"sd": [1, 0]}`:                     "deviation 1 is 0",
		`{"mean": [1, 2, 3], "sd": [1, 2]}`:  "3 means but 2 deviations",
		`{"mean": 1` + strings.Repeat(" ", 10000): "is no JSON object",
	} {
		path := scalingFile(t, text)
		f, err := ReadScaling(t.Context(), path)
		if err == nil {
			_, _, err = f.Inputs([]string{"age", "income"})
		}
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, path)
		require.NotContains(t, err.Error(), "\n")
	}
	f := testref.Must(ReadScaling(t.Context(), scalingFile(t, `{"mean": {"age": 1}}`)))(t)
	_, _, err := f.Inputs(nil)
	require.ErrorContains(t, err, "pictures have none")
	_, err = ReadScaling(t.Context(), filepath.Join(t.TempDir(), "none.json"))
	require.ErrorContains(t, err, "cannot be opened")
}
