package inputfile

import (
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// plain hides what a file can do beside being read.
type plain struct{ fs.File }

// seeking hides that a file can be read at an offset.
type seeking struct {
	fs.File
	io.Seeker
}

// Bytes at any offset are those of the file, whatever it can do and however many there are.
func TestPool(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	fsys := fstest.MapFS{}
	for i := range 3 * mostOpen {
		data := make([]byte, 1+rng.IntN(200))
		for j := range data {
			data[j] = byte(rng.Uint32())
		}
		fsys[fmt.Sprint(i)] = &fstest.MapFile{Data: data}
	}
	for name, wrap := range map[string]func(f fs.File) fs.File{
		"ReaderAt": func(f fs.File) fs.File { return f },
		"Seeker":   func(f fs.File) fs.File { return seeking{f, f.(io.Seeker)} },
		"Reader":   func(f fs.File) fs.File { return plain{f} },
	} {
		opened := 0
		p := NewPool(func(name string) (fs.File, error) {
			f, err := fsys.Open(name)
			if err != nil {
				return nil, err
			}
			opened++
			return wrap(f), nil
		})
		for range 500 {
			at := fmt.Sprint(rng.IntN(3 * mostOpen))
			data := fsys[at].Data
			info := testref.Must(p.File(at).Stat())(t)
			require.EqualValues(t, len(data), info.Size())
			lo := rng.IntN(len(data))
			b := make([]byte, rng.IntN(len(data)-lo+2))
			n, err := p.File(at).ReadAt(b, int64(lo))
			require.Equal(t, data[lo:min(lo+len(b), len(data))], b[:n], name)
			if n < len(b) {
				require.Equal(t, io.EOF, err, name)
			}
		}
		require.Greater(t, opened, mostOpen)
		require.LessOrEqual(t, len(p.kept), mostOpen)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				at := fmt.Sprint(i)
				b := make([]byte, len(fsys[at].Data))
				n, err := p.File(at).ReadAt(b, 0)
				if n != len(b) || string(b) != string(fsys[at].Data) {
					panic(err)
				}
			})
		}
		all.Wait()
		require.ErrorIs(t, testref.Err(p.File("none").ReadAt(make([]byte, 1), 0)), fs.ErrNotExist)
		require.NoError(t, p.Close())
		require.NoError(t, testref.Err(p.File("1").ReadAt(make([]byte, 1), 0)))
		require.NoError(t, p.Close())
	}
}
