// Package portable writes a network and its posterior as one graph of ONNX's standard operators. In any runtime the
// graph computes what the library does: outputs, covariance, calibrated probabilities, novelty, and the largest terms
// of the sum over training examples.
//
// The graph computes in float64 and never forms the Jacobian by all parameters: for each layer, the activations and
// gradients of an input are multiplied with those of the rows that the posterior is built on (gp.Reduction).
package portable

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/novelty"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/lattice"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// A Link says how the Gaussian over the outputs becomes a prediction.
type Link int

// The links.
const (
	Regression Link = iota // the outputs are the prediction, with Noise as its variance
	Binary                 // one output: the log-odds of the second of two classes
	Softmax                // an output for each class
	Labels                 // one output for each label, its log-odds; a row has any number of labels
)

// An Answer is what a graph computes.
type Answer struct {
	Network   *network.Network
	Theta     []float64          // θ*, P
	PriorMean []float64          // μ₀, P
	Variance  []float64          // diagonal of Σ₀, P
	Posterior *gp.Reduction      // in function space, or nil
	Weights   []weightspace.Root // used in place of Posterior for a posterior over the parameters at θ*
	DualMean  bool               // whether the mean is m(x) + k·Posterior.Mean and not the network's outputs

	// The network sees (x − Offset)/Scale; D numbers each, nil for x itself.
	Offset, Scale []float64

	Link        Link
	Shift       []float64      // added to the mean before the temperature (E25), C; nil for none
	Temperature float64        // factor of the mean (E18); 0 means 1
	Covariance  float64        // factor of the covariance (E18); 0 means 1
	Noise       []float64      // in a regression, the noise variance of each target, C; nil if unknown
	Novelty     *novelty.Parts // computes how unlike the training rows an input is (E22); nil for no novelty
	Top         int            // how many terms to list; 0 for none
	RowNumbers  []int64        // row numbers of the training examples, for the output term_row
	Metadata    []onnx.Entry
}

// Bounds returns the largest errors of the integrals over the link, by the name of the output and for any mean and
// covariance. An error is the difference of a probability, or of its standard deviation, from predictive.QMC and
// predictive.Exact. The bound for standard deviations is larger because they are square roots: if all integration
// points miss a class of probability .0004, its standard deviation is .02 and the graph gives 0. For three and more
// classes the bounds are not proven. They are at least twice the largest error that a hill-climbing search from
// random means and covariances found, and that far rows of testdata/corpus showed.
func (a *Answer) Bounds() map[string]float64 {
	_, c, _ := a.Network.Dims()
	bounds := func(p, sd float64) map[string]float64 {
		return map[string]float64{"probability": p, "probability_sd": sd}
	}
	switch {
	case a.Link == Regression:
		return nil
	case c <= 2 || a.Link == Labels:
		return bounds(1e-10, 1e-10)
	case c <= 4:
		return bounds(.03, .1)
	}
	return bounds(.06, .15)
}

// writer builds the graph.
type writer struct {
	*onnx.Builder
	a      *Answer
	traced *network.Traced
	c      int
	finite []string // values, T×n each, that must be finite for a row to have an answer
	holds  []string // truth values, T×n each, that must hold for a row to have an answer
	poison string   // 1 for a row that has an answer, and NaN for one that has none, T×1
}

// Model returns the graph as a model of ONNX opset 17. Its input x holds the rows, T×D in float64. Its outputs have
// one row for each input row: mean T×C and covariance T×C×C, both before calibration; for classes and labels,
// probability and probability_sd T×K; for a regression, function_sd and, with Noise, observation_sd, T×C; with
// Novelty, novelty and novelty_rank; with Top, term and term_row T×Top and term_sum. For classes with one output
// each, the terms are those of the difference between the two largest outputs, whose numbers contrast holds; for
// labels they are those of the largest output, whose number label holds.
//
// A row has no answer if one of its numbers, or its mean or covariance, is not finite. Its outputs are then NaN, its
// novelty_rank is 1, and its integer outputs are −1.
//
// The error names an operator whose gradient cannot be written.
func (a *Answer) Model() (*onnx.Model, error) {
	d, c, _ := a.Network.Dims()
	w := &writer{Builder: &onnx.Builder{}, a: a, c: c}
	w.Graph.Name = "explained"
	w.Graph.Inputs = []*onnx.ValueInfo{onnx.Rows("x", onnx.Double, d)}
	w.finite = []string{"x"} // check x itself, since a maximum in the network may drop a NaN
	x := "x"
	if a.Offset != nil {
		x = w.Div(w.Sub(x, w.Doubles(a.Offset, 1, d)), w.Doubles(a.Scale, 1, d))
	}
	var err error
	if w.traced, err = a.Network.Trace(w.Builder, x); err != nil {
		return nil, err
	}
	w.holds = w.traced.Valid
	var k, prior, cov string
	if a.Posterior != nil {
		if k, prior, err = w.kernel(a.Posterior.Rows); err != nil {
			return nil, err
		}
		cov = w.settle(w.covariance(k, prior, a.Posterior), prior)
	}
	for _, r := range a.Weights {
		v := w.weighted(r)
		cov = w.plus(cov, w.gram(v, v))
	}
	mean := w.traced.F
	if a.DualMean {
		dual := w.MatMul(k, w.Doubles(a.Posterior.Mean, len(a.Posterior.Mean), 1))
		mean = w.Add(w.priorMean(), w.Reshape(dual, -1, c))
	}
	w.respond(mean, cov)
	if a.Novelty != nil {
		if err := w.novelty(x, k, prior); err != nil {
			return nil, err
		}
	}
	if a.Top > 0 && a.Posterior != nil && a.Posterior.Terms != nil {
		w.terms(mean, k)
	}
	return &onnx.Model{IRVersion: 8, ProducerName: "funcgp", OpsetImport: []onnx.Opset{{Version: 17}},
		Metadata: a.Metadata, Graph: &w.Graph}, nil
}

