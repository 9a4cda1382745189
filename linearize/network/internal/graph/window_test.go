package graph

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// window2D is a convolution of cin planes of size × size without groups.
func window2D(cin, size, kernel, stride, pad int) *Window {
	out := (size+2*pad-kernel)/stride + 1
	w := &Window{NumGroups: 1, Cin: cin, Cout: 1, Taps: kernel * kernel, In: size * size, Out: out * out}
	for y := range out {
		for x := range out {
			for ky := range kernel {
				for kx := range kernel {
					row, col, from := y*stride+ky-pad, x*stride+kx-pad, int32(-1)
					if row >= 0 && row < size && col >= 0 && col < size {
						from = int32(row*size + col)
					}
					w.Source = append(w.Source, from)
				}
			}
		}
	}
	w.FindRuns()
	return w
}

// The patches of several examples are those that Source names, and addPatchRows is the transpose.
func TestPatchRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ cin, size, kernel, stride, pad int }{
		{1, 28, 5, 2, 0}, {3, 12, 5, 2, 1}, {2, 9, 3, 1, 1}, {1, 7, 3, 3, 0}, {2, 11, 1, 2, 0}, {1, 13, 2, 4, 2}, {1, 3, 3, 1, 0},
		{2, 1, 3, 1, 1}, {2, 2, 3, 1, 1},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			w := window2D(c.cin, c.size, c.kernel, c.stride, c.pad)
			const n = 3
			x, patches := make([]float64, n*c.cin*w.In), make([]float64, n*c.cin*w.Taps*w.Out)
			for i := range x {
				x[i] = r.NormFloat64()
			}
			for i := range patches {
				patches[i] = 7 // must be overwritten
			}
			w.patchRows(patches, x, n, 0)
			g, back := make([]float64, len(patches)), make([]float64, len(x))
			for i := range g {
				g[i] = float64(r.IntN(100)) // sums are exact
			}
			w.addPatchRows(back, g, n, 0)
			want := make([]float64, len(x))
			for i := range c.cin * w.Taps * n * w.Out { // channel, tap, example and position
				o, e, k, ch := i%w.Out, i/w.Out%n, i/w.Out/n%w.Taps, i/w.Out/n/w.Taps
				from := w.Source[o*w.Taps+k]
				if from < 0 {
					require.Zero(t, patches[i])
					continue
				}
				at := (e*c.cin+ch)*w.In + int(from)
				require.Equal(t, x[at], patches[i])
				want[at] += g[i]
			}
			require.Equal(t, want, back)
		})
	}
}

func BenchmarkPatchRows(b *testing.B) {
	for _, c := range []struct{ cin, size, kernel, stride int }{{1, 28, 5, 2}, {4, 12, 5, 2}, {1, 28, 5, 1}, {6, 14, 5, 1}} {
		b.Run(fmt.Sprintf("%dx%dx%d/kernel=%d/stride=%d", c.cin, c.size, c.size, c.kernel, c.stride), func(b *testing.B) {
			w := window2D(c.cin, c.size, c.kernel, c.stride, 0)
			x, patches := make([]float64, c.cin*w.In), make([]float64, c.cin*w.Taps*w.Out)
			b.SetBytes(int64(8 * len(patches)))
			for b.Loop() {
				w.PatchRows(patches, x, 0)
			}
		})
	}
}
