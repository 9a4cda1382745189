package inference

import (
	"fmt"
	"io"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/problem"
)

// BoundText says how the evidence stands to the exact one.
func (q *Posterior) BoundText() string {
	switch {
	case q.certificate != nil && q.certificate.Dropped > 0:
		// The log determinant of all rows is in an interval.
		d := [2]float64{}
		for i, v := range q.certificate.LogDet {
			d[i] = q.Evidence.Value - (float64(v)-q.Evidence.LogDet)/2
		}
		return fmt.Sprintf(", of all rows %.6g to %.6g", d[1], d[0])
	case q.How.Name == "cg":
		return fmt.Sprintf(" ± %.2g", q.Evidence.StdErr)
	case q.Evidence.Bound == gp.Upper:
		return ", not below the exact one"
	case q.Evidence.Bound == gp.Lower:
		return ", not above the exact one"
	case q.How.Name == "subset":
		return " of the subset"
	case problem.IsSparse(q.How.Name):
		return ", above or below the exact one"
	}
	return ""
}

// Text prints the comparison as part of the table of w.
func (l *LeftOutComparison) Text(w io.Writer) {
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
