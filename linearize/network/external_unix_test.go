//go:build unix

package network_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// smallModel is a network of two layers, with integers and a constant inside a node.
func smallModel() *onnx.Model {
	g := newGraph(13, 3)
	h := g.op("Tanh", in(g.op("Gemm", in("x", g.param(3, 4), g.float32s([]float64{1, 2, 3, 4}, 4)))))
	h = g.op("Reshape", in(h, g.ints(-1, 4)))
	h = g.op("Mul", in(h, g.op("Constant", nil, tensorA("value", &onnx.Tensor{Type: onnx.Double, Dims: []int64{1}, Floats: []float64{0.5}}))))
	return g.output(g.op("Gemm", in(h, g.param(4, 2), g.param(2))))
}

// TestExternalData checks that a network whose weights are in other files is the one
// with its weights inside, to the last bit, and is written in one file.
func TestExternalData(t *testing.T) {
	want := testref.Must(readModel(smallModel(), nil))(t)
	x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 4, 3)
	f := testref.Must(want.Forward(t.Context(), x))(t)
	for _, files := range [][]string{{"net.onnx.data"}, {"a", "sub/b", "./c"}} {
		dir := t.TempDir()
		path := testkit.SplitModel(t, smallModel(), dir, files...)
		net := testref.Must(network.ReadONNXFile(t.Context(), path, nil))(t)
		require.Equal(t, want.Fingerprint(), net.Fingerprint())
		got := testref.Must(net.Forward(t.Context(), x))(t)
		require.True(t, mat.Equal(f, got))
		var paths []string
		for _, name := range files {
			paths = append(paths, filepath.Join(dir, name))
		}
		require.Equal(t, paths, net.ExternalFiles())
		var one, other bytes.Buffer
		require.NoError(t, want.WriteONNX(&one))
		require.NoError(t, net.WriteONNX(&other))
		require.Equal(t, one.Bytes(), other.Bytes())

		data := testref.Must(os.ReadFile(path))(t)
		_, err := network.ReadONNX(bytes.NewReader(data), nil)
		require.ErrorContains(t, err, `network: initializer 0 "w`)
		require.ErrorContains(t, err, `its values are in "`+files[0]+`" (external data), which a reader does not reach; read the model by its path, with ReadONNXFile`)
		requireOneLine(t, err)
	}
	// Without external data any path will do, a pipe too.
	dir := t.TempDir()
	path := testkit.WriteModel(t, smallModel(), dir)
	net := testref.Must(network.ReadONNXFile(t.Context(), path, nil))(t)
	require.Empty(t, net.ExternalFiles())
	require.Equal(t, want.Fingerprint(), net.Fingerprint())
	_, err := network.ReadONNXFile(t.Context(), filepath.Join(dir, "absent"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestExternalDataThroughPipe checks that the model may come through a pipe, with its
// weights beside the pipe, and that a context ends the wait for it.
func TestExternalDataThroughPipe(t *testing.T) {
	dir := t.TempDir()
	path := testkit.SplitModel(t, smallModel(), dir, "w")
	data := testref.Must(os.ReadFile(path))(t)
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	go func() { _ = os.WriteFile(pipe, data, 0) }()
	net := testref.Must(network.ReadONNXFile(t.Context(), pipe, nil))(t)
	require.Equal(t, []string{filepath.Join(dir, "w")}, net.ExternalFiles())

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, testref.Err(network.ReadONNXFile(ctx, pipe, nil)), context.DeadlineExceeded)
}

// TestHostileExternalData checks that nothing but regular files in the model's folder is
// read, each as far as it goes, and that a refusal is one line that names tensor, file and
// what to do.
func TestHostileExternalData(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	require.NoError(t, os.WriteFile(secret, make([]byte, 1<<12), 0o600))
	dir := filepath.Join(outside, "model")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "w"), make([]byte, 100), 0o600))
	require.NoError(t, os.Symlink("w", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("..", filepath.Join(dir, "up")))
	require.NoError(t, os.Symlink("/dev/zero", filepath.Join(dir, "zero")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	huge := testref.Must(os.Create(filepath.Join(dir, "huge")))(t)
	require.NoError(t, huge.Truncate(1<<40)) // takes no room on the disk
	require.NoError(t, huge.Close())
	beside := "move the file beside the model and save the model with that name"
	itself := "put the file itself beside the model"
	for _, c := range []struct {
		name string
		at   onnx.External // of the first weight, of 96 bytes
		want string
	}{
		{"absolute", onnx.External{Location: secret}, "it is not inside the folder; " + beside},
		{"absolute inside", onnx.External{Location: filepath.Join(dir, "w")}, "it is not inside the folder; " + beside},
		{"parent", onnx.External{Location: "../secret"}, "it is not inside the folder; " + beside},
		{"parent behind", onnx.External{Location: "sub/../../secret"}, "it is not inside the folder; " + beside},
		{"parent and back", onnx.External{Location: "../model/w"}, "it is not inside the folder; " + beside},
		{"link", onnx.External{Location: "link"}, "it is a symbolic link; " + itself},
		{"link to a folder", onnx.External{Location: "up/secret"}, "it is a symbolic link; " + itself},
		{"link to a device", onnx.External{Location: "zero"}, "it is a symbolic link; " + itself},
		{"device", onnx.External{Location: "/dev/zero"}, "it is not inside the folder; " + beside},
		{"pipe", onnx.External{Location: "pipe"}, "it is no regular file; " + itself},
		{"folder", onnx.External{Location: "sub"}, "it is no regular file; " + itself},
		{"the folder", onnx.External{Location: "."}, "it is no regular file; " + itself},
		{"absent", onnx.External{Location: "absent"}, "no such file or directory; copy the file that was saved with the model beside it"},
		{"a zero byte", onnx.External{Location: "w\x00"}, "invalid argument; " + itself},
		{"a line break", onnx.External{Location: "w\n"}, "no such file or directory"},
		{"past the end", onnx.External{Location: "w", Offset: 5}, "bytes 5 to 101, but the file has 100: it is cut short or of another model"},
		{"far past the end", onnx.External{Location: "w", Offset: 1 << 62}, "but the file has 100"},
		{"in the place of another", onnx.External{Location: "other"}, `from byte 0, where those of initializer 0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := smallModel()
			if c.at.Location == "other" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "other"), make([]byte, 200), 0o600))
				second := m.Graph.Initializers[1]
				second.Floats, second.External = nil, &onnx.External{Location: "./other", Offset: 95, Length: -1}
				c.want = `from byte 95, where those of initializer 0`
			}
			w := m.Graph.Initializers[0]
			c.at.Length = -1
			w.Floats, w.External = nil, &c.at
			path := testkit.WriteModel(t, m, dir)
			var err error
			used := allocated(func() { _, err = network.ReadONNXFile(t.Context(), path, nil) })
			require.ErrorContains(t, err, c.want)
			require.Regexp(t, `^network: initializer [01] "[wc][12]": its values are in "`, err.Error())
			if c.at.Location != "other" {
				require.ErrorContains(t, err, `its values are in `+strconv.Quote(c.at.Location))
			}
			requireOneLine(t, err)
			require.Less(t, used, uint64(1<<20))
		})
	}
	// Sizes that the file has, and the memory has not.
	m := smallModel()
	w := m.Graph.Initializers[0]
	w.Dims, w.Floats, w.External = []int64{1 << 37}, nil, &onnx.External{Location: "huge", Length: -1}
	_, err := network.ReadONNXFile(t.Context(), testkit.WriteModel(t, m, dir), nil)
	require.ErrorContains(t, err, `its values are in "huge" (external data), and with the others takes 2199023255552 bytes of memory, of which`)
	requireOneLine(t, err)
	m = smallModel()
	path := testkit.SplitModel(t, m, dir, "all")
	_, err = network.ReadONNXFile(t.Context(), path, &network.ReadOptions{MaxMemory: 100})
	require.ErrorContains(t, err, "of which 100 may be used; raise ReadOptions.MaxMemory")
	require.NoError(t, testref.Err(network.ReadONNXFile(t.Context(), path, &network.ReadOptions{MaxMemory: 1000})))
}

// FuzzExternal checks that whatever a model says of where its weights are is refused, or
// reads those bytes of that file.
func FuzzExternal(f *testing.F) {
	for _, location := range []string{"w", "sub/w", "../w", "/etc/passwd", "link", "./w", "sub//w", "", ".", "..", "sub/", "w/", "\x00", "sub\\w"} {
		f.Add(location, "8", "96")
		f.Add(location, "", "")
	}
	f.Add("w", "-1", "96")
	f.Add("w", "9223372036854775807", "96")
	f.Add("w", "105", "")
	f.Add(strings.Repeat("\x81", 250), "", "")
	dir := f.TempDir()
	content := make([]byte, 200)
	for i := range content {
		content[i] = byte(i)
	}
	if err := os.MkdirAll(filepath.Join(dir, "model", "sub"), 0o700); err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"w", "model/w", "model/sub/w"} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			f.Fatal(err)
		}
	}
	if err := os.Symlink("w", filepath.Join(dir, "model", "link")); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, location, offset, length string) {
		m := smallModel()
		w := m.Graph.Initializers[0]
		w.Floats, w.External = nil, &onnx.External{Length: -1, Other: []onnx.Entry{{Key: "location", Value: location}}}
		if offset != "" {
			w.External.Other = append(w.External.Other, onnx.Entry{Key: "offset", Value: offset})
		}
		if length != "" {
			w.External.Other = append(w.External.Other, onnx.Entry{Key: "length", Value: length})
		}
		net, err := network.ReadONNXFile(t.Context(), testkit.WriteModel(t, m, filepath.Join(dir, "model")), nil)
		if err != nil {
			requireOneLine(t, err)
			return
		}
		files := net.ExternalFiles()
		require.Len(t, files, 1)
		name := testref.Must(filepath.Rel(filepath.Join(dir, "model"), files[0]))(t)
		require.Contains(t, []string{"w", "sub/w"}, name)
		at := 0
		if offset != "" {
			at = testref.Must(strconv.Atoi(offset))(t)
		}
		for i := range 12 {
			require.Equal(t, math.Float64bits(net.Theta()[i]), binary.LittleEndian.Uint64(content[at+8*i:]))
		}
	})
}
