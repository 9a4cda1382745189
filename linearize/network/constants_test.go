package network_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// A normalized is a way to write (x − m)/s of three inputs inside a network.
type normalized struct {
	name  string
	write func(g *graph, x string) (z string, constants []string)
}

var mean, sd = []float64{50, -3, 1e4}, []float64{7, 0.2, 3e3}

func negated(v []float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = -v[i]
	}
	return out
}

func inverse(v []float64, power int) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = 1
		for range power {
			out[i] /= v[i]
		}
	}
	return out
}

func normalizedWays() []normalized {
	ratios := make([]float64, 3)
	for i := range ratios {
		ratios[i] = -mean[i] / sd[i]
	}
	return []normalized{
		{"Sub, Div", func(g *graph, x string) (string, []string) {
			m, s := g.of(mean, 3), g.of(sd, 3)
			return g.op("Div", in(g.op("Sub", in(x, m)), s)), in(m, s)
		}},
		{"rows of one", func(g *graph, x string) (string, []string) {
			m, s := g.of(mean, 1, 3), g.of(sd, 1, 3)
			return g.op("Div", in(g.op("Sub", in(x, m)), s)), in(m, s)
		}},
		{"Sub, Mul by the inverse", func(g *graph, x string) (string, []string) {
			m, s := g.of(mean, 3), g.of(inverse(sd, 1), 3)
			return g.op("Mul", in(g.op("Sub", in(x, m)), s)), in(m, s)
		}},
		{"Add, Mul, operands first", func(g *graph, x string) (string, []string) {
			m, s := g.of(negated(mean), 3), g.of(inverse(sd, 1), 3)
			return g.op("Mul", in(s, g.op("Add", in(m, x)))), in(m, s)
		}},
		{"Mul, Add", func(g *graph, x string) (string, []string) {
			s, m := g.of(inverse(sd, 1), 3), g.of(ratios, 3)
			return g.op("Add", in(g.op("Mul", in(x, s)), m)), in(s, m)
		}},
		{"mean minus x", func(g *graph, x string) (string, []string) {
			m, s := g.of(mean, 3), g.of(negated(sd), 3)
			return g.op("Div", in(g.op("Sub", in(m, x)), s)), in(m, s)
		}},
		{"root of a variance", func(g *graph, x string) (string, []string) {
			v := make([]float64, 3)
			for i := range v {
				v[i] = sd[i] * sd[i]
			}
			m, s := g.of(mean, 3), g.of(v, 3)
			root := g.op("Sqrt", in(g.op("Add", in(s, g.scalar(0)))))
			return g.op("Div", in(g.op("Sub", in(x, m)), root)), in(m, s)
		}},
		{"reciprocal, reshaped", func(g *graph, x string) (string, []string) {
			m, s := g.of(mean, 3, 1), g.of(sd, 1, 1, 3)
			row := g.op("Transpose", in(m), intsA("perm", 1, 0))
			inv := g.op("Reciprocal", in(g.op("Reshape", in(s, g.ints(1, 3)))))
			return g.op("Mul", in(g.op("Sub", in(x, row)), inv)), in(m, s)
		}},
		{"column by column", func(g *graph, x string) (string, []string) {
			var names, columns []string
			for j := range 3 {
				m, s := g.of(mean[j:j+1], 1), g.of(sd[j:j+1], 1)
				c := g.op("Slice", in(x, g.ints(int64(j)), g.ints(int64(j+1)), g.ints(1)))
				columns = append(columns, g.op("Div", in(g.op("Sub", in(c, m)), s)))
				names = append(names, m, s)
			}
			return g.op("Concat", columns, intA("axis", 1)), names
		}},
		{"cast and clipped", func(g *graph, x string) (string, []string) {
			m, s := g.of(mean, 3), g.of(sd, 3)
			x = g.op("Dropout", in(g.op("Cast", in(x), intA("to", int64(onnx.Double)))))
			z := g.op("Div", in(g.op("Sub", in(x, m)), s))
			return g.op("Clip", in(z, g.scalar(-1e6), g.scalar(1e6))), in(m, s)
		}},
		{"twice", func(g *graph, x string) (string, []string) {
			m, s, one := g.of(mean, 3), g.of(sd, 3), g.of([]float64{255}, 1)
			z := g.op("Mul", in(g.op("Div", in(x, one)), one))
			return g.op("Div", in(g.op("Sub", in(z, m)), s)), in(m, s, one)
		}},
	}
}

