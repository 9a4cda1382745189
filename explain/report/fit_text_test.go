package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// The standard error of a score of one row is not known, and not printed.
func TestTextOfOneRow(t *testing.T) {
	k := &result.Calibration{Scales: result.Scales{Scale: 2, Temperature: 1, NoiseScale: 1}, Rows: 1, NLLSE: result.Undefined(), LOO: &result.RowScores{NLL: 3}, Network: result.RowScores{NLL: 4}}
	require.Equal(t, "posterior covariance × 2, by leave-one-out over 1 training row: NLL 3.0000 (network alone 4.0000)", calibrationLine(k))
	k.Rows, k.NLLSE = 2, .5
	require.Equal(t, "posterior covariance × 2, by leave-one-out over 2 training rows: NLL 3.0000 ± 0.5 (network alone 4.0000)", calibrationLine(k))
}
