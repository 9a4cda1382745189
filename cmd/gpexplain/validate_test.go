package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidate(t *testing.T) {
	for _, name := range []string{"categorical", "poisson"} {
		ref := openReference(t, name)
		text := ref.run(t, "validate")
		require.NotContains(t, text, "DIFFERS")
		for _, quantity := range []string{"mean", "covariance", "log det", "(E7)", "(E8)", "(E9)", "Σ C(x,x_i) b_i", "Σ κ(x,x_i) α_i"} {
			require.Contains(t, text, quantity)
		}
		text = ref.run(t, "validate", "--json")
		require.Equal(t, "{ok rows[{quantity weight_space function_space difference tolerance ok}] warnings[]}", skeleton(t, text))
		require.True(t, strings.HasPrefix(text, `{"ok":true,`))
	}
}

// The exit status says that something differs, and the table what.
func TestValidateDiffers(t *testing.T) {
	ref := openReference(t, "categorical")
	r := gpexplain(t.Context(), append([]string{"validate", "--tolerance", "1e-17"}, ref.args...)...)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stdout, "DIFFERS")
	requireOneLine(t, r.stderr)
}
