// Package portable writes a network and its posterior as one graph of ONNX's standard operators, which answers in any
// runtime as the library does: outputs, covariance, calibrated probabilities, novelty, and the largest terms of the
// sum over training examples.
//
// The graph computes in float64 and holds no Jacobian of all parameters: activations and gradients of each layer of an
// input are multiplied with those of the rows that the posterior is built on (gp.Reduction).
package portable

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/novelty"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// A Link says what becomes of the Gaussian over the outputs.
type Link int

// The links.
const (
	Regression Link = iota // the outputs are the answer, with Noise
	Binary                 // one output, the log-odds of the second of two classes
	Softmax                // an output for each class
)

// An Answer is what a graph computes.
type Answer struct {
	Network   *network.Network
	Theta     []float64          // θ*, P
	PriorMean []float64          // μ₀, P
	Variance  []float64          // diagonal of Σ₀, P
	Posterior *gp.Reduction      // in function space, or nil
	Weights   []weightspace.Root // of a posterior over the parameters at θ*, in its place
	DualMean  bool               // the mean is m(x) + k·Posterior.Mean rather than the network's outputs

	// What is done to the inputs before the network, (x − Offset)/Scale; D numbers each, nil for nothing.
	Offset, Scale []float64

	Link        Link
	Temperature float64        // by which the mean is multiplied (E18); 0 for 1
	Covariance  float64        // by which the covariance is multiplied (E18); 0 for 1
	Noise       float64        // of a regression on one target: variance of an observation
	Novelty     *novelty.Parts // how unlike the training rows an input is (E22); nil where it is not known
	Top         int            // terms that are listed; 0 for none
	RowNumbers  []int64        // by which term_row names the training examples
	Metadata    []onnx.Entry
}

// writer builds the graph.
type writer struct {
	*onnx.Builder
	a      *Answer
	traced *network.Traced
	c      int
}

