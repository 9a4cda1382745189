// Package option has the table of all options, with their help, defaults and values. In messages it names options for
// each audience: as fields of package funcgp for programs in Go, as flags for the command, as members of a request
// for the server, and as arguments for the Python package.
//
//	err := option.Errorf("{noise-variance=%v} must be a positive number", v)
//	err.Error()                    // NoiseVariance -1 must be a positive number
//	option.Word(err, option.Flags) // --noise-variance -1 must be a positive number
//
// The text of a message holds references to options in braces, which are replaced by names when the message is
// worded. There are these forms:
//
//	{seed}                       the option
//	{seed=7}                     the option with a value
//	{fit with-inputs}            the option of a verb, for flags "gpexplain fit --with-inputs"
//	{ReadOptions.Output output}  the option, which the package at hand calls ReadOptions.Output
//	{,}                          between options with values that are given together
package option

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Words selects an audience, which decides how options are named.
type Words int

// The audiences.
const (
	Go      Words = iota // callers of package funcgp
	Package              // callers of the package that makes the message; named as for Go unless it has its own name
	Flags                // users of the command
	Members              // clients of the server
	Python               // callers of the Python package
)

// An Option is a value that a program, a command line or a request may give.
type Option struct {
	Name    string   // the flag without its dashes
	Go      string   // a field of package funcgp, or a function that makes a value; "" if programs in Go cannot set it
	Member  string   // the member of a request; "" for none
	Python  string   // the argument in Python; "" means Name with underscores
	Help    string   // what the flag does, with the name of its value in back quotes; "" if verbs differ
	Default string   // default of the flag; "" if it depends on model and data, or for none
	Values  []string // allowed values; nil for any
	Kept    bool     // whether the file of a posterior keeps the value; a value given beside the file must agree
}

// Find returns the option with this name. For a name that is not in the table it returns an option that is only a
// flag.
func Find(name string) Option {
	if i := slices.IndexFunc(Table, func(o Option) bool { return o.Name == name }); i >= 0 {
		return Table[i]
	}
	return Option{Name: name}
}

// Values returns the allowed values of an option, nil for any.
func Values(name string) []string { return Find(name).Values }

// in returns the name of the option for an audience: its flag if the audience has no name for it.
func (o Option) in(w Words) string {
	switch {
	case w == Members && o.Member != "":
		return o.Member
	case (w == Go || w == Package) && o.Go != "":
		return o.Go
	case w == Python && o.Python != "":
		return o.Python
	case w == Python:
		return strings.ReplaceAll(o.Name, "-", "_")
	}
	return "--" + o.Name
}

// A Text is a message with references to options in braces. A literal brace is doubled.
type Text string

// Textf formats a text. References are recognized in the format, and in arguments that are a Text or an error, but
// not in other arguments.
func Textf(format string, args ...any) Text {
	if false {
		_ = fmt.Sprintf(format, args...) // go vet checks the arguments
	}
	return Text(fmt.Sprintf(format, quoted(args)...))
}

// quoted returns the arguments in a form in which their braces are literal.
func quoted(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch a.(type) {
		case bool, int, int64, float64:
			out[i] = a
		default:
			out[i] = argument{a}
		}
	}
	return out
}

// An argument formats as its value does, with doubled braces.
type argument struct{ value any }

// Format implements fmt.Formatter.
func (a argument) Format(f fmt.State, verb rune) {
	value, data := a.value, true
	switch v := a.value.(type) {
	case Text:
		value = string(v)
	case error:
		value = string(Of(v))
	default:
		data = false
	}
	text := fmt.Sprintf(fmt.FormatString(f, verb), value)
	if !data {
		text = string(Plain(text))
	}
	// Writing to f, which is in memory, cannot fail.
	_, _ = f.Write([]byte(text))
}

var braces = strings.NewReplacer("{", "{{", "}", "}}")

// Plain returns the text of a string without references.
func Plain(s string) Text { return Text(braces.Replace(s)) }

// Named returns a text that is a reference to an option.
func Named(name string) Text { return Text("{" + name + "}") }

// Set returns a text that is a reference to an option with a value.
func Set(name string, value any) Text { return Textf("{"+name+"=%v}", value) }

// A Change is a new value for an option.
type Change struct{ Name, Value string }

// Changed returns the text that names options with new values.
func Changed(changes []Change) Text {
	list := make([]Text, len(changes))
	for i, c := range changes {
		list[i] = Set(c.Name, c.Value)
	}
	return Join(list, "{,}")
}

// Join joins texts.
func Join(list []Text, separator Text) Text {
	var out Text
	for i, t := range list {
		if i > 0 {
			out += separator
		}
		out += t
	}
	return out
}

// String returns the text worded for Package.
func (t Text) String() string { return t.In(Package) }

// Named returns the options that a text names, in order.
func (t Text) Named() (names []string) {
	t.each(nil, func(r reference) { names = append(names, r.name) })
	return names
}

