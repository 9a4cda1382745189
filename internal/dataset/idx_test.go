package dataset

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"runtime"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// idxBytes encodes an IDX file of unsigned bytes.
func idxBytes(data []byte, dims ...uint32) []byte {
	out := binary.BigEndian.AppendUint32(nil, 0x800+uint32(len(dims)))
	for _, d := range dims {
		out = binary.BigEndian.AppendUint32(out, d)
	}
	return append(out, data...)
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	require.NoError(t, testref.Err(z.Write(data)))
	require.NoError(t, z.Close())
	return b.Bytes()
}

// count returns n bytes 0, 1, 2, …
func count(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// Plain, gzip, and delivered one byte at a time: the same content.
func TestReadIDX(t *testing.T) {
	raw := idxBytes(count(24), 4, 2, 3)
	for name, r := range map[string]io.Reader{
		"plain":  bytes.NewReader(raw),
		"gzip":   bytes.NewReader(zipped(t, raw)),
		"slow":   iotest.OneByteReader(bytes.NewReader(raw)),
		"dataio": iotest.DataErrReader(bytes.NewReader(raw)),
	} {
		x, err := readIDX(r, name, 3, 0)
		require.NoError(t, err, name)
		require.Equal(t, []int{4, 2, 3}, x.dims, name)
		require.Equal(t, count(24), x.data, name)
	}
}

// A body larger than the first buffer grows it several times.
func TestReadIDXLarge(t *testing.T) {
	want := count(1 << 20)
	_, err := readIDX(bytes.NewReader(idxBytes(want, 1<<10, 1<<5, 1<<5)), "x", 3, 1<<20-1)
	require.ErrorContains(t, err, "its images take 1048576 bytes of memory, of which 1048575 may be used")
	x := testref.Must(readIDX(bytes.NewReader(idxBytes(want, 1<<10, 1<<5, 1<<5)), "x", 3, 1<<20))(t)
	require.Equal(t, want, x.data)
}

// Every cut of a file is an error that names the file.
func TestReadIDXTruncated(t *testing.T) {
	raw := idxBytes(count(24), 4, 2, 3)
	for _, file := range [][]byte{raw, zipped(t, raw)} {
		for n := range len(file) {
			_, err := readIDX(bytes.NewReader(file[:n]), "x.idx", 3, 0)
			var e *Error
			require.ErrorAs(t, err, &e, "%d bytes", n)
			require.Equal(t, "x.idx", e.File)
		}
	}
}

func TestReadIDXErrors(t *testing.T) {
	good := idxBytes(count(24), 4, 2, 3)
	broken := zipped(t, good)
	broken[len(broken)-5] ^= 1 // in the checksum of the stream
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "x: byte 0: the header ends after 0 of 16 bytes; get the file again"},
		{"short", good[:16+7], "x: row 1, byte 23: the data end after 7 of the 24 bytes the header states (4 rows); get the file again"},
		{"long", append(good[:len(good):len(good)], 0), "x: byte 40: data go on after the 4 rows the header states; get the file again"},
		{"labels", idxBytes(count(4), 4), "x: byte 0: magic number 0x00000801, want 0x00000803 for images"},
		{"rows", idxBytes(nil, 0, 2, 3), "x: byte 4: dimension 0 is 0"},
		{"side", idxBytes(nil, 1, 2, 1<<31), "x: byte 12: dimension 2 is 2147483648"},
		{"huge", idxBytes(nil, 1<<31, 28, 28), "more than the 1073741824 this reader takes"},
		{"overflow", idxBytes(nil, 1<<31, 1<<14, 1<<14), "more than the 1073741824 this reader takes"},
		{"gzip header", []byte{0x1f, 0x8b, 9}, "x: not a readable gzip stream"},
		{"gzip checksum", broken, "the end of the stream is damaged: gzip: invalid checksum"},
	} {
		require.ErrorContains(t, testref.Err(readIDX(bytes.NewReader(c.file), "x", 3, 0)), c.want, c.name)
	}
}

// A header that declares a gigabyte, followed by ten bytes, does not make the
// reader allocate the gigabyte.
func TestReadIDXHostileHeader(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readIDX(bytes.NewReader(idxBytes(count(10), 1<<30)), "x", 1, 0)
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, "the data end after 10 of the 1073741824 bytes")
	// The two read buffers and the first body buffer are 64 KiB each.
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

func FuzzIDX(f *testing.F) {
	raw := idxBytes(count(24), 4, 2, 3)
	f.Add(raw, 3)
	f.Add(zipped(f, raw), 3)
	f.Add(raw[:20], 3)
	f.Add(idxBytes(count(5), 5), 1)
	f.Add(idxBytes(nil, 1<<31, 28, 28), 3)
	f.Add(idxBytes(count(10), 1<<30), 1)
	f.Fuzz(func(t *testing.T, file []byte, rank int) {
		if rank != 1 {
			rank = 3
		}
		x, err := readIDX(bytes.NewReader(file), "x", rank, 0)
		if err != nil {
			require.IsType(t, &Error{}, err)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.Len(t, x.dims, rank)
		require.Len(t, x.data, size(x.dims))
	})
}