// heads are layers that may follow.
func heads() map[string]func(g *graph, z string) string {
	return map[string]func(g *graph, z string) string{
		"Gemm": func(g *graph, z string) string { return g.op("Gemm", in(z, g.param(3, 4), g.param(4))) },
		"MatMul": func(g *graph, z string) string {
			return g.op("Add", in(g.op("MatMul", in(z, g.param(3, 4))), g.param(4)))
		},
		"left": func(g *graph, z string) string {
			column := g.op("Unsqueeze", in(z, g.ints(2)))
			return g.op("Squeeze", in(g.op("MatMul", in(g.param(4, 3), column)), g.ints(2)))
		},
		"Einsum": func(g *graph, z string) string {
			return g.op("Add", in(g.op("Einsum", in(z, g.param(3, 4)), textA("equation", "bi,ij->bj")), g.param(4)))
		},
		"Einsum of three": func(g *graph, z string) string {
			return g.op("Einsum", in(g.param(5, 4), z, g.param(3, 4)), textA("equation", "kj,bi,ij->bk"))
		},
		"norm": func(g *graph, z string) string { return g.op("LayerNormalization", in(z, g.param(3), g.param(3))) },
		"tokens": func(g *graph, z string) string {
			tokens := g.op("Add", in(g.op("Mul", in(g.op("Unsqueeze", in(z, g.ints(2))), g.param(3, 4))), g.param(3, 4)))
			return g.op("Flatten", in(g.op("MatMul", in(tokens, g.param(4, 2)))))
		},
		"skip": func(g *graph, z string) string {
			return g.op("Add", in(z, g.op("Tanh", in(g.op("MatMul", in(z, g.param(3, 3)))))))
		},
		"Conv": func(g *graph, z string) string {
			line := g.op("Unsqueeze", in(z, g.ints(1)))
			return g.op("Flatten", in(g.op("Conv", in(line, g.param(2, 1, 2), g.param(2)))))
		},
	}
}

// TestConstantsBeforeFirst checks that every way to standardize inputs inside a
// network leaves the parameters, outputs and Jacobian of the network without it
// at standardized inputs, and that a warning names the constants.
func TestConstantsBeforeFirst(t *testing.T) {
	for _, way := range normalizedWays() {
		for head, layer := range heads() {
			t.Run(way.name+"/"+head, func(t *testing.T) {
				end := func(g *graph, z string) *onnx.Model { return g.output(g.op("Tanh", in(layer(g, z)))) }
				plain := testref.Must(readModel(end(newGraph(17, 3), "x"), nil))(t)
				g := newGraph(17, 3)
				z, names := way.write(g, "x")
				m := end(g, z)
				// Both draw their parameters from the same seed.
				net := testref.Must(readModel(m, nil))(t)
				require.Equal(t, plain.Theta(), net.Theta())
				require.Equal(t, names, net.Describe().InputConstants)
				require.Empty(t, net.Describe().OutputConstants)
				require.Subset(t, net.Describe().Fixed, names)
				requireNamed(t, net.Warnings(), names, "standardize the inputs")
				rng := rand.New(rand.NewPCG(1, 2))
				zs := gaussianMatrix(rng, 6, 3)
				xs := mat.NewDense(6, 3, nil)
				xs.Apply(func(_, j int, v float64) float64 { return mean[j] + sd[j]*v }, zs)
				requireSameBatch(t, net, xs, plain, zs, 1e-11)

				learnt := testref.Must(readModel(m, &network.ReadOptions{Learn: names}))(t)
				_, _, p := learnt.Dims()
				_, _, want := plain.Dims()
				require.Equal(t, want+elementsOf(m, names), p)
				require.Empty(t, learnt.Describe().InputConstants)
				require.Empty(t, learnt.Warnings())
			})
		}
	}
}

