package gunzip

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

const most = 1 << 30

// zipped compresses data at a level of compress/flate.
func zipped(t testing.TB, level int, name string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, level)
	require.NoError(t, err)
	z.Name = name
	_, err = z.Write(data)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

// contents are data of many kinds: noise, few symbols, long and short repetitions,
// pictures of mostly zeros, and symbols whose codes have very different lengths.
func contents(rnd *rand.Rand, n int) map[string][]byte {
	make := func(f func(b []byte, i int) byte) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = f(b, i)
		}
		return b
	}
	period := 1 + rnd.IntN(20)
	return map[string][]byte{
		"noise":  make(func([]byte, int) byte { return byte(rnd.Uint32()) }),
		"few":    make(func([]byte, int) byte { return byte(rnd.IntN(3)) }),
		"zero":   make(func([]byte, int) byte { return 0 }),
		"period": make(func(b []byte, i int) byte { return byte(i % period * 37) }),
		"skewed": make(func([]byte, int) byte { return byte(40 * rnd.ExpFloat64()) }),
		"geometric": make(func([]byte, int) byte {
			s := byte(0)
			for s < 60 && rnd.IntN(2) == 0 {
				s++
			}
			return s
		}),
		"copies": make(func(b []byte, i int) byte {
			if i > 0 && rnd.IntN(30) > 0 {
				return b[i-min(i, 1+rnd.IntN(9))]
			}
			return byte(rnd.Uint32())
		}),
		"image": make(func(b []byte, i int) byte {
			if x, y := i%28, i/28%28; x > 7 && x < 20 && y > 5 && y < 22 && rnd.IntN(3) > 0 {
				return byte(rnd.Uint32())
			}
			return 0
		}),
	}
}

var levels = []int{gzip.NoCompression, gzip.BestSpeed, gzip.DefaultCompression, gzip.BestCompression, gzip.HuffmanOnly}

func TestDecode(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 1, 2, 3, 10, 257, 300, 5000, 70_000} {
		for kind, data := range contents(rnd, n) {
			for _, level := range levels {
				for _, name := range []string{"", "train-images-idx3-ubyte"} {
					got, ok := Decode(t.Context(), zipped(t, level, name, data), most)
					require.True(t, ok, "%d bytes of %s at level %d", n, kind, level)
					require.True(t, bytes.Equal(data, got), "%d bytes of %s at level %d", n, kind, level)
				}
			}
		}
	}
}

// standard decodes by compress/gzip.
func standard(file []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// agrees checks that what is decoded is what compress/gzip decodes.
func agrees(t *testing.T, file []byte) (ok bool) {
	t.Helper()
	got, ok := Decode(context.Background(), file, 1<<20)
	if !ok {
		return false
	}
	want, err := standard(file)
	require.NoError(t, err)
	require.Equal(t, want, got)
	return true
}

// A file that is cut, changed in a bit or goes on is refused, or is as good for
// compress/gzip.
func TestDecodeDamaged(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 1))
	for kind, data := range contents(rnd, 400) {
		for _, level := range levels {
			file := zipped(t, level, "x", data)
			for n := range len(file) {
				require.False(t, agrees(t, file[:n:n]), "%s, level %d: %d bytes of %d", kind, level, n, len(file))
			}
			require.False(t, agrees(t, append(bytes.Clone(file), 0)), kind)
			require.False(t, agrees(t, append(bytes.Clone(file), file...)), "two members")
			for bit := range 8 * len(file) {
				bad := bytes.Clone(file)
				bad[bit/8] ^= 1 << (bit % 8)
				agrees(t, bad) // the name, the time and unused bits may be anything
			}
		}
	}
}

// Streams of any bytes, and blocks of any codes, behind a true header.
func TestInflateRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 1))
	inflated := 0
	for range 50_000 {
		stream := make([]byte, 1+rnd.IntN(60))
		for i := range stream {
			stream[i] = byte(rnd.Uint32())
		}
		stream[0] = stream[0]&^7 | 1 | byte(1+rnd.IntN(2))<<1
		r := bytes.NewReader(stream)
		want, err := io.ReadAll(flate.NewReader(r))
		used := len(stream) - r.Len()
		d := newDecoder(append(stream[:used:used], 1, 2, 3, 4, 5, 6, 7, 8), len(want))
		ok := d.run(t.Context()) && d.used() == used && len(d.out) == len(want)
		require.Equal(t, err == nil, ok, "%x: %v", stream, err)
		if ok {
			require.True(t, bytes.Equal(want, d.out), "%x", stream)
			inflated++
		}
	}
	require.Greater(t, inflated, 50)
}

// A length in the trailer, or a stream, that asks for much memory does not get it.
func TestDecodeHostile(t *testing.T) {
	file := zipped(t, gzip.BestCompression, "", make([]byte, 1<<22))
	_, ok := Decode(t.Context(), file, 1<<22)
	require.True(t, ok)
	_, ok = Decode(t.Context(), file, 1<<22-1)
	require.False(t, ok, "more than may be")
	short := bytes.Clone(file)
	copy(short[len(short)-4:], []byte{1, 0, 0, 0})
	d := newDecoder(short[headerBytes:], 1)
	require.False(t, d.run(t.Context()))
	require.LessOrEqual(t, cap(d.out), 4096)
	require.LessOrEqual(t, cap(newDecoder(short[headerBytes:], most).out), 8*len(short)+4096)
}

func TestDecodeCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, ok := Decode(ctx, zipped(t, gzip.DefaultCompression, "", []byte("x")), most)
	require.False(t, ok)
}

func FuzzDecode(f *testing.F) {
	rnd := rand.New(rand.NewPCG(4, 1))
	for _, data := range contents(rnd, 300) {
		f.Add(zipped(f, gzip.BestCompression, "", data))
	}
	f.Fuzz(func(t *testing.T, file []byte) { agrees(t, file) })
}

func BenchmarkDecode(b *testing.B) {
	rnd := rand.New(rand.NewPCG(5, 1))
	for _, kind := range []string{"image", "skewed", "copies"} {
		data := contents(rnd, 10_000_000)[kind]
		file := zipped(b, gzip.BestCompression, "", data)
		b.Run("kind="+kind+"/impl=ours", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, ok := Decode(b.Context(), file, most); !ok {
					b.Fatal("refused")
				}
			}
		})
		b.Run("kind="+kind+"/impl=standard", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := standard(file); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
