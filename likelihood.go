package funcgp

import (
	"slices"
	"strings"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/option"
)

func isLikelihood(name string) bool {
	if r, ok := strings.CutPrefix(name, "negative-binomial:"); ok {
		_, err := negativeBinomial(r)
		return err == nil
	}
	return slices.Contains(option.Values("likelihood"), name)
}

// likelihoodNamed returns the likelihood of a known name; gaussian has noise variance 1.
func likelihoodNamed(name string) glm.Likelihood {
	switch name {
	case "bernoulli":
		return glm.Bernoulli{}
	case "categorical":
		return glm.Categorical{}
	case "poisson":
		return glm.Poisson{}
	case "heteroscedastic":
		return glm.Heteroscedastic{}
	}
	if r, ok := strings.CutPrefix(name, "negative-binomial:"); ok {
		if lik, err := negativeBinomial(r); err == nil {
			return lik
		}
	}
	g, err := glm.NewGaussian(1)
	if err != nil {
		panic("funcgp: noise variance 1 is refused")
	}
	return g
}

// hasClasses tells whether a likelihood is one of labels, and not of numbers.
func hasClasses(lik glm.Likelihood) bool {
	_, ok := lik.(glm.Logistic)
	return ok
}

// isSoftmax tells whether each class has an output of its own.
func isSoftmax(lik glm.Likelihood) bool {
	l, ok := lik.(glm.Logistic)
	return ok && l.Softmax()
}

// hasNoise tells whether a likelihood has the noise variance that FitOptions.NoiseVariance sets.
func hasNoise(lik glm.Likelihood) bool {
	_, ok := lik.(*glm.Gaussian)
	return ok
}

// hasLogVariances tells whether the second half of the outputs are the logarithms of noise variances.
func hasLogVariances(lik glm.Likelihood) bool {
	_, ok := lik.(glm.Heteroscedastic)
	return ok
}

// hasRealTargets tells likelihoods of real numbers, which may be standardized, from others.
func hasRealTargets(lik glm.Likelihood) bool { return hasNoise(lik) || hasLogVariances(lik) }
