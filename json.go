package funcgp

import (
	"encoding/json"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
)

// MarshalJSON implements json.Marshaler: members as in the rows of gpexplain predict --json, with null for NaN,
// but label and class are names. Row is there for rows of the data alone, and what does not apply is left out.
func (x Prediction) MarshalJSON() ([]byte, error) {
	type numbers = []report.Float
	out := struct {
		Row                *int      `json:"index,omitempty"`
		ID                 string    `json:"id,omitempty"`
		Label              string    `json:"label,omitempty"`
		Class              string    `json:"class,omitempty"`
		Probability        numbers   `json:"probability,omitempty"`
		ProbabilitySD      numbers   `json:"probability_sd,omitempty"`
		NetworkProbability numbers   `json:"map_probability,omitempty"`
		Mean               numbers   `json:"mean"`
		Covariance         []numbers `json:"covariance"`
		ObservationMean    numbers   `json:"observation_mean,omitempty"`
		ObservationSD      numbers   `json:"observation_sd,omitempty"`
		FunctionSD         numbers   `json:"function_sd,omitempty"`
		Novelty            Novelty   `json:"novelty"`
	}{nil, x.ID, x.Label, x.Class, report.Floats(x.Probability), report.Floats(x.ProbabilitySD), report.Floats(x.NetworkProbability),
		report.Floats(x.Mean), nil, report.Floats(x.ObservationMean), report.Floats(x.ObservationSD), report.Floats(x.FunctionSD), x.Novelty}
	if x.Row >= 0 {
		out.Row = &x.Row
	}
	if x.Covariance != nil {
		for i := range x.Covariance.SymmetricDim() {
			out.Covariance = append(out.Covariance, report.Floats(mat.Row(nil, i, x.Covariance)))
		}
	}
	return json.Marshal(out)
}

// MarshalJSON implements json.Marshaler: names in small letters, and null for NaN.
func (n Novelty) MarshalJSON() ([]byte, error) {
	return json.Marshal(report.Novelty{Score: report.Float(n.Score), Rank: report.Float(n.Rank), Entropy: report.Float(n.Entropy), MutualInformation: report.Float(n.MutualInformation)})
}

// MarshalJSON implements json.Marshaler: members as those of an output in gpexplain explain --json beside the
// prediction, with null for NaN.
func (x Explanation) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Prediction Prediction   `json:"prediction"`
		For        string       `json:"for"`
		Against    string       `json:"against,omitempty"`
		Mean       report.Float `json:"mean"`
		PriorMean  report.Float `json:"prior_mean"`
		Sum        report.Float `json:"contribution_sum"`
		Remainder  report.Float `json:"remainder"`
		Terms      []Term       `json:"contributions"`
	}{x.Prediction, x.For, x.Against, report.Float(x.Mean), report.Float(x.PriorMean), report.Float(x.Sum), report.Float(x.Remainder), append([]Term{}, x.Terms...)})
}

// MarshalJSON implements json.Marshaler: members as in gpexplain explain --json, with null for NaN, but label is
// a name.
func (t Term) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Row        int          `json:"index"`
		ID         string       `json:"id,omitempty"`
		Label      string       `json:"label"`
		Value      report.Float `json:"value"`
		SD         report.Float `json:"sd"`
		Removal    report.Float `json:"removal"`
		Similarity report.Float `json:"similarity"`
	}{t.Row, t.ID, t.Label, report.Float(t.Value), report.Float(t.SD), report.Float(t.Removal), report.Float(t.Similarity)})
}
