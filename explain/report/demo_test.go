package report

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// A demo is a small classifier of drawn digits: fixed random features, a
// linear layer, and the Gaussian process at the mode of its weights.
type demo struct {
	classes []int // digit of each class
	side    int
	images  [][]byte
	labels  []float64
	post    *testkit.Dual
	test    *linearize.Batch
	testPix []byte
}

// strokes are the digits as lines in the unit square, y downwards.
var strokes = [10][][][2]float64{
	{{{.5, .1}, {.25, .3}, {.25, .7}, {.5, .9}, {.75, .7}, {.75, .3}, {.5, .1}}},
	{{{.35, .25}, {.55, .1}, {.55, .9}}},
	{{{.25, .3}, {.45, .1}, {.7, .25}, {.65, .5}, {.25, .9}, {.75, .9}}},
	{{{.25, .15}, {.7, .15}, {.45, .45}, {.72, .65}, {.5, .9}, {.25, .8}}},
	{{{.3, .1}, {.25, .55}, {.75, .55}}, {{.68, .2}, {.65, .9}}},
	{{{.7, .1}, {.3, .1}, {.28, .45}, {.6, .45}, {.7, .7}, {.5, .9}, {.25, .8}}},
	{{{.65, .1}, {.35, .4}, {.27, .7}, {.5, .9}, {.7, .7}, {.5, .55}, {.3, .68}}},
	{{{.25, .12}, {.75, .12}, {.45, .9}}},
	{{{.5, .48}, {.3, .3}, {.5, .1}, {.7, .3}, {.5, .48}, {.27, .7}, {.5, .9}, {.73, .7}, {.5, .48}}},
	{{{.68, .35}, {.45, .5}, {.3, .3}, {.5, .1}, {.7, .25}, {.6, .9}}},
}

// drawDigit renders a digit with random slant, size and pen.
func drawDigit(rng *rand.Rand, digit, side int) []byte {
	pix := make([]byte, side*side)
	slant, sx, sy := 0.3*rng.NormFloat64()*.6, .85+.1*rng.NormFloat64(), .9+.06*rng.NormFloat64()
	pen := .045 + .02*rng.Float64()
	var paths [][][2]float64
	for _, path := range strokes[digit] {
		var moved [][2]float64
		for _, p := range path {
			x, y := (p[0]-.5)*sx+.03*rng.NormFloat64(), (p[1]-.5)*sy+.025*rng.NormFloat64()
			moved = append(moved, [2]float64{.5 + x - slant*y, .5 + y})
		}
		paths = append(paths, moved)
	}
	for i := range pix {
		x, y := (float64(i%side)+.5)/float64(side), (float64(i/side)+.5)/float64(side)
		d := math.Inf(1)
		for _, path := range paths {
			for k := 1; k < len(path); k++ {
				d = min(d, distance(x, y, path[k-1], path[k]))
			}
		}
		pix[i] = byte(255 * min(1, max(0, (pen-d)*float64(side)*.8+.5)))
	}
	return pix
}

func distance(x, y float64, a, b [2]float64) float64 {
	dx, dy := b[0]-a[0], b[1]-a[1]
	t := min(1, max(0, ((x-a[0])*dx+(y-a[1])*dy)/(dx*dx+dy*dy+1e-12)))
	return math.Hypot(x-a[0]-t*dx, y-a[1]-t*dy)
}

