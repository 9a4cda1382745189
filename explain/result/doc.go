// Package result has what explanations, predictions and evidences are as plain data, with the
// members of their JSON. Package report draws them.
//
// A Report is one explanation, with Outputs from Rows.Output; a Prediction is one prediction; a
// Fit says of the posterior behind them how it came about. Numbers are Floats, whose NaN is null
// in JSON.
package result
