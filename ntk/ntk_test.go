package ntk_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// tol is the difference allowed between two orders of the same float64 sums
// of a few hundred terms, relative to the largest entry.
const tol = 1e-12

func newRand(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 1)) }

func normal(rng *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}

// priors returns one prior of every kind over the batch's parameters.
func priors(t testing.TB, rng *rand.Rand, b *linearize.Batch) map[string]ntk.Prior {
	t.Helper()
	variance := make([]float64, b.P)
	for i := range variance {
		variance[i] = math.Exp(rng.NormFloat64())
	}
	layers := ntk.ByLayer(ntk.Spans(b), 1)
	tensors := ntk.ByTensor(ntk.Spans(b), 1)
	for _, groups := range [][]ntk.Group{layers, tensors} {
		for i := range groups {
			groups[i].Precision = math.Exp(rng.NormFloat64())
		}
	}
	out := make(map[string]ntk.Prior)
	add := func(name string, p ntk.Prior, err error) {
		require.NoError(t, err, name)
		out[name] = p
	}
	iso, err := ntk.NewIsotropic(1+rng.Float64(), nil)
	add("isotropic", iso, err)
	mean, err := ntk.NewIsotropic(3, []float64{0.5})
	add("isotropic with mean", mean, err)
	layer, err := ntk.NewLayerwise(b.P, layers, nil)
	add("layerwise", layer, err)
	tensor, err := ntk.NewLayerwise(b.P, tensors, normal(rng, b.P))
	add("tensorwise", tensor, err)
	diag, err := ntk.NewDiagonal(variance, normal(rng, b.P))
	add("diagonal", diag, err)
	add("mixed", mixed(rng, b), nil)
	return out
}

// priorOf returns the prior of one kind in turn.
func priorOf(t testing.TB, rng *rand.Rand, b *linearize.Batch, turn int) (name string, p ntk.Prior) {
	t.Helper()
	all := priors(t, rng, b)
	names := slices.Sorted(maps.Keys(all))
	name = names[turn%len(names)]
	return name, all[name]
}

// mixed holds some tensors fixed, gives some one variance, and others one a
// parameter.
func mixed(rng *rand.Rand, b *linearize.Batch) given {
	p := given{normal(rng, b.P), make([]float64, b.P)}
	for _, s := range ntk.Spans(b) {
		kind, level := rng.IntN(3), math.Exp(rng.NormFloat64())
		for i := s.Offset; i < s.Offset+s.Len(); i++ {
			switch kind {
			case 1:
				p.variance[i] = level
			case 2:
				p.variance[i] = math.Exp(rng.NormFloat64())
			}
		}
	}
	return p
}

// given is a prior of any numbers.
type given struct{ mean, variance []float64 }

func (p given) MeanTo(dst []float64)     { copy(dst, p.mean) }
func (p given) VarianceTo(dst []float64) { copy(dst, p.variance) }

// requireSame compares everything two kernels compute for a and b.
func requireSame(t *testing.T, got, want ntk.Kernel, a, b *linearize.Batch) {
	t.Helper()
	var x, y mat.Dense
	want.BlockTo(&y, b, b)
	scale := mat.Norm(&y, math.Inf(1)) // of rows of J, for both batches
	closeTo := func(what string, g, w mat.Matrix) {
		t.Helper()
		var d mat.Dense
		d.Sub(g, w)
		require.LessOrEqual(t, largest(&d), tol*math.Max(scale, largest(w)), what)
	}
	got.BlockTo(&x, b, b)
	closeTo("block of one batch", &x, &y)
	x, y = mat.Dense{}, mat.Dense{}
	got.BlockTo(&x, a, b)
	want.BlockTo(&y, a, b)
	closeTo("block of two batches", &x, &y)
	v := mat.NewDense(b.Len()*b.Outputs(), 3, normal(newRand(5), 3*b.Len()*b.Outputs()))
	x, y = mat.Dense{}, mat.Dense{}
	got.(ntk.MulToer).MulTo(&x, a, b, v)
	want.(ntk.MulToer).MulTo(&y, a, b, v)
	closeTo("product", &x, &y)
	x, y = mat.Dense{}, mat.Dense{}
	got.DiagTo(&x, a)
	want.DiagTo(&y, a)
	closeTo("diagonal", &x, &y)
	m, n := make([]float64, a.Len()*a.Outputs()), make([]float64, a.Len()*a.Outputs())
	got.MeanTo(m, a)
	want.MeanTo(n, a)
	testref.RequireClose(t, m, n, tol, "mean")
}

