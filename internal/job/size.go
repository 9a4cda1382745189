package job

import (
	"math"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/option"
)

var units = map[string]float64{"": 1, "b": 1,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}

// ParseBytes parses the value of an option such as 4GiB, 500MB or a plain number of bytes; "" is 0.
func ParseBytes(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	at := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if at < 0 {
		at = len(text)
	}
	v, err := strconv.ParseFloat(text[:at], 64)
	unit, ok := units[strings.ToLower(strings.TrimSpace(text[at:]))]
	if b := v * unit; err == nil && ok && b >= 1 && b < math.MaxInt64 {
		return int64(b), nil
	}
	return 0, Usagef("%v %q is not a size such as 4GiB", option.Named(flag), text)
}
