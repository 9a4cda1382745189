package result

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain"
)

// Training rows have the names of their classes and their own, in all lists and in
// the subtotals.
func TestRowsHaveNames(t *testing.T) {
	r := Rows{Label: []float64{1, 0, 1}, ID: []string{"a-7", "b-2", "c-9"}, Classes: []Float{0, 1}, ClassNames: []string{"default", "repaid"}}
	require.Equal(t, []int{1, 0, 1}, r.Groups())
	o := r.Output(explain.Explanation{Terms: []explain.Term{{Index: 2}}, Subtotals: []explain.Subtotal{{Examples: 1, Positive: 2, Negative: -1}, {Examples: 2}}})
	require.Equal(t, "repaid", o.Contributions[0].LabelName)
	require.Equal(t, "c-9", o.Contributions[0].ID)
	b, err := json.Marshal(o.Subtotals)
	require.NoError(t, err)
	require.Equal(t, `[{"label":0,"label_name":"default","examples":1,"positive":2,"negative":-1},{"label":1,"label_name":"repaid","examples":2,"positive":0,"negative":0}]`, string(b))
	i := r.Importances([]explain.Importance{{Index: 1}}, 1)
	require.Equal(t, "default", i.Importances[0].LabelName)
	require.Equal(t, "b-2", i.Importances[0].ID)
}

// Where rows have several targets, the contributions to an output show its own.
func TestSeveralTargets(t *testing.T) {
	r := Rows{Targets: []float64{1, 10, 2, 20, 3, 30}, Width: 2}
	require.Nil(t, r.Groups())
	for c := range 2 {
		o := r.Output(explain.Explanation{Target: explain.Single(c), Terms: []explain.Term{{Index: 2}}})
		require.Equal(t, Float([]float64{3, 30}[c]), o.Contributions[0].Label)
	}
	o := r.Output(explain.Explanation{Target: explain.Contrast(1, 0), Terms: []explain.Term{{Index: 2}}})
	require.False(t, o.Contributions[0].Label.Finite())
}

// Targets fall into three groups of about equal size, in order, and equal targets
// into one.
func TestGroupsOfTargets(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		r := Rows{Label: make([]float64, 1+rng.IntN(60))}
		levels := 1 + rng.IntN(60)
		for i := range r.Label {
			r.Label[i] = float64(rng.IntN(levels))
		}
		groups := r.Groups()
		var size [parts]int
		for i, g := range groups {
			size[g]++
			for k := range groups[:i] {
				require.Equal(t, r.Label[k] == r.Label[i], r.Label[k] == r.Label[i] && groups[k] == g)
				if r.Label[k] < r.Label[i] {
					require.LessOrEqual(t, groups[k], g)
				}
			}
		}
		require.Positive(t, size[0], "the lowest group is not empty")
	}
	r := Rows{Label: []float64{5, 1, 2, 9, 7, 3}}
	require.Equal(t, []int{1, 0, 0, 2, 2, 1}, r.Groups())
	o := r.Output(explain.Explanation{Subtotals: make([]explain.Subtotal, 3)})
	require.Equal(t, []Float{3, 5}, o.Subtotals[1].Range)
	require.False(t, o.Subtotals[1].Label.Finite())
	require.Nil(t, Rows{}.Groups())
}
