package report

import (
	"encoding/csv"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
)

// readTable reads a table back, as numbers by the name of the column.
func readTable(t *testing.T, text string) []map[string]string {
	t.Helper()
	lines := testref.Must(csv.NewReader(strings.NewReader(text)).ReadAll())(t)
	var table []map[string]string
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, name := range lines[0] {
			require.NotContains(t, row, name)
			row[name] = line[i]
		}
		table = append(table, row)
	}
	return table
}

func number(t *testing.T, s string) result.Float {
	t.Helper()
	if s == "" {
		return result.Undefined()
	}
	v := testref.Must(strconv.ParseFloat(s, 64))(t)
	return result.Float(v)
}

// requireSame compares bits, with every NaN the same. Minus zero is zero.
func requireSame(t *testing.T, want, got result.Float, name string) {
	t.Helper()
	if math.IsNaN(float64(want)) {
		require.True(t, math.IsNaN(float64(got)), name)
		return
	}
	require.Equal(t, want, got, name)
}

func writeTable(t *testing.T, of *result.Predictions, rows []result.Prediction) string {
	t.Helper()
	var b strings.Builder
	w := testref.Must(NewCSV(&b, PredictionColumns(of)))(t)
	for i := range rows {
		require.NoError(t, w.Write(&rows[i]))
	}
	require.NoError(t, w.Flush())
	return b.String()
}

// Every number of every row reads back as itself, and lines end as RFC 4180 says.
func TestCSVRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 4))
	any := func() result.Float {
		switch rng.IntN(6) {
		case 0:
			return result.Undefined()
		case 1:
			return result.Float(rng.IntN(2000) - 1000)
		}
		return result.Float(math.Float64frombits(rng.Uint64()))
	}
	list := func(n int) []result.Float {
		v := make([]result.Float, n)
		for i := range v {
			v[i] = any()
		}
		return v
	}
	labels := []result.Float{4, 9, -2}
	var rows []result.Prediction
	for i := range 60 {
		rows = append(rows, result.Prediction{NamedRow: &result.NamedRow{Index: result.Index(7 * i), Label: any()},
			Class: labels[i%3], Probability: list(3), ProbabilitySD: list(3), MAPProbability: list(3), Mean: list(3),
			Novelty: &result.Novelty{Score: any(), Rank: any(), Entropy: any(), MutualInformation: any()}, Region: result.Region{Set: labels[:i%4]}})
	}
	text := writeTable(t, &result.Predictions{Classes: labels, Fit: result.Fit{Outputs: 3}, Coverage: &result.Coverage{}}, rows)
	require.Equal(t, 61, strings.Count(text, "\r\n"))
	require.Equal(t, 61, strings.Count(text, "\n"))
	table := readTable(t, text)
	require.Len(t, table, 60)
	for i, r := range rows {
		got := table[i]
		require.Equal(t, strconv.Itoa(int(r.Index)), got["index"])
		requireSame(t, r.Label, number(t, got["label"]), "label")
		requireSame(t, r.Class, number(t, got["class"]), "class")
		for k, l := range []string{"4", "9", "-2"} {
			requireSame(t, r.Probability[k], number(t, got["probability_"+l]), "probability")
			requireSame(t, r.ProbabilitySD[k], number(t, got["probability_sd_"+l]), "sd")
			requireSame(t, r.MAPProbability[k], number(t, got["map_probability_"+l]), "map")
			requireSame(t, r.Mean[k], number(t, got["mean_"+strconv.Itoa(k)]), "mean")
		}
		requireSame(t, r.Novelty.Score, number(t, got["novelty"]), "novelty")
		requireSame(t, r.Novelty.Entropy, number(t, got["entropy"]), "entropy")
		requireSame(t, r.Novelty.MutualInformation, number(t, got["mutual_information"]), "information")
		requireSame(t, r.Novelty.Rank, number(t, got["novelty_rank"]), "rank")
		require.Equal(t, []string{"", "4", "4 9", "4 9 -2"}[i%4], got["set"])
	}
}

