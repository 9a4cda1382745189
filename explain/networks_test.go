package explain

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
)

// fromNetworks explains the same number of rows by k unrelated posteriors over as many
// training examples.
func fromNetworks(t *testing.T, k int, o Options) []Explanation {
	t.Helper()
	const n, c, p = 23, 3, 40
	var list []Explanation
	for i := range k {
		rng := rand.New(rand.NewPCG(uint64(i), 9))
		d := testkit.NewDual(rng, n, c, p)
		e := testref.Must(New(d, d, &o))(t)
		rows := testref.Must(e.Explain(t.Context(), testkit.RandomBatch(rng, 1, c, p)))(t)
		list = append(list, rows[0][0])
	}
	return list
}

// options lists everything of a contrast, by groups.
func (m *meanOf) options(terms gp.Terms) Options {
	groups := make([]int, 23)
	for i := range groups {
		groups[i] = i % 3
	}
	return Options{All: true, Top: 5, Sides: true, Similar: 4, Curve: true, Groups: groups, Terms: terms, Targets: []Target{Contrast(2, 0)}}
}

// The sum for the mean output of several networks closes: prior mean, all terms and the
// remainder add up to the mean of the outputs, to 1e-8, and every number is the plain mean.
func TestMeanOfNetworksCloses(t *testing.T) {
	for _, terms := range []gp.Terms{gp.PosteriorTerms, gp.RawTerms} {
		o := new(meanOf).options(terms)
		list := fromNetworks(t, 5, o)
		x := MeanOf(list, &o)
		require.Len(t, x.Networks, 5)
		output, value, raw := 0.0, 0.0, 0.0
		for k := range list {
			output += list[k].Network / 5
			require.Equal(t, Network{list[k].Network, list[k].PriorMean, list[k].Sum, list[k].RawSum, list[k].Remainder, list[k].Mean}, x.Networks[k])
		}
		scale := 0.0
		for i := range x.All.Value {
			value, raw = value+x.All.Value[i], raw+x.All.Raw[i]
			scale += math.Abs(x.All.Value[i]) + math.Abs(x.All.Raw[i])
		}
		require.InDelta(t, output, x.Network, 1e-12*math.Abs(output))
		require.InDelta(t, x.Network, x.PriorMean+value+x.Remainder, 1e-8*scale)
		require.InDelta(t, x.Network, x.PriorMean+raw+x.Remainder, 1e-8*scale)
		require.InDelta(t, x.Sum, x.RawSum, 1e-8*scale)
		sum, examples := 0.0, 0
		for _, s := range x.Subtotals {
			sum, examples = sum+s.Sum(), examples+s.Examples
		}
		require.InDelta(t, x.Sum, sum, 1e-8*scale)
		require.Equal(t, 23, examples)
		require.InDelta(t, x.Sum, x.Curve[len(x.Curve)-1].Sum, 1e-8*scale)

		require.Len(t, x.Terms, 5)
		require.Len(t, x.Similar, 4)
		require.True(t, slices.IsSortedFunc(x.Terms, func(a, b Term) int {
			if terms == gp.RawTerms {
				return -cmpAbs(a.Raw, b.Raw)
			}
			return -cmpAbs(a.Value, b.Value)
		}))
		for _, term := range slices.Concat(x.Terms, x.For, x.Against, x.Similar) {
			var v, r, q, s []float64
			for k := range list {
				v, r = append(v, list[k].All.Value[term.Index]), append(r, list[k].All.Raw[term.Index])
				q, s = append(q, list[k].All.Removal[term.Index]), append(s, list[k].All.Similarity[term.Index])
			}
			for _, one := range []struct {
				got  float64
				have Spread
				of   []float64
			}{{term.Value, term.Networks.Value, v}, {term.Raw, term.Networks.Raw, r}, {term.Removal, term.Networks.Removal, q}} {
				require.InEpsilon(t, stat.Mean(one.of, nil), one.got, 1e-9)
				require.InEpsilon(t, stat.StdDev(one.of, nil), one.have.SD, 1e-9)
				require.InEpsilon(t, stat.StdDev(one.of, nil)/math.Sqrt(5), one.have.SE, 1e-9)
				require.Equal(t, 5, one.have.K)
				// Student's 97.5 % quantile of 4 degrees of freedom, from tables
				require.Equal(t, math.Abs(one.got) > 2.776445*one.have.SE, one.have.Distinguishable(one.got))
			}
			require.InEpsilon(t, stat.Mean(s, nil), term.Similarity, 1e-9)
			require.Nil(t, term.PseudoTarget)
		}
	}
}

