package report

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/funcgp/funcgp/explain/result"
)

// methodNames are the methods in words.
var methodNames = map[string]string{"exact": "exact", "subset": "subset-of-data", "nystrom": "Nyström", "kept": "exact on kept rows", "parameters": "exact (precision of the parameters)", "weights": "over the parameters"}

// FitText writes how a posterior was computed as lines of a table.
func FitText(w io.Writer, f *result.Fit) {
	fmt.Fprintf(w, "posterior\t%s, of %d training rows, %d outputs, %d parameters\n", methodNames[f.Method], f.Examples, f.Outputs, f.Parameters)
	if f.Prior != nil {
		fmt.Fprintf(w, "prior variances\t%s\n", clean(PriorText(f.Prior)))
	}
	switch {
	case f.Tuning != nil:
		fmt.Fprintf(w, "prior precision\t%s\n", TuningText(f))
	case f.Prior == nil:
		fmt.Fprintf(w, "prior precision\t%.4g\n", float64(f.PriorPrecision))
	}
	fmt.Fprintf(w, "log evidence\t%.6g%s\n", float64(f.LogEvidence), boundText(f))
	elboText(w, f.ELBO)
	ApproximationText(w, f)
	if f.Calibration != nil {
		fmt.Fprintf(w, "calibration\t%s\n", calibrationLine(f.Calibration))
	}
}

// elboText writes the lower bound of variational inference and its parts as a line of a table.
func elboText(w io.Writer, e *result.ELBO) {
	if e != nil {
		fmt.Fprintf(w, "ELBO\t%.6g = E log likelihood %.6g − KL %.6g\n", float64(e.Value), float64(e.ExpectedLogLikelihood), float64(e.KL))
	}
}

// boundText says whether the evidence is a lower or an upper bound of the exact evidence. It is "" if the
// evidence is exact.
func boundText(f *result.Fit) string {
	switch k := f.Certificate; {
	case k != nil && k.Dropped > 0:
		// The log determinant of all rows is known only up to an interval.
		of := func(logDet result.Float) float64 { return float64(f.LogEvidence) - float64(logDet-f.LogDet)/2 }
		return fmt.Sprintf(", of all rows %.6g to %.6g", of(k.LogDet[1]), of(k.LogDet[0]))
	case f.Bound == "upper":
		return ", not below the exact one"
	case f.Bound == "lower":
		return ", not above the exact one"
	case f.Method == "nystrom":
		return ", above or below the exact one"
	case f.Method == "subset":
		return " of the subset"
	}
	return ""
}

// calibrationLine describes the calibration in one line, with the scores of rows that the posterior was not fitted
// to.
func calibrationLine(k *result.Calibration) string {
	text, scores, se := calibrationText(k), k.LOO, ""
	if k.HeldOut != nil {
		scores = k.HeldOut
	}
	if r := k.Refit; r != nil {
		text += fmt.Sprintf(" (covariance and mean of the refit × %.3g and %.3g)", float64(r.Scale), float64(r.Temperature))
	}
	if k.NLLSE.Finite() { // one row alone has no standard error
		se = fmt.Sprintf(" ± %.2g", float64(k.NLLSE))
	}
	return text + fmt.Sprintf(": NLL %.4f%s (network alone %.4f)", float64(scores.NLL), se, float64(k.Network.NLL))
}

// ApproximationText writes the errors of a posterior through inducing examples as lines of a table.
func ApproximationText(w io.Writer, f *result.Fit) {
	a := f.Approximation
	if a == nil || f.Inducing < 0 {
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

// WriteFit writes a result between two blocks of warnings. Before it come the warnings that must not be missed;
// after it come the facts on which the fit rests, and the other warnings. body writes the result, in which
// lines with tabs become tables.
func WriteFit(out io.Writer, f *result.Fit, body func(w *tabwriter.Writer)) error {
	alarms, others := f.Alarms()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, text := range alarms {
		fmt.Fprintf(w, "WARNING: %s\n", clean(text))
	}
	body(w)
	if text := Basis(f); text != "" {
		fmt.Fprintf(w, "basis: %s\n", text)
	}
	for _, text := range others {
		fmt.Fprintf(w, "warning: %s\n", clean(text))
	}
	return w.Flush()
}

// TuningText says which precision was chosen, and how much larger the remainders of explanations are at that
// precision.
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
