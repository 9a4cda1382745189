package result

import (
	"fmt"

	"github.com/funcgp/funcgp/explain"
)

// Networks are several networks that were trained apart, whose mean output a Report
// explains.
type Networks struct {
	Says   string          `json:"says"` // what the spreads are, in a sentence
	Models []NetworkResult `json:"models"`
}

// NetworkResult is what one of several networks predicts for the row, with the fields of
// Prediction and Fit.
type NetworkResult struct {
	Model       string  `json:"model"` // its file
	Class       Float   `json:"class"`
	Probability []Float `json:"probability"`
	Mean        []Float `json:"mean"`
	Fit         Fit     `json:"fit"`
}

// NetworkSums has, for one output, the sums by each network in the order of Networks.Models, and how they vary,
// in the unit of f.
type NetworkSums struct {
	Each   []NetworkSum `json:"each"`
	Spread SumSpread    `json:"spread"`
}

// NetworkSum is the sum of one network, with the fields of Output.
type NetworkSum struct {
	Network         Float `json:"network"`
	PriorMean       Float `json:"prior_mean"`
	ContributionSum Float `json:"contribution_sum"`
	Remainder       Float `json:"remainder"`
}

// SumSpread says how the parts of a sum vary over networks.
type SumSpread struct {
	Network         Spread `json:"network"`
	PriorMean       Spread `json:"prior_mean"`
	ContributionSum Spread `json:"contribution_sum"`
	Remainder       Spread `json:"remainder"`
}

// TermSpread says how a term varies over networks.
type TermSpread struct {
	Value   Spread `json:"value"`
	Raw     Spread `json:"raw"`
	Removal Spread `json:"removal"`
	// Distinguishable tells whether 0 lies outside the 95 % interval of the mean of Value (explain.Spread).
	Distinguishable    bool `json:"distinguishable"`
	RawDistinguishable bool `json:"-"` // the same of Raw, for tables
}

// Spread is how a number varies over networks, in its unit (explain.Spread).
type Spread struct {
	SD Float `json:"sd"` // standard deviation of one network's number
	SE Float `json:"se"` // standard error of the mean over the networks
}

func spreadOf(s explain.Spread) Spread { return Spread{SD: Float(s.SD), SE: Float(s.SE)} }

// networkSums returns the sums by each network with their spread. It is nil for one network.
func networkSums(list []explain.Network) *NetworkSums {
	if list == nil {
		return nil
	}
	sums := &NetworkSums{}
	for _, x := range list {
		sums.Each = append(sums.Each, NetworkSum{Network: Float(x.Output), PriorMean: Float(x.PriorMean), ContributionSum: Float(x.Sum), Remainder: Float(x.Remainder)})
	}
	over := func(of func(x *NetworkSum) Float) Spread {
		_, s := explain.Over(sums.Each, func(x NetworkSum) float64 { return float64(of(&x)) })
		return spreadOf(s)
	}
	sums.Spread = SumSpread{
		Network:         over(func(x *NetworkSum) Float { return x.Network }),
		PriorMean:       over(func(x *NetworkSum) Float { return x.PriorMean }),
		ContributionSum: over(func(x *NetworkSum) Float { return x.ContributionSum }),
		Remainder:       over(func(x *NetworkSum) Float { return x.Remainder }),
	}
	return sums
}

// NewNetworks describes networks with what each of them predicts.
func NewNetworks(models []NetworkResult) *Networks {
	k := len(models)
	return &Networks{Models: models, Says: fmt.Sprintf("Every number is the mean over %d networks. se is the standard error of that mean and sd the standard deviation of one network's number, √%d times as much; both have the unit of the number, terms and their sum that of f.", k, k)}
}
