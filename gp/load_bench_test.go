//go:build unix

package gp_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// unitKernel costs nothing: all variances are 1, nothing is correlated.
type unitKernel struct{}

func (unitKernel) MeanTo(dst []float64, _ *linearize.Batch) { clear(dst) }

func (unitKernel) BlockTo(dst *mat.Dense, _, _ *linearize.Batch) { dst.Zero() }

func (unitKernel) DiagTo(dst *mat.Dense, _ *linearize.Batch) {
	dst.Apply(func(int, int, float64) float64 { return 1 }, dst)
}

// unitBatch returns n examples with one input, all zero.
func unitBatch(n int) *linearize.Batch {
	return &linearize.Batch{X: mat.NewDense(n, 1, nil), F: mat.NewDense(n, 1, nil)}
}

// writeUnit writes the posterior of n examples under the unit kernel, which
// would take minutes to factor.
func writeUnit(path string, n int) error {
	ones := slices.Repeat([]float64{1}, n)
	return store.Write(path, "test", 1, func(w *store.Writer) error {
		w.JSON("exact.about", map[string]int{"Version": 2, "N": n, "C": 1})
		w.FloatRows("exact.kernel", func(yield func([]float64) bool) {
			row := make([]float64, n+1)
			for i := range n {
				for j := range row {
					row[j] = 1e-6 * float64(j%7)
				}
				row[i], row[i+1] = 1, 1.5
				yield(row)
			}
		})
		w.Floats("exact.factor", []float64{1, 0, 2})
		w.Floats("exact.loglik", []float64{-1})
		for _, name := range []string{"prior", "b", "alpha", "kalpha", "f", "residual", "lambda", "root"} {
			w.Floats("exact."+name, ones)
		}
		id := saved.Identity{Examples: unitBatch(n), Kernel: unitKernel{}}
		return id.Save(context.Background(), w, "exact.")
	})
}

// BenchmarkLoad1GiB loads a posterior of 1 GiB, alone and with a first
// prediction, and reports the CPU seconds of both. The file has just been
// written, so reading the disk is not in it.
func BenchmarkLoad1GiB(b *testing.B) {
	testref.Long(b, "writes 1 GiB")
	const n = 11585 // 8·N·(N+1) bytes
	path := filepath.Join(b.TempDir(), "large.gp")
	if err := writeUnit(path, n); err != nil {
		b.Fatal(err)
	}
	x := unitBatch(n)
	load := func(b *testing.B) (*gp.Exact, *store.File) {
		f := testref.Must(store.Open(path, "test", 1))(b)
		e := testref.Must(gp.Load(f, unitKernel{}, x, nil))(b)
		return e, f
	}
	b.Run("load", func(b *testing.B) {
		before := cpuSeconds(b)
		for b.Loop() {
			_, f := load(b)
			f.Close()
		}
		b.ReportMetric((cpuSeconds(b)-before)/float64(b.N), "cpu-s/op")
	})
	b.Run("load-predict", func(b *testing.B) {
		before := cpuSeconds(b)
		for b.Loop() {
			e, f := load(b)
			var mean, cov mat.Dense
			if err := e.PredictTo(b.Context(), &mean, &cov, x.Slice(0, 1)); err != nil {
				b.Fatal(err)
			}
			f.Close()
		}
		b.ReportMetric((cpuSeconds(b)-before)/float64(b.N), "cpu-s/op")
	})
}

// cpuSeconds are those of this process, in and out of the kernel.
func cpuSeconds(b *testing.B) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
