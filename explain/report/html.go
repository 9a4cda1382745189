package report

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"image/png"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
)

//go:embed *.html
var templateFiles embed.FS

//go:embed style.css
var styleCSS string

// templates are the templates of all pages, by the names of their files.
var templates = template.Must(template.ParseFS(templateFiles, "*.html"))

// execute writes a page by the template of this name.
func execute(w io.Writer, name string, data any) error {
	if err := templates.ExecuteTemplate(w, name, data); err != nil {
		return fmt.Errorf("report: writing HTML: %w", err)
	}
	return nil
}

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
	return execute(w, "page.html", page)
}

type htmlWriter struct {
	*view
}

// These types hold the data of the templates.
type (
	htmlPage struct {
		Row, Head, Sure, Badge string
		Wrong                  bool
		Large                  htmlPicture
		Classes                []htmlClass
		Interval               *htmlInterval
		Conflict               string
		Lead                   []string
		Sections               []htmlSection
		htmlFrame
	}
	// The frame of every page: its head, what it rests on, and its foot.
	htmlFrame struct {
		Title           string
		Style           template.CSS
		Guide           []fact // explains the words that the page uses
		Alarms          []string
		Groups          []factGroup
		Warnings        []string
		Source, Timings string
	}
	htmlPicture struct {
		URI        template.URL
		Alt, Class string
		Ink        bool
	}
	htmlClass struct {
		Name, P, SD, Width, Lo, Hi string
		Is                         bool
	}
	htmlInterval struct {
		Label                                string
		Lo, Width, FLo, FWidth, Mean, Target string
		Marks                                []htmlMark
		Text                                 string
	}
	htmlMark    struct{ At, Text, Side string }
	htmlSection struct {
		Title, F, Quantity, Closing, Cancellation, SimilarNote, Concentration string
		Collapsible, Open                                                     bool
		Equation                                                              []htmlTerm
		Sides                                                                 []htmlSide
		Comparison                                                            *htmlComparison
		Bulk                                                                  []htmlBulk
		BulkTitle, Up, Down                                                   string
		Curve                                                                 *htmlDiagram
		Similar                                                               []htmlLine
		Layers, Networks                                                      *sumTable
		Meaning, ErrorBars                                                    string
		Wide                                                                  bool // no pictures among Similar
	}
	htmlTerm struct{ Op, Value, Note, Class string }
	htmlSide struct {
		Title, Total, Class string
		Terms               []htmlLine
		Unprinted           int
	}
	htmlLine struct {
		Label, Row, Value, Class, Width, Removal, Influence, Similarity string
		SD, Mark                                                        string
		Picture                                                         htmlPicture
		Other                                                           bool
	}
	htmlBulk struct {
		Name, N, Up, Down, Sum string
		Total                  bool
	}
)

func (h *htmlWriter) build() (*htmlPage, error) {
	// say collects sentences on how sure the prediction is.
	var say []string
	if text := h.reached(h.average); text != "" {
		say = append(say, text)
	}
	first := &h.sections[0]
	if mean, sd := h.latent(0); h.kind == binary && !math.IsNaN(mean) {
		d := decimals(mean, sd)
		say = append(say, fmt.Sprintf("f, the %s: %s ± %s%s.", first.quantity, typeset(fixed(first.sign*mean, d)), fixed(sd, d), h.ownMean(" on average, %s by %s", first, d)))
	}
	if text := h.explains(); text != "" {
		say = append(say, text)
	}
	if mean, sd := h.latent(0); h.kind == regression && len(h.page.Report.Prediction.ObservationSD) == 1 {
		d := decimals(mean, sd)
		say = append(say, fmt.Sprintf("That is what a new observation is expected to be. The function without noise, f, the %s, is %s ± %s%s.",
			first.quantity, typeset(fixed(mean, d)), typeset(fixed(sd, d)), h.ownMean(" on average over the networks that fit the training data, and %s by %s", first, d)))
	}
	if text := h.novelty(); text != "" {
		say = append(say, text)
	}
	for _, text := range h.changes() {
		say = append(say, signs(text))
	}
	for i := range say {
		say[i] = together(say[i])
	}
	p := &htmlPage{
		Row:       h.title(),
		Classes:   h.classes(),
		Interval:  h.intervalBar(),
		Conflict:  together(h.disagreement()),
		Lead:      say,
		htmlFrame: h.frame("Prediction of "+h.row, h.guide()),
	}
	head := h.headline()
	p.Head, p.Sure, p.Badge, p.Wrong = head.head, head.sure, head.badge, head.wrong
	var err error
	if p.Large, err = h.picture(h.page.Test, h.row, "digit"); err != nil {
		return nil, err
	}
	for i := range h.sections {
		s, err := h.section(&h.sections[i], i)
		if err != nil {
			return nil, err
		}
		p.Sections = append(p.Sections, *s)
	}
	return p, nil
}

// classes returns the bars of the probabilities, for classes at most the ten largest.
func (h *htmlWriter) classes() []htmlClass {
	if h.kind == regression {
		return nil
	}
	most := 10
	if h.kind == labels {
		most = len(h.names())
	}
	shown := h.likeliest(most)
	slices.Sort(shown)
	var list []htmlClass
	for _, k := range shown {
		p, sd, _ := h.certainty(k)
		if math.IsNaN(p) {
			continue
		}
		at := func(x float64) string { return fixed(100*min(1, max(0, x)), 2) }
		c := htmlClass{Name: h.names()[k], P: Probability(p), SD: Probability(sd), Width: at(p), Lo: at(p), Hi: at(p), Is: k == h.predicted || h.kind == labels && p > .5}
		if !math.IsNaN(sd) {
			c.Lo, c.Hi = at(p-sd), at(p+sd)
		}
		list = append(list, c)
	}
	return list
}

