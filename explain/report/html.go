package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/gp"
)

//go:embed page.html
var pageHTML string

//go:embed style.css
var styleCSS string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// WriteHTML writes the page as one HTML document that contains its styles and
// images, loads nothing, and has no script.
func (p *Page) WriteHTML(w io.Writer) error {
	v, err := p.view()
	if err != nil {
		return err
	}
	h := &htmlWriter{view: v}
	page, err := h.build()
	if err != nil {
		return err
	}
	if err := pageTemplate.Execute(w, page); err != nil {
		return fmt.Errorf("report: writing HTML: %w", err)
	}
	return nil
}

type htmlWriter struct {
	*view
}

// The data of the templates.
type (
	htmlPage struct {
		Title, Row, Head, Badge string
		Style                   template.CSS
		Wrong, Invert           bool
		Large                   htmlPicture
		Classes                 []htmlClass
		Lead                    []string
		Features                []fact
		Sections                []htmlSection
		Guide                   []fact
		htmlFoot
	}
	htmlFoot struct {
		Facts                    []fact
		Warnings                 []string
		Source, Command, Timings string
	}
	htmlPicture struct {
		URI        template.URL
		Alt, Class string
		Ink        bool
		Bars       []htmlBar
	}
	htmlBar   struct{ X, Y, H string }
	htmlClass struct {
		Name, P, SD, Width, Lo, Hi string
		Is                         bool
	}
	htmlSection struct {
		Title, F, Closing, Cancellation, SimilarNote string
		Collapsible, Open                            bool
		Equation                                     []htmlTerm
		Sides                                        []htmlSide
		Fall                                         []htmlStep
		Similar                                      []htmlLine
	}
	htmlTerm struct{ Op, Value, Note, Class string }
	htmlSide struct {
		Title, Total, Class string
		Terms               []htmlLine
	}
	htmlLine struct {
		Label, Row, Value, Class, Width, Removal, Similarity, Features string
		Picture                                                        htmlPicture
		Other                                                          bool
	}
	htmlStep struct {
		Label, Name, Value, Class, X, Width, From, To, Zero string
		Picture                                             *htmlPicture
		Prev, Next, End                                     bool
	}
)

func (h *htmlWriter) build() (*htmlPage, error) {
	p := &htmlPage{
		Title:    "Prediction of " + h.row,
		Row:      h.title(),
		Style:    template.CSS(styleCSS),
		Invert:   h.page.Invert,
		Lead:     h.lead(),
		Guide:    h.guide(),
		htmlFoot: h.foot(),
	}
	p.Head, p.Badge, p.Wrong = h.head()
	var err error
	if p.Large, err = h.picture(h.page.Test, h.row, "digit"); err != nil {
		return nil, err
	}
	if t := h.page.Test; t.Image == nil {
		for i, v := range t.Values {
			p.Features = append(p.Features, fact{Name: t.name(i), Value: typeset(short(v))})
		}
	}
	p.Classes = h.classes()
	for i := range h.sections {
		s, err := h.section(&h.sections[i])
		if err != nil {
			return nil, err
		}
		p.Sections = append(p.Sections, *s)
	}
	return p, nil
}

// classes returns the bars of the probabilities, at most the ten largest.
func (h *htmlWriter) classes() []htmlClass {
	if h.kind == regression {
		return nil
	}
	shown := h.likeliest(10)
	slices.Sort(shown)
	var list []htmlClass
	for _, k := range shown {
		p, sd, _ := h.certainty(k)
		if math.IsNaN(p) {
			continue
		}
		at := func(x float64) string { return fixed(100*min(1, max(0, x)), 2) }
		c := htmlClass{Name: h.page.Classes[k], P: probability(p), SD: probability(sd), Width: at(p), Lo: at(p), Hi: at(p), Is: k == h.predicted}
		if !math.IsNaN(sd) {
			c.Lo, c.Hi = at(p-sd), at(p+sd)
		}
		list = append(list, c)
	}
	return list
}

