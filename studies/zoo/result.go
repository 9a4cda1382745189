package zoo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const resultFile = "result.json"

// A result is what was measured on one network.
type result struct {
	Name         string         `json:"name"`
	What         string         `json:"what"`
	Opset        int            `json:"opset"`
	Likelihood   string         `json:"likelihood"`
	Precision    float64        `json:"prior_precision"`
	Examples     int            `json:"examples"`   // N
	Inputs       int            `json:"inputs"`     // D
	Outputs      int            `json:"outputs"`    // C
	Parameters   int            `json:"parameters"` // P
	Learnt       int            `json:"learnt"`     // PyTorch's parameters
	Blocks       map[string]int `json:"blocks"`     // parameters by kind of Block
	Warnings     []string       `json:"warnings,omitempty"`
	GradientNorm float64        `json:"gradient_norm"` // of the objective at θ*
	Accuracy     float64        `json:"test_accuracy,omitempty"`
	RMSE         float64        `json:"test_rmse,omitempty"`

	F32 float64 `json:"f_float32"` // largest |f − PyTorch's| of the largest output, file with float32 weights
	F64 float64 `json:"f_float64"` // the same of the file with float64 weights

	Agrees     bool       `json:"agrees"`     // of validate
	Worst      float64    `json:"difference"` // largest of Validation
	Validation []compared `json:"validation"`

	Load  float64 `json:"load"` // of the machine before, processes by processor
	Steps []step  `json:"steps"`
}

// compared is a quantity in weight space and in function space.
type compared struct {
	Quantity   string  `json:"quantity"`
	Difference float64 `json:"difference"` // relative
}

// A step is one run of the command.
type step struct {
	Verb       string  `json:"verb"`
	Seconds    float64 `json:"seconds"`     // wall clock
	CPUSeconds float64 `json:"cpu_seconds"` // of all processors
	Bytes      int64   `json:"bytes"`       // largest resident memory
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

func readResults(path string) ([]*result, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []*result
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// cachedResults returns the results in a cache, by name.
func cachedResults(cache string) ([]*result, error) {
	paths, err := filepath.Glob(filepath.Join(cache, "*", resultFile))
	if err != nil {
		return nil, err
	}
	all := []*result{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		r := new(result)
		if err := json.Unmarshal(data, r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *result) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
