package report

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

func TestNumbersAsText(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{fixed(-0.0004, 3), "0.000"},
		{fixed(-1.25, 1), "-1.2"},
		{fixed(math.NaN(), 2), "–"},
		{fixed(2.5e12, 3), "2.500e+12"},
		{signed(0, 2), "+0.00"},
		{signed(-3, 0), "-3"},
		{signed(math.Inf(1), 0), "–"},
		{result.Short(0.00012345678), "0.0001235"},
		{probability(0.5), "0.500"},
		{probability(0), "0"},
		{probability(1), "1"},
		{probability(0.9997), "0.9997"},
		{probability(0.00003), "0.00003"},
		{probability(1e-12), "1e-12"},
		{probability(1 - 1e-12), "1 − 1e-12"},
		{probability(math.NaN()), "–"},
		{name(9), "9"},
		{name(1.5), "1.5"},
		{label(result.Undefined()), ""},
		{result.Count(3000), "3000"},
		{result.Count(60000), "60\u202f000"},
		{result.Count(1234567), "1\u202f234\u202f567"},
		{result.Some(1, "row", "rows"), "1 row"},
		{result.Some(2, "row", "rows"), "2 rows"},
		{ratio(2.058), "2.1"},
		{ratio(87.8), "88"},
		{ratio(1379.2), "1379"},
		{typeset("-1.5"), "−1.5"},
		{typeset("2.1e-06 to -.5, (-3) + -∞"), "2.1e−06 to −.5, (−3) + −∞"},
		{typeset("covid-19, --lr 3, non-smoker, 2020-01-02"), "covid-19, --lr 3, non-smoker, 2020-01-02"},
		{grouped("−12345.5"), "−12\u202f345.5"},
		{grouped("1234"), "1234"},
		{grouped("1e+06"), "1e+06"},
		{datum(312.5), "312.5"},
		{datum(1.0 / 3), "0.333333"},
		{datum(-123456.789), "-123457"},
		{datum(7e-9), "7e-09"},
		{datum(250000), "250000"},
		{result.Short(182345.6), "182346"},
	} {
		require.Equal(t, c.want, c.got)
	}
}

func TestDecimals(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want int
	}{
		{nil, 3}, {[]float64{0}, 3}, {[]float64{0.412}, 4}, {[]float64{-3.3, 0.1}, 3},
		{[]float64{12345}, 0}, {[]float64{1e-9}, 6}, {[]float64{math.Inf(1), 31}, 2},
	} {
		require.Equal(t, c.want, decimals(c.v...), c.v)
	}
}

// A bar has the length of its number, up to half a cell, in a field of constant
// width.
func TestBar(t *testing.T) {
	for half := 4; half <= 16; half++ {
		for x := -1.0; x <= 1; x += 0.01 {
			b := []rune(bar(x, half))
			require.Len(t, b, 2*half+1)
			require.Equal(t, '│', b[half])
			length := 0.0
			for i, r := range b {
				switch r {
				case '█':
					length++
				case '▌', '▐':
					length += 0.5
				default:
					continue
				}
				require.Equal(t, x > 0, i > half)
			}
			require.InDelta(t, math.Abs(x)*float64(half), length, 0.25+1e-9)
		}
	}
}

func TestLabelled(t *testing.T) {
	lines := func(labels ...string) (l []line) {
		for _, s := range labels {
			l = append(l, line{label: s})
		}
		return l
	}
	require.Equal(t, "", labelled(nil))
	require.Equal(t, "", labelled(lines("1", "")))
	require.Equal(t, "All 2 are labelled 4.", labelled(lines("4", "4")))
	require.Equal(t, "2 of these 4 are labelled 9, 1 is labelled 4, 1 is labelled 3.", labelled(lines("4", "9", "9", "3")))
	require.Equal(t, "", labelled(lines("1", "2", "3", "4", "5")), "targets are not counted")
}