// lead says in sentences how sure the prediction is.
func (h *htmlWriter) lead() []string {
	var say []string
	p, sd, network := h.certainty(h.predicted)
	if !math.IsNaN(p) {
		s := fmt.Sprintf("Averaged over the networks that fit the training data, the probability of %s is %s ± %s.",
			h.page.Classes[h.predicted], probability(p), probability(sd))
		if !math.IsNaN(network) {
			s += fmt.Sprintf(" The trained network on its own says %s.", probability(network))
		}
		say = append(say, s)
		if k := h.likeliest(1)[0]; k != h.predicted {
			q, _, _ := h.certainty(k)
			say = append(say, fmt.Sprintf("On that average %s is more probable, %s: the network's choice does not hold up.", h.page.Classes[k], probability(q)))
		}
	}
	if h.kind == binary {
		mean, msd := h.latent(0)
		d := decimals(mean, msd)
		say = append(say, fmt.Sprintf("The number explained below is f, the %s: posterior %s ± %s.", h.sections[0].quantity, typeset(fixed(mean, d)), fixed(msd, d)))
	}
	if mean, sd := h.latent(0); h.kind == regression && len(h.page.Report.Prediction.ObservationSD) == 1 {
		d := decimals(mean, sd)
		say = append(say, fmt.Sprintf("That is what a new observation is expected to be. The function without noise, f, the %s, is %s ± %s.", h.sections[0].quantity, typeset(fixed(mean, d)), fixed(sd, d)))
	}
	if text := h.novelty(); text != "" {
		say = append(say, text)
	}
	if h.kind == classes {
		say = append(say, "Each output is explained by itself: the predicted class first, the others below it.")
	}
	return say
}

// guide explains the terms that the page uses.
func (h *htmlWriter) guide() []fact {
	n := count(h.page.Report.Fit.Examples)
	what := "the posterior covariance between the example and this row, times what the example's label asks of the function there"
	if h.page.Terms == gp.Raw {
		what = "the prior kernel between the example and this row, times the example's dual weight"
	}
	list := []fact{
		{Name: "Contribution", Value: "The prediction is the prior mean plus one term for each of the " + n + " training examples: " + what + ". All of them are counted, the largest are shown."},
		{Name: "Prior mean", Value: "What the linearized network says with its parameters at the prior mean, before any training label is used. It is linearized where training ended, so it differs from row to row."},
		{Name: "Without it", Value: "How far f would move if the example were taken out and the model fitted again, to first order. It is usually smaller than the contribution: the rest of the data makes up for much of the loss."},
		{Name: "Similarity", Value: "Correlation of what the model still does not know about the two rows, −1 to 1. Near 1, what is learnt about one holds for the other. A negative one turns the example's label round."},
		{Name: "±", Value: "One posterior standard deviation: how much the number differs between networks that fit the training data."},
	}
	if h.kind == regression {
		if len(h.page.Report.Prediction.ObservationSD) > 0 {
			list[len(list)-1].Value = "One standard deviation. That of f says how much it differs between networks that fit the training data; that of a new observation has the noise of the targets in it as well."
		}
		return list
	}
	return append(list, fact{Name: "Against its own label", Value: "An example may speak against the class it is labelled with. Either it is unlike this row, or the model already goes too far for it and it pulls back."})
}

func (h *htmlWriter) foot() htmlFoot {
	p := h.page
	f := htmlFoot{Facts: h.parameters, Warnings: p.Report.Fit.Warnings, Command: p.Command}
	for i := range f.Facts {
		f.Facts[i].Value = typeset(f.Facts[i].Value)
	}
	f.Source = source(p.Model, p.Data)
	var times []string
	for _, t := range h.timings {
		times = append(times, t.Name+" "+t.Value)
	}
	if times != nil {
		f.Timings = "Time: " + strings.Join(times, ", ") + "."
	}
	return f
}

func source(model, data string) string {
	var parts []string
	if model != "" {
		parts = append(parts, "Model: "+model+".")
	}
	if data != "" {
		parts = append(parts, "Data: "+data+".")
	}
	return strings.Join(append(parts, "Numbers here are rounded; the JSON output has them in full."), " ")
}

