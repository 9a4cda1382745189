package dataset

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/funcgp/funcgp/internal/option"
)

// isDecimal reports whether a field has only characters of decimal numbers. This rules out 1_000,
// 0x1p3, Inf and NaN, which strconv accepts.
func isDecimal(field string) bool {
	for i := range len(field) {
		if c := field[i]; (c < '0' || c > '9') && c != '.' && c != '+' && c != '-' && c != 'e' && c != 'E' {
			return false
		}
	}
	return true
}

// parseFloat parses a number. comma is the separator of fields; if it is not ',', the number may
// have a decimal comma.
func parseFloat(field string, comma rune) (float64, error) {
	if comma != ',' && strings.Count(field, ",") == 1 && !strings.Contains(field, ".") {
		field = strings.Replace(field, ",", ".", 1)
	}
	return strconv.ParseFloat(field, 64)
}

// numbers counts the fields that are numbers. A header has none.
func numbers(fields []string, comma rune) (n int) {
	for _, f := range fields {
		if _, err := parseFloat(strings.TrimSpace(f), comma); err == nil {
			n++
		}
	}
	return n
}

// decimalCommas records how the numbers of a file are written. Decimal commas are accepted if they
// cannot separate thousands: some number does not have three digits after its comma, and no number
// has a point.
type decimalCommas struct {
	comma, point string // place and text of the first number with each
	certain      bool
	line         int // line of the first comma
}

// note records how the number of a field is written.
func (d *decimalCommas) note(field, place string, line int) {
	whole, part, ok := strings.Cut(field, ",")
	if strings.Contains(field, ".") && d.point == "" {
		d.point = fmt.Sprintf("line %d has %s", line, option.Quote(field))
	}
	if !ok {
		return
	}
	if d.comma == "" {
		d.comma, d.line = fmt.Sprintf("%s: %s", place, option.Quote(field)), line
	}
	whole = strings.TrimLeft(whole, "+-")
	d.certain = d.certain || len(part) != 3 || whole == "" || whole == "0" || len(whole) > 3
}

// checkDecimals returns an error if commas may be decimal commas or separators of thousands. It is called after the
// last number.
func (in *records) checkDecimals() error {
	d := &in.decimal
	e := &Error{File: in.name, Line: d.line, Remedy: "write decimal points, and no separators of thousands"}
	switch {
	case d.comma == "":
		return nil
	case d.point != "":
		e.Problem = fmt.Sprintf("%s has a comma, but %s with a point", d.comma, d.point)
	case !d.certain:
		e.Problem = d.comma + " has a comma that may be decimal or separate thousands"
	default:
		return nil
	}
	return e
}

// feature parses feature k of a record. A spare feature that is not a number is NaN.
func (in *records) feature(c *columns, k int, rec []string) (float64, error) {
	j := c.features[k]
	if c.spare == nil || !c.spare[k] {
		return in.number(j, c.header[j], rec[j])
	}
	if j < 0 { // the file lacks the column
		return math.NaN(), nil
	}
	v, err := parseFloat(strings.TrimSpace(rec[j]), in.Comma)
	if err != nil || bad(v) {
		return math.NaN(), nil
	}
	return v, nil
}

// number parses field j, which must be a finite decimal number.
func (in *records) number(j int, column, field string) (float64, error) {
	field = strings.TrimSpace(field)
	v, err := parseFloat(field, in.Comma)
	if err == nil && isDecimal(strings.Replace(field, ",", ".", 1)) && !math.IsNaN(v) && !math.IsInf(v, 0) {
		if in.Comma != ',' {
			in.decimal.note(field, place(j, column), in.line(j))
		}
		return v, nil
	}
	e := &Error{File: in.name, Line: in.line(j), Place: place(j, column)}
	switch {
	case field == "":
		e.Problem, e.Remedy = "missing value", "fill it in or leave the row out"
	case isMissing(field):
		e.Problem, e.Remedy = option.Quote(field)+" stands for a missing value", "fill it in or leave the row out"
	case isDate(field):
		e.Problem, e.Remedy = option.Quote(field)+" is a date", "write it as a number, such as of days, name another target, or leave the column out"
	case strings.EqualFold(field, "true"), strings.EqualFold(field, "false"):
		e.Problem, e.Remedy = option.Quote(field)+" is not a number", "write 1 and 0"
	case err == nil && !math.IsNaN(v) && !math.IsInf(v, 0):
		e.Problem, e.Remedy = option.Quote(field)+" is not a decimal number", "write it as 1000, 0.5 or 1.5e-3"
	case err == nil:
		e.Problem, e.Remedy = option.Quote(field)+" is not finite", "fill it in or leave the row out"
	case errors.Is(err, strconv.ErrRange):
		e.Problem, e.Remedy = option.Quote(field)+" is too large for a float64", "rescale the column"
	case strings.Contains(field, ",") && looksNumeric(field):
		e.Problem, e.Remedy = option.Quote(field)+" has a comma where a number has a decimal point", "write decimal points, and no separators of thousands"
	case looksNumeric(field):
		e.Problem, e.Remedy = option.Quote(field)+" is not a decimal number", "write it as 1000, 0.5 or 1.5e-3"
	default:
		e.Problem, e.Remedy = option.Quote(field)+" is not a number", "code words as numbers, name a column of row names as the ID, or leave the column out"
	}
	return 0, e
}

// looksNumeric reports whether a field that does not parse as a number was meant as one, such as
// 1_000, $1,000 or 12 %.
func looksNumeric(field string) bool {
	digits := 0
	for _, r := range strings.TrimLeft(field, "+-") {
		switch {
		case unicode.IsDigit(r):
			digits++
		case !unicode.IsSpace(r) && !unicode.Is(unicode.Sc, r) && !strings.ContainsRune(".,_'’%", r):
			return false
		}
	}
	return digits > 0
}

// isWord reports whether a field can name a class: it is not empty, not a number or meant as one,
// and not a date.
func isWord(field string, comma rune) bool {
	_, err := parseFloat(field, comma)
	return field != "" && err != nil && !errors.Is(err, strconv.ErrRange) && !looksNumeric(field) && !isDate(field)
}

// isMissing reports whether a field is a mark that programs write for a missing value.
func isMissing(field string) bool {
	switch strings.ToLower(field) {
	case "?", "na", "n/a", "#n/a", "<na>", "nan", "null", "nat":
		return true
	}
	return false
}

// date matches dates such as 2024-01-31, 31/1/2024 and 31.01.24, with or without a time.
var date = regexp.MustCompile(`^([0-9]{4}([-/.])[0-9]{1,2}([-/.])[0-9]{1,2}|[0-9]{1,2}([-/.])[0-9]{1,2}([-/.])[0-9]{2,4})([T ][0-9]{1,2}:[0-9]{2}.*)?$`)

func isDate(field string) bool { return date.MatchString(field) }
