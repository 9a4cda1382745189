package bench

import (
	"bytes"
	"fmt"
	"os"
	"slices"
)

// measures are the columns of the table that judge a predictive.
var measures = []struct {
	head string
	of   func(v *verdict) float64
}{
	{"NLL", func(v *verdict) float64 { return v.NLL }},
	{"ECE", func(v *verdict) float64 { return v.ECE }},
	{"accuracy", func(v *verdict) float64 { return v.Accuracy }},
	{"AUROC Kuzushiji", func(v *verdict) float64 { return v.KMNIST }},
	{"AUROC rotated", func(v *verdict) float64 { return v.Rotated }},
}

// mapMethod is the method of the network without a posterior.
const mapMethod = "MAP"

// writeTable writes the results in Markdown; "" is no file.
func (r *results) writeTable(path string) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	// With both predictives every measure has two columns.
	both := slices.ContainsFunc(r.Rows, func(x row) bool { return x.QMC != nil })
	b.WriteString("| posterior | M | precision | trace error |")
	rule := "|---|---|---|---|"
	for _, m := range measures {
		if both {
			fmt.Fprintf(&b, " %s, probit | QMC |", m.head)
			rule += "---|---|"
			continue
		}
		fmt.Fprintf(&b, " %s |", m.head)
		rule += "---|"
	}
	b.WriteString("\n" + rule + "\n")
	for _, x := range r.Rows {
		m, precision, traceError := "", "", ""
		if x.Method != mapMethod {
			precision = fmt.Sprintf("%.3g", x.Precision)
			if x.Tuned {
				precision += ", tuned"
			}
		}
		if x.M > 0 {
			m = fmt.Sprint(x.M)
		}
		if x.Kept > 0 {
			m = fmt.Sprintf("%d rows", x.Kept)
		}
		if x.TraceError >= 0 {
			traceError = fmt.Sprintf("%.3f", x.TraceError)
		}
		name := x.Method
		if x.Method == mapMethod {
			name = "network alone (MAP)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |", name, m, precision, traceError)
		for _, m := range measures {
			fmt.Fprintf(&b, " %.4f |", m.of(&x.verdict))
			if x.QMC != nil {
				fmt.Fprintf(&b, " %.4f |", m.of(x.QMC))
			} else if both {
				b.WriteString("  |")
			}
		}
		b.WriteString("\n")
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
