package dataset

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// mirror serves files by name and returns their checksums.
func mirror(t *testing.T, files map[string][]byte) (o *OpenOptions, s *script) {
	t.Helper()
	url, s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		file, ok := files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			w.WriteHeader(404)
			return
		}
		http.ServeContent(w, r, "x", time.Time{}, strings.NewReader(string(file)))
	})
	o = &OpenOptions{Mirrors: []string{url}, CacheDir: t.TempDir(), MD5: map[string]string{}}
	for name, file := range files {
		o.MD5[name] = md5Hex(file)
	}
	return o, s
}

// The first use downloads four files, the second none.
func TestOpenMNIST(t *testing.T) {
	files := fakeMNIST(t)
	o, s := mirror(t, files)
	done := map[string]int64{}
	o.Progress = func(stage string, n, total int) {
		file, ok := strings.CutPrefix(stage, "downloading ")
		require.True(t, ok)
		done[file] = int64(n)
		require.Equal(t, len(files[file]), total)
	}
	for range 2 {
		d := testref.Must(Open(context.Background(), "mnist", o))(t)
		require.Equal(t, "mnist", d.Name)
		require.Equal(t, []int{7, 4, 9}, d.Train.Labels)
		require.Equal(t, int32(4), s.calls.Load())
	}
	for name, file := range files {
		require.Equal(t, int64(len(file)), done[name])
		kept := filepath.Join(o.CacheDir, "mnist", strings.TrimSuffix(name, ".gz"))
		require.FileExists(t, kept)
		require.NoFileExists(t, kept+".gz")
	}
}

// Files put there by hand are taken as they are, whatever their checksum.
func TestOpenMNISTByHand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mnist")
	require.NoError(t, os.Mkdir(dir, 0o755))
	for name, file := range fakeMNIST(t) {
		write(t, dir, name, file)
	}
	d, err := Open(context.Background(), "mnist", &OpenOptions{CacheDir: filepath.Dir(dir), Mirrors: []string{"http://127.0.0.1:1/"}})
	require.NoError(t, err)
	require.Equal(t, []int{9, 4}, d.Test.Labels)
	write(t, dir, "t10k-labels-idx1-ubyte.gz", nil)
	_, err = Open(context.Background(), "mnist", &OpenOptions{CacheDir: filepath.Dir(dir)})
	require.ErrorContains(t, err, "delete the file, and it is downloaded again")
}

// Without a network one line says what to do.
func TestOpenMNISTOffline(t *testing.T) {
	o, _ := mirror(t, nil)
	_, err := Open(context.Background(), "mnist", o)
	require.ErrorContains(t, err, "mnist: train-images-idx3-ubyte.gz: cannot be downloaded: ")
	require.ErrorContains(t, err, "404 Not Found; without a network, put the four files train-images-idx3-ubyte, ")
	require.ErrorContains(t, err, " into "+filepath.Join(o.CacheDir, "mnist")+", or name a directory that holds the four files with --data DIR")
	require.NotContains(t, err.Error(), "\n")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Open(ctx, "mnist", o)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "the download was stopped")
}

// The cache is below the user's cache directory; without one the message says so.
func TestOpenMNISTNoCache(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	_, err := Open(context.Background(), "mnist", nil)
	require.ErrorContains(t, err, "mnist: there is no cache directory: ")
}

// The checksums are those of the compressed files: three of the shared ones
// are originals (../shared/reference/README.md, Data).
func TestMNISTSums(t *testing.T) {
	for name, sum := range mnistMD5 {
		file := testref.Must(os.ReadFile(shared(t, "mnist", name)))(t)
		if name == "train-images-idx3-ubyte.gz" {
			require.NotEqual(t, sum, md5Hex(file))
			continue
		}
		require.Equal(t, sum, md5Hex(file), name)
	}
}
