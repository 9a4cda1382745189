package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The message says how many bytes, and the most examples that fit; that many
// do.
func TestMaxMemory(t *testing.T) {
	line := refuse(t, 1, "explain", "--data", "digits:2500,50", "--max-memory", "8MB")
	m := regexp.MustCompile(`an exact posterior of 500 training rows takes [\d.]+ MB of memory, of which 8.0 MB may be used; at most ([\d,]+) rows fit; take all rows through inducing examples: (gpexplain explain --data digits:2500,50 --max-memory 8MB --method nystrom( --inducing \d+)?); or give --train-count (\d+), or raise --max-memory\n$`).FindStringSubmatch(line)
	require.NotNil(t, m, line)
	require.Equal(t, strings.ReplaceAll(m[1], ",", ""), m[4])
	succeed(t, "explain", "--data", "digits:2500,50", "--max-memory", "8MB", "--train-count", m[4])
	succeed(t, strings.Fields(m[2])[1:]...)
	require.Contains(t, refuse(t, 1, "explain", "--data", "digits:3000,100", "--max-memory", "100"), "of which 100 bytes may be used; raise --max-memory")
	require.Contains(t, refuse(t, 1, "explain", "--data", "digits:3000,100", "--max-memory", "2MB", "--method=exact"), "rows fit; give --train-count")
	// What no machine holds is refused before any of it is taken.
	require.Contains(t, refuse(t, 1, "explain", "--data", "digits:9000000,100", "--classes", "4,9"), "rows fit")
}

func TestMaxMemoryOfParameters(t *testing.T) {
	for _, verb := range []string{"explain", "predict"} {
		for limit, want := range map[string]string{"1": "1 bytes", "100MB": "100.0 MB"} {
			require.Equal(t, "gpexplain: a posterior over 4,587 parameters takes 208.8 MB of memory, of which "+want+" may be used; raise --max-memory, or give --method nystrom\n",
				refuse(t, 1, verb, "--method", "parameters", "--max-memory", limit))
		}
	}
}

func TestMaxMemoryOfWeights(t *testing.T) {
	line := refuse(t, 1, small("validate", "--max-memory", "10MB")...)
	require.Regexp(t, `the posterior over 4587 parameters takes [\d.]+ MB of memory, of which 10.0 MB may be used; at most [\d,]+ parameters fit`, line)
}

// Weight space takes all test rows at once, the sums of a sparse posterior a
// tile at a time.
func TestMaxMemoryOfTests(t *testing.T) {
	args := []string{"validate", "--data", "digits:100,5000", "--max-memory", "5MB"}
	require.Regexp(t, `: the Jacobian of 1000 test rows takes [\d.]+ MB of memory, of which 5.0 MB may be used; raise --max-memory`, refuse(t, 1, args...))
	succeed(t, append(args, "--method", "nystrom")...)
}

func TestMaxMemoryOfTraining(t *testing.T) {
	out := filepath.Join(t.TempDir(), "net.onnx")
	line := refuse(t, 1, "train", "--data", "digits:100,20", "--arch", "mlp:1048576-1048576-10", "--out", out)
	require.Contains(t, line, "choose smaller widths")
	line = refuse(t, 1, "train", "--data", "digits:5000000,20", "--arch", "mlp:4-10", "--max-memory", "1GiB", "--out", out)
	require.Contains(t, line, "training takes")
}
