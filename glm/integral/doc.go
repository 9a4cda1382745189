// Package integral has the integrals of one-output likelihoods over a Gaussian (E11), and the functions of logits
// and counts that they need, in forms that keep their digits in the tails.
//
//	p := integral.Expectation(func(f float64) float64 { return math.Exp(-f * f) }, 1, 9)
//
// Expectation and LogExpectation integrate any function, such as the density of a user's likelihood. The integrals
// of σ and of the Poisson likelihood have faster functions of their own.
package integral
