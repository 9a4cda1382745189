// Package report shows results (package result) to people, as text for a terminal or as HTML for a
// browser or a printer: a Page shows one explanation, a PredictionPage the predictions of many rows,
// an EvidencePage the evidence of a model, and a ListPage lists of rows.
//
//	page := &report.Page{Report: r, Origin: result.Origin{Model: "net.onnx", Data: "digits"}}
//	err := page.WriteHTML(file)
//
// Predictions are added one by one, and a PredictionPage summarizes them. A CSV writes them as a
// table.
//
//	all := &result.Predictions{Classes: []result.Float{4, 9}, Fit: fit}
//	all.Add(&result.Prediction{Index: 0, Label: 4, …}) // for each row
//	err := (&report.PredictionPage{Predictions: all}).WriteHTML(file)
package report