// In returns the text worded for an audience.
func (t Text) In(w Words) string {
	var out strings.Builder
	t.each(func(s string) { out.WriteString(s) }, func(r reference) { out.WriteString(r.in(w)) })
	return out.String()
}

// A reference is the content of a pair of braces.
type reference struct {
	verb, own, name string
	value           string
	valued          bool // whether there is a value, which may be empty
}

func (r reference) in(w Words) string {
	if r.name == "," {
		return map[bool]string{true: " ", false: ", "}[w == Flags]
	}
	if w == Python && r.verb != "" { // name a verb as a command line, in Python too
		w = Flags
	}
	text := Find(r.name).in(w)
	switch {
	case w == Package && r.own != "":
		text = r.own
	case r.verb != "" && strings.HasPrefix(text, "--"):
		text = "gpexplain " + r.verb + " " + text
	}
	switch {
	case r.valued && w == Python:
		text += "=" + pythonic(r.value)
	case r.valued:
		text += " " + r.value
	}
	return text
}

// pythonic returns a value as Python writes it.
func pythonic(value string) string {
	if v, err := strconv.ParseBool(value); err == nil && len(value) > 1 {
		return map[bool]string{false: "False", true: "True"}[v]
	}
	if _, err := strconv.ParseFloat(value, 64); err == nil {
		return value
	}
	return strconv.Quote(value)
}

// each calls literal for the literal parts of a text, and option for each reference, in order.
func (t Text) each(literal func(string), option func(reference)) {
	if literal == nil {
		literal = func(string) {}
	}
	for s := string(t); s != ""; {
		at := strings.IndexAny(s, "{}")
		if at < 0 {
			literal(s)
			return
		}
		literal(s[:at])
		switch s = s[at:]; {
		case strings.HasPrefix(s, "{{") || strings.HasPrefix(s, "}}"):
			literal(s[:1])
			s = s[2:]
		case len(s) > 1 && s[0] == '{' && (s[1] == ',' || unicode.IsLetter(rune(s[1]))):
			inside, rest := upToBrace(s[1:])
			s = rest
			var r reference
			r.name, r.value, r.valued = strings.Cut(inside, "=")
			r.value = strings.NewReplacer("{{", "{", "}}", "}").Replace(r.value)
			words := strings.Fields(r.name)
			for _, before := range words[:len(words)-1] {
				if strings.Contains(before, ".") {
					r.own = before
				} else {
					r.verb = before
				}
			}
			r.name = words[len(words)-1]
			option(r)
		default: // an unmatched brace
			literal(s[:1])
			s = s[1:]
		}
	}
}

// upToBrace cuts s at the first closing brace that is not doubled.
func upToBrace(s string) (inside, rest string) {
	for i := 0; i < len(s); i++ {
		if s[i] != '}' {
			continue
		}
		if i+1 < len(s) && s[i+1] == '}' {
			i++
			continue
		}
		return s[:i], s[i+1:]
	}
	return s, ""
}

// An Error is an error whose text names options.
type Error struct {
	text Text
	err  error // wraps the errors that %w formats; its text is not used
}

// Errorf formats an error as fmt.Errorf does, with options in braces.
func Errorf(format string, args ...any) error {
	return &Error{Textf(strings.ReplaceAll(format, "%w", "%v"), args...), fmt.Errorf(format, args...)}
}

// New returns an error with a text.
func New(text Text) error { return &Error{text: text} }

// Error returns the text worded for Package.
func (e *Error) Error() string { return e.text.String() }

// Message returns the text with its references.
func (e *Error) Message() Text { return e.text }

// Unwrap returns the errors that %w formats.
func (e *Error) Unwrap() []error { return unwrapped(e.err) }

// unwrapped returns the errors that an error wraps.
func unwrapped(err error) []error {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return []error{inner}
		}
	}
	return nil
}

// Of returns the text of an error with its references, including those of wrapped errors. An error type whose text
// has references has a method Message() Text.
func Of(err error) Text {
	if e, ok := err.(interface{ Message() Text }); ok {
		return e.Message()
	}
	text := Plain(err.Error())
	for _, inner := range unwrapped(err) {
		text = Text(strings.Replace(string(text), string(Plain(inner.Error())), string(Of(inner)), 1))
	}
	return text
}

// Word returns the text of an error worded for an audience.
func Word(err error, w Words) string { return Of(err).In(w) }

// First returns the first option that an error names, worded for an audience; "" if it names none.
func First(err error, w Words) string {
	for _, name := range Of(err).Named() {
		if name != "," {
			return Find(name).in(w)
		}
	}
	return ""
}

// Member returns the first member of a request that an error names; "" if it names none.
func Member(err error) string {
	for _, name := range Of(err).Named() {
		if m := Find(name).Member; m != "" {
			return m
		}
	}
	return ""
}

// Trimmed returns an error whose text lacks a prefix, such as the name of a package.
func Trimmed(err error, prefix string) error {
	return &Error{Text(strings.TrimPrefix(string(Of(err)), prefix)), errors.Join(err)}
}
