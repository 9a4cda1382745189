package main

import (
	"bytes"
	"fmt"
	"os"
)

// writeTable writes the results in Markdown; "" is no file.
func (r *results) writeTable(path string) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "| posterior | M | precision | trace error | NLL probit | QMC | ECE probit | QMC | accuracy probit | QMC | AUROC Kuzushiji probit | QMC | AUROC rotated probit | QMC |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, x := range r.Rows {
		m, precision, traceError := "", "", ""
		if x.M > 0 {
			m, precision = fmt.Sprint(x.M), fmt.Sprintf("%.3g", x.Precision)
			if x.Tuned {
				precision += ", tuned"
			}
		}
		if x.TraceError >= 0 {
			traceError = fmt.Sprintf("%.3f", x.TraceError)
		}
		name := x.Method
		if x.M == 0 {
			name = "network alone (MAP)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |", name, m, precision, traceError)
		for _, of := range []func(v *verdict) float64{
			func(v *verdict) float64 { return v.NLL }, func(v *verdict) float64 { return v.ECE }, func(v *verdict) float64 { return v.Accuracy },
			func(v *verdict) float64 { return v.KMNIST }, func(v *verdict) float64 { return v.Rotated },
		} {
			fmt.Fprintf(&b, " %.4f |", of(&x.verdict))
			if x.QMC == nil {
				b.WriteString("  |")
				continue
			}
			fmt.Fprintf(&b, " %.4f |", of(x.QMC))
		}
		b.WriteString("\n")
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
