package main

import (
	"strconv"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/internal/dataset"
)

// page is a page about one test row.
func (p *posterior) page(test report.Picture) *report.Page {
	page := &report.Page{Test: test, Train: p.trainPicture(), Quantity: p.quantity(), Invert: p.opened.Images(),
		Model: p.name, Data: p.opened.Source, Command: commandLine(p.args)}
	for _, k := range p.classed {
		page.Classes = append(page.Classes, strconv.Itoa(k))
	}
	return page
}

// importancePage is a page about the training rows.
func (p *posterior) importancePage(r *report.ImportanceReport) *report.ImportancePage {
	return &report.ImportancePage{Report: r, Train: p.trainPicture(), Invert: p.opened.Images(),
		Model: p.name, Data: p.opened.Source, Command: commandLine(p.args)}
}

// quantity is what the output of a regression is.
func (s *session) quantity() string {
	name := s.opened.Target
	if s.lik.Name() == "poisson" {
		name = "log rate"
		if s.opened.Target != "" {
			name += " of " + s.opened.Target
		}
	}
	return oneLine(cut(name, 40))
}

// trainPicture finds the training rows of a report.
func (p *posterior) trainPicture() func(row report.Index) report.Picture {
	at := make(map[int]int, p.train.Len())
	for i, r := range p.train.Rows {
		at[r] = i
	}
	return func(row report.Index) report.Picture { return p.picture(p.train, at[int(row)]) }
}

// picture shows row i of a subset: its pixels, or its features as they are in
// the file.
func (s *session) picture(sub *dataset.Subset, i int) report.Picture {
	if s.opened.Images() {
		return s.gray(sub.Image(i))
	}
	return report.Picture{Names: s.opened.Columns, Values: sub.Set.Matrix([]int{sub.Pos[i]}).RawRowView(0)}
}

func (s *session) gray(pix []byte) report.Picture {
	shape := s.opened.Shape
	return report.Gray(pix, shape[len(shape)-1], shape[len(shape)-2])
}
