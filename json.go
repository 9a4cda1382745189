package funcgp

import (
	"encoding/json"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
)

// MarshalJSON implements json.Marshaler: members as in the rows of gpexplain predict --json, with null for NaN,
// but label and class are names. Row is there for rows of the data alone, and what does not apply is left out.
func (x Prediction) MarshalJSON() ([]byte, error) {
	type numbers = []result.Float
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
	}{nil, x.ID, x.Label, x.Class, result.Floats(x.Probability), result.Floats(x.ProbabilitySD), result.Floats(x.NetworkProbability),
		result.Floats(x.Mean), nil, result.Floats(x.ObservationMean), result.Floats(x.ObservationSD), result.Floats(x.FunctionSD), x.Novelty}
	if x.Row >= 0 {
		out.Row = &x.Row
	}
	if x.Covariance != nil {
		for i := range x.Covariance.SymmetricDim() {
			out.Covariance = append(out.Covariance, result.Floats(mat.Row(nil, i, x.Covariance)))
		}
	}
	return json.Marshal(out)
}

// MarshalJSON implements json.Marshaler: names in small letters, and null for NaN.
func (n Novelty) MarshalJSON() ([]byte, error) {
	return json.Marshal(result.Novelty{Score: result.Float(n.Score), Rank: result.Float(n.Rank), Entropy: result.Float(n.Entropy), MutualInformation: result.Float(n.MutualInformation)})
}

// MarshalJSON implements json.Marshaler: members as those of an output in gpexplain explain --json beside the
// prediction, with null for NaN.
func (x Explanation) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Prediction Prediction   `json:"prediction"`
		For        string       `json:"for"`
		Against    string       `json:"against,omitempty"`
		Mean       result.Float `json:"mean"`
		PriorMean  result.Float `json:"prior_mean"`
		Sum        result.Float `json:"contribution_sum"`
		Remainder  result.Float `json:"remainder"`
		Terms      []Term       `json:"contributions"`
	}{x.Prediction, x.For, x.Against, result.Float(x.Mean), result.Float(x.PriorMean), result.Float(x.Sum), result.Float(x.Remainder), append([]Term{}, x.Terms...)})
}

// MarshalJSON implements json.Marshaler: members as in gpexplain explain --json, with null for NaN, but label is
// a name.
func (t Term) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Row        int          `json:"index"`
		ID         string       `json:"id,omitempty"`
		Label      string       `json:"label"`
		Value      result.Float `json:"value"`
		SD         result.Float `json:"sd"`
		Removal    result.Float `json:"removal"`
		Similarity result.Float `json:"similarity"`
	}{t.Row, t.ID, t.Label, result.Float(t.Value), result.Float(t.SD), result.Float(t.Removal), result.Float(t.Similarity)})
}