// newDemo fits n training digits of the given classes and draws a test digit.
func newDemo(seed uint64, n int, digit int, classes ...int) *demo {
	rng := rand.New(rand.NewPCG(seed, 77))
	const side, hidden = 28, 60
	d := &demo{classes: classes, side: side}
	w := testkit.RandomMatrix(rng, side*side, hidden)
	c := len(classes)
	if c == 2 {
		c = 1
	}
	p := hidden * c
	theta := make([]float64, p)
	features := func(pix []byte) []float64 {
		h := make([]float64, hidden)
		for i, v := range pix {
			for k := range h {
				h[k] += float64(v) / 255 * w.At(i, k) / 8
			}
		}
		for k := range h {
			h[k] = math.Tanh(h[k])
		}
		return h
	}
	batch := func(images [][]byte) *linearize.Batch {
		j := mat.NewDense(len(images)*c, p, nil)
		for i, pix := range images {
			for k, v := range features(pix) {
				for l := range c {
					j.Set(i*c+l, l*hidden+k, v)
				}
			}
		}
		return &linearize.Batch{F: mat.NewDense(len(images), c, nil), P: p, Blocks: []linearize.Block{
			&linearize.Full{J: j, Params: []linearize.Span{{Name: "w", Rows: 1, Cols: p}}, C: c}}}
	}
	var y []int
	for i := range n {
		y = append(y, i%len(classes))
		shown := classes[y[i]]
		d.labels = append(d.labels, float64(shown))
		d.images = append(d.images, drawDigit(rng, shown, side))
	}
	d.testPix = drawDigit(rng, digit, side)
	train := batch(d.images)
	d.test = batch([][]byte{d.testPix})
	prior := mat.NewDense(p, p, nil)
	for i := range p {
		prior.Set(i, i, 1)
	}
	d.post = &testkit.Dual{Train: train, J: testkit.Jacobian(train), Prior: prior, Delta: make([]float64, p)}
	// Newton on the weights; the network keeps the weights of the last step
	// but one, so that the remainder is small and not zero.
	for range 4 {
		train.MulVecTo(train.F.RawMatrix().Data, theta)
		d.test.MulVecTo(d.test.F.RawMatrix().Data, theta)
		for i := range theta {
			d.post.Delta[i] = -theta[i]
		}
		d.post.At = categoricalSites(train.F, y)
		d.post.Solve()
		next := testkit.Product(d.post.Sigma, d.post.J.T(), mat.NewVecDense(len(d.post.Pseudo), d.post.Pseudo))
		for i := range theta {
			theta[i] = next.At(i, 0)
		}
	}
	return d
}

// categoricalSites are the sites of a softmax, or of a sigmoid for C = 1.
func categoricalSites(f *mat.Dense, y []int) *gp.Sites {
	n, c := f.Dims()
	s := &gp.Sites{F: f, Residual: mat.NewDense(n, c, nil), Lambda: mat.NewDense(n*c, c, nil), Root: mat.NewDense(n*c, c, nil)}
	for i := range n {
		p := softmax(f.RawRowView(i))
		for k := range c {
			r := -p[k]
			if y[i] == k && c > 1 || y[i] == 1 && c == 1 {
				r++
			}
			s.Residual.Set(i, k, r)
			for l := range c {
				root := -p[k] * math.Sqrt(p[l])
				if k == l {
					root += math.Sqrt(p[k])
				}
				if c == 1 {
					root = math.Sqrt(p[0] * (1 - p[0]))
				}
				s.Root.Set(i*c+k, l, root)
			}
		}
		root := s.Root.Slice(i*c, (i+1)*c, 0, c)
		s.Lambda.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense).Copy(testkit.Product(root, root.T()))
	}
	return s
}

// softmax of f, or the sigmoid of its only entry.
func softmax(f []float64) []float64 {
	if len(f) == 1 {
		return []float64{1 / (1 + math.Exp(-f[0]))}
	}
	p, sum := make([]float64, len(f)), 0.0
	for k, v := range f {
		p[k] = math.Exp(v)
		sum += p[k]
	}
	for k := range p {
		p[k] /= sum
	}
	return p
}

// rows numbers the training digits as if they were some of a larger file.
func (d *demo) rows() result.Rows {
	names := result.Rows{Label: d.labels}
	for _, k := range d.classes {
		names.Classes = append(names.Classes, result.Float(k))
	}
	for i := range d.images {
		names.Index = append(names.Index, 1000+7*i)
	}
	return names
}

func (d *demo) picture(row result.Index) result.Picture {
	return result.Gray(d.images[(row-1000)/7], d.side, d.side)
}

