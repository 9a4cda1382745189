package main

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

func isLikelihood(name string) bool {
	return slices.Contains([]string{"gaussian", "bernoulli", "categorical", "poisson"}, name)
}

// parseClasses reads "4,9"; "" is nil.
func parseClasses(text string) ([]int, error) {
	list, err := parseInts("--classes", text)
	if err != nil {
		return nil, err
	}
	for i, k := range list {
		if slices.Contains(list[:i], k) {
			return nil, usagef("--classes %s names class %d twice", text, k)
		}
	}
	if text != "" && len(list) < 2 {
		return nil, usagef("--classes %s must name at least two classes", text)
	}
	return list, nil
}

func parseInts(flag, text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var list []int
	for field := range strings.SplitSeq(text, ",") {
		k, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil {
			return nil, usagef("%s %q is not a list of integers such as 4,9", flag, text)
		}
		list = append(list, k)
	}
	return list, nil
}

var units = map[string]float64{"": 1, "b": 1,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}

// parseBytes reads "4GiB", "500MB" or a plain number of bytes; "" is 0.
func parseBytes(text string) (int64, error) {
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
	return 0, usagef("--max-memory %q is not a size such as 4GiB", text)
}

// formatRows writes row numbers compactly, for metadata: "3,5,7-9".
func formatRows(rows []int) string {
	var b strings.Builder
	for i := 0; i < len(rows); {
		j := i
		for j+1 < len(rows) && rows[j+1] == rows[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(rows[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(rows[j]))
		}
		i = j + 1
	}
	return b.String()
}

// parseRows reads what formatRows wrote; at most limit rows.
func parseRows(text string, limit int) (rows []int, ok bool) {
	for field := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(field, "-")
		lo, err := strconv.Atoi(first)
		hi := lo
		if err == nil && isRange {
			hi, err = strconv.Atoi(last)
		}
		if err != nil || lo < 0 || hi < lo || hi-lo >= limit-len(rows) {
			return nil, false
		}
		for r := lo; r <= hi; r++ {
			rows = append(rows, r)
		}
	}
	return rows, true
}
