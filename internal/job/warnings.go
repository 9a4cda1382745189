package job

import (
	"errors"

	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
)

// A Warning is a warning whose text and remedy name options.
type Warning struct {
	warning      linearize.Warning // in the words of package funcgp
	text, remedy option.Text
}

// NewWarning returns a warning with a text formatted as by option.Textf.
func NewWarning(code string, value, limit float64, remedy option.Text, format string, args ...any) *Warning {
	text := option.Textf(format, args...)
	return &Warning{linearize.Warning{Code: code, Value: value, Limit: limit, Text: text.String(), Remedy: remedy.String()}, text, remedy}
}

func (w *Warning) Error() string { return w.warning.Error() }

// Unwrap returns the warning in the words of package funcgp.
func (w *Warning) Unwrap() error { return &w.warning }

// Message is the text and the remedy.
func (w *Warning) Message() option.Text {
	if w.remedy == "" {
		return w.text
	}
	return w.text + " " + w.remedy
}

// remedies say which option to set where a warning is of a package that does not know the options.
var remedies = map[string]option.Text{
	"batch-rough":          "Raise {max-memory}.",
	"inputs-scaled":        "Leave {standardize} at auto.",
	"jitter":               "Raise {prior-precision} or {noise-variance}, or leave out repeated rows.",
	"kept-short":           "Raise {max-memory}.",
	"labels":               "Name another tensor in {output}.",
	"match-rough":          "State the prior precision by {at}.",
	"maxima":               "Compare optimum.maxima of {json}.",
	"only-equal-pairs":     "Audit fewer rows by {train-count}.",
	"refit-gap":            "Raise {prior-precision}, or give {standardize} yes.",
	"refit-steps":          "Raise {prior-precision}, or give {standardize} yes.",
	"rows-left-out":        "Raise {prior-precision} or {noise-variance}.",
	"scale-edge":           "Choose another precision by {prior-precision} or {tune-prior}.",
	"sums-open":            "Raise {prior-precision} or {noise-variance}, or leave out repeated rows.",
	"taken-for-constants":  "Name what was learnt in {learn} (gpexplain inspect lists all).",
	"taken-for-parameters": "Name what was not learnt in {freeze} (gpexplain inspect lists all).",
	"training-stopped":     "Train on from the file by {init}, or with more {epochs}.",
	"unsettled":            "Begin elsewhere with {prior-precision}.",
	"untrained":            "Train the model, or give {refit}.",
	"variance-edge":        "State it by {prior-precision} or {noise-variance}.",
	"worse-than-constant":  "Check {standardize}, {classes} and {target}, or train the model further.",
}

// message is the text of a warning and its remedy.
func message(err error) option.Text {
	w, ours := errors.AsType[*Warning](err)
	if ours {
		return w.Message()
	}
	of := linearize.WarningOf(err)
	if remedy, ok := remedies[of.Code]; ok && of.Remedy != "" {
		return option.Plain(of.Text) + " " + remedy
	}
	return option.Of(err)
}

// Worded is a warning in words.
func Worded(err error, words option.Words) *linearize.Warning {
	out := *linearize.WarningOf(err)
	if w, ok := errors.AsType[*Warning](err); ok {
		out.Text, out.Remedy = w.text.In(words), w.remedy.In(words)
	} else if remedy, ok := remedies[out.Code]; ok && out.Remedy != "" {
		out.Remedy = remedy.In(words)
	} else if out.Code == "" {
		out.Text = option.Word(err, words)
	}
	return &out
}