// plus returns sum + x; an empty sum is "".
func (w *writer) plus(sum, x string) string {
	if sum == "" {
		return x
	}
	return w.Add(sum, x)
}

// answer sets the rows of the mean, T×C, and of the covariance, T×C×C, to NaN where a row has no answer.
func (w *writer) answer(mean, cov string) (string, string) {
	numbers := w.Concat(1, w.finite...)
	ones := append(w.holds, w.Op("Less", []string{w.Of("Abs", numbers), w.Double(math.MaxFloat64)}))
	all := w.Op("Cast", []string{w.Concat(1, ones...)}, "to", int(onnx.Double))
	known := w.Op("ReduceMin", []string{all}, "axes", []int64{1}, "keepdims", 1)
	w.poison = w.Div(known, known) // 0/0 is NaN
	return w.Mul(mean, w.poison), w.Mul(cov, w.Unsqueeze(w.poison, 2))
}

// integers makes a value an output, T×n, that is −1 for rows without an answer.
func (w *writer) integers(name, value string, n int) {
	w.Output(name, w.Where(w.Above(w.poison, 0), value, w.Ints(-1)), onnx.Int64, n)
}

// gram returns a bᵀ for each example, T×C×C.
func (w *writer) gram(a, b string) string { return w.Einsum("tik,tjk->tij", a, b) }

// swap exchanges the last two of three axes.
func (w *writer) swap(x string) string {
	return w.Transpose(x, 0, 2, 1)
}

// matrix stores m as a constant of the graph.
func (w *writer) matrix(m mat.Matrix) string {
	d := mat.DenseCopyOf(m)
	r, c := d.Dims()
	return w.Doubles(d.RawMatrix().Data, r, c)
}

// most is the largest number of elements of a constant that package network reads. Export reads the graph to check
// it.
const most = 1 << 24

// times returns x m, T×C×n. If m has more than most numbers, it multiplies blocks of columns of m and joins the
// results.
func (w *writer) times(x string, m *mat.Dense) string {
	rows, cols := m.Dims()
	var list []string
	for lo, step := 0, max(1, most/rows); lo < cols; lo += step {
		list = append(list, w.MatMul(x, w.matrix(m.Slice(0, rows, lo, min(lo+step, cols)))))
	}
	return w.Concat(2, list...)
}

// A column says where the derivatives by a parameter are: in a block, from column at on.
type column struct {
	block linearize.Block
	at    int
}

// columns maps the offset of each parameter in θ to its columns in the batch.
func columns(z *linearize.Batch) map[int]column {
	at := map[int]column{}
	for _, b := range z.Blocks {
		from := 0
		for _, s := range b.Spans() {
			at[s.Offset] = column{b, from}
			from += s.Len()
		}
	}
	return at
}

// uniform returns the prior variance of the parameters of a span, if it is the same for all.
func (w *writer) uniform(s linearize.Span) (v float64, ok bool) {
	v = w.a.Variance[s.Offset]
	for _, u := range w.a.Variance[s.Offset : s.Offset+s.Len()] {
		if u != v {
			return 0, false
		}
	}
	return v, true
}

// kernel returns κ(x,z) with the rows of z, T×C×R, and κ(x,x), T×C×C, as sums over the parts of the Jacobian (E2).
func (w *writer) kernel(z *linearize.Batch) (k, prior string, err error) {
	where := columns(z)
	for i := range w.traced.Parts {
		p := &w.traced.Parts[i]
		var across, own string
		if o, ok := where[p.Spans[0].Offset].block.(*linearize.Outer); ok && p.J == "" && w.separable(p) {
			across, own = w.outer(p, o)
		} else if across, own, err = w.full(p, where, z); err != nil {
			return "", "", err
		}
		k, prior = w.plus(k, across), w.plus(prior, own)
	}
	return k, prior, nil
}

// separable tells whether the prior has one variance for the weights of a layer and one for its biases.
func (w *writer) separable(p *network.TracedPart) bool {
	for _, s := range p.Spans {
		if _, ok := w.uniform(s); !ok {
			return false
		}
	}
	return true
}