func (h *htmlWriter) section(s *section) (*htmlSection, error) {
	t := &htmlSection{
		Title:        s.title,
		F:            typeset(fixed(s.f, s.digits)),
		Closing:      h.closing(s),
		Cancellation: typeset(h.cancellation(s)),
		Collapsible:  h.kind == classes && len(h.sections) > 1,
		Open:         s.open,
		Equation:     h.equation(s),
		SimilarNote:  labelled(s.similar),
	}
	var err error
	if t.Sides, err = h.sides(s); err != nil {
		return nil, err
	}
	if t.Fall, err = h.fall(s); err != nil {
		return nil, err
	}
	for _, l := range s.similar {
		x, err := h.line(l, 1)
		if err != nil {
			return nil, err
		}
		x.Value = x.Similarity
		x.Other = l.Label.Finite() && l.Label != h.page.Report.Prediction.Class
		t.Similar = append(t.Similar, x)
	}
	return t, nil
}

// equation returns the sum from the prior mean to f, with the listed terms of each
// sign together.
func (h *htmlWriter) equation(s *section) []htmlTerm {
	sum := []htmlTerm{{Value: typeset(fixed(s.m, s.digits)), Note: "prior mean, before any data"}}
	term := func(x float64, note, class string) htmlTerm {
		op := "+"
		if x < 0 {
			op, x = "−", -x
		}
		return htmlTerm{Op: op, Value: fixed(x, s.digits), Note: note, Class: class}
	}
	parts := []htmlTerm{}
	if n := len(s.up); n > 0 {
		parts = append(parts, term(total(s.up), "the "+count(n)+" largest "+h.pull(s, +1), s.side(+1)))
	}
	if n := len(s.down); n > 0 {
		parts = append(parts, term(total(s.down), "the "+count(n)+" largest "+h.pull(s, -1), s.side(-1)))
	}
	if !s.forPlus {
		slices.Reverse(parts)
	}
	sum = append(sum, parts...)
	if n, rest := h.without(s.s, slices.Concat(s.up, s.down)); n > 0 {
		sum = append(sum, term(rest, "the other "+some(n, "training example", "training examples"), s.side(rest)))
	}
	return append(sum, term(s.remainder, "remainder", ""), htmlTerm{Op: "=", Value: typeset(fixed(s.f, s.digits)), Note: "f, " + strings.ReplaceAll(s.quantity, " of ", " of\u00a0")})
}

// sides returns the listed terms by sign, those for the prediction first.
func (h *htmlWriter) sides(s *section) ([]htmlSide, error) {
	largest := 0.0
	for _, l := range slices.Concat(s.up, s.down) {
		largest = math.Max(largest, math.Abs(l.term))
	}
	up, down := htmlSide{Class: s.side(+1)}, htmlSide{Class: s.side(-1)}
	up.Title, down.Title = h.sideTitles(s)
	if err := h.fill(&up, s.up, largest); err != nil {
		return nil, err
	}
	if err := h.fill(&down, s.down, largest); err != nil {
		return nil, err
	}
	if s.forPlus {
		return []htmlSide{up, down}, nil
	}
	return []htmlSide{down, up}, nil
}

func (h *htmlWriter) fill(t *htmlSide, list []line, largest float64) error {
	for _, l := range list {
		x, err := h.line(l, largest)
		if err != nil {
			return err
		}
		x.Class = t.Class
		t.Terms = append(t.Terms, x)
	}
	if len(list) > 0 {
		t.Total = typeset(signed(total(list), listDecimals(largest)))
	}
	return nil
}

func (h *htmlWriter) line(l line, largest float64) (htmlLine, error) {
	pic, err := h.picture(l.picture, "training "+l.row, "thumb")
	if err != nil {
		return htmlLine{}, err
	}
	if l.label != "" {
		pic.Alt += ", labelled " + l.label
	}
	d := listDecimals(largest)
	x := htmlLine{
		Label: typeset(l.label), Row: h.rowOf(l), Picture: pic,
		Value:      typeset(signed(l.term, d)),
		Width:      fixed(100*portion(l.term, largest), 2),
		Removal:    typeset(signed(float64(l.Removal), d)),
		Similarity: typeset(fixed(float64(l.Similarity), 2)),
	}
	if l.picture.Image == nil {
		x.Features = typeset(l.picture.brief(4))
	}
	return x, nil
}