func cmpAbs(a, b float64) int {
	switch a, b = math.Abs(a), math.Abs(b); {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// One network is its own mean, to the last bit, and so is the same one several times over,
// with no spread.
func TestMeanOfTheSameNetwork(t *testing.T) {
	for _, terms := range []gp.Terms{gp.PosteriorTerms, gp.RawTerms} {
		o := new(meanOf).options(terms)
		one := fromNetworks(t, 1, o)[0]
		for _, k := range []int{1, 3, 7} {
			x := MeanOf(slices.Repeat([]Explanation{one}, k), &o)
			for _, list := range [][2][]Term{{one.Terms, x.Terms}, {one.For, x.For}, {one.Against, x.Against}, {one.Similar, x.Similar}} {
				require.Len(t, list[1], len(list[0]))
				for i, want := range list[0] {
					got := list[1][i]
					require.Equal(t, []float64{float64(want.Index), want.Value, want.Raw, want.Similarity, want.Removal}, []float64{float64(got.Index), got.Value, got.Raw, got.Similarity, got.Removal})
					for _, s := range []Spread{got.Networks.Value, got.Networks.Raw, got.Networks.Removal} {
						require.False(t, s.Distinguishable(want.Value))
						if k == 1 {
							require.True(t, math.IsNaN(s.SD) && math.IsNaN(s.SE), "one network has no spread")
						} else {
							require.Equal(t, Spread{K: k}, s)
						}
					}
				}
			}
			require.Equal(t, one.All, x.All)
			require.Equal(t, one.Curve, x.Curve)
			require.Equal(t, one.Subtotals, x.Subtotals)
			require.Equal(t, []float64{one.Network, one.PriorMean, one.Sum, one.RawSum, one.Remainder, one.Cancellation, one.RawCancellation},
				[]float64{x.Network, x.PriorMean, x.Sum, x.RawSum, x.Remainder, x.Cancellation, x.RawCancellation})
		}
	}
}

// A removal that is undefined for one network is undefined in the mean.
func TestMeanOfUndefinedRemoval(t *testing.T) {
	o := Options{All: true, Top: 23}
	list := fromNetworks(t, 2, o)
	list[1].All.Removal[7] = math.NaN()
	for _, term := range MeanOf(list, &o).Terms {
		require.Equal(t, term.Index == 7, math.IsNaN(term.Removal))
		require.Equal(t, term.Index == 7, math.IsNaN(term.Networks.Removal.SE))
		require.False(t, math.IsNaN(term.Networks.Value.SE))
	}
}

func TestMeanOfPanics(t *testing.T) {
	o := Options{All: true}
	list := fromNetworks(t, 2, o)
	for what, call := range map[string]func(){
		"explain: no networks":                              func() { MeanOf(nil, nil) },
		"explain: negative option":                          func() { MeanOf(list, &Options{Top: -1}) },
		"explain: the mean over networks needs Options.All": func() { MeanOf(fromNetworks(t, 2, Options{}), nil) },
		"explain: the networks explain different targets or training data": func() {
			MeanOf(append(list, fromNetworks(t, 1, Options{All: true, Targets: []Target{Single(1)}})...), nil)
		},
		"explain: the groups do not match the training data": func() { MeanOf(list, &Options{Groups: []int{0}}) },
	} {
		require.PanicsWithValue(t, what, call)
	}
	require.Len(t, MeanOf(list, nil).Terms, 8)
}
