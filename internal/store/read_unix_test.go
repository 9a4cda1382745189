//go:build unix

package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/funcgp/funcgp/internal/testref"
)

// A file that is no regular one is read as far as its header says: a pipe
// whole, a device without an end not at all.
func TestReadsWhatCannotBeMapped(t *testing.T) {
	require.ErrorContains(t, testref.Err(Open("/dev/zero", "test", 2)), "is not a file of this program")
	require.ErrorContains(t, testref.Err(Open("/dev/null", "test", 2)), "is not a file of this program")
	whole := testref.Must(os.ReadFile(sample(t)))(t)
	for _, x := range []struct {
		data []byte
		ok   bool
	}{{whole, true}, {whole[:len(whole)-1], false}, {append(append([]byte(nil), whole...), 0), false}, {whole[:40], false}} {
		pipe := filepath.Join(t.TempDir(), "pipe")
		require.NoError(t, unix.Mkfifo(pipe, 0o600))
		done := make(chan error, 1)
		go func() { done <- os.WriteFile(pipe, x.data, 0) }()
		err := readAll(pipe)
		<-done // it may be a broken pipe
		require.Equal(t, x.ok, err == nil, "%v", err)
	}
}
