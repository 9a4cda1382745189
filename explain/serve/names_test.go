package serve

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
)

// TestNamedFeatures reads features by the names of their columns, in any order, and refuses those that are not theirs.
func TestNamedFeatures(t *testing.T) {
	columns := []string{"u", "v"}
	read := func(body string) (*request, error) {
		r := &request{}
		return r, r.decode([]byte(body), columns, 2, 3)
	}
	r, err := read(`{"values": {"v": 2, "u": 1e3}}`)
	require.NoError(t, err)
	require.Equal(t, []float64{1e3, 2}, r.Values)
	r, err = read(`{"rows": [{"v": 2, "u": 1}, [3, 4], {"u": 5, "v": 6}]}`)
	require.NoError(t, err)
	require.Equal(t, mat.NewDense(3, 2, []float64{1, 2, 3, 4, 5, 6}), r.Rows)
	const remedy = `; give a number for each of "u", "v" and nothing else`
	for body, want := range map[string]string{
		`{"values": {"u": 1}}`:                           `values: column "v" is missing` + remedy,
		`{"values": {}}`:                                 `values: column "u", "v" is missing` + remedy,
		`{"values": {"u": 1, "w": 2}}`:                   `values: there is no column "w"` + remedy,
		`{"values": {"u": 1, "v": 2, "id": 3}}`:          `values: there is no column "id"` + remedy,
		`{"values": {"u": 1, "u": 2}}`:                   `values: column "u" is given twice` + remedy,
		`{"values": {"u": "1", "v": 2}}`:                 `values: column "u" has 1` + remedy,
		`{"values": {"u": null, "v": 2}}`:                `values: column "u" has null` + remedy,
		`{"values": {"u": [1], "v": 2}}`:                 `values: column "u" has [` + remedy,
		`{"rows": [{"u": 1, "v": 2}, {"u": 1, "V": 2}]}`: `rows: row 1: there is no column "V"` + remedy,
		`{"rows": [{"u": 1, "v": 2}, {"v": 2}]}`:         `rows: row 1: column "u" is missing` + remedy,
	} {
		_, err := read(body)
		require.EqualError(t, err, want, body)
		require.Equal(t, body[2:2+len("rows")] == "rows", err.(*refusal).Field == "rows", body)
	}
	require.ErrorContains(t, new(request).decode([]byte(`{"values": {"u": 1}}`), nil, 2, 3), "values: the inputs have no names")
	_, err = read(`{"values": 3}`)
	require.ErrorContains(t, err, "is no list")
	_, err = read(`{"values": {"u": 1`)
	require.Error(t, err)
}
