package score

import (
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/integral"
)

// The metrics of classes take probabilities, N×K with rows that sum to 1, and N labels, which are class indices.
// For two classes modelled by one output, the columns are 1−p and p. A metric is NaN without examples, and where a
// probability is NaN. A wrong number of labels, and a label that is no class, panic.

// NLL returns the mean of −log p(y|x) in nats. logp has the log probabilities that Link.LogPredictiveTo writes,
// which do not underflow.
func NLL(logp []float64) float64 {
	sum := 0.0
	for _, v := range logp {
		sum -= v
	}
	return sum / float64(len(logp))
}

// Accuracy returns the share of rows whose label has the largest probability. Of equal probabilities the first
// class counts as the largest.
func Accuracy(prob *mat.Dense, labels []int) float64 { return accuracy(prob, labels, nil) }

// accuracy is Accuracy with weights of the rows; nil stands for 1 each.
func accuracy(prob *mat.Dense, labels []int, weights []float64) float64 {
	hits := 0.0
	weight, n := weigh(weights, checkLabels(prob, labels))
	for i, y := range labels {
		switch k, p := topClass(prob.RawRowView(i)); {
		case math.IsNaN(p):
			return math.NaN()
		case k == y:
			hits += weight(i)
		}
	}
	return hits / n
}

// Brier returns the mean over rows of Σ_c (p_c − 1[y=c])², between 0 and 2.
func Brier(prob *mat.Dense, labels []int) float64 { return brier(prob, labels, nil) }

func brier(prob *mat.Dense, labels []int, weights []float64) float64 {
	sum := 0.0
	weight, n := weigh(weights, checkLabels(prob, labels))
	for i, y := range labels {
		for c, p := range prob.RawRowView(i) {
			if c == y {
				p--
			}
			sum += weight(i) * p * p
		}
	}
	return sum / n
}

// eceBins is the number of bins of ECE.
const eceBins = 15

// ECE returns the expected calibration error Σ_b n_b/N |accuracy_b − confidence_b|. The 15 bins divide the largest
// probability evenly: bin b holds (b/15, (b+1)/15], with edges rounded to float64, and 0 is in the first bin.
func ECE(prob *mat.Dense, labels []int) float64 { return ece(prob, labels, nil) }

func ece(prob *mat.Dense, labels []int, weights []float64) float64 {
	top, hit := topClasses(prob, labels)
	return eceOf(top, hit, weights)
}

// weigh returns the weight of row i as a function, and the sum of the weights. Nil weights are 1 each, and their sum
// is n.
func weigh(weights []float64, n float64) (weight func(i int) float64, sum float64) {
	if weights == nil {
		return func(int) float64 { return 1 }, n
	}
	return func(i int) float64 { return weights[i] }, floats.Sum(weights)
}

// ECEOf returns ECE for the probabilities of N events, where happened tells which events happened.
func ECEOf(prob []float64, happened []bool) float64 { return eceOf(prob, happened, nil) }

func eceOf(prob []float64, happened []bool, weights []float64) float64 {
	weight, n := weigh(weights, float64(len(prob)))
	var gap [eceBins]float64 // Σ (happened − probability) of each bin
	for i, p := range prob {
		b := eceBin(p)
		gap[b] -= weight(i) * p
		if happened[i] {
			gap[b] += weight(i)
		}
	}
	sum := 0.0
	for _, g := range gap {
		sum += math.Abs(g)
	}
	return sum / n
}

// Classwise computes the class-wise calibration error of K classes from rows that come one at a time. The error is the
// mean over classes of the calibration error of "the class" against "another", each with the 15 bins of ECE (Kull et
// al. 2019; the static calibration error of Nixon et al. 2019 without thresholds or adaptive bins). It detects a class
// that is too probable on all rows, as after a training with class weights; ECE of the largest probability may not.
type Classwise struct {
	rows int
	gap  [][eceBins]float64 // for each class and bin, Σ (1[class is the label] − probability)
}

// NewClasswise returns a Classwise of k classes without rows.
func NewClasswise(k int) *Classwise { return &Classwise{gap: make([][eceBins]float64, k)} }

// Add adds the probability p of a class in one row, where label tells whether the class is the row's label. Each row
// adds each of the K classes once.
func (c *Classwise) Add(class int, p float64, label bool) {
	g := &c.gap[class][eceBin(p)]
	*g -= p
	if label {
		*g++
	}
	if class == 0 {
		c.rows++
	}
}

// ECE returns the class-wise calibration error of the rows added so far. It is NaN without rows.
func (c *Classwise) ECE() float64 {
	sum := 0.0
	for _, bins := range c.gap {
		for _, g := range bins {
			sum += math.Abs(g)
		}
	}
	return sum / float64(c.rows) / float64(len(c.gap))
}

// topClasses returns the largest probability of each row, and whether its class is the label.
func topClasses(prob *mat.Dense, labels []int) (top []float64, hit []bool) {
	checkLabels(prob, labels)
	top, hit = make([]float64, len(labels)), make([]bool, len(labels))
	for i, y := range labels {
		k, p := topClass(prob.RawRowView(i))
		top[i], hit[i] = p, k == y
	}
	return top, hit
}

// topClass returns the first class with the largest probability, and that probability. The probability is NaN if
// any in the row is NaN.
func topClass(row []float64) (k int, p float64) {
	for _, v := range row {
		if math.IsNaN(v) {
			return 0, v
		}
	}
	k = integral.Argmax(row)
	return k, row[k]
}

// eceBin returns the bin of a probability. NaN is in the last bin.
func eceBin(p float64) int {
	b := 0
	for b < eceBins-1 && !(p <= float64(b+1)/eceBins) {
		b++
	}
	return b
}

// EntropyTo writes the predictive entropy −Σ_c p_c log p_c of each row in nats, with 0 log 0 = 0.
func EntropyTo(dst []float64, prob *mat.Dense) {
	if r, _ := prob.Dims(); len(dst) != r {
		panic("score: dst does not have one element per row")
	}
	for i := range dst {
		dst[i] = 0
		for _, p := range prob.RawRowView(i) {
			if p != 0 {
				dst[i] -= p * math.Log(p)
			}
		}
	}
}

// AUROC returns the probability that a score of out exceeds a score of in, where a tie counts one half. It is the
// area under the ROC curve of a score that should be larger out of distribution, such as the entropy. It is NaN
// where a score is NaN, and where in or out is empty.
func AUROC(in, out []float64) float64 {
	sorted := slices.Clone(in)
	slices.Sort(sorted) // NaN first
	if len(sorted) > 0 && math.IsNaN(sorted[0]) {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range out {
		if math.IsNaN(v) {
			return math.NaN()
		}
		sum += below(sorted, v)
	}
	return sum / (float64(len(in)) * float64(len(out)))
}

// below returns how many numbers are smaller than v, where a number equal to v counts half.
func below(sorted []float64, v float64) float64 {
	smaller, found := slices.BinarySearch(sorted, v)
	equal := 0
	if found {
		equal = sort.Search(len(sorted)-smaller, func(k int) bool { return sorted[smaller+k] > v })
	}
	return float64(smaller) + 0.5*float64(equal)
}

// checkLabels returns the number of labels. It panics unless there is one label for each row and each label is a
// class index.
func checkLabels(prob *mat.Dense, labels []int) float64 {
	n, k := prob.Dims()
	if n != len(labels) {
		panic("score: the number of labels is not that of the rows")
	}
	for _, y := range labels {
		if y < 0 || y >= k {
			panic("score: label is not a class index")
		}
	}
	return float64(n)
}
