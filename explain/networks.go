package explain

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/funcgp/funcgp/gp"
)

// # Several networks
//
// Networks k = 1…K that differ only in their training, by its start and its order of rows, each
// have a posterior of their own. For the mean of their outputs the sums add up as those of one
// network do,
//
//	1/K Σ_k f_lin,k(x*) = 1/K Σ_k m_k(x*) + Σ_i [1/K Σ_k C_k(x*,x_i) b_k,i]    (E14),
//
// and the same with κ_k α_k (E12). The spread of an example's terms over the networks shows what
// training again would change: it is the run-to-run error bar of the term.

// A Spread says how a number varies over K networks. SD and SE are in the unit of the number.
type Spread struct {
	K  int
	SD float64 // standard deviation of one network's number, √(Σ(v_k − v̄)²/(K−1)); NaN for one network
	SE float64 // standard error of the mean over the networks, SD/√K
}

// SpreadOf returns the mean of the numbers of K networks, and how they vary. If all numbers are
// equal, the mean is exactly that number, and the spread of several is exactly 0.
func SpreadOf(values []float64) (mean float64, s Spread) {
	squares := 0.0
	for k, v := range values {
		// Welford's running mean and sum of squares
		d := v - mean
		if d != 0 {
			mean += d / float64(k+1)
		}
		squares += d * (v - mean)
	}
	s.K = len(values)
	s.SD = math.NaN()
	if s.K > 1 {
		s.SD = math.Sqrt(squares / float64(s.K-1))
	}
	s.SE = s.SD / math.Sqrt(float64(s.K))
	return mean, s
}

// Over returns the mean of the number of(x) over the networks x, and how it varies.
func Over[T any](networks []T, of func(x T) float64) (float64, Spread) {
	values := make([]float64, len(networks))
	for k, x := range networks {
		values[k] = of(x)
	}
	return SpreadOf(values)
}

// Distinguishable tells whether the 95 % interval of Student's t with K−1 degrees of freedom about
// the mean over networks excludes 0, so that other networks may be expected to give the same sign.
// It is false where SE is NaN or zero.
func (s Spread) Distinguishable(mean float64) bool {
	if !(s.SE > 0) {
		return false
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(s.K - 1)}
	return math.Abs(mean) > t.Quantile(0.975)*s.SE
}

// A TermSpread says how a term and its removal vary over networks.
type TermSpread struct{ Value, Raw, Removal Spread }

// A Network holds the numbers of one network in an Explanation of the mean of several:
// Output = PriorMean + Sum + Remainder.
type Network struct {
	Output, PriorMean, Sum, RawSum, Remainder float64
	Mean                                      float64 // posterior mean: the prediction
}

