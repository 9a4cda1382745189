package console

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
)

// MethodNames are the methods in words.
var MethodNames = map[string]string{"exact": "exact", "subset": "subset-of-data", "nystrom": "Nyström", "kept": "exact on kept rows", "parameters": "exact (precision of the parameters)", "weights": "over the parameters"}

// ApproximationText is the error report.
func ApproximationText(w io.Writer, f *result.Fit, a *result.Approximation) {
	if f.Inducing < 0 {
		return
	}
	if a.Select == result.SelectStrength {
		fmt.Fprintf(w, "inducing rows\t%d by %s, each an example with a direction of its Λ, of rank %d\n", int(f.Inducing), a.Select, a.Rank)
	} else {
		fmt.Fprintf(w, "inducing examples\t%d by %s, %d outputs of rank %d\n", int(f.Inducing), a.Select, a.Rows, a.Rank)
	}
	if f.TraceError.Finite() {
		fmt.Fprintf(w, "trace error\t%.3g of the prior variance of the training rows is not explained\n", float64(f.TraceError))
	}
	if a.ResidualMean != nil {
		fmt.Fprintf(w, "residual\t%.3g of the prior variance of %d test rows is not explained, %.3g at most\n", float64(*a.ResidualMean), a.TestRows, float64(*a.ResidualMax))
	}
	if s := a.Sample; s != nil {
		fmt.Fprintf(w, "against exact\ton a sample of %d training rows: mean off by %.2g sd (RMS), %.2g at most; variance × %.3f to %.3f, median %.3f\n", s.Examples,
			float64(s.ShiftRMS), float64(s.ShiftMax), float64(s.VarianceRatioMin), float64(s.VarianceRatioMax), float64(s.VarianceRatioMedian))
	}
}

// Text prints a result, whose lines with tabs are tables, between the warnings that must not be missed and what the
// numbers of the fit rest on with its other warnings.
func Text(out io.Writer, f *result.Fit, body func(w *tabwriter.Writer)) error {
	alarms, others := f.Alarms()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, text := range alarms {
		fmt.Fprintf(w, "WARNING: %s\n", job.OneLine(text))
	}
	body(w)
	if text := report.Basis(f); text != "" {
		fmt.Fprintf(w, "basis: %s\n", text)
	}
	for _, text := range others {
		fmt.Fprintf(w, "warning: %s\n", job.OneLine(text))
	}
	return w.Flush()
}

// NoteTuning says before the text of a result how --tune-prior chose, if it did.
func NoteTuning(c *job.Job, f *result.Fit) {
	if f.Tuning != nil {
		c.Note("prior precision %s", TuningText(f))
	}
}

// TuningText says what was chosen, and what explanations lose by it.
func TuningText(f *result.Fit) string {
	t, precision := f.Tuning, float64(f.PriorPrecision)
	if f.Prior != nil {
		precision = t.Chosen()
	}
	how := map[string]string{"loo": "leave-one-out", "evidence": "evidence", "heldout": "held-out rows"}[t.Method]
	best, start := math.Inf(1), math.NaN()
	for i := range t.Trials {
		score := t.Trials[i].Score()
		best = min(best, score)
		if t.Trials[i].PriorPrecision == t.Start {
			start = score
		}
	}
	text := fmt.Sprintf("%.4g, chosen by %s: NLL %.4f, %.4f at %.4g", precision, how, best, start, float64(t.Start))
	if t.Method == "evidence" {
		text = fmt.Sprintf("%.4g, chosen by %s: log evidence %.6g, %.6g at %.4g", precision, how, -best, -start, float64(t.Start))
	}
	if t.Shift != nil {
		text += fmt.Sprintf("; the refit explains a function that differs from the network by %.3g (RMS of the training outputs), by %.3g at %.4g", float64(*t.Shift), float64(*t.StartShift), float64(t.Start))
	}
	return text
}
