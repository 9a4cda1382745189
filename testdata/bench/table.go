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
	fmt.Fprintf(&b, "| posterior | M | precision | trace error | NLL | ECE | accuracy | AUROC Kuzushiji | AUROC rotated |\n|---|---|---|---|---|---|---|---|---|\n")
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
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %.4f | %.4f | %.4f | %.4f | %.4f |\n", name, m, precision, traceError, x.NLL, x.ECE, x.Accuracy, x.KMNIST, x.Rotated)
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
