package network_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

type sized struct {
	name   string
	n      int
	in     network.Shape
	layers []network.Layer
}

// jobs are three networks of common sizes: a small CNN (P = 4587),
// LeNet-5 (P = 44426) and an MLP 784-128-64-10 (P = 109386).
func jobs() []sized {
	conv := func(first, second, c int, dense ...int) []network.Layer {
		l := []network.Layer{network.Conv2D{Filters: first, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2},
			network.Conv2D{Filters: second, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2}, network.Flatten{}}
		for _, k := range dense {
			l = append(l, network.Dense{Units: k}, network.ReLU)
		}
		return append(l, network.Dense{Units: c})
	}
	image := network.Shape{1, 28, 28}
	return []sized{
		{"thesis-cnn", 3000, image, conv(3, 8, 1, 25, 25)},
		{"lenet5", 200, image, conv(6, 16, 10, 120, 84)},
		{"mlp", 300, network.Shape{784}, []network.Layer{network.Dense{Units: 128}, network.ReLU, network.Dense{Units: 64}, network.ReLU, network.Dense{Units: 10}}},
	}
}

func BenchmarkLinearize(b *testing.B) {
	for _, j := range jobs() {
		net := testref.Must(network.Sequential(j.in, j.layers...))(b)
		d, c, p := net.Dims()
		x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), j.n, d)
		b.Run(fmt.Sprintf("net=%s/N=%d/C=%d/P=%d", j.name, j.n, c, p), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := net.Linearize(b.Context(), x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTrainStep times the gradient of 256 digits, the work of a step of Adam.
func BenchmarkTrainStep(b *testing.B) {
	for _, j := range jobs() {
		net := testref.Must(network.Sequential(j.in, j.layers...))(b)
		d, c, p := net.Dims()
		rng := rand.New(rand.NewPCG(3, 4))
		x, u, g := gaussianMatrix(rng, 256, d), gaussianMatrix(rng, 256, c), make([]float64, p)
		b.Run(fmt.Sprintf("net=%s/batch=256", j.name), func(b *testing.B) {
			for b.Loop() {
				if err := net.VJP(b.Context(), g, x, u); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOperators times Linearize of networks around one operator: layer norms of
// a transformer, a bilinear and a cubic Resize between convolutions, and attention by Einsum.
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
	norms := func(g *graph) string {
		y := "x"
		for range 3 {
			z := g.op("LayerNormalization", in(y, g.param(64), g.param(64)), intA("axis", -1))
			z = g.op("Relu", in(g.op("MatMul", in(z, g.spread(0, 0.1, 64, 128)))))
			y = g.op("Add", in(y, g.op("MatMul", in(z, g.spread(0, 0.1, 128, 64)))))
		}
		return g.op("Gemm", in(g.op("ReduceMean", in(y), intsA("axes", 1), intA("keepdims", 0)), g.param(64, 5), g.param(5)))
	}
	for _, c := range []struct {
		name  string
		dims  []int
		n     int
		build func(g *graph) string
	}{
		{"LayerNormalization", []int{32, 64}, 100, norms},
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
