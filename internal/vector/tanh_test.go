package vector

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// ulps is the distance of got from want in units of want's last place.
func ulps(got, want float64) float64 {
	if got == want {
		return 0
	}
	return math.Abs(got-want) / (math.Nextafter(math.Abs(want), 2) - math.Abs(want))
}

// exactTanh is (1 − u)/(1 + u) with u = exp(−2|x|) by its series, in 200 bits.
func exactTanh(x float64) float64 {
	number := func(v float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(v) }
	// exp(z) = exp(z/2¹⁰)^(2¹⁰).
	z := number(-2 * math.Abs(x) / 1024)
	term, u := number(1), number(1)
	for k := 1; k < 60; k++ {
		term.Mul(term, z)
		term.Quo(term, number(float64(k)))
		u.Add(u, term)
	}
	for range 10 {
		u.Mul(u, u)
	}
	up, down := new(big.Float).Sub(number(1), u), new(big.Float).Add(number(1), u)
	t, _ := up.Quo(up, down).Float64()
	return math.Copysign(t, x)
}

func TestTanhIsAccurate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var x []float64
	for range 4000 {
		x = append(x, 6*r.NormFloat64(), r.NormFloat64(), 0.1*r.NormFloat64(), math.Exp(40*r.Float64()-40))
	}
	for k := range 200 { // around the borders of the reduction
		b := (float64(k) + 0.5) * math.Ln2 / 2
		x = append(x, b, math.Nextafter(b, 0), math.Nextafter(b, 100), -b)
	}
	got := make([]float64, len(x))
	Tanh(got, x)
	worst := 0.0
	for i, v := range x {
		u := ulps(got[i], exactTanh(v))
		require.LessOrEqual(t, u, 2.0, "tanh(%v) is %v", v, got[i])
		worst = max(worst, u)
	}
	t.Logf("largest error %.2f units in the last place", worst)
}

func TestTanhAtTheEdges(t *testing.T) {
	negativeZero := math.Copysign(0, -1)
	x := []float64{0, negativeZero, math.Inf(1), math.Inf(-1), math.NaN(), 1e300, -1e300, 20, -20, 1e-300, -1e-300, 5e-324, -5e-324, math.MaxFloat64}
	want := []float64{0, negativeZero, 1, -1, math.NaN(), 1, -1, 1, -1, 1e-300, -1e-300, 5e-324, -5e-324, 1}
	got := make([]float64, len(x))
	Tanh(got, x)
	for i := range x {
		if math.IsNaN(want[i]) {
			require.True(t, math.IsNaN(got[i]), "tanh(%v) is %v", x[i], got[i])
			continue
		}
		require.Equal(t, math.Float64bits(want[i]), math.Float64bits(got[i]), "tanh(%v) is %v", x[i], got[i])
	}
}

func BenchmarkTanh(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	x, dst := make([]float64, 4096), make([]float64, 4096)
	for i := range x {
		x[i] = 2 * r.NormFloat64()
	}
	for name, tanh := range map[string]func(){
		"impl=vector": func() { Tanh(dst, x) },
		"impl=math": func() {
			for i, v := range x {
				dst[i] = math.Tanh(v)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(8 * int64(len(x)))
			for b.Loop() {
				tanh()
			}
		})
	}
}
