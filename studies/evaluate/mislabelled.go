package evaluate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/score"
)

// FlipLabels replaces count of the labels y, N×1 of classes from 0, by other ones at random.
// It returns the true classes and which labels are wrong now. A count outside 0 to N, or fewer
// than two classes, panics.
func FlipLabels(y *mat.Dense, classes, count int, seed uint64) (truth []int, wrong []bool) {
	n, _ := y.Dims()
	if count < 0 || count > n || classes < 2 {
		panic("evaluate: more wrong labels than rows, or no other class")
	}
	truth, wrong = make([]int, n), make([]bool, n)
	rng := rand.New(rand.NewPCG(seed, 10))
	for k, i := range rng.Perm(n) {
		truth[i] = int(y.At(i, 0))
		if wrong[i] = k < count; wrong[i] {
			y.Set(i, 0, float64((truth[i]+1+rng.IntN(classes-1))%classes))
		}
	}
	return truth, wrong
}

// OwnScores are suspicions of N training rows by scores N×N that they have for their own
// recorded targets: by each row's own score, which is large where little else speaks for its
// label (self-influence).
func OwnScores(scores *mat.Dense) []float64 {
	n, _ := scores.Dims()
	own := make([]float64, n)
	for i := range own {
		own[i] = scores.At(i, i)
	}
	return own
}

// OtherScores are suspicions by the scores of all other rows, which add up to little where
// they speak against the label.
func OtherScores(scores *mat.Dense) []float64 {
	n, _ := scores.Dims()
	others := make([]float64, n)
	for i := range others {
		others[i] = scores.At(i, i) - floats.Sum(scores.RawRowView(i))
	}
	return others
}

// A Detection is how well suspicions tell wrong labels from right ones.
type Detection struct {
	AUROC float64   // probability that a wrong label is more suspicious than a right one
	Found []float64 // share of the wrong labels among the most suspicious rows, for each share of rows inspected
}

// Detect judges suspicions, larger ones first; equal ones are in the order of the rows, and
// those that are NaN count as the smallest. Of a share of the rows as many are inspected as it
// holds whole ones.
func Detect(suspicions []float64, wrong []bool, shares ...float64) Detection {
	if len(suspicions) != len(wrong) {
		panic("evaluate: suspicions and labels differ in number")
	}
	suspicions = slices.Clone(suspicions)
	for i, v := range suspicions {
		if math.IsNaN(v) {
			suspicions[i] = math.Inf(-1)
		}
	}
	var of [2][]float64 // of right and of wrong labels
	order := make([]int, len(wrong))
	for i, w := range wrong {
		k := 0
		if w {
			k = 1
		}
		of[k], order[i] = append(of[k], suspicions[i]), i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(suspicions[b], suspicions[a]) })
	d := Detection{AUROC: score.AUROC(of[0], of[1])}
	for _, share := range shares {
		found := 0
		for _, i := range order[:int(share*float64(len(order))+1e-9)] {
			if wrong[i] {
				found++
			}
		}
		d.Found = append(d.Found, float64(found)/float64(len(of[1])))
	}
	return d
}
