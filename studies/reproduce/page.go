package reproduce

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"html/template"
	"image/png"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/funcgp/funcgp/internal/atomicfile"
)

// A Page is what a study shows: settings, and sections with text, tables and plots.
type Page struct {
	Title    string
	Lead     []string // paragraphs on what was computed
	Settings [][2]string
	Sections []Section
}

// A Section is a part of a page. Its tables come before its plots.
type Section struct {
	Title  string
	Text   []string // paragraphs
	Strips []Strip
	Tables []*Table
	Plots  []*Plot
	Folded []*Table // after the plots, opened by a click
}

// A Strip is a row of digits.
type Strip struct {
	Caption string
	Digits  []Digit
}

// A Digit is a picture of 28×28 pixels, which the page holds itself, with its label and lines
// below.
type Digit struct {
	Pixels       []byte
	Name         string // for who does not see the picture
	Label        string
	Says         []string
	Large, Wrong bool // of the row that a strip is about; of another class than the one predicted
}

// Source is the picture as a data URI.
func (d Digit) Source() (template.URL, error) {
	var b bytes.Buffer
	if err := png.Encode(&b, pictureOf(d.Pixels)); err != nil {
		return "", err
	}
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())), nil
}

// Setting adds a line to the table of settings.
func (p *Page) Setting(name, value string) { p.Settings = append(p.Settings, [2]string{name, value}) }

//go:embed page.html
var pageText string

// pair is what the template of a table takes.
type pair struct {
	Study string
	Table *Table
}

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"pair": func(study string, t *Table) pair { return pair{study, t} },
}).Parse(pageText))

// page writes the study's tables, plots and page, and returns the path of the page.
func (r *Results) page(ctx context.Context, o *Options) (string, error) {
	p, err := r.plan.Page(r)
	if err != nil {
		return "", err
	}
	stem := filepath.Join(r.dir, r.study.Name)
	view := pageView{Page: p, Study: r.study, Quick: o.Quick, Steps: len(r.plan.Steps)}
	for i := range r.plan.Steps {
		have, err := r.read(&r.plan.Steps[i])
		if err != nil {
			return "", err
		}
		view.took += have.Seconds
	}
	for _, section := range p.Sections {
		s := sectionView{Section: section}
		for _, t := range slices.Concat(section.Tables, section.Folded) {
			if err := atomicfile.Write(stem+"-"+t.Name+".csv", t.writeCSV); err != nil {
				return "", err
			}
		}
		for _, plot := range section.Plots {
			if err := ctx.Err(); err != nil {
				return "", err
			}
			svg, err := plot.write(stem + "-" + plot.Name)
			if err != nil {
				return "", err
			}
			s.Drawn = append(s.Drawn, drawn{Caption: plot.Caption, SVG: template.HTML(svg), File: r.study.Name + "-" + plot.Name + ".png"})
		}
		view.Drawn = append(view.Drawn, s)
	}
	var text bytes.Buffer
	if err := pageTemplate.Execute(&text, &view); err != nil {
		return "", err
	}
	path := stem + ".html"
	return path, atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(text.Bytes())
		return err
	})
}

// A pageView is what the template shows.
type pageView struct {
	*Page
	Study *Study
	Quick bool
	Steps int
	Drawn []sectionView
	took  float64 // seconds
}

type sectionView struct {
	Section
	Drawn []drawn
}

type drawn struct {
	Caption string
	SVG     template.HTML
	File    string
}

// Took is the sum of the wall times of the steps.
func (v *pageView) Took() string {
	return (time.Duration(v.took*1000) * time.Millisecond).Round(time.Second / 10).String()
}
