package linearize_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

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