// outer returns the kernel of a dense layer, (σ_w² a·a′ + σ_b²)(g·g′).
func (w *writer) outer(p *network.TracedPart, o *linearize.Outer) (k, prior string) {
	weight, bias, at := 0.0, 0.0, 0
	if p.Weight {
		weight, _ = w.uniform(p.Spans[at])
		at++
	}
	if p.Bias {
		bias, _ = w.uniform(p.Spans[at])
	}
	rows, _ := o.G.Dims()
	m := rows / o.C
	products := w.MatMul(p.G, w.matrix(o.G.T())) // T×C×R
	grams := w.gram(p.G, p.G)                    // T×C×C
	across, own := w.Double(bias), w.Double(bias)
	if p.Weight {
		var a mat.Dense
		a.Scale(weight, o.A)
		across = w.Unsqueeze(w.Add(w.MatMul(p.A, w.matrix(a.T())), w.Double(bias)), 1) // T×1×M
		if o.C > 1 {
			products, across = w.Reshape(products, -1, w.c, m, o.C), w.Unsqueeze(across, 3)
		}
		own = w.Reshape(w.Add(w.Mul(w.Sum(w.Mul(p.A, p.A), 1), w.Double(weight)), w.Double(bias)), -1, 1, 1)
	}
	k = w.Mul(products, across)
	if p.Weight && o.C > 1 {
		k = w.Reshape(k, -1, w.c, rows)
	}
	return k, w.Mul(grams, own)
}

// jacobian returns the Jacobian of a part, T×C×width.
func (w *writer) jacobian(p *network.TracedPart) string {
	if p.J != "" {
		return p.J
	}
	var list []string
	if p.Weight {
		g, a := w.Unsqueeze(p.G, 3), w.Unsqueeze(p.A, 1, 2)
		if p.Transposed {
			g, a = w.Unsqueeze(p.G, 2), w.Unsqueeze(p.A, 1, 3)
		}
		list = append(list, w.Reshape(w.Mul(g, a), -1, w.c, p.In*p.Out))
	}
	if p.Bias {
		list = append(list, p.G)
	}
	return w.Concat(2, list...)
}

// weighted returns JS, T×C×n, where J is the Jacobian by r.Parameters. Parameters that no output depends on have no
// column in J.
func (w *writer) weighted(r weightspace.Root) string {
	row := map[int]int{} // row of S for each position in θ
	for i, p := range r.Parameters {
		row[p] = i
	}
	var list []string
	_, n := r.S.Dims()
	var rows []float64 // rows of S in the order of the parts
	for i := range w.traced.Parts {
		p := &w.traced.Parts[i]
		var columns []int64
		from := 0
		for _, s := range p.Spans {
			for j := range s.Len() {
				if k, ok := row[s.Offset+j]; ok {
					columns, rows = append(columns, int64(from+j)), append(rows, r.S.RawRowView(k)...)
				}
			}
			from += s.Len()
		}
		if columns != nil {
			list = append(list, w.Columns(w.jacobian(p), 3, columns...))
		}
	}
	return w.times(w.Concat(2, list...), mat.NewDense(len(rows)/n, n, rows))
}

// full returns the kernel JΣ₀J′ᵀ from the Jacobian by the parameters of a part.
func (w *writer) full(p *network.TracedPart, where map[int]column, z *linearize.Batch) (k, prior string, err error) {
	width := 0
	for _, s := range p.Spans {
		width += s.Len()
	}
	rows := z.Len() * z.Outputs()
	other, variance := mat.NewDense(rows, width, nil), make([]float64, 0, width)
	at := 0
	for _, s := range p.Spans {
		from, ok := where[s.Offset]
		if !ok {
			return "", "", fmt.Errorf("portable: the rows of the posterior have no derivatives by %s", s.Name)
		}
		block := mat.NewDense(rows, linearize.Width(from.block), nil)
		from.block.TileTo(block)
		other.Slice(0, rows, at, at+s.Len()).(*mat.Dense).Copy(block.Slice(0, rows, from.at, from.at+s.Len()))
		at += s.Len()
		variance = append(variance, w.a.Variance[s.Offset:s.Offset+s.Len()]...)
	}
	j := w.jacobian(p)
	weighted := w.Mul(j, w.Doubles(variance, 1, 1, width))
	return w.MatMul(weighted, w.matrix(other.T())), w.gram(weighted, j), nil
}

// priorMean returns m(x) = f + J(μ₀ − θ*) (E2).
func (w *writer) priorMean() string {
	m := w.traced.F
	for i := range w.traced.Parts {
		p := &w.traced.Parts[i]
		var delta []float64
		for _, s := range p.Spans {
			for j := range s.Len() {
				delta = append(delta, w.a.PriorMean[s.Offset+j]-w.a.Theta[s.Offset+j])
			}
		}
		if p.J != "" {
			m = w.Add(m, w.Reshape(w.MatMul(p.J, w.Doubles(delta, len(delta), 1)), -1, w.c))
			continue
		}
		// Σ g·(ΔW a + Δb)
		var move string
		if p.Weight {
			d := mat.NewDense(p.Out, p.In, delta[:p.In*p.Out])
			var in mat.Matrix = d.T()
			if p.Transposed {
				in = mat.NewDense(p.In, p.Out, delta[:p.In*p.Out])
			}
			move, delta = w.MatMul(p.A, w.matrix(in)), delta[p.In*p.Out:]
		}
		if p.Bias {
			move = w.plus(move, w.Doubles(delta, 1, p.Out))
		}
		m = w.Add(m, w.Sum(w.Mul(p.G, w.Unsqueeze(move, 1)), 2))
	}
	return m
}

