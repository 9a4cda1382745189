// Package report writes explanations and predictions: a Report as JSON for other
// programs, and a Page as text or HTML for people. The same holds for the
// importances of training examples, an ImportanceReport and an ImportancePage.
//
//	report := &report.Report{Outputs: outputs, Fit: fit} // Outputs from Rows.Output
//	page := &report.Page{Report: report, Model: "net.onnx", Data: "digits"}
//	err := page.WriteHTML(file)
//
// Predictions of many rows are summarized on a PredictionPage, as text or HTML, and
// written one by one as a table by a CSV.
//
//	all := &report.Predictions{Classes: []report.Float{4, 9}, Fit: fit}
//	all.Add(&result.Prediction{Index: 0, Label: 4, …}) // for each row
//	err := (&report.PredictionPage{Predictions: all}).WriteHTML(file)
package report
