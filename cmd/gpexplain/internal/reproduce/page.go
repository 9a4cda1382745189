package reproduce

import (
	"bytes"
	"context"
	_ "embed"
	"html/template"
	"io"
	"path/filepath"
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
	Tables []*Table
	Plots  []*Plot
}

// Setting adds a line to the table of settings.
func (p *Page) Setting(name, value string) { p.Settings = append(p.Settings, [2]string{name, value}) }

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

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
		for _, t := range section.Tables {
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