func largest(m mat.Matrix) float64 { return math.Max(mat.Max(m), -mat.Min(m)) }

// TestStructuredIsDense compares the structured kernel with J Σ₀ Jᵀ for
// random layers, sizes, priors, limits on memory and numbers of outputs.
func TestStructuredIsDense(t *testing.T) {
	for seed := range 60 {
		rng := newRand(seed)
		c := 1 + rng.IntN(4)
		b := gptest.RandomBatch(rng, 1+rng.IntN(20), c, gptest.RandomLayers(rng)...)
		a := gptest.Another(rng, b, 1+rng.IntN(20))
		theta := normal(rng, b.P)
		name, prior := priorOf(t, rng, b, seed+seed/8)
		t.Run(fmt.Sprintf("%d/%s", seed, name), func(t *testing.T) {
			testref.Procs(t, 1+seed%3)
			k, want := ntk.New(prior, theta), ntk.Dense(prior, theta)
			requireSame(t, k, want, a, b)
			requireSame(t, k.WithBudget(1<<(6+seed%8)), want, a, b)
			requireSame(t, k, want, a.Output(c-1), b)
			requireSame(t, k, want, a, b.Output(0))
		})
	}
}

// TestManyTiles has more examples than fit a tile, on both sides.
func TestManyTiles(t *testing.T) {
	rng := newRand(1)
	layers := []gptest.Layer{{In: 7, Out: 5}, {Out: 9}, {In: 30, Out: 40, Transposed: true}, {In: 3, Out: 4, NoWeight: true}}
	b := gptest.RandomBatch(rng, 150, 3, layers...)
	a := gptest.Another(rng, b, 60)
	theta := normal(rng, b.P)
	for turn := range 6 {
		name, prior := priorOf(t, rng, b, turn)
		t.Run(name, func(t *testing.T) {
			testref.Procs(t, 1+turn%3)
			k, want := ntk.New(prior, theta), ntk.Dense(prior, theta)
			switch turn % 3 {
			case 0:
				requireSame(t, k, want, a, b)
			case 1:
				requireSame(t, k.WithBudget(1<<17), want, a, b)
			case 2:
				requireSame(t, k.WithBudget(1<<17), want, b, a)
			}
		})
	}
}

func TestConformance(t *testing.T) {
	rng := newRand(2)
	layers := []gptest.Layer{{In: 9, Out: 5}, {In: 4, Out: 8, Transposed: true}, {Out: 6}, {In: 3, Out: 3, Hidden: true}, {In: 40, Out: 2, NoBias: true}}
	for _, c := range []int{1, 3} {
		b := gptest.RandomBatch(rng, 24, c, layers...)
		theta := normal(rng, b.P)
		for name, prior := range priors(t, rng, b) {
			t.Run(fmt.Sprintf("C=%d/%s", c, name), func(t *testing.T) {
				gptest.Kernel(t, ntk.New(prior, theta), b)
			})
			t.Run(fmt.Sprintf("C=%d/%s/Dense", c, name), func(t *testing.T) {
				gptest.Kernel(t, ntk.Dense(prior, theta), b)
			})
		}
	}
}

// TestLargest has so many rows that tiles have their full size, and compares
// with the dense kernel and over 1, 2 and 3 processors.
func TestLargest(t *testing.T) {
	rng := newRand(11)
	b := gptest.RandomBatch(rng, 1010, 2, gptest.Layer{In: 9, Out: 5}, gptest.Layer{Out: 6}, gptest.Layer{In: 3, Out: 3, Hidden: true})
	theta := normal(rng, b.P)
	prior := testref.Must(ntk.NewIsotropic(1, nil))(t)
	var want, got mat.Dense
	ntk.Dense(prior, theta).BlockTo(&want, b, b)
	k := ntk.New(prior, theta)
	testref.Procs(t, 1)
	k.BlockTo(&got, b, b)
	testref.RequireClose(t, got.RawMatrix().Data, want.RawMatrix().Data, tol, "kernel")
	for _, procs := range []int{2, 3} {
		testref.Procs(t, procs)
		k.BlockTo(&want, b, b)
		require.True(t, mat.Equal(&got, &want), "%d processors", procs)
	}
	require.True(t, mat.Equal(&got, got.T()), "exactly symmetric")
	// Through J: fewer flops than through the kernel.
	v := mat.NewDense(2020, 400, normal(rng, 2020*400))
	var product mat.Dense
	product.Mul(&got, v)
	want.Reset()
	k.MulTo(&want, b, b, v)
	testref.RequireClose(t, want.RawMatrix().Data, product.RawMatrix().Data, tol, "product")
}

