package variational

import "math"

// A logistic holds the expectations of σ over f ~ N(m, v).
type logistic struct {
	log   float64 // E log σ(f)
	rest  float64 // E σ(−f)
	slope float64 // E σ(f)σ(−f)
}

const (
	// wide is the standard deviation from which the integrals are over the logistic
	// distribution and not over the Gaussian.
	wide = 10
	// Nodes of the logistic distribution lie at multiples of logisticStep in ±logisticEnd,
	// beyond which it has a mass of 1e-17. It has poles at ±iπ, so the relative error of the
	// trapezoid is about e^{−2π·π/step} = e^{−49}. The Gaussian hardly changes it, because
	// its standard deviation is at least wide.
	logisticStep, logisticEnd = 0.4, 40.0
)

// logisticWeights are step·σ(u)σ(−u) at the nodes u ≥ 0.
var logisticWeights = func() []float64 {
	w := make([]float64, int(logisticEnd/logisticStep)+1)
	for k := range w {
		t := math.Exp(-float64(k) * logisticStep)
		w[k] = logisticStep * t / ((1 + t) * (1 + t))
	}
	return w
}()

// meanLogistic integrates by a trapezoid. The error is below 1e-13 of 1 + |E log σ(f)|,
// and relative to each number below 1e-10.
func meanLogistic(m, v float64) logistic {
	s := math.Sqrt(v)
	switch {
	case s == 0:
		return logisticAt(m)
	case s >= wide && math.Abs(m) < v/4: // else σ(−f) matters beyond the nodes
		return wideLogistic(m, s)
	}
	// trapezoid over z = (f − m)/s
	step := min(0.06, 0.4/s)
	n := int(math.Ceil(12 / step))
	var sum logistic
	for k := -n; k <= n; k++ {
		z := float64(k) * step
		w := step * math.Exp(-0.5*z*z) / math.Sqrt(2*math.Pi)
		at := logisticAt(m + s*z)
		sum.log += w * at.log
		sum.rest += w * at.rest
		sum.slope += w * at.slope
	}
	return sum
}

func logisticAt(f float64) logistic {
	t := math.Exp(-math.Abs(f))
	small, large := t/(1+t), 1/(1+t) // σ(−|f|) and σ(|f|)
	if f >= 0 {
		return logistic{log: -math.Log1p(t), rest: small, slope: small * large}
	}
	return logistic{log: f - math.Log1p(t), rest: large, slope: small * large}
}

// wideLogistic uses that σ(f) = P(U < f) and −log σ(f) = E max(−f − U, 0) for U of the
// logistic distribution, so that the integral over f is in closed form.
func wideLogistic(m, s float64) logistic {
	var sum logistic
	node := func(u, w float64) {
		z := (-m - u) / s
		density := math.Exp(-0.5*z*z) / math.Sqrt(2*math.Pi)
		below := 0.5 * math.Erfc(-z/math.Sqrt2) // Φ(z)
		sum.log -= w * s * (z*below + density)
		sum.rest += w * below
		sum.slope += w * density / s
	}
	for k, w := range logisticWeights {
		node(float64(k)*logisticStep, w)
		if k > 0 {
			node(-float64(k)*logisticStep, w)
		}
	}
	return sum
}