// rounding is how negative a variance may be, relative to the prior variance, to count as rounding in
// gp.SettleVariances.
const rounding = 1e-11

// covariance returns κ(x,x) − kS(kS)ᵀ, T×C×C.
func (w *writer) covariance(k, prior string, r *gp.Reduction) string {
	v := w.times(k, r.S)
	return w.Sub(prior, w.gram(v, v))
}

// settle does what gp.SettleVariances does.
func (w *writer) settle(cov, prior string) string {
	variances, least := w.diagonal(cov), w.Mul(w.diagonal(prior), w.Double(-rounding)) // T×C
	w.holds = append(w.holds, w.Op("GreaterOrEqual", []string{variances, least}))
	if w.c == 1 {
		return w.Max(cov, w.Double(0))
	}
	alive := w.Holds("GreaterOrEqual", variances, w.Double(0))
	return w.Mul(cov, w.Mul(w.Unsqueeze(alive, 1), w.Unsqueeze(alive, 2)))
}

// diagonal returns the diagonals of matrices, T×C.
func (w *writer) diagonal(m string) string {
	if w.c == 1 {
		return w.Reshape(m, -1, 1)
	}
	at := make([]int64, w.c)
	for i := range w.c {
		at[i] = int64(i * (w.c + 1))
	}
	return w.Columns(w.Reshape(m, -1, w.c*w.c), 2, at...)
}

// deviations returns the standard deviations of a covariance, T×C.
func (w *writer) deviations(cov string) string {
	return w.Of("Sqrt", w.Max(w.diagonal(cov), w.Double(0)))
}

// respond writes mean and covariance, and the prediction that follows from them by the link.
func (w *writer) respond(mean, cov string) {
	// If a calibrated number is finite, it was finite before calibration.
	calibrated := func(mean, cov string) (string, string) {
		if w.a.Shift != nil {
			mean = w.Add(mean, w.Doubles(w.a.Shift, 1, w.c))
		}
		if t := w.a.Temperature; t != 0 && t != 1 {
			mean = w.Mul(mean, w.Double(t))
		}
		if s := w.a.Covariance; s != 0 && s != 1 {
			cov = w.Mul(cov, w.Double(s))
		}
		return mean, cov
	}
	m, v := calibrated(mean, cov)
	w.finite = append(w.finite, m, w.Reshape(v, -1, w.c*w.c))
	mean, cov = w.answer(mean, cov)
	m, v = calibrated(mean, cov)
	w.Output("mean", mean, onnx.Double, w.c)
	w.Output("covariance", cov, onnx.Double, w.c, w.c)
	switch {
	case w.a.Link == Regression:
		w.Output("function_sd", w.deviations(v), onnx.Double, w.c)
		if w.a.Noise != nil {
			noise := w.Add(w.Max(w.diagonal(v), w.Double(0)), w.Doubles(w.a.Noise, 1, w.c))
			w.Output("observation_sd", w.Of("Sqrt", noise), onnx.Double, w.c)
		}
	case w.a.Link == Labels:
		_, p, sd := w.sigmoid(w.Reshape(m, -1, 1), w.Reshape(w.deviations(v), -1, 1))
		w.probabilities(w.Reshape(p, -1, w.c), w.Reshape(sd, -1, w.c), w.c)
	case w.a.Link == Binary:
		w.binary(m, w.deviations(v))
	case w.c == 2:
		// Softmax is σ of the contrast. Its variance is divided by 4 before the square root so that it cannot
		// overflow.
		quarter := w.MatMul(w.Reshape(v, -1, 4), w.Doubles([]float64{.25, -.25, -.25, .25}, 4, 1))
		sd := w.Mul(w.Double(2), w.Of("Sqrt", w.Max(quarter, w.Double(0))))
		w.binary(w.MatMul(m, w.Doubles([]float64{-1, 1}, 2, 1)), sd)
	default:
		w.softmax(m, v)
	}
}

// The trapezoidal rule for one output has nodes points from −reach to reach standard deviations.
const (
	nodes = 400
	reach = 9.5
)

// widest is the largest standard deviation of f for which the trapezoidal rule integrates σ. With steps h and a
// standard deviation s its error is about exp(−2π²/(hs)), since the poles of σ lie π off the real line: 1e-13 for
// s = 14.
const widest = 14

// probabilities writes the outputs of T×K probabilities and their standard deviations.
func (w *writer) probabilities(p, sd string, k int) {
	w.Output("probability", w.Op("Clip", []string{p, w.Double(0), w.Double(1)}), onnx.Double, k)
	w.Output("probability_sd", sd, onnx.Double, k)
}

// binary writes the probabilities of two classes, the second with the log-odds f ~ N(m, s²), T×1.
func (w *writer) binary(m, s string) {
	first, second, sd := w.sigmoid(m, s)
	w.probabilities(w.Concat(1, first, second), w.Concat(1, sd, sd), 2)
}