// Model returns the graph as a model of ONNX opset 17. Its input x has the rows, T×D in float64. Outputs, each with a
// row for an input: mean T×C, covariance T×C×C (not calibrated), of classes probability and probability_sd T×K, of a
// regression observation_sd, and novelty, novelty_rank, term T×Top and term_row T×Top where the answer has them. For
// classes with an output each, terms are those of the difference between the two largest outputs.
//
// The error is that of an operator whose gradient cannot be written.
func (a *Answer) Model() (*onnx.Model, error) {
	d, c, _ := a.Network.Dims()
	w := &writer{Builder: &onnx.Builder{}, a: a, c: c}
	w.Graph.Name = "explained"
	w.Graph.Inputs = []*onnx.ValueInfo{onnx.Rows("x", onnx.Double, d)}
	x := "x"
	if a.Offset != nil {
		x = w.Div(w.Sub(x, w.Doubles(a.Offset, 1, d)), w.Doubles(a.Scale, 1, d))
	}
	var err error
	if w.traced, err = a.Network.Trace(w.Builder, x); err != nil {
		return nil, err
	}
	var k, prior, cov string
	if a.Posterior != nil {
		if k, prior, err = w.kernel(a.Posterior.Rows); err != nil {
			return nil, err
		}
		cov = w.covariance(k, prior, a.Posterior)
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
	w.Output("mean", mean, onnx.Double, c)
	w.Output("covariance", cov, onnx.Double, c, c)
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

// plus is sum + x; a sum of nothing is "".
func (w *writer) plus(sum, x string) string {
	if sum == "" {
		return x
	}
	return w.Add(sum, x)
}

// gram returns a bᵀ for each example, T×C×C.
func (w *writer) gram(a, b string) string { return w.Einsum("tik,tjk->tij", a, b) }

// swap transposes the last two of three axes.
func (w *writer) swap(x string) string {
	return w.Transpose(x, 0, 2, 1)
}

// matrix stores m.
func (w *writer) matrix(m mat.Matrix) string {
	d := mat.DenseCopyOf(m)
	r, c := d.Dims()
	return w.Doubles(d.RawMatrix().Data, r, c)
}

// most is how many numbers a constant may have for package network to read it, as Export does to check a graph.
const most = 1 << 24

// times returns x m, T×C×n, by some columns of m after others where m has more than most numbers.
func (w *writer) times(x string, m *mat.Dense) string {
	rows, cols := m.Dims()
	var list []string
	for lo, step := 0, max(1, most/rows); lo < cols; lo += step {
		list = append(list, w.MatMul(x, w.matrix(m.Slice(0, rows, lo, min(lo+step, cols)))))
	}
	return w.Concat(2, list...)
}

// A column says where the Jacobian of rows by a parameter is: in a block, from a column of its own on.
type column struct {
	block linearize.Block
	at    int
}

// columns finds the parameters of a batch by their offset in θ.
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

// outer is the kernel of a dense layer, (σ_w² a·a′ + σ_b²)(g·g′).
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

// weighted returns JS, T×C×n, with the Jacobian by the parameters of a block. Parameters that no output depends on have
// no column.
func (w *writer) weighted(r weightspace.Root) string {
	row := map[int]int{} // of S, by the position in θ
	for i, p := range r.Parameters {
		row[p] = i
	}
	var list []string
	_, n := r.S.Dims()
	var rows []float64 // of S, in the order of the parts
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

// full is the kernel of parameters by their Jacobian, JΣ₀J′ᵀ.
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

// covariance returns κ(x,x) − kS(kS)ᵀ, T×C×C.
func (w *writer) covariance(k, prior string, r *gp.Reduction) string {
	v := w.times(k, r.S)
	return w.Sub(prior, w.gram(v, v))
}

// diagonal returns the variances in a covariance, T×C.
func (w *writer) diagonal(cov string) string {
	eye := make([]float64, w.c*w.c)
	for i := range w.c {
		eye[i*(w.c+1)] = 1
	}
	return w.Max(w.Sum(w.Mul(cov, w.Doubles(eye, 1, w.c, w.c)), 2), w.Double(0))
}

// respond writes what the link makes of mean and covariance.
func (w *writer) respond(mean, cov string) {
	if t := w.a.Temperature; t != 0 && t != 1 {
		mean = w.Mul(mean, w.Double(t))
	}
	if s := w.a.Covariance; s != 0 && s != 1 {
		cov = w.Mul(cov, w.Double(s))
	}
	switch w.a.Link {
	case Regression:
		w.Output("function_sd", w.Of("Sqrt", w.diagonal(cov)), onnx.Double, w.c)
		if w.a.Noise > 0 {
			w.Output("observation_sd", w.Of("Sqrt", w.Add(w.diagonal(cov), w.Double(w.a.Noise))), onnx.Double, w.c)
		}
	case Binary:
		w.binary(mean, cov)
	case Softmax:
		w.softmax(mean, cov)
	}
}

// Nodes of the trapezoidal rule for one output, and points of the integral over several.
const (
	nodes  = 400
	reach  = 9.5
	points = 4096
)

// binary writes both probabilities, E σ(∓f), and their standard deviation by the trapezoidal rule. Of steps h and a
// standard deviation s of f its error is about exp(−2π²/(hs)), since the poles of σ(f) are π off the line: 1e-13 for s = 14,
// 1e-6 for s = 30.
func (w *writer) binary(mean, cov string) {
	at, weight := trapezoid(nodes)
	sd := w.Of("Sqrt", w.diagonal(cov))
	f := w.Add(mean, w.Mul(sd, w.Doubles(at, 1, nodes))) // T×nodes
	q := w.Doubles(weight, nodes, 1)
	second, first := w.Of("Sigmoid", f), w.Of("Sigmoid", w.Of("Neg", f))
	p := w.MatMul(second, q)
	off := w.Sub(second, p)
	deviation := w.Of("Sqrt", w.MatMul(w.Mul(off, off), q))
	w.Output("probability", w.Concat(1, w.MatMul(first, q), p), onnx.Double, 2)
	w.Output("probability_sd", w.Concat(1, deviation, deviation), onnx.Double, 2)
}

// nodesOf are the nodes in each direction of the rule for one, two and three dimensions.
var nodesOf = [...]int{1: nodes, 2: 64, 3: 20}

// rule returns points of the standard normal distribution of some dimensions, dims×S, and their weights: a trapezoidal
// rule for at most three, and else an additive sequence, with the powers of the root of x^(dims+1) = x + 1, and its mirror
// images.
func rule(dims int) (z *mat.Dense, weights []float64) {
	if dims < len(nodesOf) {
		at, weight := trapezoid(nodesOf[dims])
		n := len(at)
		z = mat.NewDense(dims, int(math.Pow(float64(n), float64(dims))), nil)
		for i := range z.RawMatrix().Cols {
			w := 1.0
			for j, k := 0, i; j < dims; j, k = j+1, k/n {
				z.Set(j, i, at[k%n])
				w *= weight[k%n]
			}
			weights = append(weights, w)
		}
		return z, weights
	}
	z = mat.NewDense(dims, points, nil)
	g := 2.0
	for range 100 {
		g = math.Pow(1+g, 1/float64(dims+1))
	}
	for j := range dims {
		step := math.Pow(g, -float64(j+1))
		for i := range points / 2 {
			_, u := math.Modf(.5 + float64(i+1)*step)
			v := math.Sqrt2 * math.Erfinv(2*u-1)
			z.Set(j, 2*i, v)
			z.Set(j, 2*i+1, -v)
		}
	}
	return z, slices.Repeat([]float64{1. / points}, points)
}

// trapezoid returns n nodes of the standard normal distribution and their weights, which add up to 1.
func trapezoid(n int) (at, weight []float64) {
	end := reach
	if n < nodes {
		end = 6.5
	}
	for i := range n {
		x := end * (2*float64(i)/float64(n-1) - 1)
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
		// A pivot that is rounding alone leaves no column.
		alive := w.Holds("Greater", pivot, w.Double(1e-14))
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
	minus := mat.NewDense(c-1, c, nil) // f_k − f_C
	for k := range c - 1 {
		minus.Set(k, k, 1)
		minus.Set(k, c-1, -1)
	}
	differ := w.matrix(minus)
	apart := w.Einsum("ki,til->tkl", differ, w.Einsum("tij,kj->tik", cov, differ))
	z, weights := rule(c - 1)
	q := w.Doubles(weights, len(weights), 1)
	d := w.MatMul(w.factor(apart, c-1), w.matrix(z)) // T×(C−1)×points
	d = w.Op("Pad", []string{d, w.Ints(0, 0, 0, 0, 1, 0)})
	p := w.swap(w.Op("Softmax", []string{w.swap(w.Add(w.Unsqueeze(mean, 2), d))}, "axis", 2))
	average := func(v string) string { return w.MatMul(v, q) }
	// Control variates: of p(f) = p₀ + p₀∘u + q + …, with u = d − p₀ᵀd and q = p₀∘(u² − p₀ᵀu²)/2, the means of q and
	// of (p₀∘u)² are known. They leave little to average, unless the variance of u is about 1 or more; then they are
	// left out.
	p0 := w.Unsqueeze(w.Op("Softmax", []string{mean}, "axis", 1), 2) // T×C×1
	weighed := func(v string) string {                               // p₀ᵀv, T×1×·
		return w.Op("ReduceSum", []string{w.Mul(p0, v), w.Ints(1)}, "keepdims", 1)
	}
	second := func(square string) string { // p₀∘(v − p₀ᵀv)/2
		return w.Mul(w.Mul(p0, w.Double(.5)), w.Sub(square, weighed(square)))
	}
	u := w.Sub(d, weighed(d))
	square := w.Mul(u, u)
	// Variances of u: Σ_kk − 2(Σp₀)_k + p₀ᵀΣp₀, T×C×1
	moved := w.MatMul(cov, p0)
	variance := w.Add(w.Sub(w.Unsqueeze(w.diagonal(cov), 2), w.Mul(w.Double(2), moved)), weighed(moved))
	widest := w.Op("ReduceMax", []string{variance}, "axes", []int64{1, 2}, "keepdims", 1)
	narrow := w.Holds("Less", widest, w.Double(.5))
	center := w.Add(average(w.Sub(p, w.Mul(narrow, second(square)))), w.Mul(narrow, second(variance)))
	off, p2 := w.Sub(p, center), w.Mul(narrow, w.Mul(p0, p0))
	spread := w.Add(average(w.Sub(w.Mul(off, off), w.Mul(p2, square))), w.Mul(p2, variance))
	w.Output("probability", w.Reshape(center, -1, c), onnx.Double, c)
	w.Output("probability_sd", w.Reshape(w.Of("Sqrt", w.Max(spread, w.Double(0))), -1, c), onnx.Double, c)
}

// novelty writes the score, which is the mean of the surprises of all distances, and its rank among the training rows.
func (w *writer) novelty(x, k, prior string) error {
	n := w.a.Novelty
	if n.Function.Rows != w.a.Posterior.Rows {
		var err error
		if k, prior, err = w.kernel(n.Function.Rows); err != nil {
			return err
		}
	}
	trace := func(m string) string { return w.Sum(w.diagonal(m), 1) } // T
	distances := []string{w.Div(trace(w.covariance(k, prior, n.Function)), w.Of("Sqrt", trace(prior)))}
	if in := n.Inputs; in != nil {
		d := len(in.Mean)
		z := w.Div(w.Sub(x, w.Doubles(in.Mean, 1, d)), w.Doubles(in.Scale, 1, d))
		square := w.Sum(w.Mul(z, z), 1)
		products := w.MatMul(z, w.matrix(in.Z.T())) // T×n
		half := z
		if in.Ridge != 0 {
			half = products
		}
		half = w.MatMul(half, w.matrix(in.Half))
		q := w.Sum(w.Mul(half, half), 1)
		if in.Ridge != 0 {
			q = w.Div(w.Max(w.Sub(square, q), w.Double(0)), w.Double(in.Ridge))
		}
		distances = append(distances, w.Of("Sqrt", q))
		inverse := make([]float64, len(in.Norm))
		for i, v := range in.Norm {
			if v > 0 {
				inverse[i] = 1 / v
			}
		}
		length := w.Unsqueeze(w.Max(w.Of("Sqrt", square), w.Double(1e-300)), 1)
		cosines := w.Div(w.Mul(products, w.Doubles(inverse, 1, len(inverse))), length)
		nearest := w.Op("ReduceMax", []string{cosines}, "axes", []int64{1}, "keepdims", 0)
		chord := w.Max(w.Sub(w.Double(2), w.Mul(w.Double(2), nearest)), w.Double(0))
		distances = append(distances, w.Of("Sqrt", chord))
	}
	score := ""
	for i, d := range distances {
		score = w.plus(score, w.surprise(&n.Tails[i], d))
	}
	score = w.Div(score, w.Double(float64(len(distances))))
	w.Output("novelty", score, onnx.Double)
	w.Output("novelty_rank", w.below(n.Training, score), onnx.Double)
	return nil
}

// below returns the share of sorted numbers that are smaller than each of T numbers, with half of those that are equal.
func (w *writer) below(sorted []float64, x string) string {
	x = w.Unsqueeze(x, 1)
	s := w.Doubles(sorted, 1, len(sorted))
	holds := func(op string) string {
		return w.Sum(w.Holds(op, x, s), 1)
	}
	count := w.Add(holds("Greater"), w.Mul(holds("Equal"), w.Double(.5)))
	return w.Div(count, w.Double(float64(len(sorted))))
}

// surprise is −log of the share of training rows with a larger distance, by a fitted exponential beyond From.
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
		// The difference of the two largest outputs.
		two := w.Ops("TopK", 2, []string{mean, w.Ints(2)}, "axis", 1)
		hot := w.Holds("Equal", w.Unsqueeze(two[1], 2), w.Range(w.c))      // T×2×C
		sign := w.Sum(w.Mul(hot, w.Doubles([]float64{1, -1}, 1, 2, 1)), 1) // T×C
		all = w.Reshape(w.MatMul(w.Unsqueeze(sign, 1), all), -1, n)
		w.Output("contrast", two[1], onnx.Int64, 2)
	}
	top := min(w.a.Top, n)
	order := w.Ops("TopK", 2, []string{w.Of("Abs", all), w.Ints(int64(top))}, "axis", 1)
	w.Output("term", w.Op("GatherElements", []string{all, order[1]}, "axis", 1), onnx.Double, top)
	w.Output("term_row", w.Op("Gather", []string{w.Ints(w.a.RowNumbers...), order[1]}), onnx.Int64, top)
	w.Output("term_sum", w.Sum(all, 1), onnx.Double)
}