// requireNamed checks that the one warning holds the names and the text.
func requireNamed(t *testing.T, warnings []error, names []string, text string) {
	t.Helper()
	require.Len(t, warnings, 1)
	require.ErrorContains(t, warnings[0], text)
	require.NotNil(t, linearize.FindWarning(warnings, "taken-for-constants"))
	for _, n := range names {
		require.ErrorContains(t, warnings[0], fmt.Sprintf("%q", n))
	}
	require.NotContains(t, warnings[0].Error(), "\n")
}

// elementsOf is the number of elements of some initializers.
func elementsOf(m *onnx.Model, names []string) int {
	n := 0
	for _, i := range m.Graph.Initializers {
		for _, name := range names {
			if i.Name == name {
				n += i.Len()
			}
		}
	}
	return n
}

// requireSameBatch compares the outputs and Jacobians of two networks.
func requireSameBatch(t *testing.T, a *network.Network, xa *mat.Dense, b *network.Network, xb *mat.Dense, tol float64) {
	t.Helper()
	ba := testref.Must(a.Linearize(t.Context(), xa))(t)
	bb := testref.Must(b.Linearize(t.Context(), xb))(t)
	testref.RequireClose(t, ba.F.RawMatrix().Data, bb.F.RawMatrix().Data, tol, "f")
	var ja, jb mat.Dense
	ba.JacobianTo(&ja)
	bb.JacobianTo(&jb)
	testref.RequireClose(t, ja.RawMatrix().Data, jb.RawMatrix().Data, tol, "J")
}

// TestConstantsAfterLast checks the same of outputs that are brought back to the
// units of the targets: J is that of the network without, times the scale.
func TestConstantsAfterLast(t *testing.T) {
	layers := map[string]func(g *graph) string{
		"Gemm":   func(g *graph) string { return g.op("Gemm", in("x", g.param(3, 2), g.param(2))) },
		"MatMul": func(g *graph) string { return g.op("Add", in(g.op("MatMul", in("x", g.param(3, 2))), g.param(2))) },
		"Einsum": func(g *graph) string {
			return g.op("Add", in(g.op("Einsum", in(g.param(2, 3), "x"), textA("equation", "ji,bi->bj")), g.param(2)))
		},
		"Einsum of three": func(g *graph) string {
			return g.op("Add", in(g.op("Einsum", in("x", g.param(3, 4), g.param(4, 2)), textA("equation", "bi,ij,jk->bk")), g.param(2)))
		},
		"reshaped": func(g *graph) string {
			return g.op("Reshape", in(g.op("Gemm", in("x", g.param(3, 2), g.param(2))), g.ints(-1, 2)))
		},
		"hidden": func(g *graph) string {
			return g.op("Gemm", in(g.op("Tanh", in(g.op("MatMul", in("x", g.param(3, 4))))), g.param(4, 2), g.param(2)))
		},
		"muP": func(g *graph) string {
			return g.op("Add", in(g.op("Mul", in(g.op("MatMul", in("x", g.param(3, 2))), g.scalar(0.5))), g.param(2)))
		},
		"bias in matrix": func(g *graph) string { return g.op("Add", in(g.param(1, 2), g.op("MatMul", in("x", g.param(3, 2))))) },
	}
	ways := map[string]func(g *graph, f string) (string, []string){
		"Mul, Add": func(g *graph, f string) (string, []string) {
			s, m := g.of([]float64{1e5}, 1), g.of([]float64{3e5}, 1)
			return g.op("Add", in(g.op("Mul", in(f, s)), m)), in(s, m)
		},
		"Add, then Div": func(g *graph, f string) (string, []string) {
			m, s := g.of([]float64{3, 3}, 2), g.of([]float64{1e-5, 1e-5}, 1, 2)
			return g.op("Div", in(g.op("Add", in(f, m)), s)), in(m, s)
		},
		"Sub": func(g *graph, f string) (string, []string) {
			s, m := g.of([]float64{1e5}, 1), g.of([]float64{-3e5}, 1)
			return g.op("Flatten", in(g.op("Sub", in(g.op("Mul", in(s, f)), m)))), in(s, m)
		},
	}
	for name, layer := range layers {
		for way, write := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				g := newGraph(17, 3)
				plain := testref.Must(readModel(g.output(layer(g)), nil))(t)
				require.Empty(t, plain.Warnings())
				g = newGraph(17, 3)
				f, names := write(g, layer(g))
				m := g.output(f)
				net := testref.Must(readModel(m, nil))(t)
				require.Equal(t, plain.Theta(), net.Theta())
				require.Equal(t, names, net.Describe().OutputConstants)
				if way == "Add, then Div" { // by one number an output
					require.Zero(t, net.Describe().OutputScale)
				} else {
					require.Equal(t, 1e5, net.Describe().OutputScale)
				}
				requireNamed(t, net.Warnings(), names, "scale the outputs")
				x := gaussianMatrix(rand.New(rand.NewPCG(3, 4)), 5, 3)
				a := testref.Must(net.Linearize(t.Context(), x))(t)
				b := testref.Must(plain.Linearize(t.Context(), x))(t)
				var ja, jb, fb mat.Dense
				fb.Apply(func(_, _ int, v float64) float64 { return 1e5*v + 3e5 }, b.F)
				testref.RequireClose(t, a.F.RawMatrix().Data, fb.RawMatrix().Data, 1e-12, "f")
				a.JacobianTo(&ja)
				b.JacobianTo(&jb)
				jb.Scale(1e5, &jb)
				testref.RequireClose(t, ja.RawMatrix().Data, jb.RawMatrix().Data, 1e-12, "J")
				learnt := testref.Must(readModel(m, &network.ReadOptions{Learn: names[:1]}))(t)
				require.Equal(t, names[1:], learnt.Describe().OutputConstants)
			})
		}
	}
}