// TestE2 checks m(x) = f + J(μ₀−θ*) and κ(x,x') = J(x) Σ₀ J(x')ᵀ entry by
// entry from J.
func TestE2(t *testing.T) {
	rng := newRand(3)
	b := gptest.RandomBatch(rng, 5, 2, gptest.Layer{In: 3, Out: 4}, gptest.Layer{Out: 5}, gptest.Layer{In: 4, Out: 2, Transposed: true})
	theta := normal(rng, b.P)
	var j mat.Dense
	b.JacobianTo(&j)
	for name, prior := range priors(t, rng, b) {
		t.Run(name, func(t *testing.T) {
			mu, s2 := make([]float64, b.P), make([]float64, b.P)
			prior.MeanTo(mu)
			prior.VarianceTo(s2)
			k := ntk.New(prior, theta)
			mean := make([]float64, 10)
			k.MeanTo(mean, b)
			var got mat.Dense
			k.BlockTo(&got, b, b)
			for r := range 10 {
				m := b.F.At(r/2, r%2)
				for p := range b.P {
					m += j.At(r, p) * (mu[p] - theta[p])
				}
				require.InDelta(t, m, mean[r], 1e-12*(1+math.Abs(m)))
				for c := range 10 {
					kappa := 0.0
					for p := range b.P {
						kappa += j.At(r, p) * s2[p] * j.At(c, p)
					}
					require.InDelta(t, kappa, got.At(r, c), tol*largest(&got))
				}
			}
		})
	}
}

// TestE10 checks K_g = s_g J_g J_gᵀ, that the group kernels add up, and that
// the derivative of K in log s_g is K_g.
func TestE10(t *testing.T) {
	rng := newRand(4)
	b := gptest.RandomBatch(rng, 6, 2, gptest.Layer{In: 5, Out: 4}, gptest.Layer{Out: 5}, gptest.Layer{In: 6, Out: 3, Transposed: true})
	theta := normal(rng, b.P)
	var j mat.Dense
	b.JacobianTo(&j)
	for name, prior := range priors(t, rng, b) {
		t.Run(name, func(t *testing.T) {
			k := ntk.New(prior, theta)
			var whole, sum, part mat.Dense
			k.BlockTo(&whole, b, b)
			sum.CloneFrom(&whole)
			sum.Zero()
			grouped, ok := prior.(ntk.Grouped)
			for g := range k.Groups() {
				part.Reset()
				k.GroupKernel(g).BlockTo(&part, b, b)
				sum.Add(&sum, &part)
				if ok {
					requireGroup(t, &part, &j, grouped.Groups()[g])
				}
			}
			testref.RequireClose(t, sum.RawMatrix().Data, whole.RawMatrix().Data, tol, "sum over groups")
			if ok {
				require.Equal(t, len(grouped.Groups()), k.Groups())
				requireDerivative(t, k, grouped.Groups(), theta, b)
			} else {
				require.Equal(t, 1, k.Groups())
			}
		})
	}
}

func requireGroup(t *testing.T, got, j *mat.Dense, g ntk.Group) {
	t.Helper()
	n, p := j.Dims()
	jg := mat.NewDense(n, p, nil)
	for _, s := range g.Spans {
		lo, hi := s.Offset, s.Offset+s.Len()
		jg.Slice(0, n, lo, hi).(*mat.Dense).Copy(j.Slice(0, n, lo, hi))
	}
	var want mat.Dense
	want.Mul(jg, jg.T())
	want.Scale(1/g.Precision, &want)
	testref.RequireClose(t, got.RawMatrix().Data, want.RawMatrix().Data, tol, "K_g of "+g.Name)
}

