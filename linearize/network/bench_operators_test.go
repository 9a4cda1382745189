package network_test

import (
	"math/rand/v2"
	"testing"

	"github.com/funcgp/funcgp/internal/testref"
)

// BenchmarkOperators times Linearize of networks around one operator: a bilinear and
// a cubic Resize between convolutions, and attention by Einsum.
func BenchmarkOperators(b *testing.B) {
	upsampled := func(mode string) func(g *graph) string {
		return func(g *graph) string {
			y := g.op("Relu", in(g.op("Conv", in("x", g.spread(0, 0.3, 4, 1, 3, 3), g.param(4)))))
			y = g.op("Resize", in(y, "", g.float32s([]float64{1, 1, 2, 2}, 4)), textA("mode", mode))
			y = g.op("Relu", in(g.op("Conv", in(y, g.spread(0, 0.3, 4, 4, 3, 3), g.param(4)), intsA("strides", 2, 2))))
			return g.op("Gemm", in(g.op("Flatten", in(y)), g.spread(0, 0.1, 324, 3), g.param(3)))
		}
	}
	heads := func(g *graph) string {
		project := func() string {
			return g.op("Einsum", in("x", g.spread(0, 0.2, 32, 4, 8)), textA("equation", "btm,mhd->bthd"))
		}
		scores := g.op("Softmax", in(g.op("Einsum", in(project(), project()), textA("equation", "bthd,bshd->bhts"))), intA("axis", -1))
		y := g.op("Einsum", in(scores, project()), textA("equation", "bhts,bshd->bthd"))
		y = g.op("Einsum", in(y, g.spread(0, 0.2, 4, 8, 32)), textA("equation", "bthd,hdm->btm"))
		return g.op("Gemm", in(g.op("ReduceMean", in(y), intsA("axes", 1), intA("keepdims", 0)), g.param(32, 5), g.param(5)))
	}
	for _, c := range []struct {
		name  string
		dims  []int
		n     int
		build func(g *graph) string
	}{
		{"Resize=linear", []int{1, 12, 12}, 100, upsampled("linear")},
		{"Resize=cubic", []int{1, 12, 12}, 100, upsampled("cubic")},
		{"Einsum=attention", []int{16, 32}, 100, heads},
	} {
		net := testref.Must(load(operatorCase{opset: 17, dims: c.dims, build: c.build}.model()))(b)
		d, _, _ := net.Dims()
		x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), c.n, d)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := net.Linearize(b.Context(), x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
