package main

import (
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// covered splits the output of predict --json --coverage into rows and summary.
func covered(t *testing.T, text string) ([]prediction, predictSummary) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var rows []prediction
	for _, line := range lines[:len(lines)-1] {
		rows = append(rows, decode[prediction](t, line))
	}
	sum := decode[predictSummary](t, lines[len(lines)-1])
	require.NotNil(t, sum.Coverage)
	return rows, sum
}

// Every line has a set of labels, larger ones hold smaller ones, and the summary
// counts them.
func TestPredictCoverageSets(t *testing.T) {
	var smaller []prediction
	for _, share := range []float64{.5, .8, .9, .98} {
		text := succeed(t, small("predict", "--json", "--coverage", strconv.FormatFloat(share, 'g', -1, 64))...)
		require.Contains(t, text, `"set":[`)
		require.NotContains(t, text, `"interval"`)
		require.NotContains(t, text, `mean_width`)
		rows, sum := covered(t, text)
		held, size, empty := 0.0, 0.0, 0
		for i, r := range rows {
			require.NotNil(t, r.Set)
			for _, label := range r.Set {
				require.Contains(t, []result.Float{4, 9}, label)
			}
			if slices.Contains(r.Set, r.Label) {
				held++
			}
			if len(r.Set) == 0 {
				empty++
			}
			size += float64(len(r.Set))
			if smaller != nil {
				require.Subset(t, r.Set, smaller[i].Set)
			}
		}
		smaller = rows
		n := float64(len(rows))
		c := sum.Coverage
		require.InDelta(t, held/n, float64(c.Measured), 1e-15)
		require.InDelta(t, size/n, float64(*c.Size), 1e-15)
		require.Equal(t, empty, c.Empty)
		require.Equal(t, result.Float(share), c.Share)
		require.Equal(t, 60, c.Scored)
		require.Equal(t, "loo", c.From)
		require.Zero(t, c.Unknown)
		require.LessOrEqual(t, c.Band[0], c.Measured)
		require.GreaterOrEqual(t, c.Band[1], c.Measured)
	}
}

// Of a regression every line has an interval: of counts its ends are integers. All
// methods agree where they have all examples, also from a file.
func TestPredictCoverageIntervals(t *testing.T) {
	for _, name := range []string{"snelson", "poisson"} {
		ref := openReference(t, name)
		var want []prediction
		for _, method := range []string{"exact", "subset", "nystrom", "parameters"} {
			args := []string{"--json", "--coverage", ".9", "--method", method, "--refit"}
			if method == "subset" || method == "nystrom" {
				args = append(args, "--inducing", strconv.Itoa(ref.n))
			}
			text := ref.run(t, "predict", args...)
			require.NotContains(t, text, `"set"`)
			rows, sum := covered(t, text)
			held, width, finite := 0.0, 0.0, 0.0
			for i, r := range rows {
				require.Len(t, r.Interval, 2)
				lo, hi, y := float64(r.Interval[0]), float64(r.Interval[1]), float64(r.Label)
				if lo <= y && y <= hi {
					held++
				}
				if d := hi - lo; !math.IsNaN(d) {
					width += d
					finite++
				}
				if name == "poisson" {
					require.True(t, lo == math.Trunc(lo) && hi == math.Trunc(hi) && lo >= 0, "[%v, %v]", lo, hi)
					continue
				}
				require.Less(t, lo, hi)
				if want != nil {
					require.InDelta(t, float64(want[i].Interval[0]), lo, 1e-4)
					require.InDelta(t, float64(want[i].Interval[1]), hi, 1e-4)
				}
			}
			require.InDelta(t, held/float64(len(rows)), float64(sum.Coverage.Measured), 1e-15)
			require.InEpsilon(t, width/finite, float64(*sum.Coverage.Width), 1e-12)
			if want == nil {
				want = rows
			}
		}
		file := filepath.Join(t.TempDir(), "posterior.gp")
		ref.run(t, "fit", "--quiet", "--refit", "--out", file)
		rows, _ := covered(t, ref.run(t, "predict", "--json", "--coverage", ".9", "--posterior", file))
		for i, r := range rows {
			require.Equal(t, want[i].Interval, r.Interval)
		}
	}
}

