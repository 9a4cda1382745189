package calibration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/score"
)

// An outcome is what was measured on one split of a case.
type outcome struct {
	Case       string       `json:"case"`
	Split      int          `json:"split"`
	Likelihood string       `json:"likelihood"`
	Examples   int          `json:"examples"`   // N
	Outputs    int          `json:"outputs"`    // C
	Parameters int          `json:"parameters"` // P
	Test       int          `json:"test"`
	Network    rowScore     `json:"network"` // p(y|f(x;θ*))
	Training   rowScore     `json:"training"`
	Tempered   *tempered    `json:"temperature,omitempty"`
	Mean       *ensemble    `json:"mean_of_networks,omitempty"`
	Posteriors []*posterior `json:"posteriors"`
}

// A rowScore judges predictions of the test rows, or of others where it says so.
type rowScore struct {
	NLL      result.Float `json:"nll"`
	StdErr   result.Float `json:"nll_se"`
	ECE      result.Float `json:"ece"`
	Accuracy result.Float `json:"accuracy"`
	RMSE     result.Float `json:"rmse"`
}

func scoreOf(s *score.Score) rowScore {
	return rowScore{result.Float(s.NLL), result.Float(s.StdErr), result.Float(s.ECE), result.Float(s.Accuracy), result.Float(s.RMSE)}
}

// tempered is the network with logits divided by a temperature that the held-out
// rows choose; for a Gaussian the noise variance is multiplied by it.
type tempered struct {
	Rows        int          `json:"rows"`
	Temperature result.Float `json:"temperature"`
	rowScore
}

// An ensemble is the mean of the predictives of several networks.
type ensemble struct {
	Networks int `json:"networks"`
	rowScore
}

// A posterior is one posterior of a case, calibrated.
type posterior struct {
	Name         string       `json:"name"`
	Precision    result.Float `json:"precision"`
	Refit        bool         `json:"refit"`
	Inducing     int          `json:"inducing,omitempty"`
	Kept         int          `json:"kept,omitempty"`       // rows of an exact posterior of kept rows
	KeptTrace    result.Float `json:"kept_trace,omitempty"` // their part of tr Λ
	GradientNorm result.Float `json:"gradient_norm"`        // at θ*, under this precision

	Scale      result.Float `json:"scale"`
	NoiseScale result.Float `json:"noise_scale"`
	Edge       bool         `json:"edge"`
	Unscaled   rowScore     `json:"unscaled"`   // s = 1
	Calibrated rowScore     `json:"calibrated"` // at the scale that leave-one-out chose
	Plain      rowScore     `json:"plain"`      // the posterior mean without covariance
	// Gain is the network's NLL less the calibrated one, and GainSE its standard
	// error from the paired differences of the test rows.
	Gain   result.Float `json:"gain"`
	GainSE result.Float `json:"gain_se"`

	BestScale      result.Float `json:"best_scale"` // the scale that the test rows like best, the first 2,000 for C > 2
	BestNoiseScale result.Float `json:"best_noise_scale"`
	BestNLL        result.Float `json:"best_nll"`
	Regret         result.Float `json:"regret"`

	LOO        rowScore     `json:"loo"`         // by leave-one-out, calibrated
	LOONetwork rowScore     `json:"loo_network"` // its means without covariance
	LOOBy      result.Float `json:"loo_unscaled_nll"`
	LOORows    int          `json:"loo_rows"`
	LeftOut    int          `json:"loo_left_out"`
	Gap        result.Float `json:"loo_gap"` // |leave-one-out − test| of the calibrated NLL

	HeldOut *heldOut `json:"held_out,omitempty"`
	// Curve is the leave-one-out and test NLL over scales, for one or two outputs;
	// only the cache has it. Penalized is what it gives with a prior on the scale.
	Curve     []point     `json:"curve,omitempty"`
	Penalized []penalized `json:"penalized,omitempty"`

	FitSeconds result.Float `json:"fit_seconds"`
	LOOSeconds result.Float `json:"loo_seconds"`
	ScaleTime  result.Float `json:"scale_seconds"`
	Others     []novelty    `json:"novelty,omitempty"`
	Warnings   []string     `json:"warnings,omitempty"`
}

// heldOut is the same posterior with the scale that the held-out rows choose.
type heldOut struct {
	Scale      result.Float `json:"scale"`
	NoiseScale result.Float `json:"noise_scale"`
	NLL        result.Float `json:"nll"`
}

// novelty is the AUROC by which inputs of another kind are told from test rows.
type novelty struct {
	Set        string       `json:"set"`
	Score      result.Float `json:"score"`      // by the novelty of package glm
	Unscaled   result.Float `json:"unscaled"`   // by the entropy of the unscaled predictive
	Mutual     result.Float `json:"mutual"`     // by its mutual information
	Calibrated result.Float `json:"calibrated"` // by the entropy of the calibrated predictive
	Network    result.Float `json:"network"`    // by the network's entropy
	Probit     result.Float `json:"probit"`     // by the entropy of the unscaled predictive, by the multi-class probit
}

func readResults(path string) ([]*outcome, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []*outcome
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// cachedResults returns the results of all cases in the cache, by case and split.
func cachedResults(cache string) ([]*outcome, error) {
	files, err := filepath.Glob(filepath.Join(cache, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []*outcome
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		r := new(outcome)
		if err := json.Unmarshal(data, r); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		for _, p := range r.Posteriors {
			if p.Penalized, err = penalize(p.Curve, p.LOORows); err != nil {
				return nil, fmt.Errorf("%s: %w", f, err)
			}
			p.Curve = nil
		}
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b *outcome) int {
		if c := strings.Compare(a.Case, b.Case); c != 0 {
			return c
		}
		return a.Split - b.Split
	})
	return all, nil
}
