package funcgp

import (
	"encoding/json"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
)

// MarshalJSON implements json.Marshaler: members as in the prediction of gpexplain explain --json, with null for NaN,
// but label and class are names. Row is there for rows of the data alone, and what does not apply is left out.
func (x Prediction) MarshalJSON() ([]byte, error) {
	type numbers = []result.Float
	out := struct {
		Index           *int           `json:"index,omitempty"`
		ID              string         `json:"id,omitempty"`
		Label           string         `json:"label,omitempty"`
		Class           string         `json:"class,omitempty"`
		Probability     numbers        `json:"probability,omitempty"`
		ProbabilitySD   numbers        `json:"probability_sd,omitempty"`
		MAPProbability  numbers        `json:"map_probability,omitempty"`
		Mean            numbers        `json:"mean"`
		Covariance      []numbers      `json:"covariance"`
		Calibration     *result.Scales `json:"calibration,omitempty"`
		ObservationMean numbers        `json:"observation_mean,omitempty"`
		ObservationSD   numbers        `json:"observation_sd,omitempty"`
		FunctionSD      numbers        `json:"function_sd,omitempty"`
		Novelty         Novelty        `json:"novelty"`
	}{nil, x.ID, x.Label, x.Class, result.Floats(x.Probability), result.Floats(x.ProbabilitySD), result.Floats(x.MAPProbability),
		result.Floats(x.Mean), nil, x.Calibration, result.Floats(x.ObservationMean), result.Floats(x.ObservationSD), result.Floats(x.FunctionSD), x.Novelty}
	if x.Index >= 0 {
		out.Index = &x.Index
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

// MarshalJSON implements json.Marshaler: interval or set as in the rows of gpexplain predict --coverage --json, with null
// for what is not finite, but classes are names.
func (r Region) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Interval []result.Float `json:"interval,omitzero"`
		Set      []string       `json:"set,omitzero"`
	}{result.Floats(r.Interval), r.Set})
}

// MarshalJSON implements json.Marshaler: names in small letters, and null for NaN.
func (x Info) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Method               string       `json:"method"`
		Likelihood           string       `json:"likelihood"`
		PriorPrecision       result.Float `json:"prior_precision"`
		PriorPrecisionOrigin string       `json:"prior_precision_origin"`
		NoiseVariance        result.Float `json:"noise_variance"`
		LogEvidence          result.Float `json:"log_evidence"`
		Bound                string       `json:"bound,omitempty"`
		Examples             int          `json:"examples"`
		Parameters           int          `json:"parameters"`
		Outputs              int          `json:"outputs"`
		InputShape           []int        `json:"input_shape"`
		Columns              []string     `json:"columns,omitempty"`
		Target               string       `json:"target,omitempty"`
		Classes              []string     `json:"classes,omitempty"`
		Labels               []string     `json:"labels,omitempty"`
	}{x.Method, x.Likelihood, result.Float(x.PriorPrecision), x.PriorPrecisionOrigin, result.Float(x.NoiseVariance), result.Float(x.LogEvidence), x.Bound, x.Examples, x.Parameters,
		x.Outputs, x.InputShape, x.Columns, x.Target, x.Classes, x.Labels})
}