// requireDerivative: K is linear in s_g, so the symmetric difference in log s
// with a factor e^h is K_g·2·sinh(h) without error.
func requireDerivative(t *testing.T, k *ntk.NTK, groups []ntk.Group, theta []float64, b *linearize.Batch) {
	t.Helper()
	const h = 0.25
	for g := range groups {
		at := func(step float64) *mat.Dense {
			moved := append([]ntk.Group(nil), groups...)
			moved[g].Precision *= math.Exp(-step)
			prior := testref.Must(ntk.NewLayerwise(b.P, moved, nil))(t)
			var m mat.Dense
			ntk.New(prior, theta).BlockTo(&m, b, b)
			return &m
		}
		var diff, part mat.Dense
		up := at(h)
		diff.Sub(up, at(-h))
		diff.Scale(1/(2*math.Sinh(h)), &diff)
		k.GroupKernel(g).BlockTo(&part, b, b)
		part.Sub(&part, &diff)
		require.LessOrEqual(t, largest(&part), tol*largest(up)/h, "derivative of K")
	}
}

// TestGroupMean: the group's prior is that of the network with everything
// else held at θ*.
func TestGroupMean(t *testing.T) {
	rng := newRand(6)
	b := gptest.RandomBatch(rng, 4, 2, gptest.Layer{In: 5, Out: 4}, gptest.Layer{Out: 5})
	theta := normal(rng, b.P)
	prior := testref.Must(ntk.NewLayerwise(b.P, ntk.ByTensor(ntk.Spans(b), 1), []float64{1}))(t)
	k := ntk.New(prior, theta)
	mean, want := make([]float64, 8), make([]float64, 8)
	for g, group := range prior.Groups() {
		shift := make([]float64, b.P)
		for _, s := range group.Spans {
			for p := s.Offset; p < s.Offset+s.Len(); p++ {
				shift[p] = 1 - theta[p]
			}
		}
		b.MulVecTo(want, shift)
		for i := range want {
			want[i] += b.F.At(i/2, i%2)
		}
		k.GroupKernel(g).MeanTo(mean, b)
		testref.RequireClose(t, mean, want, tol, "mean of group "+group.Name)
	}
}

// TestCheapest: what the plan chooses for layers as they occur.
func TestCheapest(t *testing.T) {
	rng := newRand(7)
	one := testref.Must(ntk.NewIsotropic(1, nil))(t)
	for _, c := range []struct {
		what                              string
		layer                             gptest.Layer
		outputs                           int
		diagonal                          bool
		outer, perOutput, direct, columns int
	}{
		{"hidden layer", gptest.Layer{In: 60, Out: 40}, 1, false, 1, 0, 0, 0},
		{"last layer of one output", gptest.Layer{In: 60, Out: 1}, 1, false, 0, 0, 0, 61},
		{"bias only", gptest.Layer{In: 60, Out: 40, NoWeight: true}, 1, false, 0, 0, 1, 0},
		{"dense columns", gptest.Layer{Out: 40}, 1, false, 0, 0, 1, 0},
		{"own variances, one output", gptest.Layer{In: 60, Out: 4}, 1, true, 0, 0, 0, 244},
		{"own variances, many outputs", gptest.Layer{In: 60, Out: 4}, 6, true, 0, 1, 0, 4},
		{"own variances, dense columns", gptest.Layer{Out: 40}, 1, true, 0, 0, 0, 40},
		{"unknown kind", gptest.Layer{In: 6, Out: 4, Hidden: true}, 1, false, 0, 0, 0, 28},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := gptest.RandomBatch(rng, 100, c.outputs, c.layer)
			prior := ntk.Prior(one)
			if c.diagonal {
				prior = priors(t, rng, b)["diagonal"]
			}
			outer, perOutput, direct, _, columns := ntk.New(prior, make([]float64, b.P)).Ways(b, b)
			require.Equal(t, []int{c.outer, c.perOutput, c.direct, c.columns}, []int{outer, perOutput, direct, columns})
		})
	}
}