func (d *demo) fit() result.Fit {
	n, c := d.post.Train.F.Dims()
	return result.Fit{Examples: n, Outputs: c, Parameters: d.test.P, PriorPrecision: 1, Refit: true, GradientNorm: 0.0213,
		LogEvidence: -83.1234, LogDet: 61.2, LogLikelihood: -22.9, Scatter: 59.3}
}

func (d *demo) importances(top int) *ListPage {
	r := d.rows().Importances(explain.Importances(d.post), top)
	r.Fit = d.fit()
	p := ImportancePage(r)
	p.Picture, p.Origin = d.picture, result.Origin{Invert: true, Model: "demo.onnx", Data: "drawn digits"}
	return p
}

// page explains the test digit.
func (d *demo) page(t testing.TB, label float64, o *explain.Options) *Page {
	t.Helper()
	names, fit := d.rows(), d.fit()
	with := explain.Options{}
	if o != nil {
		with = *o
	}
	with.Groups, with.Curve = names.Groups(), true
	e := testref.Must(explain.New(d.post, d.post, &with))(t)
	rows := testref.Must(e.Explain(context.Background(), d.test))(t)
	c := fit.Outputs
	r := &result.Report{
		Input:   result.Input{Split: "test", Index: 247, Label: result.Float(label)},
		Fit:     fit,
		Timings: result.Timings{Load: .05, Linearize: .61, Kernel: .7, Factorize: .25, Predict: .02, Write: .01, Total: 1.64},
	}
	for _, x := range rows[0] {
		r.Outputs = append(r.Outputs, names.Output(x))
	}
	d.predict(&r.Prediction, r.Outputs[:c])
	var classes []string
	for _, k := range d.classes {
		classes = append(classes, strconv.Itoa(k))
	}
	return &Page{
		Report: r, Classes: classes,
		Test:   result.Gray(d.testPix, d.side, d.side),
		Train:  d.picture,
		Origin: result.Origin{Invert: true, Model: "demo.onnx", Data: "drawn digits", Record: result.Record{Command: fmt.Sprintf("gpexplain explain --index %d --html page.html", r.Input.Index)}},
	}
}