// sigmoid returns E σ(−f) and E σ(f) for f ~ N(m, s²), T×1 each, and their standard deviation, for s of any size. If
// s is larger than widest, the trapezoidal rule integrates with s replaced by widest and m by widest·m/s, and the
// difference of the two integrals is added.
//
// With x = m/s and the even moments μ of the logistic distribution, whose density is σ',
//
//	E σ(f) = Φ(x) − φ(x) Σ_{k≥1} c_k He_{2k−1}(x)/s^{2k}, c_k = μ_{2k}/(2k)!,
//	E σ'(f) = φ(x) Σ_{k≥0} c_k He_{2k}(x)/s^{2k+1},
//
// Only differences of these series are needed, so that Φ drops out. Terms of orders above 16 are below 1e-13. Var
// σ(f) = E σ(f) E σ(−f) − E σ'(f).
func (w *writer) sigmoid(m, s string) (wrong, right, deviation string) {
	at, weight := trapezoid()
	less := w.Div(w.Double(widest), w.Max(s, w.Double(widest))) // ≤ 1
	m, s = w.Mul(m, less), w.Mul(s, less)
	f := w.Add(m, w.Mul(s, w.Doubles(at, 1, nodes))) // T×nodes
	q := w.Doubles(weight, nodes, 1)
	up := w.Of("Sigmoid", f)
	second := w.MatMul(up, q)
	off := w.Sub(up, second)
	variance := w.MatMul(w.Mul(off, off), q)

	const orders = 16
	clip := func(x string, lo, hi float64) string { return w.Op("Clip", []string{x, w.Double(lo), w.Double(hi)}) }
	x := clip(w.Mul(m, w.Double(1./widest)), -40, 40) // φ(40) is 0
	powers := w.Op("Pow", []string{x, w.Doubles(whole(0, orders), 1, orders)})
	// 1 − (widest/s)ⁿ, T×orders
	gone := w.Sub(w.Double(1), w.Op("Pow", []string{less, w.Doubles(whole(1, orders), 1, orders)}))
	parts := w.Mul(w.MatMul(powers, w.matrix(expansion(orders))), gone)
	parts = w.Mul(parts, w.Of("Exp", w.Mul(w.Mul(x, x), w.Double(-.5))))
	sum := func(odd int) string {
		var order []float64
		for n := 1; n <= orders; n++ {
			order = append(order, float64((n+odd+1)%2))
		}
		return w.MatMul(parts, w.Doubles(order, orders, 1))
	}
	more := sum(0) // E σ(f) minus the result of the trapezoidal rule
	right = w.Add(second, more)
	wrong = w.Sub(w.Double(1), right)
	variance = w.Add(variance, w.Add(sum(1), w.Mul(more, w.Sub(wrong, second))))
	return wrong, right, w.Of("Sqrt", w.Max(variance, w.Double(0)))
}

// whole returns the n numbers a, a + 1, ….
func whole(a, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(a + i)
	}
	return v
}

// expansion returns the coefficients of the polynomials c_⌊n/2⌋ He_{n−1}(x)/(widestⁿ√2π) for n = 1, 2, …, one in
// each column; row i holds the coefficients of xⁱ.
func expansion(orders int) *mat.Dense {
	to := mat.NewDense(orders, orders, nil)
	he, next := []float64{1}, []float64{0, 1} // He_{n−1} and He_n
	for n := 1; n <= orders; n++ {
		// c_k is the coefficient of t^{2k} in πt/sin πt: 2 Σ_{j≥1} (−1)^{j+1}/j^{2k}, and 1 for k = 0.
		c := 1.0
		if k := n / 2; k > 0 {
			c = math.Pi * math.Pi / 6
			if k > 1 {
				c = 0
				for j := 2000; j > 0; j-- {
					c += 2 * math.Pow(-1, float64(j+1)) / math.Pow(float64(j), float64(2*k))
				}
			}
		}
		for i, v := range he {
			to.Set(i, n-1, c*v/math.Pow(widest, float64(n))/math.Sqrt(2*math.Pi))
		}
		// He_{n+1} = x He_n − n He_{n−1}
		after := append([]float64{0}, next...)
		for i, v := range he {
			after[i] -= float64(n) * v
		}
		he, next = next, after
	}
	return to
}

// A rule is an integration rule for the standard normal distribution in dims dimensions: S points, dims×S, and
// their weights.
type rule struct {
	points  *mat.Dense
	weights []float64
}

func (r *rule) set(i int, weight float64, z ...float64) {
	for j, v := range z {
		r.points.Set(j, i, v)
	}
	r.weights[i] = weight
}

func newRule(dims, n int) *rule { return &rule{mat.NewDense(dims, n, nil), make([]float64, n)} }

// wideRule returns a rule for distributions of any width. Its points lie on a spiral in two dimensions and on a
// lattice in three. In more dimensions they come in mirror images; the first coordinate has equal steps, and the
// others follow an additive sequence with powers of the root of x^dims = x + 1.
func wideRule(dims int) *rule {
	n := pointsOf[min(dims, len(pointsOf)-1)]
	r := newRule(dims, n)
	each := 1 / float64(n)
	switch dims {
	case 2:
		for i := range n {
			turn, radius := float64(i)*math.Pi*(3-math.Sqrt(5)), math.Sqrt(-2*math.Log(1-(float64(i)+.5)*each))
			r.set(i, each, radius*math.Cos(turn), radius*math.Sin(turn))
		}
	case 3:
		z := make([]float64, dims*n)
		lattice.NormalsTo(z, dims, 0, 0, n)
		for i := range n {
			r.set(i, each, z[dims*i:dims*(i+1)]...)
		}
	default:
		g := 2.0
		for range 100 {
			g = math.Pow(1+g, 1/float64(dims))
		}
		z, mirrored := make([]float64, dims), make([]float64, dims)
		for i := range n / 2 {
			for j := range z {
				_, u := math.Modf(.5 + float64(i+1)*math.Pow(g, -float64(j)))
				if j == 0 {
					u = (float64(i) + .25) * 2 * each // and its mirror image at .75
				}
				z[j] = math.Sqrt2 * math.Erfinv(2*u-1)
				mirrored[j] = -z[j]
			}
			r.set(2*i, each, z...)
			r.set(2*i+1, each, mirrored...)
		}
	}
	return r
}

