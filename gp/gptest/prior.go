package gptest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Prior checks what an ntk.Prior over p parameters promises: MeanTo and
// VarianceTo write p numbers, whatever the destination held and the same bits
// each time; means are finite, and variances positive and finite; the groups of
// an ntk.Grouped prior name each parameter once; and the kernel that ntk.New
// makes of the prior is J Σ₀ Jᵀ, its mean f + J(μ₀ − θ*), at a random Jacobian.
//
//	func TestHorseshoe(t *testing.T) { gptest.Prior(t, newHorseshoe(40), 40) }
func Prior(t *testing.T, prior ntk.Prior, p int) {
	t.Helper()
	if p < 1 {
		t.Fatal("the suite needs parameters")
	}
	c := priorCase{prior: prior, mean: nans(p), variance: nans(p)}
	prior.MeanTo(c.mean)
	prior.VarianceTo(c.variance)
	t.Run("Values", c.values)
	t.Run("Again", c.again)
	t.Run("Groups", c.groups)
	t.Run("Kernel", c.kernel)
}

type priorCase struct {
	prior          ntk.Prior
	mean, variance []float64
}

func (c priorCase) values(t *testing.T) {
	requireFinite(t, "mean", c.mean)
	requireFinite(t, "variance", c.variance)
	if v := slices.Min(c.variance); !(v > 0) {
		t.Errorf("the smallest variance is %v", v)
	}
}

// again: inside a longer slice, of which nothing else is written.
func (c priorCase) again(t *testing.T) {
	p := len(c.mean)
	for _, m := range []struct {
		what  string
		write func(dst []float64)
		want  []float64
	}{{"mean", c.prior.MeanTo, c.mean}, {"variance", c.prior.VarianceTo, c.variance}} {
		frame := nans(p + 2)
		m.write(frame[1 : p+1])
		RequireBits(t, m.what+" of a second call", frame[1:p+1], m.want)
		if !math.IsNaN(frame[0]) || !math.IsNaN(frame[p+1]) {
			t.Errorf("the %s was written outside of its destination", m.what)
		}
	}
}

func (c priorCase) groups(t *testing.T) {
	grouped, ok := c.prior.(ntk.Grouped)
	if !ok {
		t.Skip("the prior has no groups")
	}
	var spans []linearize.Span
	for _, g := range grouped.Groups() {
		spans = append(spans, g.Spans...)
	}
	requirePartition(t, spans, len(c.mean))
}

func (c priorCase) kernel(t *testing.T) {
	const n, outputs = 4, 2
	rng := rand.New(rand.NewPCG(3, 4))
	normal := func(_, _ int, _ float64) float64 { return rng.NormFloat64() }
	p := len(c.mean)
	j, f, theta := mat.NewDense(n*outputs, p, nil), mat.NewDense(n, outputs, nil), mat.NewDense(1, p, nil)
	j.Apply(normal, j)
	f.Apply(normal, f)
	theta.Apply(normal, theta)
	b := &linearize.Batch{F: f, P: p, Blocks: []linearize.Block{
		&linearize.Full{J: j, C: outputs, Params: []linearize.Span{{Name: "θ", Rows: 1, Cols: p}}},
	}}
	k := ntk.New(c.prior, theta.RawRowView(0))

	// (E2) κ = J Σ₀ Jᵀ
	var js, want mat.Dense
	js.Mul(j, mat.NewDiagDense(p, c.variance))
	want.Mul(&js, j.T())
	var got mat.Dense
	k.BlockTo(&got, b, b)
	requireWithin(t, "kernel", &got, &want, kernelTol*largest(&want))

	// (E2) m = f + J(μ₀ − θ*)
	mean, shift, scale := make([]float64, n*outputs), make([]float64, p), largest(f)
	k.MeanTo(mean, b)
	for i := range shift {
		shift[i] = c.mean[i] - theta.At(0, i)
		scale += math.Abs(shift[i])
	}
	var m mat.VecDense
	m.MulVec(j, mat.NewVecDense(p, shift))
	for i := range n * outputs {
		m.SetVec(i, m.AtVec(i)+f.At(i/outputs, i%outputs))
	}
	requireWithin(t, "prior mean", mat.NewVecDense(n*outputs, mean), &m, kernelTol*scale)
}

// requirePartition fails where spans do not cover each of p parameters once.
func requirePartition(t *testing.T, spans []linearize.Span, p int) {
	t.Helper()
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b linearize.Span) int { return a.Offset - b.Offset })
	next := 0
	for _, s := range spans {
		if s.Offset != next {
			t.Fatalf("span %q starts at parameter %d, want %d", s.Name, s.Offset, next)
		}
		next += s.Len()
	}
	if next != p {
		t.Fatalf("the spans end at parameter %d of %d", next, p)
	}
}
