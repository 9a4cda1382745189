package job

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/funcgp/funcgp/internal/option"
)

// unprintable matches characters that could break a line, control a terminal or hide text.
var unprintable = regexp.MustCompile(`[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+`)

// mostRunes is the length of the longest line of a message, since a name in a hostile file may have any length.
const mostRunes = 1000

// OneLine returns text of any origin in a form that is safe to print on one line of a terminal.
func OneLine(s string) string {
	s = strings.TrimSpace(unprintable.ReplaceAllString(strings.ToValidUTF8(s, "\uFFFD"), " "))
	return Cut(s, mostRunes)
}

// packages matches the names of packages with which the library's errors begin.
var packages = regexp.MustCompile(`(: )(?:(?:network|onnx|linearize|ntk|gp|evidence|sparse|shard|glm|weightspace|explain|report|store|dataset): )+`)

// Message returns the text of an error in one line without the names of packages, which mean nothing to a user of the
// command. The first word is kept, since it may be the name of a file.
func Message(text string) string { return OneLine(packages.ReplaceAllString(text, "$1")) }

// Count formats a number with commas between groups of three digits.
func Count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Cut shortens s to at most the given number of runes.
func Cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}

// CommandLine returns the command with these arguments, quoted for a shell.
func CommandLine(args []string) string {
	words := []string{"gpexplain"}
	for _, a := range args {
		words = append(words, Word(a))
	}
	return strings.Join(words, " ")
}

// Word returns one argument of a command line, quoted for a shell.
func Word(a string) string {
	if a == "" || strings.ContainsFunc(a, func(r rune) bool { return !strings.ContainsRune(plain, r) }) {
		return "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return a
}

// Changed says how to repeat the job with other values of options. For a command it is the whole command line.
func (j *Job) Changed(changes ...option.Change) option.Text {
	if j.Args == nil || j.Words == option.Python {
		return option.Changed(changes)
	}
	line := j.Args
	for _, c := range changes {
		line = With(line, "--"+c.Name, c.Value)
	}
	return option.Plain(CommandLine(line))
}

// With returns a command line in which a flag has this value, in place of any earlier value.
func With(args []string, flag, value string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == flag:
			i++ // its value
		case !strings.HasPrefix(args[i], flag+"="):
			out = append(out, args[i])
		}
	}
	return append(out, flag, value)
}

// plain holds the characters that need no quotes in a shell.
const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:=@_"

// SizeText formats a number of bytes for people.
func SizeText(bytes int64) string {
	v := float64(bytes)
	switch {
	case v < 1e3:
		return fmt.Sprintf("%d bytes", bytes)
	case v < 1e6:
		return fmt.Sprintf("%.1f kB", v/1e3)
	case v < 1e9:
		return fmt.Sprintf("%.1f MB", v/1e6)
	case v < 1e12:
		return threeDigits(v/1e9) + " GB"
	}
	return threeDigits(v/1e12) + " TB"
}

// threeDigits formats a number of at least 1 with three significant digits, but with all digits before the point.
func threeDigits(v float64) string {
	return strconv.FormatFloat(v, 'f', max(0, 2-int(math.Log10(v))), 64)
}
