package report

import "math"

// reliabilityBins is the number of bins of a reliability diagram, as in glm.ECE.
const reliabilityBins = 15

// A bin holds the rows whose largest probability is in (lo, hi].
type bin struct {
	lo, hi     float64
	rows       int
	confidence float64 // mean largest probability
	accuracy   float64 // share of rows whose label it is
}

// reliability puts rows into bins by their largest probability.
func reliability(confidence []float64, hit []bool) []bin {
	bins := make([]bin, reliabilityBins)
	for b := range bins {
		bins[b].lo, bins[b].hi = float64(b)/reliabilityBins, float64(b+1)/reliabilityBins
	}
	for i, p := range confidence {
		b := 0
		for b < reliabilityBins-1 && !(p <= bins[b].hi) {
			b++
		}
		bins[b].rows++
		bins[b].confidence += p
		bins[b].accuracy += boolean(hit[i], 0)
	}
	for b := range bins {
		n := float64(bins[b].rows)
		bins[b].confidence /= n
		bins[b].accuracy /= n
	}
	return bins
}

// ece is the expected calibration error of the bins.
func ece(confidence []float64, hit []bool) Float {
	if len(confidence) == 0 {
		return Undefined()
	}
	sum := 0.0
	for _, b := range reliability(confidence, hit) {
		if b.rows > 0 {
			sum += float64(b.rows) * math.Abs(b.accuracy-b.confidence)
		}
	}
	return Float(sum / float64(len(confidence)))
}
