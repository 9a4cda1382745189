package main

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The message says how many bytes, and the most examples that fit; that many
// do.
func TestMaxMemory(t *testing.T) {
	line := refuse(t, 1, "explain", "--data", "digits:3000,100", "--max-memory", "2MB")
	m := regexp.MustCompile(`an exact posterior takes (\d+) bytes of memory, of which 2000000 may be used; at most (\d+) examples fit: give --method nystrom, --train-count (\d+), or raise --max-memory\n$`).FindStringSubmatch(line)
	require.NotNil(t, m, line)
	require.Equal(t, m[2], m[3])
	succeed(t, "explain", "--data", "digits:3000,100", "--max-memory", "2MB", "--train-count", m[2])
	require.Contains(t, refuse(t, 1, "explain", "--data", "digits:3000,100", "--max-memory", "100"), "of which 100 may be used; raise --max-memory")
	// What no machine holds is refused before any of it is taken.
	require.Contains(t, refuse(t, 1, "explain", "--data", "digits:9000000,100", "--classes", "4,9"), "examples fit")
}

func TestMaxMemoryOfWeights(t *testing.T) {
	line := refuse(t, 1, small("validate", "--max-memory", "10MB")...)
	require.Regexp(t, `the posterior over 4587 parameters takes \d+ bytes of memory, of which 10000000 may be used; at most \d+ parameters fit`, line)
}

// Weight space takes all test rows at once, the sums of a sparse posterior a
// tile at a time.
func TestMaxMemoryOfTests(t *testing.T) {
	args := []string{"validate", "--data", "digits:100,5000", "--max-memory", "5MB"}
	require.Regexp(t, `: the Jacobian of 1000 test rows takes \d+ bytes of memory, of which 5000000 may be used; raise --max-memory`, refuse(t, 1, args...))
	succeed(t, append(args, "--method", "nystrom")...)
}

func TestMaxMemoryOfTraining(t *testing.T) {
	out := filepath.Join(t.TempDir(), "net.onnx")
	line := refuse(t, 1, "train", "--data", "digits:100,20", "--arch", "mlp:1048576-1048576-10", "--out", out)
	require.Contains(t, line, "choose smaller widths")
	line = refuse(t, 1, "train", "--data", "digits:5000000,20", "--arch", "mlp:4-10", "--max-memory", "1GiB", "--out", out)
	require.Contains(t, line, "training takes")
}
