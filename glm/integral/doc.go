// Package integral has the integrals of likelihoods of one output against a Gaussian (E11), and the
// functions of logits and counts below them, in forms that keep their digits in the tails.
//
//	p := integral.Expectation(func(f float64) float64 { return math.Exp(-f * f) }, 1, 9)
//
// Expectation and LogExpectation integrate any function, for a likelihood of one's own. σ and the
// Poisson likelihood have integrals that are faster.
package integral