func TestCSVHeaders(t *testing.T) {
	for want, l := range map[string]*result.Predictions{
		"index,label,class,probability_4,probability_9,probability_sd_4,probability_sd_9,map_probability_4,map_probability_9,mean_0," +
			"novelty,novelty_rank,entropy,mutual_information": {Classes: []result.Float{4, 9}, Fit: result.Fit{Outputs: 1}},
		"index,target,mean,observation_sd,function_sd,expected,map_expected,novelty,novelty_rank,entropy,mutual_information,interval_lo,interval_hi": {Fit: result.Fit{Outputs: 1}, Coverage: &result.Coverage{}},
		"index,target,mean_0,mean_1,observation_sd_0,observation_sd_1,function_sd_0,function_sd_1,novelty,novelty_rank,entropy,mutual_information":   {Fit: result.Fit{Outputs: 2}},
	} {
		require.Equal(t, want+"\r\n", writeTable(t, l, nil))
	}
}

// A regression writes its columns, and lists that are not known stay empty.
func TestCSVOfARegression(t *testing.T) {
	rows := []result.Prediction{
		{NamedRow: &result.NamedRow{Index: 3, Label: 1.5},
			Mean: []result.Float{1.0 / 3}, ObservationSD: []result.Float{2}, FunctionSD: []result.Float{0.5},
			Novelty: &result.Novelty{Score: 4, Rank: 0.75, Entropy: 6, MutualInformation: 5}, Expected: 0.25, MAPExpected: 0.125, Region: result.Region{Interval: []result.Float{-1, 1e-300}}},
		{NamedRow: &result.NamedRow{Index: 4, Label: result.Undefined()},
			Mean:    []result.Float{-7},
			Novelty: &result.Novelty{Score: result.Undefined(), Rank: result.Undefined(), Entropy: result.Undefined(), MutualInformation: result.Undefined()}, Expected: result.Undefined(), MAPExpected: result.Undefined()},
	}
	text := writeTable(t, &result.Predictions{Fit: result.Fit{Outputs: 1}, Coverage: &result.Coverage{}}, rows)
	_, body, _ := strings.Cut(text, "\r\n")
	require.Equal(t, "3,1.5,0.3333333333333333,2,0.5,0.25,0.125,4,0.75,6,5,-1,1e-300\r\n4,,-7,,,,,,,,,,\r\n", body)
	require.Panics(t, func() { writeTable(t, &result.Predictions{Fit: result.Fit{Outputs: 2}}, rows) })
}

func TestCSVErrorsAreReported(t *testing.T) {
	w, err := NewCSV(full{}, PredictionColumns(&result.Predictions{Fit: result.Fit{Outputs: 1}}))
	require.NoError(t, err, "the header is in the buffer")
	require.ErrorIs(t, w.Flush(), errFull)
}

// Names of classes stand for their labels in every column, and rows have their names.
func TestCSVNames(t *testing.T) {
	var b strings.Builder
	w, err := NewCSV(&b, PredictionColumns(&result.Predictions{Classes: []result.Float{0, 1}, ClassNames: []string{"default", "repaid"}, IDs: true, Fit: result.Fit{Outputs: 1}, Coverage: &result.Coverage{}}))
	require.NoError(t, err)
	require.NoError(t, w.Write(&result.Prediction{NamedRow: &result.NamedRow{Index: 7, ID: "A-7", Label: result.Undefined()},
		Class: 1, Probability: []result.Float{.25, .75}, Mean: []result.Float{1},
		Novelty: &result.Novelty{}, Region: result.Region{Set: []result.Float{1, 0}}}))
	require.NoError(t, w.Flush())
	require.Equal(t, "index,id,label,class,probability_default,probability_repaid,probability_sd_default,probability_sd_repaid,map_probability_default,map_probability_repaid,mean_0,novelty,novelty_rank,entropy,mutual_information,set\r\n"+
		"7,A-7,,repaid,0.25,0.75,,,,,1,0,0,0,0,repaid default\r\n", b.String())
}
