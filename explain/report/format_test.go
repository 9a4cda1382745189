package report

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
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
		{Probability(0.5), "0.500"},
		{Probability(0), "0"},
		{Probability(1), "1"},
		{Probability(0.9997), "0.9997"},
		{Probability(0.00003), "0.00003"},
		{Probability(1e-12), "1\u00a0×\u00a010⁻¹²"},
		{Probability(1 - 1e-12), "1 − 1\u00a0×\u00a010⁻¹²"},
		{Probability(math.NaN()), "–"},
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
		{typeset("2.1e-06 to -.5, (-3) + -∞"), "2.1\u00a0×\u00a010⁻⁶ to −.5, (−3) + −∞"},
		{typeset("covid-19, --lr 3, non-smoker, 2020-01-02"), "covid-19, --lr 3, non-smoker, 2020-01-02"},
		{typeset("-12345.5"), "−12\u202f345.5"},
		{typeset("1234 of 12345.67, 0.123456, 1e+06"), "1234 of 12\u202f345.67, 0.123456, 1\u00a0×\u00a010⁶"},
		{typeset("row 100400: target 121331, rows\u00a012345, labelled 10115, x12345, 20240131-2, 0012345"), "row 100400: target 121\u202f331, rows\u00a012345, labelled 10115, x12345, 20240131-2, 0012345"},
		{fixed(1.0664e-13, decimals(1.0664e-13, -2e-15)), "1.066e-13"},
		{fixed(-2e-15, decimals(1.0664e-13, -2e-15)), "-2.0e-15"},
		{fixed(-2e-18, decimals(1.0664e-13)), "0"},
		{signed(0.0025, decimals(1e-13)), "+2.500e-03"},
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
		{[]float64{12345}, 0}, {[]float64{2e-5}, 6}, {[]float64{1e-9}, 12}, {[]float64{math.Inf(1), 31}, 2},
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

// The text and the page say by which method the posterior was computed, whether
// its evidence is a bound, and when the remainder is large.
func TestPagesNameTheMethod(t *testing.T) {
	p := newDemo(3, 24, 9, 4, 9).page(t, 9, nil)
	exact := text(t, p, 80)
	require.NotContains(t, exact, "The posterior is")
	f := &p.Report.Fit
	f.Method, f.Inducing, f.TraceError, f.Bound = "nystrom", 200, 0.0875, "upper"
	require.Contains(t, text(t, p, 200), "The posterior is a Nyström approximation with 200 inducing examples. They leave 8.8 % of the prior variance")
	page := html(t, p)
	require.Contains(t, page, "a Nyström approximation with 200 inducing examples")
	require.Contains(t, page, "not below the exact one")
	require.Contains(t, page, "Trace error")
	f.Method, f.Inducing, f.TraceError, f.Bound = "subset", 1, result.Undefined(), "none"
	require.Contains(t, text(t, p, 200), "The posterior is exact for a subset of 1 example.")
	f.Method, f.Inducing = "parameters", -1
	require.Contains(t, html(t, p), "exact, by the precision of the parameters")
	require.Equal(t, exact, text(t, p, 80))
	f.Refit = false
	for i := range p.Report.Outputs {
		p.Report.Outputs[i].Remainder = 2 * p.Report.Outputs[i].ContributionSum
	}
	require.Contains(t, text(t, p, 200), "The remainder is large")
}

// tablePage explains a regression on feature values: no image and no class.
func tablePage(t testing.TB) *Page {
	t.Helper()
	rng := rand.New(rand.NewPCG(11, 1))
	const n, p = 60, 20
	d := testkit.NewDual(rng, n, 1, p)
	test := testkit.RandomBatch(rng, 1, 1, p)
	names := []string{"alcohol", "malic acid", "ash", "alkalinity", "magnesium", "phenols", "flavanoids", "hue", "proline"}
	var labels []float64
	features := make([][]float64, n)
	for i := range features {
		labels = append(labels, math.Round(100*rng.NormFloat64())/100)
		for range names {
			features[i] = append(features[i], 10*rng.NormFloat64())
		}
	}
	r := result.Rows{Label: labels}
	e := testref.Must(explain.New(d, d, &explain.Options{Sides: true, Similar: 6, Groups: r.Groups(), Curve: true}))(t)
	rows := testref.Must(e.Explain(t.Context(), test))(t)
	spread := make([]float64, len(names))
	for i := range spread {
		spread[i] = 10
	}
	mean := rows[0][0].PriorMean + rows[0][0].Sum
	return &Page{
		Report: &result.Report{
			Input:      result.Input{Split: "test", Index: 5, Label: 1.25},
			Prediction: result.Prediction{Class: result.Undefined(), Mean: result.Floats([]float64{mean}), Covariance: [][]result.Float{{0.04}}},
			Outputs:    []result.Output{r.Output(rows[0][0])},
			Fit: result.Fit{Examples: n, Outputs: 1, Parameters: p, PriorPrecision: result.Undefined(), GradientNorm: 3,
				Warnings: linearize.Warnings{errors.New("the kernel matrix was factored with jitter 1e-10"), errors.New("θ* is no mode: gradient norm 3")}},
		},
		Test:   result.Picture{Names: names, Values: features[0]},
		Train:  func(row result.Index) result.Picture { return result.Picture{Names: names, Values: features[row]} },
		Origin: result.Origin{Data: "wine.csv"}, Spread: spread,
	}
}

var (
	pagesOnce sync.Once
	onePages  map[string]*Page
)

// pages are one of each kind, made once and not to be changed.
func pages(t testing.TB) map[string]*Page {
	pagesOnce.Do(func() { onePages = makePages(t) })
	return onePages
}

func makePages(t testing.TB) map[string]*Page {
	contrast := &explain.Options{Sides: true, Similar: 8, Targets: []explain.Target{explain.Single(0), explain.Single(1), explain.Single(2), explain.Single(3), explain.Contrast(1, 3)}}
	unlabelled := newDemo(4, 40, 9, 4, 9).page(t, math.NaN(), &explain.Options{Top: 1})
	unlabelled.Report.Input = result.Input{Split: "file", Index: -1, Label: result.Undefined(), File: "mine.png"}
	bare := newDemo(5, 30, 4, 4, 9).page(t, 4, &explain.Options{Top: 30})
	bare.Train, bare.Test = nil, result.Picture{}
	return map[string]*Page{
		"right":      newDemo(1, 200, 9, 4, 9).page(t, 9, &explain.Options{Sides: true, Similar: 8}),
		"wrong":      newDemo(2, 200, 4, 4, 9).page(t, 9, &explain.Options{Sides: true, Similar: 8, Top: 12}),
		"many":       newDemo(3, 100, 3, 0, 3, 5, 8).page(t, 3, contrast),
		"table":      tablePage(t),
		"unlabelled": unlabelled,
		"bare":       bare,
	}
}
