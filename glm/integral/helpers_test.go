package integral

import (
	"math"
)

func normalCDF(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
