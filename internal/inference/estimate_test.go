package inference

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAboutTime(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "about 1 second", 24 * time.Second: "about 20 seconds", 89 * time.Second: "about 90 seconds", 95 * time.Second: "about 2 minutes",
		4*time.Minute + 20*time.Second: "about 4 minutes", 3 * time.Hour: "about 3 hours", 100 * time.Hour: "about 4 days",
	} {
		require.Equal(t, want, aboutTime(d), d)
	}
}

// A factor of n takes n³/3, a refit one for each step, leave-one-out an inverse.
func TestExactWork(t *testing.T) {
	const cube = 1e9
	require.InEpsilon(t, 2*cube/3, exactWork(1000, false, false, false), 1e-12)
	require.InEpsilon(t, 2*cube, exactWork(1000, false, true, false), 1e-12)
	require.InEpsilon(t, 2*usualSteps*cube/3, exactWork(1000, true, false, false), 1e-12)
	require.Greater(t, exactWork(1000, true, true, true), usualTrials*exactWork(1000, true, false, false))
	require.Positive(t, multiplicationRate())
}