// pointsOf is the number of points of a rule by its dimensions; the last entry is also for more dimensions.
var pointsOf = [...]int{2: 4096, 3: 8192, 4: 4096}

// narrowRule returns a trapezoidal rule over a ball in two or three dimensions, and its reach: the largest difference
// between outputs per standard deviation along an axis for which it may be used. Its error is about
// 5/reach·exp(−2π²/(step·reach)). For larger differences, softmax may jump between neighbouring points.
func narrowRule(dims int) (r *rule, reach float64) {
	n := pointsOf[dims]
	var grid [][]float64
	m := int(math.Pow(float64(n), 1/float64(dims)))
	for i := range int(math.Pow(float64(2*m+1), float64(dims)) + .5) {
		at := make([]float64, dims)
		for j := range at {
			at[j] = float64(i%(2*m+1) - m)
			i /= 2*m + 1
		}
		grid = append(grid, at)
	}
	slices.SortStableFunc(grid, func(a, b []float64) int { return cmp.Compare(floats.Dot(a, a), floats.Dot(b, b)) })
	step := radiusOf[dims] / floats.Norm(grid[n-1], 2)
	r = newRule(dims, n)
	for i, at := range grid[:n] {
		floats.Scale(step, at)
		r.set(i, math.Exp(-.5*floats.Dot(at, at)), at...)
	}
	floats.Scale(1/floats.Sum(r.weights), r.weights)
	return r, 2.4 / step
}

// radiusOf is the radius of the ball of narrowRule by its dimensions. The probability outside is 6e-12 and 2e-8.
var radiusOf = [...]float64{2: 7.2, 3: 6.2}

// trapezoid returns the nodes of the standard normal distribution and their weights, which add up to 1.
func trapezoid() (at, weight []float64) {
	for i := range nodes {
		x := reach * (2*float64(i)/float64(nodes-1) - 1)
		at, weight = append(at, x), append(weight, math.Exp(-x*x/2))
	}
	floats.Scale(1/floats.Sum(weight), weight)
	return at, weight
}

// factor returns L, T×k×k, lower triangular with LLᵀ = cov, T×k×k.
func (w *writer) factor(cov string, k int) string {
	left, columns := cov, []string(nil)
	for j := range k {
		column := w.Reshape(w.Columns(left, 3, int64(j)), -1, k) // T×k
		pivot := w.Columns(column, 2, int64(j))                  // T×1
		below := make([]float64, k)
		for i := j; i < k; i++ {
			below[i] = 1
		}
		// If a pivot is only rounding, its column is 0.
		whole := w.Columns(w.Reshape(cov, -1, k*k), 2, int64(j*(k+1)))
		alive := w.Holds("Greater", pivot, w.Mul(w.Double(1e-14), w.Max(whole, w.Double(1))))
		root := w.Of("Sqrt", w.Max(pivot, w.Double(1e-300)))
		l := w.Mul(w.Mul(w.Div(column, root), w.Doubles(below, 1, k)), alive)
		left = w.Sub(left, w.Mul(w.Unsqueeze(l, 2), w.Unsqueeze(l, 1)))
		columns = append(columns, w.Unsqueeze(l, 2))
	}
	return w.Concat(2, columns...)
}

