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

// Conjugate gradients are refused with the memory that the library takes at least,
// 8·(18·N·C + 8·N·C + 2·P) bytes for one output, however little is allowed.
func TestMaxMemoryOfConjugateGradients(t *testing.T) {
	const needs = "gpexplain: a matrix-free posterior of 1,500 training rows takes 385.4 kB of memory, of which "
	for _, verb := range []string{"explain", "predict"} {
		for limit, want := range map[string]string{
			"1":     "1 bytes may be used; raise --max-memory\n",
			"24kB":  "24.0 kB may be used; raise --max-memory\n", // as much as the sites take
			"100kB": "100.0 kB may be used; at most 127 rows fit; give --train-count 127, or raise --max-memory\n",
			"385kB": "385.0 kB may be used; at most 1,498 rows fit; give --train-count 1498, or raise --max-memory\n",
		} {
			require.Equal(t, needs+want, refuse(t, 1, verb, "--method", "parameters", "--max-memory", limit))
		}
	}
	require.Contains(t, refuse(t, 1, "explain", "--method=parameters", "--data", "digits:9000000,100", "--max-memory", "200MB"), "rows fit; ")
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
