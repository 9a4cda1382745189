package result

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/internal/testref"
)

// The JSON of DESIGN §6, name by name and in order.
func TestReportJSONIsTheContract(t *testing.T) {
	r := &Report{
		Input: Input{Split: "test", Index: 247, Label: 4},
		Prediction: Prediction{
			Class: 9, Probability: Floats([]float64{0.25, 0.75}), ProbabilitySD: Floats([]float64{0.1, 0.1}),
			MAPProbability: Floats([]float64{0.2, 0.8}), Mean: Floats([]float64{1.0 / 3}), Covariance: [][]Float{{2}},
		},
		Outputs: []Output{{
			Network: 1.5, PriorMean: 0.5, ContributionSum: 1, Remainder: Float(math.NaN()), Cancellation: 2.5, RawCancellation: Float(math.Inf(1)),
			Contributions: []Contribution{{Index: 18, Label: 9, Value: 0.5, PseudoTarget: Floats([]float64{2}), Raw: 3, Alpha: Floats([]float64{0.1}), Similarity: 0.5, Removal: -0.5}},
			Similar:       []Contribution{{Index: 99}},
		}},
		Fit: Fit{Examples: 3000, Outputs: 1, Parameters: 4587, PriorPrecision: 10, Refit: true, Method: "nystrom", Inducing: 200, TraceError: 0.25,
			GradientNorm: 2.45, LogEvidence: -100, Bound: "none", LogDet: 20, LogLikelihood: -3, Scatter: 7},
		Timings: Timings{Load: 1, Linearize: 2, Kernel: 3, Factorize: 4, Predict: 5, Write: 6, Total: 21},
	}
	var b bytes.Buffer
	require.NoError(t, r.WriteJSON(&b))
	require.Equal(t, `{"schema":"funcgp/explain/1","input":{"split":"test","index":247,"label":4},`+
		`"prediction":{"class":9,"probability":[0.25,0.75],"probability_sd":[0.1,0.1],"map_probability":[0.2,0.8],"mean":[0.3333333333333333],"covariance":[[2]]},`+
		`"outputs":[{"output":0,"network":1.5,"prior_mean":0.5,"contribution_sum":1,"remainder":null,"sum_residual":0,"sum_tolerance":0,"cancellation":2.5,"raw_cancellation":null,`+
		`"contributions":[{"index":18,"label":9,"value":0.5,"pseudo_target":[2],"raw":3,"alpha":[0.1],"similarity":0.5,"removal":-0.5}]}],`+
		`"fit":{"examples":3000,"outputs":1,"parameters":4587,"prior_precision":10,"refit":true,"method":"nystrom","inducing":200,"trace_error":0.25,`+
		`"gradient_norm":2.45,"log_evidence":-100,"bound":"none","log_det":20,"log_likelihood":-3,"scatter":7,"warnings":[]},`+
		`"timings":{"load":1,"linearize":2,"kernel":3,"factorize":4,"predict":5,"write":6,"total":21}}`+"\n", b.String())
}

func TestContrastEntry(t *testing.T) {
	b := testref.Must(json.Marshal(Rows{}.Output(explain.Explanation{Target: explain.Contrast(4, 2)})))(t)
	require.Contains(t, string(b), `{"output":null,"contrast":{"plus":4,"minus":2},"network":0,`)
	require.Contains(t, string(b), `"contributions":[]`)
}

func TestFileInput(t *testing.T) {
	b := testref.Must(json.Marshal(Input{Split: "file", Index: -1, Label: Undefined(), File: "a.png"}))(t)
	require.Equal(t, `{"split":"file","index":null,"label":null,"file":"a.png"}`, string(b))
}

func TestFloatRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for range 1000 {
		want := Float(math.Float64frombits(rng.Uint64()))
		b := testref.Must(json.Marshal(want))(t)
		var got Float
		require.NoError(t, json.Unmarshal(b, &got))
		if want.Finite() {
			require.Equal(t, want, got)
		} else {
			require.Equal(t, "null", string(b))
			require.False(t, got.Finite())
		}
	}
	var i Index
	require.NoError(t, json.Unmarshal([]byte("null"), &i))
	require.Equal(t, Index(-1), i)
}

// A Report names rows of the file with labels or, with zero Rows, positions
// without.
func TestRowsName(t *testing.T) {
	x := explain.Explanation{Terms: []explain.Term{{Index: 2, Value: 7}, {Index: 0}}, Similar: []explain.Term{{Index: 1}}}
	o := Rows{Index: []int{10, 11, 12}, Label: []float64{4, 9, 4}}.Output(x)
	require.Equal(t, Index(12), o.Contributions[0].Index)
	require.Equal(t, Float(4), o.Contributions[0].Label)
	require.Equal(t, Float(9), o.Similar[0].Label)
	o = Rows{}.Output(x)
	require.Equal(t, Index(2), o.Contributions[0].Index)
	require.False(t, o.Contributions[0].Label.Finite())
}

func TestImportanceReport(t *testing.T) {
	list := []explain.Importance{{Index: 1, Norm: 3, Alpha: []float64{3}}, {Index: 0, Norm: 1, Alpha: []float64{-1}}}
	var b bytes.Buffer
	require.NoError(t, Rows{Index: []int{5, 6}}.Importances(list, 1).WriteJSON(&b))
	require.Contains(t, b.String(), `{"schema":"funcgp/importances/1","meanings":{`)
	require.Contains(t, b.String(), `},"importances":[{"index":6,"label":null,"norm":3,"alpha":[3]}],"curve":[3,1],"fit":{`)
}

// Training rows have the names of their classes and their own, in all lists and in
// the subtotals.
func TestRowsHaveNames(t *testing.T) {
	r := Rows{Label: []float64{1, 0, 1}, ID: []string{"a-7", "b-2", "c-9"}, Classes: []Float{0, 1}, ClassNames: []string{"default", "repaid"}}
	require.Equal(t, []int{1, 0, 1}, r.Groups())
	o := r.Output(explain.Explanation{Terms: []explain.Term{{Index: 2}}, Subtotals: []explain.Subtotal{{Examples: 1, Positive: 2, Negative: -1}, {Examples: 2}}})
	require.Equal(t, "repaid", o.Contributions[0].LabelName)
	require.Equal(t, "c-9", o.Contributions[0].ID)
	b := testref.Must(json.Marshal(o.Subtotals))(t)
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
