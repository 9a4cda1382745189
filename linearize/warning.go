package linearize

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// A Warning says why a result is less accurate than it should be, or what was assumed on the way to it. All
// packages use this type. Results hold warnings as Warnings []error: errors.As finds the type, and FindWarning a
// warning with a given code.
type Warning struct {
	// Code is a fixed word, whatever the text; doc/warnings.md explains it.
	Code string
	// Value is the number found, and Limit the limit that it passes; NaN where there is no such number.
	Value, Limit float64
	Text         string // what was found, and what it does to the result: one or two sentences
	Remedy       string // what to do about it: a sentence, or empty
}

var _ error = (*Warning)(nil)

// NewWarning returns a warning with a text formatted as by fmt.Sprintf.
func NewWarning(code string, value, limit float64, remedy, format string, args ...any) *Warning {
	return &Warning{Code: code, Value: value, Limit: limit, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

// Error returns the text and the remedy, at most three sentences.
func (w *Warning) Error() string {
	if w.Remedy == "" {
		return w.Text
	}
	return w.Text + " " + w.Remedy
}

// FindWarning returns the first warning with the given code, or nil.
func FindWarning(warnings []error, code string) *Warning {
	for _, err := range warnings {
		if w, ok := errors.AsType[*Warning](err); ok && w.Code == code {
			return w
		}
	}
	return nil
}

// WarningOf returns the Warning that err is or wraps. An error of another type becomes a Warning without a code.
func WarningOf(err error) *Warning {
	if w, ok := errors.AsType[*Warning](err); ok {
		return w
	}
	return NewWarning("", math.NaN(), math.NaN(), "", "%v", err)
}

// warningJSON is a Warning in JSON, where NaN and ±Inf are null.
type warningJSON struct {
	Code   string   `json:"code"`
	Text   string   `json:"text"`
	Remedy string   `json:"remedy"`
	Value  *float64 `json:"value"`
	Limit  *float64 `json:"limit"`
	See    string   `json:"see"` // where the code is explained
}

// MarshalJSON implements json.Marshaler.
func (w *Warning) MarshalJSON() ([]byte, error) {
	number := func(v float64) *float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	return json.Marshal(warningJSON{w.Code, w.Text, w.Remedy, number(w.Value), number(w.Limit), "doc/warnings.md#" + w.Code})
}

// UnmarshalJSON implements json.Unmarshaler. It also reads a string, which is the text of a warning in a file of an
// older version.
func (w *Warning) UnmarshalJSON(data []byte) error {
	var j warningJSON
	if json.Unmarshal(data, &j.Text) != nil {
		if err := json.Unmarshal(data, &j); err != nil {
			return err
		}
	}
	number := func(v *float64) float64 {
		if v == nil {
			return math.NaN()
		}
		return *v
	}
	*w = Warning{j.Code, number(j.Value), number(j.Limit), j.Text, j.Remedy}
	return nil
}

// Warnings are the warnings of a result in the form in which JSON writes and reads them: a list of objects, [] if
// there are none.
type Warnings []error

// MarshalJSON implements json.Marshaler.
func (w Warnings) MarshalJSON() ([]byte, error) {
	list := make([]*Warning, len(w))
	for i, err := range w {
		list[i] = WarningOf(err)
	}
	return json.Marshal(list)
}

// UnmarshalJSON implements json.Unmarshaler.
func (w *Warnings) UnmarshalJSON(data []byte) error {
	var list []*Warning
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*w = nil
	for _, one := range list {
		*w = append(*w, one)
	}
	return nil
}
