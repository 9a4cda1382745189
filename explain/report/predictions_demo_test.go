package report

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/funcgp/funcgp/explain/result"
)

// A drawnModel draws predictions of rows whose true distribution is known: logits
// with a posterior around them, and labels drawn from the truth.
type drawnModel struct {
	rng     *rand.Rand
	classes []result.Float
	images  map[result.Index][]byte
}

func newDrawnModel(seed uint64, classes ...result.Float) *drawnModel {
	return &drawnModel{rng: rand.New(rand.NewPCG(seed, 5)), classes: classes, images: map[result.Index][]byte{}}
}

// predicted draws the prediction of a row. The network's logits are twice what the
// truth and the calibrated prediction have, so it is too confident.
func (m *drawnModel) predicted(index result.Index) *result.PredictedRow {
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
	return &result.PredictedRow{Prediction: result.Prediction{Class: m.classes[largestOf(q)], Probability: result.Floats(p), ProbabilitySD: result.Floats(sd), MAPProbability: result.Floats(q), Mean: result.Floats(truth), Novelty: &result.Novelty{Score: result.Float(4 * entropy), Rank: result.Float(math.Min(1, entropy/math.Log(float64(k)))), Entropy: result.Float(entropy), MutualInformation: result.Float(0.3 * entropy)}},
		Index: index, Label: m.classes[label], Expected: result.Undefined(), MAPExpected: result.Undefined(), CDF: result.Undefined(), MAPCDF: result.Undefined(), LogDensity: result.Float(math.Log(p[label])), MAPLogDensity: result.Float(math.Log(q[label]))}
}

// predictedTarget draws the prediction of a regression whose network has error bars
// that are too narrow by half.
func predictedTarget(rng *rand.Rand, index result.Index) *result.PredictedRow {
	x := rng.NormFloat64()
	sd := 0.3 + 0.2*x*x
	y := 2*math.Sin(x) + sd*rng.NormFloat64()
	normal := func(z float64) result.Float { return result.Float(math.Erfc(-z/math.Sqrt2) / 2) }
	density := func(z, sd float64) result.Float { return result.Float(-z*z/2 - math.Log(sd) - math.Log(2*math.Pi)/2) }
	mean := 2*math.Sin(x) + 0.02
	z, narrow := (y-mean)/sd, 0.5*sd
	return &result.PredictedRow{Prediction: result.Prediction{Class: result.Undefined(), Mean: result.Floats([]float64{mean}), ObservationSD: []result.Float{result.Float(sd)}, FunctionSD: []result.Float{result.Float(sd - 0.25)}, Novelty: &result.Novelty{Score: result.Float(x * x), Rank: result.Float(math.Min(1, x*x/9)), Entropy: result.Float(sd * sd), MutualInformation: result.Float(math.Log(sd/0.25) / 2)}, Interval: []result.Float{result.Float(mean - 1.7*sd), result.Float(mean + 1.7*sd)}},
		Index: index, Label: result.Float(y), Expected: result.Float(mean), MAPExpected: result.Float(mean), CDF: normal(z), MAPCDF: normal((y - mean) / narrow), LogDensity: density(z, sd), MAPLogDensity: density((y-mean)/narrow, narrow)}
}

// drawnPage is a page on t test rows and n training rows.
func drawnPage(t, n int, classes ...result.Float) *PredictionPage {
	m := newDrawnModel(uint64(t), classes...)
	p := &Predictions{Classes: classes, Fit: result.Fit{Examples: max(n, 1), Outputs: max(1, len(classes)), Parameters: 4587, PriorPrecision: 10, Refit: true, GradientNorm: 2.45, LogEvidence: -388.25,
		LogDet: 200.5, LogLikelihood: -31.25, Scatter: 133.5, Calibration: &result.Calibration{Method: "loo", Scale: 0.0503, NoiseScale: 1, Rows: n, NLLSE: 0.002,
			LOO: &result.RowScores{NLL: 0.0243, Accuracy: 0.9927, ECE: 0.004}, Network: result.RowScores{NLL: 0.03, Accuracy: 0.9927, ECE: 0.006}}}}
	page := &PredictionPage{Predictions: p, Origin: Origin{Invert: true, Model: "demo.onnx", Data: "drawn", Record: result.Record{Command: "gpexplain predict --html page.html"}}}
	draw := func(i result.Index) *result.PredictedRow {
		if classes == nil {
			return predictedTarget(m.rng, i)
		}
		return m.predicted(i)
	}
	var known []float64
	for i := range n {
		r := draw(result.Index(i))
		known = append(known, float64(r.Novelty.Score))
		p.AddLeaveOneOut(r)
	}
	slices.Sort(known)
	for i := range t {
		r := draw(result.Index(10000 + i))
		below, _ := slices.BinarySearch(known, float64(r.Novelty.Score))
		r.Novelty.Rank = result.Float(float64(below) / float64(n))
		p.Add(r)
	}
	if classes == nil {
		p.Coverage, page.Quantity = 0.9, "price"
		page.Invert = false
		page.Test = func(i result.Index) result.Picture {
			return result.Picture{Names: []string{"rooms", "age", "tax"}, Values: []float64{float64(i % 7), float64(i % 11), float64(i % 13)}}
		}
		page.Train = page.Test
	} else if len(classes) <= 10 {
		picture := func(i result.Index) result.Picture {
			if pix := m.images[i]; pix != nil {
				return result.Gray(pix, 28, 28)
			}
			return result.Gray(drawDigit(rand.New(rand.NewPCG(uint64(i), 1)), int(classes[int(i)%len(classes)]), 28), 28, 28)
		}
		page.Test, page.Train = picture, picture
	}
	return page
}
