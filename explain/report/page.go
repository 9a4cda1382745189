package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
)

// A Page shows a Report to people: WriteText for a terminal, WriteHTML for a browser or a printer.
type Page struct {
	Report *result.Report
	// Classes are the names of the classes in the order of the probabilities,
	// one for each output. A model with one output has two classes, and a
	// positive output speaks for the second. Nil means a regression.
	Classes []string
	// Quantity names an output of a regression, such as "log rate"; empty means
	// "prediction".
	Quantity string
	// Columns are the names of the outputs of a regression with several targets, or with several labels a row
	// where Report.Labels is set. With nil, the outputs are numbered.
	Columns []string
	// Terms says which contributions are listed, Value or Raw.
	Terms gp.Terms
	// Test is the picture of the explained row, and Train returns the picture of a
	// training row. If Train is nil or a Picture is empty, no picture is shown.
	Test  result.Picture
	Train func(row result.Index) result.Picture
	// Interval holds the ends of the central 95 % interval of a new observation of a
	// regression of one output; nil shows none.
	Interval []float64
	// Spread are the standard deviations of the features over the training rows, in
	// the units of Picture.Values. Differences of half a standard deviation or more are marked; nil
	// marks none.
	Spread []float64
	result.Origin
}

// originWriter writes a page that explains no row.
func originWriter(o result.Origin, fit *result.Fit, timings *result.Timings) *htmlWriter {
	return &htmlWriter{&view{page: &Page{Report: &result.Report{Fit: *fit, Timings: *timings}, Origin: o}}}
}

// A view is the content of a Page in words and in order, for all formats.
type view struct {
	page      *Page
	kind      kind
	row       string // "test row 247"
	label     string // label of the row; "" if unknown
	predicted int    // class of the network; -1 for a regression
	average   int    // most probable class on average; -1 for a regression
	correct   bool
	sections  []section // contrasts or the predicted output first
}

// A kind is the kind of prediction that a page explains.
type kind int

const (
	regression kind = iota
	binary
	classes
	labels // a row has any number of labels, each with one output
)

// A fact is a name with its value.
type fact struct{ Name, Value, Note string }

// A section explains one output or contrast. The signs of its numbers are chosen so that positive terms speak
// for the prediction.
type section struct {
	title       string
	quantity    string // what f is called
	plus, minus string // what positive and negative terms speak for
	sign        float64
	lines       []line // the listed contributions
	up, down    []line // the largest of each sign
	similar     []line
	others      int     // training examples not among lines
	otherSum    float64 // sum of their contributions
	digits      int     // decimals for the section's numbers
	f, m, s     float64 // network, prior mean, sum of contributions
	remainder   float64
	out         *result.Output
}

// A line is one listed training example.
type line struct {
	result.Contribution
	term    float64       // Value or Raw, whichever is listed
	spread  *result.Float // standard deviation of term; nil for none
	row     string
	label   string
	picture result.Picture
}

// shown returns the label in the form for pages: the name of a class unchanged, or a typeset number.
func (l *line) shown() string {
	if l.LabelName != "" {
		return l.LabelName
	}
	return typeset(l.label)
}

