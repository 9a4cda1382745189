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

// unprintable is what could break a line, steer a terminal or hide text.
var unprintable = regexp.MustCompile(`[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+`)

// mostRunes is the longest line of a message; a name in a hostile file may have any length.
const mostRunes = 1000

// OneLine makes text of any origin fit for one line of a terminal.
func OneLine(s string) string {
	s = strings.TrimSpace(unprintable.ReplaceAllString(strings.ToValidUTF8(s, "\uFFFD"), " "))
	return Cut(s, mostRunes)
}

// packages are the names with which the library's errors begin.
var packages = regexp.MustCompile(`(: )(?:(?:network|onnx|linearize|ntk|gp|evidence|sparse|shard|glm|weightspace|explain|report|store|dataset): )+`)

// Message is the text of an error in one line without the names of packages, which say nothing to a person who did not
// call them. It keeps what stands first, which may be a file's name.
func Message(text string) string { return OneLine(packages.ReplaceAllString(text, "$1")) }

// Count is a number with a comma before every three digits.
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

// CommandLine is the command as a shell takes it.
func CommandLine(args []string) string {
	words := []string{"gpexplain"}
	for _, a := range args {
		words = append(words, Word(a))
	}
	return strings.Join(words, " ")
}

// Word is one word of a command line as a shell takes it.
func Word(a string) string {
	if a == "" || strings.ContainsFunc(a, func(r rune) bool { return !strings.ContainsRune(plain, r) }) {
		return "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return a
}

// Changed says how to ask for the same with other values of options: by the whole command line, where the job is one.
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

// With returns a command line with a flag of this value, in place of one that it may have.
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

// plain are the characters that need no quotes in a shell.
const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:=@_"

// SizeText is a number of bytes for people.
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

// threeDigits is a number from 1 with three digits, or with all before the point.
func threeDigits(v float64) string {
	return strconv.FormatFloat(v, 'f', max(0, 2-int(math.Log10(v))), 64)
}