// MeanOf explains the mean output of K networks at a test row, from the explanation of the
// same row and target by each of them with Options.All, over the same N training examples.
// It uses the fields Terms, Top, Sides, Similar, Groups and Curve of o; nil means the defaults.
//
// Every number of the result is the mean over the networks: Network, Mean, PriorMean, Sum and
// Remainder, and Value, Raw, Removal and Similarity of each term, of which the largest are
// listed. So the sum adds up as those of the networks do. Term.Networks holds the error bars,
// Explanation.Networks the numbers of each network. Fields that belong to a single posterior are
// not set: PseudoTarget, Alpha, VarianceReduction and Layers.
func MeanOf(networks []Explanation, o *Options) Explanation {
	if o == nil {
		o = &Options{}
	}
	if len(networks) == 0 {
		panic("explain: no networks")
	}
	if o.Top < 0 || o.Similar < 0 {
		panic("explain: negative option")
	}
	m := meanOf{target: networks[0].Target}
	for k := range networks {
		x := &networks[k]
		m.networks = append(m.networks, x)
		if x.All == nil {
			panic("explain: the mean over networks needs Options.All")
		}
		if x.Target != m.target || len(x.All.Value) != len(networks[0].All.Value) {
			panic("explain: the networks explain different targets or training data")
		}
	}
	all := &Columns{
		Value:      m.column(func(c *Columns) []float64 { return c.Value }),
		Raw:        m.column(func(c *Columns) []float64 { return c.Raw }),
		Similarity: m.column(func(c *Columns) []float64 { return c.Similarity }),
		Removal:    m.column(func(c *Columns) []float64 { return c.Removal }),
	}
	x := Explanation{Target: m.target, All: all}
	x.Network, _ = Over(m.networks, func(x *Explanation) float64 { return x.Network })
	x.Mean, _ = Over(m.networks, func(x *Explanation) float64 { return x.Mean })
	x.PriorMean, _ = Over(m.networks, func(x *Explanation) float64 { return x.PriorMean })
	x.Sum, _ = Over(m.networks, func(x *Explanation) float64 { return x.Sum })
	x.RawSum, _ = Over(m.networks, func(x *Explanation) float64 { return x.RawSum })
	// f − m − s
	x.Remainder = x.Network - x.PriorMean - x.Sum
	for _, one := range m.networks {
		x.Networks = append(x.Networks, Network{Output: one.Network, PriorMean: one.PriorMean, Sum: one.Sum, RawSum: one.RawSum, Remainder: one.Remainder, Mean: one.Mean})
	}
	terms := all.Value
	if o.Terms == gp.RawTerms {
		terms = all.Raw
	}
	n := len(terms)
	size := o.Top
	if size == 0 {
		size = 8
	}
	list, plus, minus, similar := top{k: min(size, n)}, top{}, top{}, top{k: min(o.Similar, n)}
	if o.Sides {
		plus.k, minus.k = list.k, list.k
	}
	groups := make(subtotals, numberOfGroups(o.Groups, n))
	var abs, rawAbs sum
	for i, v := range terms {
		abs.add(math.Abs(all.Value[i]))
		rawAbs.add(math.Abs(all.Raw[i]))
		if len(groups) > 0 {
			groups[o.Groups[i]].add(v)
		}
		c := candidate{index: i, score: math.Abs(v)}
		list.offer(c)
		if v < 0 {
			minus.offer(c)
		} else {
			plus.offer(c)
		}
		c.score = all.Similarity[i]
		similar.offer(c)
	}
	// Σ|v| / |s|
	x.Cancellation, x.RawCancellation = abs.value()/math.Abs(x.Sum), rawAbs.value()/math.Abs(x.RawSum)
	x.Terms, x.For, x.Against, x.Similar = m.terms(all, &list), m.terms(all, &plus), m.terms(all, &minus), m.terms(all, &similar)
	x.Subtotals = groups.values()
	if o.Curve {
		x.Curve = curve(slices.Clone(terms))
	}
	return x
}

type meanOf struct {
	networks []*Explanation
	target   Target
}

// column returns the mean of a column of all training examples.
func (m *meanOf) column(of func(c *Columns) []float64) []float64 {
	out := make([]float64, len(m.networks[0].All.Value))
	for i := range out {
		out[i], _ = Over(m.networks, func(x *Explanation) float64 { return of(x.All)[i] })
	}
	return out
}

// terms returns the means of the listed terms, with their spread.
func (m *meanOf) terms(all *Columns, t *top) []Term {
	var list []Term
	for _, c := range t.sorted() {
		i, s := c.index, &TermSpread{}
		_, s.Value = Over(m.networks, func(x *Explanation) float64 { return x.All.Value[i] })
		_, s.Raw = Over(m.networks, func(x *Explanation) float64 { return x.All.Raw[i] })
		_, s.Removal = Over(m.networks, func(x *Explanation) float64 { return x.All.Removal[i] })
		list = append(list, Term{Index: i, Value: all.Value[i], Raw: all.Raw[i], Similarity: all.Similarity[i], Removal: all.Removal[i], Networks: s})
	}
	return list
}
