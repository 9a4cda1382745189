package funcgp

import (
	"encoding/json"

	"github.com/funcgp/funcgp/explain/result"
)

// MarshalJSON implements json.Marshaler: members as those of an output in gpexplain explain --json, with null for NaN,
// beside the prediction; but for and against are names in place of contrast, and mean is the output's network.
func (x Explanation) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Prediction      Prediction     `json:"prediction"`
		For             string         `json:"for"`
		Against         string         `json:"against,omitempty"`
		Mean            result.Float   `json:"mean"`
		PriorMean       result.Float   `json:"prior_mean"`
		ContributionSum result.Float   `json:"contribution_sum"`
		Remainder       result.Float   `json:"remainder"`
		SumResidual     result.Float   `json:"sum_residual"`
		SumTolerance    result.Float   `json:"sum_tolerance"`
		Contributions   []Contribution `json:"contributions"`
	}{x.Prediction, x.For, x.Against, result.Float(x.Mean), result.Float(x.PriorMean), result.Float(x.ContributionSum), result.Float(x.Remainder), result.Float(x.SumResidual),
		result.Float(x.SumTolerance), append([]Contribution{}, x.Contributions...)})
}

// MarshalJSON implements json.Marshaler: members as in gpexplain explain --json, with null for NaN, but label is
// a name.
func (c Contribution) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Index      int           `json:"index"`
		ID         string        `json:"id,omitempty"`
		Label      string        `json:"label"`
		Value      result.Float  `json:"value"`
		SD         result.Float  `json:"sd"`
		Removal    result.Float  `json:"removal"`
		Influence  *result.Float `json:"influence,omitempty"`
		Similarity result.Float  `json:"similarity"`
	}{c.Index, c.ID, c.Label, result.Float(c.Value), result.Float(c.SD), result.Float(c.Removal), (*result.Float)(c.Influence), result.Float(c.Similarity)})
}
