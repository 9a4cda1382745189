package onnx

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// An endless stream repeats some bytes and counts those that are read.
type endless struct {
	bytes []byte
	read  int64
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.bytes[(e.read+int64(i))%int64(len(e.bytes))]
	}
	e.read += int64(len(p))
	return len(p), nil
}

// allocated returns the number of bytes that do allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// An endless stream that could be a model is read up to the limit, and its bytes
// are in memory once.
func TestReadStopsAtTheLimit(t *testing.T) {
	const most = 16 << 20
	for name, record := range map[string][]byte{
		"varints": intField(1, 8), "texts": stringField(6, strings.Repeat("a", 1000)), "fixed32": fixed32Field(99, 1), "fixed64": fixed64Field(99, 1),
		"text longer than a part": stringField(6, strings.Repeat("a", 200<<10)),
	} {
		t.Run(name, func(t *testing.T) {
			e, err := &endless{bytes: record}, error(nil)
			used := allocated(func() { _, err = read(e, most) })
			require.ErrorContains(t, err, "an ONNX file can have")
			require.LessOrEqual(t, e.read, int64(most+1))
			require.Less(t, used, uint64(most+most/16))
		})
	}
}

// Reading stops at the first records of a stream that cannot be a model, such as
// /dev/zero.
func TestReadStopsWhereNoModelBegins(t *testing.T) {
	graph := append(tag(7, 2), varint(1<<40)...)
	for name, c := range map[string]struct {
		bytes []byte
		want  string
	}{
		"zeros":                       {[]byte{0}, "(at byte 0)"},
		"ones":                        {bytes.Repeat([]byte{0xff}, 30), "(at byte 0)"},
		"text":                        {[]byte("not a model\n"), "(at byte 0)"},
		"a good record, then zeros":   {append(intField(1, 8), make([]byte, 1<<20)...), "(at byte 2)"},
		"a record of 2^40 bytes":      {graph, "a record of 1099511627776 bytes"},
		"a record of negative length": {append(tag(7, 2), varint(-1)...), "bytes, more than"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &endless{bytes: c.bytes}
			_, err := Read(e)
			testref.As[*FormatError](t, err)
			require.ErrorContains(t, err, c.want)
			require.Less(t, e.read, int64(1<<20))
		})
	}
	f, err := os.Open("/dev/zero")
	if err != nil {
		t.Skip("no /dev/zero here")
	}
	used := allocated(func() { _, err = Read(f) })
	require.Error(t, err)
	require.Less(t, used, uint64(1<<20))
}

// Read and Decode agree for any length of a model and any sizes of the reads. If
// the reader knows its length, memory is allocated once.
func TestReadInParts(t *testing.T) {
	m := model()
	m.Metadata = append(m.Metadata, Entry{"long", strings.Repeat("a", 3<<20)}, Entry{"short", "b"})
	data, err := m.Encode()
	require.NoError(t, err)
	want := testref.Must(Decode(data))(t)
	path := filepath.Join(t.TempDir(), "model.onnx")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	file := testref.Must(os.Open(path))(t)
	defer file.Close()
	for name, r := range map[string]io.Reader{
		"bytes": bytes.NewReader(data), "file": file, "stream": io.MultiReader(bytes.NewReader(data)), "halves": iotest.HalfReader(bytes.NewReader(data)),
		"bytes with the end": iotest.DataErrReader(bytes.NewReader(data)), "one byte each": iotest.OneByteReader(bytes.NewReader(data)),
	} {
		got, err := Read(r)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	used := allocated(func() { _, err = readAll(bytes.NewReader(data), MaxSize) })
	require.NoError(t, err)
	require.Less(t, used, uint64(len(data)+len(data)/16))

	size := int64(len(data))
	require.NoError(t, testref.Err(read(bytes.NewReader(data), size)))
	for _, r := range []io.Reader{bytes.NewReader(data), io.MultiReader(bytes.NewReader(data))} {
		require.ErrorContains(t, testref.Err(read(r, size-1)), "an ONNX file can have")
	}
	broken := errors.New("disk on fire")
	for _, failing := range []error{broken, io.ErrUnexpectedEOF} {
		_, err = Read(io.MultiReader(bytes.NewReader(data[:1<<20]), iotest.ErrReader(failing)))
		require.ErrorIs(t, err, failing)
		require.ErrorContains(t, err, "onnx: reading: ")
	}
}

// Read and Decode give the same error for damaged bytes, for any sizes of the
// reads.
func TestReadOfDamagedBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	whole := file()
	for range 3000 {
		data := bytes.Clone(whole)
		for range 1 + rng.IntN(3) {
			data[rng.IntN(len(data))] = byte(rng.Uint32())
		}
		data = data[:rng.IntN(len(data)+1)]
		want, wantErr := Decode(data)
		for _, r := range []io.Reader{bytes.NewReader(data), iotest.OneByteReader(bytes.NewReader(data))} {
			got, err := Read(r)
			if err != nil && strings.Contains(err.Error(), "too large, or not an ONNX file") {
				require.Error(t, wantErr)
				continue
			}
			require.Equal(t, wantErr, err)
			require.Equal(t, want, got)
		}
	}
}
