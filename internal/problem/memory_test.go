package problem

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/gp"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "1": 1, "1000": 1000, "4GiB": 4 << 30, "4 gib": 4 << 30, "4G": 4 << 30, "500MB": 500e6, "1.5k": 1536, "2TiB": 2 << 40,
	} {
		got, err := parseBytes(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"0", "0.1", "-1", "x", "4XB", "1e3", "GiB", "99999999999TiB", "1.2.3", "4GiBs", "NaN", "Inf"} {
		_, err := parseBytes(text)
		require.Error(t, err, text)
	}
}

func TestPlanOverflow(t *testing.T) {
	err := gp.CheckMemory("x", gp.TrainingExamples, 10, 1000, func(int) int64 { return WholeBytes(math.Inf(1)) })
	require.ErrorContains(t, InFlags(err, false), "raise --max-memory")
}

func TestSizeText(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 bytes", 999: "999 bytes", 1500: "1.5 kB", 2e6: "2.0 MB", 1.46e9: "1.46 GB", 15.19e9: "15.2 GB", 261.66e9: "262 GB",
		2.9e12: "2.90 TB", 4.2e15: "4200 TB"} {
		require.Equal(t, want, SizeText(bytes))
	}
}
