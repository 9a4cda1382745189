package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// Without the rows of --smallest-flip the class is another, as --without says too, and with
// any one of them put back it is not.
func TestExplainSmallestFlip(t *testing.T) {
	text := succeed(t, small("explain", "--json", "--index", "6", "--smallest-flip")...)
	requireSchema(t, "explain", text)
	got := decode[result.Report](t, text)
	flip := got.SmallestFlip
	require.True(t, flip.Found)
	require.True(t, flip.Confirmed)
	require.Equal(t, len(flip.Rows), flip.Left)
	require.Less(t, float64(got.Prediction.Mean[0])*float64(flip.Mean[0]), 0.)
	rows := strings.Split(strings.Trim(fmt.Sprint(flip.Rows), "[]"), " ")
	for out := range min(len(rows), 3) {
		left := append(append([]string{}, rows[:out]...), rows[out+1:]...)
		if len(left) == 0 {
			continue
		}
		put := decode[result.Report](t, succeed(t, small("explain", "--json", "--index", "6", "--without", strings.Join(left, ","))...))
		require.Greater(t, float64(got.Prediction.Mean[0])*float64(put.Without.Mean[0]), 0., "row %s is not needed", rows[out])
	}
	same := decode[result.Report](t, succeed(t, small("explain", "--json", "--index", "6", "--without", strings.Join(rows, ","))...))
	require.InDelta(t, float64(same.Without.Mean[0]), float64(flip.Mean[0]), 1e-6)
	require.Equal(t, same.Without.Class, flip.Class)

	page := filepath.Join(t.TempDir(), "page.html")
	words := strings.Join(strings.Fields(succeed(t, small("explain", "--index", "6", "--smallest-flip", "--html", page)...)), " ")
	for _, say := range []string{"the smallest set found whose removal changes the class,", "A fit from scratch without them has that class too.", "a smaller set may exist."} {
		require.Contains(t, words, say)
		require.Contains(t, strings.ReplaceAll(read(t, page), "\u00a0", " "), say)
	}
	kept := decode[result.Report](t, succeed(t, small("explain", "--json", "--quiet", "--method", "kept", "--index", "6", "--smallest-flip")...))
	require.Equal(t, flip.Rows, kept.SmallestFlip.Rows)
	require.False(t, kept.SmallestFlip.Confirmed)
}

// Each of several rows has its own search, and where none is found the report says how far
// it went.
func TestExplainNoFlip(t *testing.T) {
	args := small("explain", "--all", "--smallest-flip", "--flip-most", "1", "--flip-tries", "3")
	found := map[bool]int{}
	for line := range strings.Lines(succeed(t, append(args, "--json")...)) {
		requireSchema(t, "explain", line)
		flip := decode[result.Report](t, line).SmallestFlip
		found[flip.Found]++
		if !flip.Found {
			require.Empty(t, flip.Rows)
			require.Nil(t, flip.Mean)
			require.Equal(t, 1, flip.Left)
			require.LessOrEqual(t, flip.Tried, 3)
			require.Less(t, float64(flip.Margin[1]), float64(flip.Margin[0]))
		}
	}
	require.Positive(t, found[false])
	words := strings.Join(strings.Fields(succeed(t, args...)), " ")
	require.Contains(t, words, "No set of training examples was found without which the class is another: without 1 example chosen greedily f is")

	ref := openReference(t, "snelson")
	require.Contains(t, gpexplain(t.Context(), append([]string{"explain", "--smallest-flip"}, ref.args...)...).stderr, "--smallest-flip looks for another class, but")
	for _, test := range []struct {
		code int
		want string
		args []string
	}{
		{2, "--smallest-flip and --without exclude each other", []string{"--smallest-flip", "--without", "4"}},
		{2, "--flip-most is for --smallest-flip", []string{"--flip-most", "4"}},
		{2, "--flip-tries 0 must be at least 1", []string{"--smallest-flip", "--flip-tries", "0"}},
		{1, "--flip-most 60: there are 60 training rows", []string{"--smallest-flip", "--flip-most", "60"}},
		{1, "give --method exact or kept", []string{"--smallest-flip", "--method", "nystrom", "--inducing", "20"}},
	} {
		require.Contains(t, refuse(t, test.code, small("explain", test.args...)...), test.want)
	}
}