// ownMean returns the output of the network as text if the posterior mean differs from it, as after a refit, and ""
// otherwise.
func (h *htmlWriter) ownMean(format string, of *section, decimals int) string {
	if fit := &h.page.Report.Fit; fit.Match != nil && !fit.Refit {
		return ""
	}
	by := "the trained network"
	if h.networks() > 1 {
		by = "the mean of the trained networks"
	}
	return fmt.Sprintf(format, typeset(fixed(of.sign*float64(of.out.Network), decimals)), by)
}

// intervalBar draws the predictive interval of a regression, nil without one.
func (h *htmlWriter) intervalBar() *htmlInterval {
	i := h.interval()
	if i == nil {
		return nil
	}
	y := float64(h.page.Report.Input.Label)
	lo, hi := i.lo, i.hi
	if isFinite(y) {
		lo, hi = math.Min(lo, y), math.Max(hi, y)
	}
	room := 0.08 * (hi - lo)
	if !(room > 0) {
		return nil
	}
	lo, hi = lo-room, hi+room
	at := func(x float64) string { return fixed(100*(x-lo)/(hi-lo), 2) }
	long := func(a, b float64) string { return fixed(100*(b-a)/(hi-lo), 2) }
	d := decimals(i.lo, i.hi, i.mean)
	d = max(0, d-1)
	show := func(x float64) string { return typeset(fixed(x, d)) }
	b := &htmlInterval{Lo: at(i.lo), Width: long(i.lo, i.hi), Mean: at(i.mean),
		Text: fmt.Sprintf("95 %% interval of a new observation: %s to %s.", show(i.lo), show(i.hi))}
	if isFinite(i.flo) && isFinite(i.fhi) {
		b.FLo, b.FWidth = at(i.flo), long(i.flo, i.fhi)
		b.Text += " The inner band: where the function without noise lies with the same probability."
	}
	b.Label = fmt.Sprintf("Predicted %s, 95 %% interval %s to %s", show(i.mean), show(i.lo), show(i.hi))
	if isFinite(y) {
		b.Target = at(y)
		b.Text += " Diamond: the target."
		b.Label += ", target " + h.label
	}
	b.Marks = []htmlMark{{At: at(i.lo), Text: show(i.lo)}, {At: at(i.mean), Text: show(i.mean)}, {At: at(i.hi), Text: show(i.hi)}}
	return b
}

func (h *htmlWriter) frame(title string, guide []fact) htmlFrame {
	p, list := h.page, h.facts()
	for _, group := range list {
		if group.Title == madeFromTitle { // names of files and commands stay as they are
			continue
		}
		for k := range group.Facts {
			x := &group.Facts[k]
			x.Value, x.Note = typeset(x.Value), typeset(x.Note)
		}
	}
	f := htmlFrame{Title: title, Style: template.CSS(styleCSS), Guide: guide, Groups: list}
	f.Alarms, f.Warnings = p.Report.Fit.Alarms()
	f.Alarms = slices.Clone(f.Alarms)
	for i, w := range f.Alarms {
		f.Alarms[i] = capital(w)
	}
	var times []string
	t := &p.Report.Timings
	for _, x := range []struct {
		name string
		s    result.Float
	}{{"load", t.Load}, {"linearize", t.Linearize}, {"kernel", t.Kernel}, {"factorize", t.Factorize}, {"predict", t.Predict}, {"write", t.Write}, {"total", t.Total}} {
		if x.s.Finite() && x.s > 0 {
			times = append(times, x.name+" "+fixed(float64(x.s), 2)+" s")
		}
	}
	if times != nil {
		f.Timings = "Time: " + strings.Join(times, ", ") + "."
	}
	f.Source = "Numbers on this page are rounded; the JSON output has them in full."
	return f
}

// picture returns the data with which a template shows a row.
func (h *htmlWriter) picture(p result.Picture, alt, class string) (htmlPicture, error) {
	x := htmlPicture{Alt: alt, Class: class, Ink: h.page.Invert}
	if p.Image == nil {
		return x, nil
	}
	// A PNG inside a URL. Base64 of our own PNG contains no text of the caller, so it is safe.
	var b bytes.Buffer
	enc := png.Encoder{CompressionLevel: png.BestCompression}
	if err := enc.Encode(&b, p.Image); err != nil {
		return htmlPicture{}, fmt.Errorf("report: encoding a picture: %w", err)
	}
	x.URI = template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes()))
	return x, nil
}

// breaks matches where a name without spaces may be broken: inside snake_case and camelCase.
var breaks = regexp.MustCompile(`([_./])(\pL)|(\p{Ll})(\p{Lu})`)

// featureName is the name of feature i, with zero-width spaces where it may be broken.
func featureName(p result.Picture, i int) string {
	if i < len(p.Names) {
		return breaks.ReplaceAllString(p.Names[i], "$1$3\u200b$2$4")
	}
	return "x" + strconv.Itoa(i+1)
}
