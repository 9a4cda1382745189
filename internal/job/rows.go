package job

import (
	"strconv"
	"strings"
)

// FormatRows writes row numbers compactly, for metadata: "3,5,7-9".
func FormatRows(rows []int) string {
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

// ParseRows parses what FormatRows wrote. ok is false for other texts and for more than limit rows.
func ParseRows(text string, limit int) (rows []int, ok bool) {
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
		for i := range hi - lo + 1 { // lo + i cannot overflow, even if hi is the largest int
			rows = append(rows, lo+i)
		}
	}
	return rows, true
}
