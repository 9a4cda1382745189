package glm

import "math"

// meanBinaryEntropy returns E h(σ(f)) for f ~ N(m, s²), where
// h(σ(f)) = log(1+eᶠ) − f σ(f) is the entropy of a Bernoulli in nats.
func meanBinaryEntropy(m, s float64) float64 {
	if s == 0 {
		return binaryEntropy(m)
	}
	sum := 0.0
	if s <= wide {
		for _, n := range zNodes {
			sum += n.w * binaryEntropy(m+s*n.z)
		}
		return sum
	}
	// h has a width of its own: ∫ h(u) φ((u−m)/s)/s du
	n := int(math.Round(uEnd / uStep))
	for k := -n; k <= n; k++ {
		u := float64(k) * uStep
		x := (u - m) / s
		sum += binaryEntropy(u) * math.Exp(-0.5*x*x-halfLog2Pi)
	}
	return sum * uStep / s
}

// binaryEntropy returns the entropy of a Bernoulli with logit f.
func binaryEntropy(f float64) float64 {
	f = math.Abs(f) // even in f
	e := math.Exp(-f)
	return math.Log1p(e) + f*e/(1+e)
}
