// Package report writes explanations: a Report as JSON for other programs, and a
// Page as text, HTML or PNG for people. The same holds for the importances of
// training examples, an ImportanceReport and an ImportancePage.
//
//	report := &report.Report{Outputs: outputs, Fit: fit} // Outputs from Rows.Output
//	page := &report.Page{Report: report, Model: "net.onnx", Data: "digits"}
//	err := page.WriteHTML(file)
package report
