package testkit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/linearize"
)

// RequireWarnings checks that the warnings have these codes in this order, and returns the warnings.
func RequireWarnings(t testing.TB, warnings []error, codes ...string) []*linearize.Warning {
	t.Helper()
	var list []*linearize.Warning
	var got []string
	for _, err := range warnings {
		list = append(list, linearize.WarningOf(err))
		got = append(got, list[len(list)-1].Code)
	}
	require.Equal(t, codes, got)
	return list
}
