package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/funcgp/funcgp/gp"
)

// A Page shows a Report to people: WriteText for a terminal, WriteHTML for a
// browser or a printer, WritePNG for a slide.
type Page struct {
	Report *Report
	// Classes are the names of the classes, in the order of the
	// probabilities: one an output, or two where there is one output, of which
	// the second is the one that a positive output speaks for. Nil for a
	// regression.
	Classes []string
	// Quantity is what an output of a regression is, such as "log rate"; empty
	// means "prediction".
	Quantity string
	// Terms is the kernel by whose terms the contributions are listed.
	Terms gp.Terms
	// Test is the row explained, Train the training row of a number in the
	// Report; a nil Train and an empty Picture show nothing.
	Test  Picture
	Train func(row Index) Picture
	// Invert says that 255 is ink, as in MNIST: where the page is light, such
	// pictures are shown as ink on paper.
	Invert bool
	// Where it comes from; shown as given, left out where empty.
	Model, Data, Command string
}

// A view is what a Page says, put into words and order once for all formats.
type view struct {
	page       *Page
	kind       kind
	row        string // "test row 247"
	label      string // of the row; "" where unknown
	predicted  int    // class of the network; -1 for a regression
	correct    bool
	sections   []section // the predicted output first, then contrasts, then the others
	parameters []fact
	timings    []fact
	profile    profile // of feature values, over all rows shown
}

type kind int

const (
	regression kind = iota
	binary
	classes
)

// A fact is a name with its value.
type fact struct{ Name, Value, Note string }

// A section explains one output or contrast.
type section struct {
	title       string
	quantity    string // what f is
	plus, minus string // what positive and negative terms speak for
	forPlus     bool   // the prediction is on the positive side
	open        bool
	lines       []line // the report's list
	up, down    []line // the largest of each sign
	similar     []line
	others      int     // training examples not among lines
	otherSum    float64 // what they contribute together
	digits      int     // decimals that suit the section's numbers
	f, m, s     float64
	remainder   float64
	out         *Output
}

// A line is one listed training example.
type line struct {
	Contribution
	term    float64 // Value or Raw, whichever is listed
	row     string
	label   string
	picture Picture
}

func (p *Page) view() (*view, error) {
	r := p.Report
	c := r.Fit.Outputs
	if c < 1 || len(r.Outputs) < 1 {
		return nil, fmt.Errorf("report: the report explains no output")
	}
	v := &view{page: p, row: r.Input.name(), label: label(r.Input.Label), predicted: -1}
	switch {
	case p.Classes == nil:
	case c == 1 && len(p.Classes) == 2:
		v.kind = binary
	case c > 1 && len(p.Classes) == c:
		v.kind = classes
	default:
		return nil, fmt.Errorf("report: %d class names for a model of %d outputs", len(p.Classes), c)
	}
	v.predict()
	for i := range r.Outputs {
		s, err := v.section(&r.Outputs[i])
		if err != nil {
			return nil, err
		}
		v.sections = append(v.sections, s)
	}
	slices.SortStableFunc(v.sections, func(a, b section) int { return v.place(a) - v.place(b) })
	v.facts()
	v.scale()
	return v, nil
}

func (i Input) name() string {
	if i.Index >= 0 {
		return fmt.Sprintf("%s row %d", i.Split, i.Index)
	}
	if i.File != "" {
		return i.File
	}
	return "input"
}

// predict finds the class of the network's argmax.
func (v *view) predict() {
	r := v.page.Report
	switch v.kind {
	case regression:
		return
	case binary:
		v.predicted = 0
		if r.Outputs[0].Network > 0 {
			v.predicted = 1
		}
	case classes:
		v.predicted = v.argmax()
	}
	v.correct = r.Prediction.Class == r.Input.Label
}

// argmax is the class of the largest probability of the network, or, where
// the report has none, of the largest output explained.
func (v *view) argmax() int {
	r, best, k := v.page.Report, math.Inf(-1), 0
	better := func(c int, x Float) {
		if float64(x) > best && c >= 0 && c < len(v.page.Classes) {
			best, k = float64(x), c
		}
	}
	for c, p := range r.Prediction.MAPProbability {
		better(c, p)
	}
	if len(r.Prediction.MAPProbability) > 0 {
		return k
	}
	for _, o := range r.Outputs {
		better(int(o.Output), o.Network)
	}
	return k
}

// place orders sections: prediction, contrasts, other outputs.
func (v *view) place(s section) int {
	switch {
	case s.out.Contrast != nil:
		return 1
	case v.kind == classes && int(s.out.Output) != v.predicted:
		return 2
	}
	return 0
}

