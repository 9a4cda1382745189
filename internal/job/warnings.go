package job

import (
	"errors"

	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
)

// A Warning is a warning whose text and remedy name options.
type Warning struct {
	warning      linearize.Warning // worded for the caller of the job, or as for programs in Go before a job has it
	text, remedy option.Text
}

// NewWarning returns a warning with a text formatted as by option.Textf.
func NewWarning(code string, value, limit float64, remedy option.Text, format string, args ...any) *Warning {
	w := &Warning{warning: linearize.Warning{Code: code, Value: value, Limit: limit}, text: option.Textf(format, args...), remedy: remedy}
	return w.in(option.Go)
}

// in returns the warning with options named in these words.
func (w *Warning) in(words option.Words) *Warning {
	out := *w
	out.warning.Text, out.warning.Remedy = w.text.In(words), w.remedy.In(words)
	return &out
}

func (w *Warning) Error() string { return w.warning.Error() }

// Unwrap returns the warning with its text worded.
func (w *Warning) Unwrap() error { return &w.warning }

// Message returns the text and the remedy.
func (w *Warning) Message() option.Text {
	if w.remedy == "" {
		return w.text
	}
	return w.text + " " + w.remedy
}

// warningOf returns err as a Warning, with the remedy of the table remedies if it has one.
func warningOf(err error) *Warning {
	if w, ok := errors.AsType[*Warning](err); ok {
		return w
	}
	w := &Warning{warning: *linearize.WarningOf(err)}
	w.text, w.remedy = option.Plain(w.warning.Text), option.Plain(w.warning.Remedy)
	if remedy, ok := remedies[w.warning.Code]; ok && w.remedy != "" {
		w.remedy = remedy
	} else if w.warning.Code == "" {
		w.text = option.Of(err)
	}
	return w
}

// Worded returns a warning with options named in these words.
func Worded(err error, words option.Words) *Warning { return warningOf(err).in(words) }

// Kept returns warnings in the form that files store, with options in braces.
func Kept(list linearize.Warnings) linearize.Warnings {
	out := make(linearize.Warnings, len(list))
	for i, err := range list {
		w := warningOf(err)
		kept := w.warning
		kept.Text, kept.Remedy = string(w.text), string(w.remedy)
		out[i] = &kept
	}
	return out
}

// Restored is the inverse of Kept. Older files name flags in place of options.
func Restored(list linearize.Warnings) linearize.Warnings {
	out := make(linearize.Warnings, len(list))
	for i, err := range list {
		w := linearize.WarningOf(err)
		out[i] = NewWarning(w.Code, w.Value, w.Limit, option.Text(w.Remedy), "%v", option.Text(w.Text))
	}
	return out
}
