package option

import (
	"strconv"
	"strings"
)

// Quote quotes text from a file and cuts it if it is long.
func Quote(s string) string {
	const most = 40
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.Quote(s)
}

// QuoteList quotes the first names of a list.
func QuoteList(names []string) string {
	const most = 12
	var q []string
	for i, n := range names {
		if i == most {
			q = append(q, "...")
			break
		}
		q = append(q, Quote(n))
	}
	return strings.Join(q, ", ")
}
