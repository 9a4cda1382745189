package dataset

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
	f, err := ReadScaling(t.Context(), scalingFile(t, `{"mean": {"age": 1}}`))
	require.NoError(t, err)
	_, _, err = f.Inputs(nil)
	require.ErrorContains(t, err, "pictures have none")
	_, err = ReadScaling(t.Context(), filepath.Join(t.TempDir(), "none.json"))
	require.ErrorContains(t, err, "cannot be opened")
}