// softmax writes E softmax(f) and its standard deviations as weighted sums over fixed points of the Gaussian. Softmax
// depends on the C − 1 differences to the last output alone, so the points have that many dimensions.
func (w *writer) softmax(mean, cov string) {
	c := w.c
	// Sort the outputs by descending mean, so that the first coordinate of a point is the difference of the two
	// largest.
	falling := w.Ops("TopK", 2, []string{mean, w.Ints(int64(c))}, "axis", 1)
	order := w.Holds("Equal", w.Unsqueeze(falling[1], 2), w.Range(c)) // T×C×C
	mean, cov = falling[0], w.Einsum("tik,tjk->tij", w.MatMul(order, cov), order)
	minus := mat.NewDense(c-1, c, nil) // f_{k+1} − f_1
	for k := range c - 1 {
		minus.Set(k, k+1, 1)
		minus.Set(k, 0, -1)
	}
	differ := w.matrix(minus)
	apart := w.Einsum("ki,til->tkl", differ, w.Einsum("tij,kj->tik", cov, differ))
	// L with LLᵀ the covariance of the differences, and a row of zeros for the first output: T×C×(C−1)
	l := w.Op("Pad", []string{w.factor(apart, c-1), w.Ints(0, 1, 0, 0, 0, 0)})
	r := wideRule(c - 1)
	z, average := r.points, func(v string) string { return w.MatMul(v, w.Doubles(r.weights, len(r.weights), 1)) }
	if c <= 4 {
		// Put both rules side by side; a factor of 0 removes the one that is not used.
		n, reach := narrowRule(c - 1)
		along := func(op string) string { return w.Op(op, []string{l}, "axes", []int64{1}, "keepdims", 1) }
		farthest := w.Op("ReduceMax", []string{w.Sub(along("ReduceMax"), along("ReduceMin"))}, "axes", []int64{2}, "keepdims", 1)
		narrow := w.Holds("LessOrEqual", farthest, w.Double(reach))
		wide := w.Sub(w.Double(1), narrow) // T×1×1
		l = w.Concat(2, w.Mul(l, narrow), w.Mul(l, wide))
		z = new(mat.Dense)
		z.Stack(n.points, r.points)
		either := w.Concat(1, narrow, wide)
		all := mat.NewDense(len(r.weights), 2, nil)
		all.SetCol(0, n.weights)
		all.SetCol(1, r.weights)
		weights := w.matrix(all)
		average = func(v string) string { return w.MatMul(w.MatMul(v, weights), either) }
	}
	d := w.MatMul(l, w.matrix(z)) // T×C×points
	p := w.swap(w.Op("Softmax", []string{w.swap(w.Add(w.Unsqueeze(mean, 2), d))}, "axis", 2))
	// Control variates: of p(f) = p₀ + p₀∘u + q + …, with u = d − p₀ᵀd and q = p₀∘(u² − p₀ᵀu²)/2, the means of q and
	// of (p₀∘u)² are known. The remainder is small, unless the variance of u is about 1 or more; u is set to 0 if
	// the largest variance is .5 or more.
	p0 := w.Unsqueeze(w.Op("Softmax", []string{mean}, "axis", 1), 2) // T×C×1
	weighed := func(v string) string {                               // p₀ᵀv, T×1×·
		return w.Op("ReduceSum", []string{w.Mul(p0, v), w.Ints(1)}, "keepdims", 1)
	}
	second := func(square string) string { // p₀∘(v − p₀ᵀv)/2
		return w.Mul(w.Mul(p0, w.Double(.5)), w.Sub(square, weighed(square)))
	}
	// Variances of u: Σ_kk − 2(Σp₀)_k + p₀ᵀΣp₀, T×C×1
	moved := w.MatMul(cov, p0)
	variance := w.Add(w.Sub(w.Unsqueeze(w.diagonal(cov), 2), w.Mul(w.Double(2), moved)), weighed(moved))
	widest := w.Op("ReduceMax", []string{variance}, "axes", []int64{1, 2}, "keepdims", 1)
	variance = w.Where(w.Op("Less", []string{widest, w.Double(.5)}), variance, w.Double(0))
	u := w.Mul(w.Sub(d, weighed(d)), w.Holds("Less", widest, w.Double(.5)))
	square := w.Mul(u, u)
	center := w.Add(average(w.Sub(p, second(square))), second(variance))
	off, p2 := w.Sub(p, center), w.Mul(p0, p0)
	spread := w.Add(average(w.Sub(w.Mul(off, off), w.Mul(p2, square))), w.Mul(p2, variance))
	back := func(v string) string { return w.Sum(w.Mul(order, v), 1) } // T×C, in the order of the outputs
	w.Output("probability", back(w.Max(w.Min(center, w.Double(1)), w.Double(0))), onnx.Double, c)
	w.Output("probability_sd", back(w.Of("Sqrt", w.Max(spread, w.Double(0)))), onnx.Double, c)
}

