package command_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/studies/command"
)

// TestAnswers asks the program about its built-in network.
func TestAnswers(t *testing.T) {
	ctx := context.Background()
	c, err := command.Build(ctx, t.TempDir())
	require.NoError(t, err)
	require.Regexp(t, "^[0-9a-f]{12}$", c.Version())
	args := []string{"--data", "digits:400,60", "--train-count", "60", "--quiet"}
	rows, sum, err := c.Predict(ctx, args)
	require.NoError(t, err)
	require.NotEmpty(t, rows)
	require.Equal(t, 60, sum.Fit.Examples)
	require.False(t, math.IsNaN(float64(sum.NLL)))

	// The sums of all terms close, and rows come in order.
	n := 0
	require.NoError(t, c.Explain(ctx, append(args, "--all", "--top", "60"), func(e *command.Explanation) error {
		require.EqualValues(t, rows[n].Index, e.Input.Index)
		require.Len(t, e.Outputs[0].Contributions, 60)
		n++
		return nil
	}))
	require.Equal(t, len(rows), n)

	_, _, err = c.Predict(ctx, []string{"--no-such-flag"})
	require.ErrorContains(t, err, "no-such-flag")
	failed := context.Canceled
	require.ErrorIs(t, c.Explain(ctx, args, func(*command.Explanation) error { return failed }), failed)
}
