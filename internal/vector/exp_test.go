package vector

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// exactExp is exp(x/2¹⁰)^(2¹⁰) by its series, in 400 bits.
func exactExp(x float64) float64 {
	number := func(v float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(v) }
	z, term, sum := number(x/1024), number(1), number(1)
	for k := 1; k < 80; k++ {
		term.Mul(term, z)
		term.Quo(term, number(float64(k)))
		sum.Add(sum, term)
	}
	for range 10 {
		sum.Mul(sum, sum)
	}
	v, _ := sum.Float64()
	return v
}

func TestExp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := []float64{0, 708.9, -707.9, 709}
	for range 1000 {
		x = append(x, 6*r.NormFloat64(), r.NormFloat64(), -700*r.Float64(), 1400*r.Float64()-700, math.Exp(40*r.Float64()-40))
	}
	for k := range 200 { // around the borders of the reduction
		b := (float64(k) + 0.5) * math.Ln2
		x = append(x, b, math.Nextafter(b, 0), math.Nextafter(b, 1000), -b)
	}
	got := make([]float64, len(x))
	Exp(got, x)
	worst, bound := 0.0, 1.0
	if !fast {
		bound = 2 // of math.Exp
	}
	for i, v := range x {
		want := exactExp(v)
		u := math.Abs(got[i]-want) / (math.Nextafter(want, math.Inf(1)) - want)
		require.LessOrEqual(t, u, bound, "exp(%v) is %v", v, got[i])
		worst = max(worst, u)
	}
	t.Logf("largest error %.2f units in the last place", worst)
	require.Equal(t, 1.0, got[0])
}

func TestExpAtTheEdges(t *testing.T) {
	inf := math.Inf(1)
	x := []float64{-inf, -708.5, -1e300, math.NaN(), 5e-324, -5e-324, inf, 1e300, 710}
	got := make([]float64, len(x))
	Exp(got, x)
	require.Equal(t, []float64{0, 0, 0}, got[:3])
	require.True(t, math.IsNaN(got[3]))
	require.Equal(t, []float64{1, 1}, got[4:6])
	for _, v := range got[6:] {
		require.InEpsilon(t, math.Exp(709), v, 1e-15)
	}
}

// Every length gives what one element alone gives, in place too, and no element after
// the last is touched.
func TestFunctionsOfEveryLength(t *testing.T) {
	for name, do := range map[string]func(dst, x []float64){"exp": Exp, "tanh": Tanh} {
		r := rand.New(rand.NewPCG(3, 4))
		for n := range 40 {
			x, dst := make([]float64, n), make([]float64, n+1)
			for i := range x {
				x[i] = 3 * r.NormFloat64()
			}
			dst[n] = 7
			do(dst[:n], x)
			require.Equal(t, 7.0, dst[n])
			for i := range x {
				var one [1]float64
				do(one[:], x[i:i+1])
				require.Equal(t, math.Float64bits(one[0]), math.Float64bits(dst[i]), "%s, element %d of %d", name, i, n)
			}
			do(x, x)
			require.Equal(t, x, dst[:n])
		}
	}
}

func BenchmarkExp(b *testing.B) {
	x, dst := make([]float64, 1280), make([]float64, 1280)
	for i := range x {
		x[i] = -float64(i) / 100
	}
	for name, do := range map[string]func(){
		"impl=vector": func() { Exp(dst, x) },
		"impl=math": func() {
			for i, v := range x {
				dst[i] = math.Exp(v)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(8 * int64(len(x)))
			for b.Loop() {
				do()
			}
		})
	}
}

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