func (v *view) section(o *Output) (section, error) {
	s := section{out: o, f: float64(o.Network), m: float64(o.PriorMean), s: float64(o.ContributionSum), remainder: float64(o.Remainder)}
	if err := v.words(&s); err != nil {
		return s, err
	}
	s.open = v.place(s) < 2
	s.lines, s.similar = v.lines(o.Contributions), v.lines(o.Similar)
	s.up, s.down = v.lines(o.For), v.lines(o.Against)
	if len(s.up)+len(s.down) == 0 {
		s.up, s.down = split(s.lines)
	}
	s.up, s.down = head(s.up, sideLines), head(s.down, sideLines)
	s.similar = head(s.similar, sideLines)
	s.others, s.otherSum = v.without(s.s, s.lines)
	s.digits = decimals(s.f, s.m, s.s)
	return s, nil
}

// What a page shows at most of each side, and of both in the running sum; the
// JSON has as many as were asked for.
const (
	sideLines = 100
	fallLines = 40
)

func head(list []line, n int) []line { return list[:min(n, len(list))] }

// without is how many examples are not listed and what they sum to.
func (v *view) without(sum float64, listed []line) (n int, rest float64) {
	if n = v.page.Report.Fit.Examples - len(listed); n == 0 {
		return 0, 0
	}
	return n, sum - total(listed)
}

func total(list []line) float64 {
	s := 0.0
	for _, l := range list {
		s += l.term
	}
	return s
}

// split parts a list by sign and keeps its order.
func split(list []line) (up, down []line) {
	for _, l := range list {
		if l.term < 0 {
			down = append(down, l)
		} else {
			up = append(up, l)
		}
	}
	return up, down
}

func (v *view) lines(list []Contribution) []line {
	var lines []line
	for _, x := range list {
		l := line{Contribution: x, term: float64(x.Value), row: fmt.Sprintf("row %d", x.Index), label: label(x.Label)}
		if v.page.Terms == gp.Raw {
			l.term = float64(x.Raw)
		}
		if v.page.Train != nil {
			l.picture = v.page.Train(x.Index)
		}
		lines = append(lines, l)
	}
	return lines
}

func (v *view) facts() {
	f, t := v.page.Report.Fit, v.page.Report.Timings
	posterior := "at the trained parameters (Laplace)"
	if f.Refit {
		posterior = "at the optimum of the linearized model (refit)"
	}
	if how := f.how(); how != "" {
		posterior = how + ", " + posterior
	}
	g := func(x Float) string { return short(float64(x)) }
	v.parameters = []fact{
		{"Training examples N", count(f.Examples), ""},
		{"Outputs C", count(f.Outputs), ""},
		{"Parameters P", count(f.Parameters), ""},
		{"Prior precision δ", g(f.PriorPrecision), ""},
		{"Posterior", posterior, ""},
		{"Gradient norm at θ*", g(f.GradientNorm), "0 where training has converged"},
		{"Log evidence", g(f.LogEvidence), "higher is a better model for the data" + f.bounded()},
		{"Log likelihood", g(f.LogLikelihood), ""},
		{"Scatter", g(f.Scatter), "distance of the parameters from the prior mean"},
		{"Log determinant", g(f.LogDet), "cost of the parameters the data determined"},
	}
	if f.TraceError.Finite() && f.TraceError > 0 {
		v.parameters = append(v.parameters, fact{"Trace error", g(f.TraceError), "part of the prior variance of the training examples that the inducing ones do not explain"})
	}
	seconds := func(x Float) string { return fixed(float64(x), 2) + " s" }
	for _, x := range []struct {
		name string
		s    Float
	}{{"load", t.Load}, {"linearize", t.Linearize}, {"kernel", t.Kernel}, {"factorize", t.Factorize}, {"predict", t.Predict}, {"write", t.Write}, {"total", t.Total}} {
		if x.s.Finite() && x.s > 0 {
			v.timings = append(v.timings, fact{Name: x.name, Value: seconds(x.s)})
		}
	}
}

// certainty is the probability of class k with its standard deviation and
// what the network alone says; NaN where the report has none.
func (v *view) certainty(k int) (p, sd, network float64) {
	at := func(list []Float) float64 {
		if k < 0 || k >= len(list) {
			return math.NaN()
		}
		return float64(list[k])
	}
	r := v.page.Report.Prediction
	return at(r.Probability), at(r.ProbabilitySD), at(r.MAPProbability)
}

// latent is the posterior mean and standard deviation of output c.
func (v *view) latent(c int) (mean, sd float64) {
	r := v.page.Report.Prediction
	mean, sd = math.NaN(), math.NaN()
	if c < 0 {
		return mean, sd
	}
	if c < len(r.Mean) {
		mean = float64(r.Mean[c])
	}
	if c < len(r.Covariance) && c < len(r.Covariance[c]) {
		sd = math.Sqrt(float64(r.Covariance[c][c]))
	}
	return mean, sd
}

// likeliest returns at most n classes, the most probable first.
func (v *view) likeliest(n int) []int {
	order := make([]int, len(v.page.Classes))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int {
		p, _, _ := v.certainty(a)
		q, _, _ := v.certainty(b)
		return cmp.Compare(q, p)
	})
	return order[:min(n, len(order))]
}