// TestMixedKinds: a batch may keep a block in another form than its partner.
func TestMixedKinds(t *testing.T) {
	rng := newRand(8)
	b := gptest.RandomBatch(rng, 7, 2, gptest.Layer{In: 5, Out: 4}, gptest.Layer{In: 3, Out: 2})
	a := gptest.Another(rng, b, 5)
	tile := mat.NewDense(10, linearize.Width(a.Blocks[0]), nil)
	a.Blocks[0].TileTo(tile)
	a.Blocks[0] = &linearize.Full{J: tile, Params: a.Blocks[0].Spans(), C: 2}
	theta := normal(rng, b.P)
	for name, prior := range priors(t, rng, b) {
		t.Run(name, func(t *testing.T) {
			requireSame(t, ntk.New(prior, theta), ntk.Dense(prior, theta), a, b)
			requireSame(t, ntk.New(prior, theta), ntk.Dense(prior, theta), b, a)
		})
	}
}

// TestNoExamples: a product with no examples on the right is zero.
func TestNoExamples(t *testing.T) {
	rng := newRand(9)
	b := gptest.RandomBatch(rng, 4, 2, gptest.Layer{In: 5, Out: 4})
	prior := testref.Must(ntk.NewIsotropic(1, nil))(t)
	dst := mat.NewDense(8, 1, normal(rng, 8))
	ntk.New(prior, make([]float64, b.P)).MulTo(dst, b, b.Slice(0, 0), new(mat.Dense))
	require.Zero(t, largest(dst))
}

func TestPanics(t *testing.T) {
	rng := newRand(10)
	b := gptest.RandomBatch(rng, 4, 2, gptest.Layer{In: 5, Out: 4})
	other := gptest.RandomBatch(rng, 4, 2, gptest.Layer{In: 4, Out: 6})
	other.P = b.P
	prior := testref.Must(ntk.NewDiagonal(make1(b.P), nil))(t)
	k := ntk.New(prior, make([]float64, b.P))
	require.PanicsWithValue(t, "ntk: batches of different networks", func() { k.BlockTo(new(mat.Dense), b, other) })
	require.PanicsWithValue(t, "ntk: prior is for another number of parameters", func() { ntk.New(prior, make([]float64, b.P+1)) })
	require.PanicsWithValue(t, "ntk: group out of range", func() { k.GroupKernel(1) })
	for _, v := range []float64{math.NaN(), -1, math.Inf(1)} {
		bad := given{make([]float64, b.P), make([]float64, b.P)}
		bad.variance[3] = v
		require.PanicsWithValue(t, "ntk: prior variance is not finite and nonnegative", func() { ntk.New(bad, make([]float64, b.P)) })
	}
	part, short := new(mat.Dense), *b
	short.Blocks = short.Blocks[:0]
	require.PanicsWithValue(t, "ntk: batches of different networks", func() { k.BlockTo(part, b, &short) })
	require.PanicsWithValue(t, "ntk: destination has wrong size", func() { k.BlockTo(mat.NewDense(1, 1, nil), b.Slice(0, 0), b) })
}

func make1(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = 1
	}
	return v
}

// A block stops between tiles when its context is done, and has the bits of
// BlockTo when it is not.
func TestBlockContextTo(t *testing.T) {
	rng := newRand(3)
	b := gptest.RandomBatch(rng, 150, 4, gptest.RandomLayers(rng)...)
	a := gptest.Another(rng, b, 250)
	testref.Procs(t, 2)
	for _, name := range []string{"isotropic", "diagonal"} {
		k := ntk.New(priors(t, rng, b)[name], normal(rng, b.P))
		for _, other := range []*linearize.Batch{a, b} {
			var want, got mat.Dense
			k.BlockTo(&want, b, other)
			whole := &testkit.Countdown{Context: t.Context(), Left: 1 << 30}
			require.NoError(t, k.BlockContextTo(whole, &got, b, other))
			require.Equal(t, want.RawMatrix().Data, got.RawMatrix().Data, name)
			require.Greater(t, whole.Asked.Load(), int64(8), name)
			for _, left := range []int64{0, whole.Asked.Load() / 2} {
				ctx := &testkit.Countdown{Context: t.Context(), Left: left}
				require.ErrorIs(t, k.BlockContextTo(ctx, new(mat.Dense), b, other), context.Canceled)
				require.LessOrEqual(t, ctx.Asked.Load(), left+12, name)
			}
		}
	}
}
