package funcgp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAboutTime(t *testing.T) {
	for want, list := range map[string][]float64{
		"under a second": {0, .99}, "about 1 s": {1, 1.4}, "about 10 s": {9.6, 14}, "about 40 s": {36, 44}, "about 90 s": {89},
		"about 2 min": {90, 149}, "about 2 h": {5400, 8900}, "about 20 h": {72000},
	} {
		for _, s := range list {
			require.Equal(t, want, aboutTime(s), s)
		}
	}
}
