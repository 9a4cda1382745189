package memory

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestControlGroupRoom(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	_, ok := controlGroupRoom(dir)
	require.False(t, ok)
	write("memory.max", "max\n")
	write("memory.current", "700\n")
	_, ok = controlGroupRoom(dir)
	require.False(t, ok)
	write("memory.max", "1000\n")
	room, ok := controlGroupRoom(dir)
	require.True(t, ok)
	require.Equal(t, int64(300), room)
	write("memory.stat", "anon 1\ninactive_file 250\nfile 400\n")
	room, _ = controlGroupRoom(dir)
	require.Equal(t, int64(550), room)
	write("memory.current", "1500\n")
	room, _ = controlGroupRoom(dir)
	require.Zero(t, room)
}
