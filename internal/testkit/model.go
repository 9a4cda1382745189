package testkit

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
)

// SplitModel moves the elements of every tensor of a model into files of a folder, those of
// initializer i into files[i%len(files)], and writes the model there.
func SplitModel(t testing.TB, m *onnx.Model, dir string, files ...string) string {
	t.Helper()
	content := map[string][]byte{}
	k := 0
	require.NoError(t, m.EachTensor(func(_ string, x *onnx.Tensor) error {
		name := files[k%len(files)]
		k++
		b := append(content[name], make([]byte, 3)...) // so that elements are not aligned
		at := len(b)
		for _, v := range x.Floats {
			if x.Type == onnx.Float {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
			} else {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
			}
		}
		for _, v := range x.Ints {
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		}
		content[name] = b
		x.Floats, x.Ints, x.External = nil, nil, &onnx.External{Location: name, Offset: int64(at), Length: int64(len(b) - at)}
		return nil
	}))
	for name, b := range content {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
	return WriteModel(t, m, dir)
}

// WriteModel writes a model to a folder and returns its path.
func WriteModel(t testing.TB, m *onnx.Model, dir string) string {
	t.Helper()
	data, err := m.Encode()
	require.NoError(t, err)
	path := filepath.Join(dir, "net.onnx")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}