// novelty writes the novelty score, which is the mean surprise of all distances, and its rank among the training
// rows.
func (w *writer) novelty(x, k, prior string) error {
	n := w.a.Novelty
	if n.Function.Rows != w.a.Posterior.Rows {
		var err error
		if k, prior, err = w.kernel(n.Function.Rows); err != nil {
			return err
		}
	}
	trace := func(m string) string { return w.Sum(m, 1) } // T; m holds diagonals, T×C
	variances := w.Max(w.diagonal(w.covariance(k, prior, n.Function)), w.Double(0))
	scale := w.Max(w.Of("Sqrt", trace(w.diagonal(prior))), w.Double(1e-300))
	distances := []string{w.Div(trace(variances), scale)}
	if in := n.Inputs; in != nil {
		d := len(in.Mean)
		z := w.Div(w.Sub(x, w.Doubles(in.Mean, 1, d)), w.Doubles(in.Scale, 1, d))
		square := w.Sum(w.Mul(z, z), 1)
		rows := w.matrix(in.Z.T())
		products := w.MatMul(z, rows) // T×n
		half := z
		if in.Ridge != 0 {
			half = products
		}
		half = w.MatMul(half, w.matrix(in.Half))
		q := w.Sum(w.Mul(half, half), 1)
		if in.Ridge != 0 {
			rest := w.Sub(square, q)
			q = w.Div(w.Max(rest, w.Double(0)), w.Double(in.Ridge))
			q = w.Add(q, w.Sub(rest, rest)) // NaN where a square overflows
		}
		if in.Own != nil {
			inner := w.MatMul(half, w.matrix(in.Half.T()))
			if in.Ridge == 0 {
				inner = w.MatMul(inner, rows)
			}
			squares := w.Sub(w.Add(w.Unsqueeze(q, 1), w.Doubles(in.Own, 1, len(in.Own))), w.Mul(w.Double(2), inner))
			least := w.Max(w.Op("ReduceMin", []string{squares}, "axes", []int64{1}, "keepdims", 0), w.Double(0))
			q = w.Add(least, w.Sub(q, q))
		}
		distances = append(distances, w.Of("Sqrt", q))
		// A row of zeros has no direction; its cosines are set to −1.
		inverse, none := make([]float64, len(in.Norm)), make([]float64, len(in.Norm))
		for i, v := range in.Norm {
			if v > 0 {
				inverse[i] = 1 / v
			} else {
				none[i] = -1
			}
		}
		length := w.Unsqueeze(w.Max(w.Of("Sqrt", square), w.Double(1e-300)), 1)
		cosines := w.Div(w.Mul(products, w.Doubles(inverse, 1, len(inverse))), length)
		if slices.Contains(none, -1) {
			cosines = w.Add(cosines, w.Doubles(none, 1, len(none)))
		}
		nearest := w.Op("ReduceMax", []string{cosines}, "axes", []int64{1}, "keepdims", 0)
		nearest = w.Where(w.Above(square, 0), nearest, w.Double(-1))
		chord := w.Max(w.Sub(w.Double(2), w.Mul(w.Double(2), nearest)), w.Double(0))
		distances = append(distances, w.Of("Sqrt", chord))
	}
	score := ""
	for i, d := range distances {
		score = w.plus(score, w.surprise(&n.Tails[i], d))
	}
	score = w.Mul(w.Div(score, w.Double(float64(len(distances)))), w.Sum(w.poison, 1))
	// If a distance is infinite, ∞ − ∞ makes the score NaN, which comparisons of the distance would lose.
	all := score
	for _, d := range distances {
		all = w.Add(all, d)
	}
	score = w.Add(score, w.Sub(all, all))
	w.Output("novelty", score, onnx.Double)
	// A row whose novelty is not finite gets the rank 1.
	has := w.Op("Less", []string{score, w.Double(math.MaxFloat64)})
	w.Output("novelty_rank", w.Where(has, w.below(n.Training, score), w.Double(1)), onnx.Double)
	return nil
}

// below returns, for each of the T numbers x, the share of the sorted numbers that are smaller, counting equal ones
// half.
func (w *writer) below(sorted []float64, x string) string {
	x = w.Unsqueeze(x, 1)
	s := w.Doubles(sorted, 1, len(sorted))
	holds := func(op string) string {
		return w.Sum(w.Holds(op, x, s), 1)
	}
	count := w.Add(holds("Greater"), w.Mul(holds("Equal"), w.Double(.5)))
	return w.Div(count, w.Double(float64(len(sorted))))
}

// surprise returns −log of the share of training rows with a larger distance. Beyond From a fitted exponential
// gives the share.
func (w *writer) surprise(t *novelty.TailOfRows, d string) string {
	far := w.Sub(w.Div(w.Sub(d, w.Double(t.From)), w.Double(t.Mean)), w.Double(math.Log(t.Share)))
	rest := w.Max(w.Sub(w.Double(1), w.below(t.Sorted, d)), w.Double(1e-300))
	near := w.Of("Neg", w.Of("Log", rest))
	return w.Where(w.Op("GreaterOrEqual", []string{d, w.Double(t.From)}), far, near)
}

// terms writes the largest terms of the sum over training examples, with the examples' numbers.
func (w *writer) terms(mean, k string) {
	_, n := w.a.Posterior.Terms.Dims()
	all := w.times(k, w.a.Posterior.Terms) // T×C×N
	if w.c == 1 {
		all = w.Reshape(all, -1, n)
	} else {
		// Take the difference of the two largest outputs, or for labels the largest output.
		name, signs := "contrast", []float64{1, -1}
		if w.a.Link == Labels {
			name, signs = "label", signs[:1]
		}
		k := len(signs)
		first := w.Ops("TopK", 2, []string{mean, w.Ints(int64(k))}, "axis", 1)
		hot := w.Holds("Equal", w.Unsqueeze(first[1], 2), w.Range(w.c)) // T×k×C
		sign := w.Sum(w.Mul(hot, w.Doubles(signs, 1, k, 1)), 1)         // T×C
		all = w.Reshape(w.MatMul(w.Unsqueeze(sign, 1), all), -1, n)
		w.integers(name, first[1], k)
	}
	top := min(w.a.Top, n)
	order := w.Ops("TopK", 2, []string{w.Of("Abs", all), w.Ints(int64(top))}, "axis", 1)
	w.Output("term", w.Mul(w.Op("GatherElements", []string{all, order[1]}, "axis", 1), w.poison), onnx.Double, top)
	w.integers("term_row", w.Op("Gather", []string{w.Ints(w.a.RowNumbers...), order[1]}), top)
	w.Output("term_sum", w.Mul(w.Sum(all, 1), w.Sum(w.poison, 1)), onnx.Double)
}