// rowOf names a row, which is shown after its label. In a regression it says that
// the label is a target.
func (h *htmlWriter) rowOf(l line) string {
	if h.kind == regression && l.label != "" {
		return "target, " + l.row
	}
	return l.row
}

// fall returns the steps of the running sum from the prior mean to the network.
func (h *htmlWriter) fall(s *section) ([]htmlStep, error) {
	type step struct {
		name, class string
		by          float64
		line        *line
	}
	steps := []step{{name: "prior mean", class: "rest", by: s.m}}
	shown := slices.Concat(s.up, s.down)
	slices.SortStableFunc(shown, func(a, b line) int { return cmp.Compare(math.Abs(b.term), math.Abs(a.term)) })
	shown = head(shown, fallLines)
	for i, l := range shown {
		steps = append(steps, step{name: l.row, class: s.side(l.term), by: l.term, line: &shown[i]})
	}
	if n, rest := h.without(s.s, shown); n > 0 {
		steps = append(steps, step{name: "the other " + count(n), class: s.side(rest), by: rest})
	}
	steps = append(steps, step{name: "remainder", class: "rest", by: s.remainder})
	lo, hi, at := math.Min(0, s.f), math.Max(0, s.f), 0.0
	for _, x := range steps {
		at += x.by
		lo, hi = math.Min(lo, at), math.Max(hi, at)
	}
	if !(hi > lo) {
		hi = lo + 1
	}
	place := func(x float64) string { return fixed(10+980*(x-lo)/(hi-lo), 2) }
	width := func(x float64) string { return fixed(math.Max(2, 980*math.Abs(x)/(hi-lo)), 2) }
	var list []htmlStep
	at = 0
	for i, x := range steps {
		t := htmlStep{
			Name: x.name, Class: x.class, Value: typeset(signed(x.by, s.digits)), Zero: place(0),
			X: place(math.Min(at, at+x.by)), Width: width(x.by), From: place(at), To: place(at + x.by), Prev: i > 0, Next: true,
		}
		if x.line != nil {
			pic, err := h.picture(x.line.picture, "", "thumb")
			if err != nil {
				return nil, err
			}
			t.Picture, t.Label = &pic, typeset(x.line.label)
		}
		at += x.by
		list = append(list, t)
	}
	return append(list, htmlStep{
		Name: "network f", Class: "ink", Value: typeset(fixed(s.f, s.digits)), Zero: place(0),
		X: place(math.Min(0, s.f)), Width: width(s.f), From: place(s.f), Prev: true, End: true,
	}), nil
}

// picture returns the data with which a template shows a row.
func (h *htmlWriter) picture(p Picture, alt, class string) (htmlPicture, error) {
	uri, err := p.dataURI()
	if err != nil {
		return htmlPicture{}, err
	}
	pic := htmlPicture{URI: uri, Alt: alt, Class: class, Ink: h.page.Invert}
	if p.Image == nil {
		for i, v := range h.profile.bars(p) {
			pic.Bars = append(pic.Bars, htmlBar{X: fixed(float64(i)+0.1, 2), Y: fixed(10-10*v, 3), H: fixed(10*v, 3)})
		}
	}
	return pic, nil
}

// labelled counts the labels in a list: "7 of these 8 are labelled 9, 1 is
// labelled 4." It returns "" if a label is unknown or there are more than four.
func labelled(list []line) string {
	times := map[string]int{}
	var names []string
	for _, l := range list {
		if l.label == "" {
			return ""
		}
		if times[l.label] == 0 {
			names = append(names, l.label)
		}
		times[l.label]++
	}
	if len(names) == 0 || len(names) > 4 {
		return ""
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(times[b], times[a]) })
	if len(names) == 1 {
		return fmt.Sprintf("All %d are labelled %s.", len(list), names[0])
	}
	var parts []string
	for i, name := range names {
		switch n := times[name]; {
		case i == 0:
			parts = append(parts, fmt.Sprintf("%d of these %d are labelled %s", n, len(list), name))
		default:
			parts = append(parts, some(n, "is", "are")+" labelled "+name)
		}
	}
	return strings.Join(parts, ", ") + "."
}
