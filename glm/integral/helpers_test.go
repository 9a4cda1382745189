package integral

import (
	"math"
	"math/big"
	"math/rand/v2"
)

const bigPrec = 200

func bigFloat(v float64) *big.Float { return big.NewFloat(v).SetPrec(bigPrec) }

// bigExp returns eˣ to about 55 digits: the series at x/2¹⁶, squared 16 times.
func bigExp(x float64) *big.Float {
	small := bigFloat(0).SetMantExp(bigFloat(x), -16)
	sum, term := bigFloat(1), bigFloat(1)
	for k := 1; k < 60; k++ {
		term.Mul(term, small)
		term.Quo(term, bigFloat(float64(k)))
		sum.Add(sum, term)
	}
	for range 16 {
		sum.Mul(sum, sum)
	}
	return sum
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func normalCDF(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