// view returns the content of the page, or an error if the report does not fit
// the classes.
func (p *Page) view() (*view, error) {
	r := p.Report
	c := r.Fit.Outputs
	if c < 1 || len(r.Outputs) < 1 {
		return nil, fmt.Errorf("report: the report explains no output")
	}
	in := &r.Input
	v := &view{page: p, row: cmp.Or(in.ID, in.File, "input"), label: labelNamed(in.LabelName, in.Label), predicted: -1, average: -1}
	if in.Index >= 0 {
		v.row = named(in.ID, fmt.Sprintf("%s row %d", in.Split, in.Index))
	}
	switch {
	case r.Labels != nil:
		v.kind = labels
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
	slices.SortStableFunc(v.sections, func(a, b section) int { return v.place(&a) - v.place(&b) })
	if first := v.place(&v.sections[0]); v.kind == classes {
		// Leave out the outputs of single classes: a softmax depends on their differences only.
		v.sections = slices.DeleteFunc(v.sections, func(s section) bool { return v.place(&s) > first })
	}
	return v, nil
}

// named returns the name of a row, if it has one, and its number.
func named(id, number string) string {
	if id == "" {
		return number
	}
	return id + ", " + number
}

// labelNamed returns the name of a class if it has one, otherwise the label; "" if the label is
// unknown.
func labelNamed(name string, l result.Float) string {
	if name != "" {
		return name
	}
	return label(l)
}

// predict sets the predicted class and whether it is correct.
func (v *view) predict() {
	r := v.page.Report
	switch v.kind {
	case regression, labels:
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
	v.average = v.predicted
	best, _, _ := v.certainty(v.predicted)
	if k := v.likeliest(1)[0]; k != v.predicted {
		if p, _, _ := v.certainty(k); p > best {
			v.average = k
		}
	}
}

// names returns the names that the probabilities belong to: those of the classes or of the labels.
func (v *view) names() []string {
	if v.kind == labels {
		return v.page.Report.Labels
	}
	return v.page.Classes
}

// agree reports whether the network and the average over networks predict the same.
func (v *view) agree() bool { return v.average == v.predicted }

// argmax returns the class to which the network gives the largest probability or,
// if the report has no probabilities, the largest output.
func (v *view) argmax() int {
	r, best, k := v.page.Report, math.Inf(-1), 0
	better := func(c int, x result.Float) {
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

// place returns a section's rank in the order of sections: contrasts of classes, the prediction, contrasts of a
// regression, other outputs.
func (v *view) place(s *section) int {
	switch contrast := s.out.Contrast != nil; {
	case contrast && v.kind == classes:
		return 0
	case contrast:
		return 2
	case v.kind == classes && int(s.out.Output) != v.predicted:
		return 3
	}
	return 1
}

// section returns the section of one output.
func (v *view) section(o *result.Output) (section, error) {
	s := section{out: o, sign: 1}
	if err := v.words(&s); err != nil {
		return s, err
	}
	s.f, s.m, s.s, s.remainder = s.sign*float64(o.Network), s.sign*float64(o.PriorMean), s.sign*float64(o.ContributionSum), s.sign*float64(o.Remainder)
	if v.page.Report.Fit.Refit {
		s.f = s.m + s.s + s.remainder // the sum is f̂, not the network
	}
	s.lines, s.similar = v.lines(&s, o.Contributions), v.lines(&s, o.Similar)
	s.up, s.down = v.lines(&s, o.For), v.lines(&s, o.Against)
	if s.sign < 0 {
		s.up, s.down = s.down, s.up
	}
	if len(s.up)+len(s.down) == 0 {
		// Divide a list by sign and keep its order.
		list := s.lines
		var up []line
		var down []line
		for _, l := range list {
			if l.term < 0 {
				down = append(down, l)
			} else {
				up = append(up, l)
			}
		}
		s.up, s.down = up, down
	}
	s.up, s.down = head(s.up, sideLines), head(s.down, sideLines)
	s.similar = head(s.similar, sideLines)
	s.others, s.otherSum = v.without(s.s, s.lines)
	s.digits = decimals(s.f, s.m, s.s)
	return s, nil
}

// sideLines is the largest number of contributions of each sign that a page shows.
// The JSON holds as many as were asked for.
const sideLines = 100

func head(list []line, n int) []line { return list[:min(n, len(list))] }

// without returns the number of examples that are not listed and the sum of their contributions;
// sum is the sum over all examples.
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

// lines returns the lines of a list of contributions.
func (v *view) lines(s *section, list []result.Contribution) []line {
	var lines []line
	for _, x := range list {
		x = x.Signed(s.sign)
		l := line{Contribution: x, term: float64(x.Value), row: named(x.ID, fmt.Sprintf("row %d", x.Index)), label: labelNamed(x.LabelName, x.Label)}
		l.spread = x.SD
		if v.page.Terms == gp.RawTerms {
			l.term, l.spread = float64(x.Raw), nil
		}
		if x.Networks != nil {
			// Set the error bar of a line from its spread over networks.
			terms := v.page.Terms
			n := l.Networks
			l.spread, l.Distinguishable = &n.Value.SE, &n.Distinguishable
			if terms == gp.RawTerms {
				l.spread, l.Distinguishable = &n.Raw.SE, &n.RawDistinguishable
			}
		}
		if v.page.Train != nil {
			l.picture = v.page.Train(x.Index)
		}
		lines = append(lines, l)
	}
	return lines
}

// certainty returns the probability of class k, its standard deviation, and the
// probability that the network alone gives; NaN if the report has none.
func (v *view) certainty(k int) (p, sd, network float64) {
	at := func(list []result.Float) float64 {
		if k < 0 || k >= len(list) {
			return math.NaN()
		}
		return float64(list[k])
	}
	r := v.page.Report.Prediction
	return at(r.Probability), at(r.ProbabilitySD), at(r.MAPProbability)
}

// latent returns the posterior mean and calibrated standard deviation of output c.
func (v *view) latent(c int) (mean, sd float64) {
	r, scale := v.page.Report.Prediction, 1.0
	if k := v.page.Report.Fit.Calibration; k != nil {
		scale = float64(k.Scale)
	}
	mean, sd = math.NaN(), math.NaN()
	if c < 0 {
		return mean, sd
	}
	if c < len(r.Mean) {
		mean = float64(r.Mean[c])
	}
	if c < len(r.Covariance) && c < len(r.Covariance[c]) {
		sd = math.Sqrt(scale * float64(r.Covariance[c][c]))
	}
	if c < len(r.LatentSD) {
		sd = float64(r.LatentSD[c])
	}
	return mean, sd
}

// observation returns the expected value of a new observation of output c and its
// standard deviation, NaN if the report has none.
func (v *view) observation(c int) (mean, sd float64) {
	r := v.page.Report.Prediction
	if c < 0 || c >= len(r.ObservationMean) || c >= len(r.ObservationSD) {
		return math.NaN(), math.NaN()
	}
	return float64(r.ObservationMean[c]), float64(r.ObservationSD[c])
}

// likeliest returns at most n classes or labels, the most probable first.
func (v *view) likeliest(n int) []int {
	order := make([]int, len(v.names()))
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
