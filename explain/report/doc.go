// Package report shows explanations to people and programs: a Page as text,
// HTML or PNG, a Report as JSON.
//
//	report := &report.Report{Outputs: outputs, Fit: fit} // Outputs from Rows.Output
//	page := &report.Page{Report: report, Model: "net.onnx", Data: "digits"}
//	err := page.WriteHTML(file)
package report
