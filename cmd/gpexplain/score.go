package main

import (
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
)

// A score gathers what the summary of predictions needs.
type score struct {
	logp, mapLogp []float64
	prob          *mat.Dense // N×classes, nil for a regression
	right         int
}

func newScore(n, classes int) *score {
	s := &score{logp: make([]float64, n), mapLogp: make([]float64, n)}
	if classes > 0 {
		s.prob = mat.NewDense(n, classes, nil)
	}
	return s
}

// predictSummary is the last line with --json.
type predictSummary struct {
	Accuracy report.Float   `json:"accuracy"`
	NLL      report.Float   `json:"nll"`
	MAPNLL   report.Float   `json:"map_nll"`
	ECE      report.Float   `json:"ece"`
	Fit      report.Fit     `json:"fit"`
	Timings  report.Timings `json:"timings"`
}

func (s *score) summary(p *posterior, sub *dataset.Subset) *predictSummary {
	sum := &predictSummary{Accuracy: report.Undefined(), ECE: report.Undefined(), NLL: report.Float(glm.NLL(s.logp)), MAPNLL: report.Float(glm.NLL(s.mapLogp)), Fit: p.report()}
	if s.prob != nil {
		sum.Accuracy = report.Float(float64(s.right) / float64(len(s.logp)))
		sum.ECE = report.Float(glm.ECE(s.prob, sub.Class))
	}
	return sum
}

func (s *predictSummary) text(p *session, n int) {
	rows := "rows"
	if n == 1 {
		rows = "row"
	}
	p.note("%d %s", n, rows)
	if s.Accuracy.Finite() {
		p.note("accuracy  %.4f", float64(s.Accuracy))
	}
	p.note("NLL       %.4f (network alone %.4f)", float64(s.NLL), float64(s.MAPNLL))
	if s.ECE.Finite() {
		p.note("ECE       %.4f", float64(s.ECE))
	}
	switch m := int(s.Fit.Inducing); s.Fit.Method {
	case "nystrom":
		p.note("posterior Nyström through %d inducing rows%s", m, unexplained(&s.Fit))
	case "subset":
		p.note("posterior exact, of a subset of %d training rows", m)
	}
	for _, w := range s.Fit.Warnings {
		p.note("warning: %s", w)
	}
}

// unexplained says how much of the prior variance the inducing examples leave
// out, of training rows and of test rows.
func unexplained(f *report.Fit) string {
	text := ""
	if f.TraceError.Finite() {
		text = fmt.Sprintf(": %.2g %% of the prior variance of the training rows is not explained", 100*float64(f.TraceError))
	}
	if a := f.Approximation; a != nil && a.ResidualMean != nil {
		text += fmt.Sprintf(", %.2g %% of that of test rows", 100*float64(*a.ResidualMean))
	}
	return text
}