// TestStaysLearnt checks tensors that enter by the same operators elsewhere, or
// also elsewhere: they are parameters, and nothing is said.
func TestStaysLearnt(t *testing.T) {
	for name, build := range map[string]func(g *graph) string{
		"a bias":          func(g *graph) string { return g.op("Add", in(g.op("MatMul", in("x", g.param(3, 2))), g.param(2))) },
		"no layer at all": func(g *graph) string { return g.op("Add", in(g.op("Mul", in("x", g.param(3))), g.param(3))) },
		"before activation": func(g *graph) string {
			return g.op("Gemm", in(g.op("Tanh", in(g.op("Mul", in("x", g.param(3))))), g.param(3, 2), g.param(2)))
		},
		"between layers": func(g *graph) string {
			h := g.op("Mul", in(g.op("Gemm", in("x", g.param(3, 4), g.param(4))), g.param(4)))
			return g.op("Gemm", in(g.op("Relu", in(h)), g.param(4, 2), g.param(2)))
		},
		"a norm by hand": func(g *graph) string {
			h := g.op("Gemm", in("x", g.param(3, 4), g.param(4)))
			d := g.op("Sub", in(h, g.op("ReduceMean", in(h), intsA("axes", 1))))
			v := g.op("Sqrt", in(g.op("Add", in(g.op("ReduceMean", in(g.op("Mul", in(d, d))), intsA("axes", 1)), g.scalar(1e-5)))))
			return g.op("Add", in(g.op("Mul", in(g.op("Div", in(d, v)), g.param(4))), g.param(4)))
		},
		"radial centres": func(g *graph) string {
			d := g.op("Sub", in(g.op("Unsqueeze", in("x", g.ints(1))), g.param(4, 3)))
			r := g.op("ReduceSum", in(g.op("Mul", in(d, d)), g.ints(2)), intA("keepdims", 0))
			return g.op("Gemm", in(g.op("Exp", in(g.op("Neg", in(r)))), g.param(4, 2), g.param(2)))
		},
		"a first layer of one weight a number": func(g *graph) string { // as tables enter transformers
			tokens := g.op("Add", in(g.op("Mul", in(g.op("Unsqueeze", in("x", g.ints(2))), g.param(3, 4))), g.param(3, 4)))
			return g.op("Flatten", in(g.op("MatMul", in(g.op("LayerNormalization", in(tokens, g.param(4), g.param(4))), g.param(4, 2)))))
		},
		"a mean that is also a bias": func(g *graph) string {
			m := g.param(3)
			return g.op("Add", in(g.op("MatMul", in(g.op("Sub", in("x", m)), g.param(3, 3))), m))
		},
		"a gate": func(g *graph) string {
			return g.op("Mul", in(g.op("Sigmoid", in(g.op("MatMul", in("x", g.param(3, 3))))), "x"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraph(13, 3)
			m := g.output(build(g))
			net := testref.Must(readModel(m, nil))(t)
			require.Empty(t, net.Warnings())
			n := 0
			for _, i := range m.Graph.Initializers {
				if i.Type.IsFloat() && len(i.Dims) > 0 {
					n += i.Len()
				}
			}
			_, _, p := net.Dims()
			require.Equal(t, n, p)
		})
	}
}

// TestLearn checks which names can be learnt.
func TestLearn(t *testing.T) {
	g := newGraph(13, 3)
	m, s, k := g.of(mean, 3), g.scalar(2), g.ints(-1, 3)
	z := g.op("Reshape", in(g.op("Mul", in(g.op("Sub", in("x", m)), s)), k))
	v := g.positive(3)
	z = g.op("BatchNormalization", in(z, g.param(3), g.param(3), g.param(3), v))
	unused := g.param(2)
	model := g.output(g.op("MatMul", in(z, g.param(3, 2))))
	net := testref.Must(readModel(model, &network.ReadOptions{Learn: in(m, s)}))(t)
	_, _, p := net.Dims()
	require.Equal(t, 3+1+6+6, p)
	requireDifferences(t, net)
	for name, want := range map[string]string{
		"nobody": `cannot learn "nobody": no tensor`, k: "cannot learn", "x": "cannot learn",
		v: "is a statistic, a shape or a bound", unused: "does not influence the output",
	} {
		_, err := readModel(model, &network.ReadOptions{Learn: in(name)})
		require.ErrorContains(t, err, want)
		requireOneLine(t, err)
	}
	_, err := readModel(model, &network.ReadOptions{Learn: in(m), Freeze: in(m)})
	require.ErrorContains(t, err, "choose one")
	frozen := testref.Must(readModel(model, &network.ReadOptions{Freeze: in(m)}))(t)
	require.Empty(t, frozen.Warnings(), "what was asked for is not said")
}

// TestExportedConstants reads the networks of testdata/corpus as PyTorch exports
// them: the parameters are those that PyTorch counts.
func TestExportedConstants(t *testing.T) {
	files := testref.Must(filepath.Glob("../../testdata/corpus/*/expected.json"))(t)
	require.NotEmpty(t, files)
	constants := map[string][]string{
		"standardized-in-graph": {"0.mean", "0.sd"}, "one-logit": {"0.mean", "0.sd"}, "string-labels": {"0.mean", "0.sd"}, "names-in-metadata": {"0.mean", "0.sd"},
		"weight-decay": {"0.mean", "0.sd"}, "pictures-in-graph": {"0.mean", "0.sd"}, "all-in-graph": {"0.0.mean", "0.0.sd"},
	}
	for _, f := range files {
		var want struct {
			Case       string
			Parameters int
			Learn      []string
		}
		text := testref.Must(os.ReadFile(f))(t)
		require.NoError(t, json.Unmarshal(text, &want))
		model := testref.Must(os.ReadFile(filepath.Join(filepath.Dir(f), "model.onnx")))(t)
		net := testref.Must(network.ReadONNX(bytes.NewReader(model), &network.ReadOptions{Learn: want.Learn}))(t)
		_, _, p := net.Dims()
		require.Equal(t, want.Parameters, p, want.Case)
		d := net.Describe()
		require.Equal(t, constants[want.Case], d.InputConstants, want.Case)
		if want.Case == "all-in-graph" {
			require.Equal(t, []string{"1.mean", "1.sd"}, d.OutputConstants)
		} else {
			require.Empty(t, d.OutputConstants, want.Case)
		}
		if want.Learn != nil {
			net = testref.Must(network.ReadONNX(bytes.NewReader(model), nil))(t)
			require.Equal(t, want.Learn, net.Describe().InputConstants)
			requireNamed(t, net.Warnings(), want.Learn, "standardize the inputs")
		}
	}
}
