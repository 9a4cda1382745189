package glm

import "math"

// sigmoidSlopes are log E σ(f) for f ~ N(m, s²) and its derivatives.
type sigmoidSlopes struct{ value, m, s, mm, ms, ss float64 }

// logMeanSigmoidSlopes returns logMeanSigmoid with its derivatives, those of the same sums:
// means over the nodes, by their shares of the sum, of the derivatives of the logarithms.
func logMeanSigmoidSlopes(m, s float64) sigmoidSlopes {
	switch {
	case s == 0:
		p, q := sigmoid(m), sigmoid(-m)
		return sigmoidSlopes{value: logSigmoid(m), m: q, mm: -p * q}
	case m < -0.5*s*s:
		// E σ(f) = e^{m+s²/2} E σ(−f') with f' ~ N(m + s², s²)
		g := logMeanSigmoidSlopes(-(m + s*s), s)
		return sigmoidSlopes{
			value: m + 0.5*s*s + g.value, m: 1 - g.m, s: s - 2*s*g.m + g.s,
			mm: g.mm, ms: 2*s*g.mm - g.ms, ss: 1 - 2*g.m + 4*s*(s*g.mm-g.ms) + g.ss,
		}
	case s <= wide:
		return sigmoidSlopesZ(m, s)
	}
	return sigmoidSlopesU(m, s)
}

// add adds a node with weight w, at which E σ has the logarithmic derivatives of d but those of
// second order divided by the value itself.
func (g *sigmoidSlopes) add(w float64, d sigmoidSlopes) {
	g.value += w
	g.m += w * d.m
	g.s += w * d.s
	g.mm += w * d.mm
	g.ms += w * d.ms
	g.ss += w * d.ss
}

// logarithm turns sums into the logarithm of the value and its derivatives.
func (g *sigmoidSlopes) logarithm() {
	w := 1 / g.value
	g.value, g.m, g.s = math.Log(g.value), w*g.m, w*g.s
	g.mm = w*g.mm - g.m*g.m
	g.ms = w*g.ms - g.m*g.s
	g.ss = w*g.ss - g.s*g.s
}

// sigmoidSlopesZ sums over the nodes of meanSigmoidZ, σ(m + sz).
func sigmoidSlopesZ(m, s float64) (g sigmoidSlopes) {
	stride := 8
	for ; stride > 1 && float64(stride)*gaussianStep*s > 0.5; stride /= 2 {
	}
	for k := 0; k < len(gaussian); k += stride {
		for _, sign := range [2]float64{1, -1} {
			z := sign * float64(k) * gaussianStep
			p, q := sigmoid(m+s*z), sigmoid(-m-s*z)
			// σ'/σ = q and σ''/σ = q(q − p)
			c := q * (q - p)
			if g.add(float64(stride)*gaussian[k]*p, sigmoidSlopes{m: q, s: z * q, mm: c, ms: z * c, ss: z * z * c}); k == 0 {
				break
			}
		}
	}
	g.logarithm()
	return g
}

// sigmoidSlopesU sums by parts, σ'(u) Φ(x), x = (m − u)/s, relative to Φ(m/s).
func sigmoidSlopesU(m, s float64) (g sigmoidSlopes) {
	for k := range slopes {
		for _, sign := range [2]float64{1, -1} {
			u := sign * float64(k) * uStep
			x := (m - u) / s
			// h = φ(x)/Φ(x)
			var h float64
			if x > farTail {
				h = math.Exp(-0.5*x*x - halfLog2Pi - logNormalCDF(x))
			} else {
				h = math.Exp(-logMills(x))
			}
			d := sigmoidSlopes{m: h / s, s: -x * h / s, mm: -x * h / (s * s), ms: (x*x - 1) * h / (s * s), ss: x * (2 - x*x) * h / (s * s)}
			if g.add(slopes[k]*math.Exp(logNormalRatio(m/s, -u/s)), d); k == 0 {
				break
			}
		}
	}
	g.logarithm()
	g.value += logNormalCDF(m / s)
	return g
}
