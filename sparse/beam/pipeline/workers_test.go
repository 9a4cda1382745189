package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/sparse/shard"
)

// Parts go through their coder as 16 bytes, and other bytes are an error.
func TestCoders(t *testing.T) {
	for _, p := range []shard.Part{{Number: 0, Of: 1}, {Number: 63, Of: 64}, {Number: -1, Of: 1 << 40}} {
		data := encodePart(p)
		require.Len(t, data, 16)
		q, err := decodePart(data)
		require.NoError(t, err)
		require.Equal(t, p, q)
	}
	for _, n := range []int{0, 15, 17} {
		_, err := decodePart(make([]byte, n))
		require.Error(t, err)
		_, err = decodeTile(make([]byte, n))
		require.Error(t, err)
		_, err = decodeTerms(make([]byte, n))
		require.Error(t, err)
	}
}

// Of a runner's error the line that a worker wrote is kept, and else the runner's, in one line.
func TestRunError(t *testing.T) {
	require.NoError(t, runError("prism", nil))
	cause := workerError(errors.New("a.gp: sparse: the sums are damaged"))
	err := runError("prism", fmt.Errorf("job failed:\nprocess bundle failed: %w\n\tcaused by: %w\n", cause, cause))
	require.EqualError(t, err, "a.gp: the sums are damaged")
	require.ErrorIs(t, err, cause)
	require.EqualError(t, runError("flink", errors.New("no\nroute")), "--runner flink: no route")
}

// One value is open at a time, and is opened again for other options or after an error.
func TestOpened(t *testing.T) {
	var opens []string
	o := opened[string, string]{open: func(_ context.Context, name *string) (string, error) {
		opens = append(opens, *name)
		if *name == "bad" {
			return "", os.ErrNotExist
		}
		return *name, nil
	}}
	for _, name := range []string{"a", "a", "b", "bad", "bad", "a"} {
		err := o.with(t.Context(), text(name), func(value string) error {
			require.Equal(t, name, value)
			return nil
		})
		require.Equal(t, name == "bad", errors.Is(err, os.ErrNotExist))
	}
	o.forget()
	require.NoError(t, o.with(t.Context(), text("a"), func(string) error { return nil }))
	require.Equal(t, []string{"a", "b", "bad", "bad", "a", "a"}, opens)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, o.with(ctx, text("a"), nil), context.Canceled)
}

// Files of tiles that are missing or damaged are refused by their name.
func TestReadTiles(t *testing.T) {
	dir := t.TempDir()
	_, err := ReadTiles(dir)
	require.ErrorContains(t, err, dir+": no worker has written sums there")
	path := filepath.Join(dir, "sums-0.tile")
	require.NoError(t, os.WriteFile(path, []byte("fgptile"), 0o600))
	_, err = ReadTiles(dir)
	require.ErrorContains(t, err, path+": ")
}
