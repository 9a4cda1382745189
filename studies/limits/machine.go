package limits

import (
	"context"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
)

// probe measures what dgemm of order 2000 and a triad over 200 MB reach.
func (r *results) probe(ctx context.Context) {
	const order, length, times = 2000, 200_000_000 / 24, 5
	a, b, c := dense.New(order, order), dense.New(order, order), dense.New(order, order)
	for i := range a.Data {
		a.Data[i], b.Data[i] = float64(i%7)-3, float64(i%5)-2
	}
	r.Gemm = append(r.Gemm, 2*order*order*order/secondsOf(times, func() { dense.Gemm(blas.NoTrans, blas.NoTrans, 1, a, b, 0, c) }))
	x, y, z := make([]float64, length), make([]float64, length), make([]float64, length)
	r.Triad = append(r.Triad, 24*length/secondsOf(times, func() {
		_ = par.Do(ctx, r.Threads, func(w int) error {
			lo, hi := w*length/r.Threads, (w+1)*length/r.Threads
			x, y, z := x[lo:hi], y[lo:hi], z[lo:hi]
			for i := range x {
				x[i] = y[i] + 3*z[i]
			}
			return nil
		})
	}))
	x, y, z, a, b, c = nil, nil, nil, blas64.General{}, blas64.General{}, blas64.General{}
	debug.FreeOSMemory()
}

// secondsOf is the median time of f, after a call that does not count.
func secondsOf(times int, f func()) float64 {
	f()
	return medianOf(times, func(int) float64 {
		from := time.Now()
		f()
		return time.Since(from).Seconds()
	})
}

// peak is the peak memory of this process in bytes, 0 where the system does not say.
func peak() int64 {
	kib, _, _ := strings.Cut(fieldOf("/proc/self/status", "VmHWM"), " ")
	n, _ := strconv.ParseInt(kib, 10, 64)
	return n << 10
}

// fieldOf is what follows the first NAME: in a file of the system.
func fieldOf(path, name string) string {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
