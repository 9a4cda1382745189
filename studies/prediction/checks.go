package prediction

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/funcgp/funcgp/studies/steps"
)

// A check is one network of the reference: what an independent implementation gets and what the
// command does.
type check struct {
	name                 string
	reference, gpexplain checked
	withoutTemperature   bool // the reference's default has τ = 1
}

// checked are the match and NLL of the network by itself, by default (f(x;θ*) with τ and s) and of
// a refit.
type checked struct{ Match, Network, Default, Refit float64 }

// A referenceCase is what cases.json says of one network.
type referenceCase struct {
	Name       string
	Likelihood string
	Decay      *float64 `json:"weight_decay"`
	Match      float64
	Rows       int
	NLL        struct {
		Network   float64
		FhatS     float64 `json:"fhat_s"`
		ThetaS    float64 `json:"theta_s"`
		ThetaTauS float64 `json:"theta_tau_s"` // 0 where τ = 1
	}
}

// checks asks the command about the reference's classifiers. Without a reference there are none.
func (s *study) checks(ctx context.Context) ([]check, error) {
	if s.reference == "" {
		return nil, nil
	}
	text, err := os.ReadFile(filepath.Join(s.reference, "match", "cases.json"))
	if err != nil {
		return nil, err
	}
	var file struct{ Cases []referenceCase }
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("cases.json: %w", err)
	}
	var list []check
	for _, c := range file.Cases {
		if c.Likelihood == "gaussian" {
			continue // of these it has no match
		}
		one, err := s.check(ctx, &c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		list = append(list, one)
	}
	return list, nil
}

// check asks the command about one of them.
func (s *study) check(ctx context.Context, c *referenceCase) (check, error) {
	base := filepath.Join(s.reference, "match", c.Name)
	args := []string{"--model", base + ".onnx", "--quiet", "--likelihood", c.Likelihood}
	if c.Likelihood == "bernoulli" {
		args = append(args, "--data", s.pictures, "--classes", "4,9", "--train-index", filepath.Join(s.reference, "match", "mnist49-train-index.txt"), "--standardize", "no")
	} else {
		args = append(args, "--data", base+"-train.csv", "--test-data", base+"-test.csv", "--index", fmt.Sprintf("0-%d", c.Rows-1))
	}
	if c.Decay != nil {
		args = append(args, "--weight-decay", strconv.FormatFloat(*c.Decay, 'g', -1, 64))
	}
	k := check{name: c.Name, reference: checked{c.Match, c.NLL.Network, c.NLL.ThetaTauS, c.NLL.FhatS}}
	if k.reference.Default == 0 {
		k.reference.Default, k.withoutTemperature = c.NLL.ThetaS, true
	}
	var err error
	k.gpexplain, err = steps.Do(ctx, filepath.Join(s.dir, "answers-"+s.gpexplain.Version(), "reference"), c.Name, func(ctx context.Context) (checked, error) {
		_, first, err := s.gpexplain.Predict(ctx, args)
		if err != nil {
			return checked{}, err
		}
		_, mode, err := s.gpexplain.Predict(ctx, append(args, "--refit"))
		if err != nil {
			return checked{}, err
		}
		return checked{float64(first.Fit.PriorPrecision), float64(first.MAPNLL), float64(first.NLL), float64(mode.NLL)}, nil
	})
	if err != nil {
		return k, err
	}
	fmt.Fprintf(s.out, "%s: reference %.4g, gpexplain %.4g\n", k.name, k.reference, k.gpexplain)
	if math.Abs(k.reference.Network-k.gpexplain.Network) > 2e-3 {
		return k, fmt.Errorf("the network by itself has the NLL %v by the reference, and %v by gpexplain", k.reference.Network, k.gpexplain.Network)
	}
	return k, nil
}
