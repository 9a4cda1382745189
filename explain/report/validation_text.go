package report

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/funcgp/funcgp/explain/result"
)

// ValidationText writes the comparisons as tables.
func ValidationText(out io.Writer, v *result.Validation) error {
	return WriteFit(out, &v.Of, func(w *tabwriter.Writer) {
		ApproximationText(w, &v.Of)
		// The columns of each table have widths of their own. The writer keeps an error until WriteFit flushes it.
		_ = w.Flush()
		fmt.Fprintln(w, "quantity\tweight space\tfunction space\tdifference\ttolerance\t")
		for _, r := range v.Rows {
			verdict := "ok"
			if !r.OK {
				verdict = "DIFFERS"
			}
			fmt.Fprintf(w, "%s\t%.12g\t%.12g\t%.1e\t%.0e\t%s\n", r.Quantity, float64(r.WeightSpace), float64(r.FunctionSpace), float64(r.Difference), float64(r.Tolerance), verdict)
		}
		_ = w.Flush()
		leaveOneOutText(w, v.LeaveOneOut)
	})
}

// leaveOneOutText writes the comparison with refits without the row.
func leaveOneOutText(w io.Writer, l *result.LeaveOneOut) {
	if l == nil {
		fmt.Fprintln(w, "leave-one-out is compared with refits for --method exact alone")
		return
	}
	fmt.Fprintf(w, "leave-one-out, %d rows\trefit without the row\tone step in closed form\tdifference\ttolerance\t\n", len(l.Rows))
	for _, r := range l.Values {
		tolerance, verdict := "-", "not exact"
		if r.Tolerance.Finite() {
			tolerance, verdict = fmt.Sprintf("%.0e", float64(r.Tolerance)), "ok"
		}
		if !r.OK {
			verdict = "DIFFERS"
		}
		fmt.Fprintf(w, "%s\t%.12g\t%.12g\t%.1e\t%s\t%s\n", r.Quantity, float64(r.Refit), float64(r.FirstOrder), float64(r.Difference), tolerance, verdict)
	}
}
