package job

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "1": 1, "1000": 1000, "4GiB": 4 << 30, "4 gib": 4 << 30, "4G": 4 << 30, "500MB": 500e6, "1.5k": 1536, "2TiB": 2 << 40,
	} {
		got, err := ParseBytes("max-memory", text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"0", "0.1", "-1", "x", "4XB", "1e3", "GiB", "99999999999TiB", "1.2.3", "4GiBs", "NaN", "Inf"} {
		require.Error(t, testref.Err(ParseBytes("max-memory", text)), text)
	}
}
