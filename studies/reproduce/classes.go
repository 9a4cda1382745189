package reproduce

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/score"
)

// ClassScores judge the probabilities of classes of a set of rows.
type ClassScores struct {
	NLL      result.Float `json:"nll"` // mean of −log p(y|x)
	Accuracy result.Float `json:"accuracy"`
	ECE      result.Float `json:"ece"`
}

// ScoreClasses scores what a predictive says of N rows: response E[y|x], N×C, and
// log p(y|x) of the targets y, N×Targets(C). ECE has the given number of bins.
func ScoreClasses(lik glm.Likelihood, y, response *mat.Dense, logp []float64, bins int) ClassScores {
	prob, labels := score.ClassProbabilities(lik, y, response)
	return ClassScores{NLL: result.Float(score.NLL(logp)), Accuracy: result.Float(score.Accuracy(prob, labels)), ECE: result.Float(ECE(prob, labels, bins))}
}

// ECE is the expected calibration error Σ_b n_b/N |accuracy_b − confidence_b| over
// bins of equal width of the largest probability, (b/bins, (b+1)/bins].
func ECE(prob *mat.Dense, labels []int, bins int) float64 {
	gap := make([]float64, bins) // Σ (hit − confidence) of each bin
	for i, label := range labels {
		top, p := 0, math.Inf(-1)
		for c, v := range prob.RawRowView(i) {
			if v > p {
				top, p = c, v
			}
		}
		b := min(max(int(math.Ceil(p*float64(bins)))-1, 0), bins-1)
		gap[b] -= p
		if top == label {
			gap[b]++
		}
	}
	sum := 0.0
	for _, g := range gap {
		sum += math.Abs(g)
	}
	return sum / float64(len(labels))
}
