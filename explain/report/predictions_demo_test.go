package report

import (
	"math"
	"math/rand/v2"
	"slices"
)

// A drawnModel draws predictions of rows whose true distribution is known: logits
// with a posterior around them, and labels drawn from the truth.
type drawnModel struct {
	rng     *rand.Rand
	classes []Float
	images  map[Index][]byte
}

func newDrawnModel(seed uint64, classes ...Float) *drawnModel {
	return &drawnModel{rng: rand.New(rand.NewPCG(seed, 5)), classes: classes, images: map[Index][]byte{}}
}

// predicted draws the prediction of a row. The network's logits are twice what the
// truth and the calibrated prediction have, so it is too confident.
func (m *drawnModel) predicted(index Index) *PredictedRow {
	k := len(m.classes)
	truth := make([]float64, k)
	label := m.rng.IntN(k)
	for c := range truth {
		truth[c] = 0.9 * m.rng.NormFloat64()
	}
	truth[label] += 2 + 7*m.rng.Float64()
	p, network := softmax(truth), make([]float64, k)
	for c := range network {
		network[c] = 2 * truth[c]
	}
	u := m.rng.Float64()
	for label = 0; label < k-1 && u > p[label]; label++ {
		u -= p[label]
	}
	q := softmax(network)
	sd, entropy := make([]float64, k), 0.0
	for c, v := range p {
		sd[c] = 0.4 * v * (1 - v)
		entropy -= v * math.Log(v)
	}
	if len(m.images) < 400 && k <= 10 {
		digit := int(m.classes[label])
		m.images[index] = drawDigit(m.rng, digit, 28)
	}
	return &PredictedRow{Index: index, Label: m.classes[label], Class: m.classes[largestOf(q)], Probability: Floats(p), ProbabilitySD: Floats(sd), MAPProbability: Floats(q),
		Mean: Floats(truth), Expected: Undefined(), MAPExpected: Undefined(), CDF: Undefined(), MAPCDF: Undefined(),
		LogDensity: Float(math.Log(p[label])), MAPLogDensity: Float(math.Log(q[label])),
		Novelty: Novelty{Score: Float(4 * entropy), Rank: Float(math.Min(1, entropy/math.Log(float64(k)))), Entropy: Float(entropy), MutualInformation: Float(0.3 * entropy)}}
}

// predictedTarget draws the prediction of a regression whose network has error bars
// that are too narrow by half.
func predictedTarget(rng *rand.Rand, index Index) *PredictedRow {
	x := rng.NormFloat64()
	sd := 0.3 + 0.2*x*x
	y := 2*math.Sin(x) + sd*rng.NormFloat64()
	normal := func(z float64) Float { return Float(math.Erfc(-z/math.Sqrt2) / 2) }
	density := func(z, sd float64) Float { return Float(-z*z/2 - math.Log(sd) - math.Log(2*math.Pi)/2) }
	mean := 2*math.Sin(x) + 0.02
	z, narrow := (y-mean)/sd, 0.5*sd
	return &PredictedRow{Index: index, Label: Float(y), Class: Undefined(), Mean: Floats([]float64{mean}), ObservationSD: []Float{Float(sd)}, FunctionSD: []Float{Float(sd - 0.25)},
		Expected: Float(mean), MAPExpected: Float(mean), CDF: normal(z), MAPCDF: normal((y - mean) / narrow), LogDensity: density(z, sd), MAPLogDensity: density((y-mean)/narrow, narrow),
		Novelty: Novelty{Score: Float(x * x), Rank: Float(math.Min(1, x*x/9)), Entropy: Float(sd * sd), MutualInformation: Float(math.Log(sd/0.25) / 2)}, Interval: []Float{Float(mean - 1.7*sd), Float(mean + 1.7*sd)}}
}

// drawnPage is a page on t test rows and n training rows.
func drawnPage(t, n int, classes ...Float) *PredictionPage {
	m := newDrawnModel(uint64(t), classes...)
	p := &Predictions{Classes: classes, Fit: Fit{Examples: max(n, 1), Outputs: max(1, len(classes)), Parameters: 4587, PriorPrecision: 10, Refit: true, GradientNorm: 2.45, LogEvidence: -388.25,
		LogDet: 200.5, LogLikelihood: -31.25, Scatter: 133.5, Calibration: &Calibration{Method: "loo", Scale: 0.0503, NoiseScale: 1, Rows: n, NLLSE: 0.002,
			LOO: &RowScores{NLL: 0.0243, Accuracy: 0.9927, ECE: 0.004}, Network: RowScores{NLL: 0.03, Accuracy: 0.9927, ECE: 0.006}}}}
	page := &PredictionPage{Predictions: p, Model: "demo.onnx", Data: "drawn", Command: "gpexplain predict --html page.html", Invert: true}
	draw := func(i Index) *PredictedRow {
		if classes == nil {
			return predictedTarget(m.rng, i)
		}
		return m.predicted(i)
	}
	var known []float64
	for i := range n {
		r := draw(Index(i))
		known = append(known, float64(r.Novelty.Score))
		p.AddLeaveOneOut(r)
	}
	slices.Sort(known)
	for i := range t {
		r := draw(Index(10000 + i))
		below, _ := slices.BinarySearch(known, float64(r.Novelty.Score))
		r.Novelty.Rank = Float(float64(below) / float64(n))
		p.Add(r)
	}
	if classes == nil {
		p.Coverage, page.Quantity = 0.9, "price"
		page.Invert = false
		page.Test = func(i Index) Picture {
			return Picture{Names: []string{"rooms", "age", "tax"}, Values: []float64{float64(i % 7), float64(i % 11), float64(i % 13)}}
		}
		page.Train = page.Test
	} else if len(classes) <= 10 {
		picture := func(i Index) Picture {
			if pix := m.images[i]; pix != nil {
				return Gray(pix, 28, 28)
			}
			return Gray(drawDigit(rand.New(rand.NewPCG(uint64(i), 1)), int(classes[int(i)%len(classes)]), 28), 28, 28)
		}
		page.Test, page.Train = picture, picture
	}
	return page
}
