package shard

import (
	"fmt"
	"strconv"
	"strings"
)

// A Part is one of the Of parts into which the training examples are split. Number is counted from 0.
type Part struct {
	Number, Of int
}

// mostParts is the most parts, such that the bounds of their rows do not overflow.
const mostParts = 1 << 20

// ParsePart reads a Part in the form that String writes, such as 3/64 for the fourth of 64 parts. For a number out
// of range the error names the range.
func ParsePart(text string) (Part, error) {
	a, b, ok := strings.Cut(text, "/")
	i, err := strconv.Atoi(a)
	n, err2 := strconv.Atoi(b)
	switch {
	case !ok || err != nil || err2 != nil:
		return Part{}, fmt.Errorf("shard: %q is no part; write its number from 0 and how many there are, such as 0/64 and 63/64", text)
	case n < 1 || n > mostParts:
		return Part{}, fmt.Errorf("shard: %s: there can be 1 to %d parts", text, mostParts)
	case i < 0 || i >= n:
		return Part{}, fmt.Errorf("shard: %s: the parts of %d are 0/%d to %d/%d", text, n, n, n-1, n)
	}
	return Part{i, n}, nil
}

// Possible tells whether there is such a part.
func (p Part) Possible() bool {
	return p.Of >= 1 && p.Of <= mostParts && p.Number >= 0 && p.Number < p.Of
}

// String writes the part in the form 3/64.
func (p Part) String() string { return fmt.Sprintf("%d/%d", p.Number, p.Of) }

// Rows returns the rows of the part among n examples, lo to hi−1. The sizes of two parts differ by at most one.
// With more parts than examples, some are empty.
func (p Part) Rows(n int) (lo, hi int) {
	// n·i/S without overflow
	bound := func(i int) int { return n/p.Of*i + n%p.Of*i/p.Of }
	return bound(p.Number), bound(p.Number + 1)
}