// With rows held out, scores are theirs: a set holds the classes whose −log p is no
// more than the score of that rank.
func TestPredictCoverageHeldOut(t *testing.T) {
	args := []string{"--json", "--calibrate", "heldout"}
	rows, sum := covered(t, succeed(t, small("predict", append(args, "--coverage", ".9")...)...))
	n := sum.Coverage.Scored
	require.Equal(t, "heldout", sum.Coverage.From)
	require.Equal(t, 20, n, "80 training digits of the classes, of which 60 are trained on")
	// The score of rank ⌈.9 · 21⌉ = 19 lies between those of classes in and out.
	least, most := math.Inf(1), math.Inf(-1)
	for _, r := range rows {
		for k, label := range []result.Float{4, 9} {
			// −log σ(−f) of the first class and −log σ(f) of the second
			s := math.Log1p(math.Exp(float64(1-2*k) * float64(r.Mean[0])))
			if slices.Contains(r.Set, label) {
				most = max(most, s)
			} else {
				least = min(least, s)
			}
		}
	}
	require.Less(t, most, least)
	file := filepath.Join(t.TempDir(), "posterior.gp")
	succeed(t, small("fit", "--quiet", "--calibrate", "heldout", "--out", file)...)
	saved, _ := covered(t, succeed(t, "predict", "--data", "digits:400,100", "--json", "--posterior", file, "--coverage", ".9"))
	for i, r := range rows {
		require.Equal(t, r.Set, saved[i].Set)
	}
	require.Contains(t, refuse(t, 1, small("predict", "--calibrate", "heldout", "--coverage", ".96")...), "N = 20 held-out rows")
}

// The rows of a table, of a page and of text have the same sets.
func TestPredictCoverageElsewhere(t *testing.T) {
	dir := t.TempDir()
	table, page := filepath.Join(dir, "rows.csv"), filepath.Join(dir, "page.html")
	r := gpexplain(t.Context(), small("predict", "--coverage", ".9", "--csv", table, "--html", page)...)
	require.Zero(t, r.code, r.stderr)
	rows := strings.Split(strings.TrimSpace(strings.ReplaceAll(read(t, table), "\r", "")), "\n")
	require.True(t, strings.HasSuffix(rows[0], ",set"), rows[0])
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	require.Len(t, rows, len(lines)+1)
	for i, line := range lines {
		var labels []string
		for _, label := range decode[prediction](t, line).Set {
			labels = append(labels, strconv.FormatFloat(float64(label), 'g', -1, 64))
		}
		require.True(t, strings.HasSuffix(rows[i+1], ","+strings.Join(labels, " ")), rows[i+1])
	}
	require.Regexp(t, `The 90 % sets hold the label of \d+(\.\d+)? % of the rows \(95 % band \d+(\.\d+)? % to \d+(\.\d+)? %\)`, strings.Join(strings.Fields(r.stderr), " "))
	require.Contains(t, read(t, page), "sets hold the label of")
}

func TestPredictCoverageRefuses(t *testing.T) {
	for _, bad := range []string{"0", "1", "-0.1", "90", "NaN"} {
		require.Contains(t, refuse(t, 2, small("predict", "--coverage", bad)...), "--coverage "+bad+" must be above 0 and below 1")
	}
	refuse(t, 2, small("predict", "--coverage", "most")...)
	line := refuse(t, 1, small("predict", "--coverage", ".99")...)
	require.Contains(t, line, "--coverage 0.99: there are N = 60 training rows")
	require.Contains(t, line, "0.983607")
	// A subset leaves out its own rows alone.
	line = refuse(t, 1, small("predict", "--coverage", ".95", "--method", "subset", "--inducing", "10")...)
	require.Contains(t, line, "N = 10 training rows to leave out")
	require.Contains(t, succeed(t, "predict", "--help"), "2(1 − P)")
}