// predict averages the class probabilities over draws of f.
func (d *demo) predict(p *result.Prediction, outputs []result.Output) {
	c := len(outputs)
	cov := mat.NewDense(c, c, nil)
	if err := d.post.PredictTo(context.Background(), nil, cov, d.test); err != nil {
		panic(err)
	}
	sym := mat.NewSymDense(c, nil)
	var mean, f []float64
	for i, o := range outputs {
		mean, f = append(mean, float64(o.PriorMean+o.ContributionSum)), append(f, float64(o.Network))
		p.Covariance = append(p.Covariance, result.Floats(mat.Row(nil, i, cov)))
		for k := range c {
			sym.SetSym(i, k, cov.At(i, k))
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(sym) {
		panic("covariance of the demo")
	}
	var l mat.TriDense
	chol.LTo(&l)
	both := func(f []float64) []float64 {
		if p := softmax(f); c > 1 {
			return p
		} else {
			return []float64{1 - p[0], p[0]}
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	const draws = 2000
	sum, square := make([]float64, len(d.classes)), make([]float64, len(d.classes))
	for range draws {
		z := testkit.Product(&l, testkit.RandomMatrix(rng, c, 1)).RawMatrix().Data
		for i := range z {
			z[i] += mean[i]
		}
		for k, v := range both(z) {
			sum[k] += v / draws
			square[k] += v * v / draws
		}
	}
	for k := range sum {
		p.Probability = append(p.Probability, result.Float(sum[k]))
		p.ProbabilitySD = append(p.ProbabilitySD, result.Float(math.Sqrt(max(0, square[k]-sum[k]*sum[k]))))
	}
	alone := both(f)
	p.MAPProbability, p.Mean = result.Floats(alone), result.Floats(mean)
	p.Class = result.Float(d.classes[largestOf(alone)])
}

func largestOf(v []float64) int {
	k := 0
	for c := range v {
		if v[c] > v[k] {
			k = c
		}
	}
	return k
}

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
func (m *drawnModel) predicted(index result.Index) *result.Prediction {
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
	return &result.Prediction{NamedRow: &result.NamedRow{Index: index, Label: m.classes[label]},
		Class: m.classes[largestOf(q)], Probability: result.Floats(p), ProbabilitySD: result.Floats(sd), MAPProbability: result.Floats(q), Mean: result.Floats(truth),
		Novelty: &result.Novelty{Score: result.Float(4 * entropy), Rank: result.Float(math.Min(1, entropy/math.Log(float64(k)))), Entropy: result.Float(entropy), MutualInformation: result.Float(0.3 * entropy)}, Expected: result.Undefined(), MAPExpected: result.Undefined(), CDF: result.Undefined(), MAPCDF: result.Undefined(), LogDensity: result.Float(math.Log(p[label])), MAPLogDensity: result.Float(math.Log(q[label]))}
}

// predictedTarget draws the prediction of a regression whose network has error bars
// that are too narrow by half.
func predictedTarget(rng *rand.Rand, index result.Index) *result.Prediction {
	x := rng.NormFloat64()
	sd := 0.3 + 0.2*x*x
	y := 2*math.Sin(x) + sd*rng.NormFloat64()
	normal := func(z float64) result.Float { return result.Float(math.Erfc(-z/math.Sqrt2) / 2) }
	density := func(z, sd float64) result.Float { return result.Float(-z*z/2 - math.Log(sd) - math.Log(2*math.Pi)/2) }
	mean := 2*math.Sin(x) + 0.02
	z, narrow := (y-mean)/sd, 0.5*sd
	return &result.Prediction{NamedRow: &result.NamedRow{Index: index, Label: result.Float(y)},
		Class: result.Undefined(), Mean: result.Floats([]float64{mean}), ObservationSD: []result.Float{result.Float(sd)}, FunctionSD: []result.Float{result.Float(sd - 0.25)},
		Novelty: &result.Novelty{Score: result.Float(x * x), Rank: result.Float(math.Min(1, x*x/9)), Entropy: result.Float(sd * sd), MutualInformation: result.Float(math.Log(sd/0.25) / 2)}, Expected: result.Float(mean), MAPExpected: result.Float(mean), CDF: normal(z), MAPCDF: normal((y - mean) / narrow), LogDensity: density(z, sd), MAPLogDensity: density((y-mean)/narrow, narrow), Region: result.Region{Interval: []result.Float{result.Float(mean - 1.7*sd), result.Float(mean + 1.7*sd)}}}
}

// drawnPage is a page on t test rows and n training rows.
func drawnPage(t, n int, classes ...result.Float) *PredictionPage {
	m := newDrawnModel(uint64(t), classes...)
	p := &result.Predictions{Classes: classes, Fit: result.Fit{Examples: max(n, 1), Outputs: max(1, len(classes)), Parameters: 4587, PriorPrecision: 10, Refit: true, GradientNorm: 2.45, LogEvidence: -388.25,
		LogDet: 200.5, LogLikelihood: -31.25, Scatter: 133.5, Calibration: &result.Calibration{Method: "loo", Scales: result.Scales{Scale: 0.0503, NoiseScale: 1}, Rows: n, NLLSE: 0.002,
			LOO: &result.RowScores{NLL: 0.0243, Accuracy: 0.9927, ECE: 0.004}, Network: result.RowScores{NLL: 0.03, Accuracy: 0.9927, ECE: 0.006}}}}
	page := &PredictionPage{Predictions: p, Origin: result.Origin{Invert: true, Model: "demo.onnx", Data: "drawn", Record: result.Record{Command: "gpexplain predict --html page.html"}}}
	draw := func(i result.Index) *result.Prediction {
		if classes == nil {
			return predictedTarget(m.rng, i)
		}
		return m.predicted(i)
	}
	if classes == nil {
		p.Coverage = &result.Coverage{Share: 0.9}
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
		page.Quantity = "price"
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
