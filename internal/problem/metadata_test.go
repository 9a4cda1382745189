package problem

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// Of several bad entries the same one is named in every run.
func TestBadMetadataIsNamedInOrder(t *testing.T) {
	bad := map[string]string{}
	for _, key := range []string{KeyScaling, KeyClasses, KeyNoise, KeyPrecision, KeyLikelihood} {
		bad[key] = "x"
		for range 50 {
			require.ErrorContains(t, testref.Err(readMetadata(bad)), "its metadata entry "+key+" is ")
		}
	}
}

func TestMetadataNumbers(t *testing.T) {
	m := testref.Must(readMetadata(map[string]string{KeyPrecision: "1e-3", KeyNoise: "2"}))(t)
	require.Equal(t, [2]float64{1e-3, 2}, [2]float64{m.Precision, m.Noise})
	m = testref.Must(readMetadata(nil))(t)
	require.Equal(t, [2]float64{}, [2]float64{m.Precision, m.Noise})
	for _, text := range []string{"0", "-1", "NaN", "Inf", "1e300", "one"} {
		_, err := readMetadata(map[string]string{KeyNoise: text})
		require.ErrorContains(t, err, "its metadata entry "+KeyNoise+" is ", text)
	}
}
