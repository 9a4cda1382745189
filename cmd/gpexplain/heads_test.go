package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// headTable says what becomes of the function at the end of each network of
// testdata/heads under the gaussian, bernoulli, categorical and poisson likelihoods:
//
//	R  removed, and applied by the likelihood
//	K  kept as part of f, with a note that names it
//	=  nothing was recognized, and nothing needs to be
//	W  a warning that the likelihood takes the outputs for something else
//	X  refused
//
// Under R, K and = the probability, mean or rate equals PyTorch's.
const headTable = `
sigmoid                      K R X W
sigmoid-opset9               K R X W
sigmoid-opset17              K R X W
sigmoid-squeeze              K R X W
sigmoid-before-squeeze       K R X W
sigmoid-unsqueeze            K R X W
sigmoid-reshape              K R X W
sigmoid-view                 K R X W
sigmoid-flatten              K R X W
sigmoid-cast                 K R X W
sigmoid-clip                 K R X W
sigmoid-clip-below           K R X W
sigmoid-clip-eps             K R X W
sigmoid-clip-eps-opset9      K R X W
sigmoid-clip-wide            = W X W
sigmoid-by-hand              K R X W
sigmoid-by-hand-reciprocal   K R X W
sigmoid-by-hand-ratio        K R X W
sigmoid-by-hand-squeeze      K R X W
sigmoid-by-tanh              = W X W
sigmoid-temperature          K R X W
sigmoid-labels               K R W W
sigmoid-scaled               = = X =
sigmoid-log                  = W X =
pair                         K X R W
pair-once                    K X R W
pair-swapped                 K X R W
pair-stack                   K X R W
pair-negated                 K X R W
pair-by-hand                 K X R W
pair-clip                    K X R W
pair-plus                    K X R W
pair-log                     K X R W
softmax                      K X R W
softmax-last                 K X R W
softmax-opset11              K X R W
softmax-two                  K X R W
softmax-reshape              K X R W
softmax-pixels               K X R W
softmax-clip                 K X R W
softmax-max                  K X R W
softmax-by-hand              K X R W
softmax-by-hand-max          K X R W
softmax-by-hand-max-opset16  K X R W
softmax-by-hand-expand       K X R W
softmax-by-hand-unsqueeze    K X R W
softmax-of-logsoftmax        K X R W
softmax-min                  K X R W
softmax-epsilon              = X W W
softmax-transposed           = X W W
squares                      = X W W
softmax-positions            K X W W
softmax-positions-flat       K X W W
softmax-other-axis           K X W W
softmax-by-hand-positions    K X W W
softmax-examples             X X X X
softmax-by-hand-examples     X X X X
logsoftmax                   K X R W
logsoftmax-opset11           K X R W
logsoftmax-by-hand           K X R W
logsoftmax-by-hand-max       K X R W
logsoftmax-logsumexp         K X R W
logsoftmax-of-softmax        K X R W
logsoftmax-of-softmax-clip   K X R W
logsoftmax-positions         K X W W
exp                          K W X R
exp-two                      K X W R
exp-squeeze                  K W X R
exp-clip                     K W X R
softplus                     K W X W
softplus-by-hand             K W X W
softplus-shifted             = = X W
none-one                     = = X =
none-three                   = X = =
identity                     = X = =
`

// A headVariant is a network of testdata/heads: what its outputs mean, f before the
// function at its end and y after it, by PyTorch in float64.
type headVariant struct {
	Means string      `json:"means"`
	F     [][]float64 `json:"f"`
	Y     [][]float64 `json:"y"`
}

// TestHeads runs every network under every likelihood, and compares with PyTorch: what it
// gives is what PyTorch's numbers mean, or there is a warning.
func TestHeads(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "heads")
	var expected struct {
		X        [][]float64             `json:"x"`
		Variants map[string]*headVariant `json:"variants"`
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, filepath.Join(dir, "expected.json"))), &expected))
	lines := strings.Split(strings.TrimSpace(headTable), "\n")
	require.Len(t, expected.Variants, len(lines))
	for _, line := range lines {
		cells := strings.Fields(line)
		v := expected.Variants[cells[0]]
		require.NotNil(t, v, cells[0])
		for k, likelihood := range []string{"gaussian", "bernoulli", "categorical", "poisson"} {
			t.Run(cells[0]+"/"+likelihood, func(t *testing.T) {
				file := v.table(t, expected.X, likelihood)
				args := []string{"predict", "--json", "--model", filepath.Join(dir, cells[0]+".onnx"), "--data", file, "--test-data", file, "--target", v.targets(likelihood),
					"--likelihood", likelihood, "--calibrate", "none", "--weight-decay", "0.05", "--at", "stated", "--standardize", "no"}
				if likelihood == "gaussian" {
					args = append(args, "--noise-variance", "1", "--target-mean", "0", "--target-sd", "1")
				}
				if likelihood == "categorical" {
					args = append(args, "--link", "probit")
				}
				r := gpexplain(t.Context(), args...)
				if cells[1+k] == "X" {
					require.Equal(t, 1, r.code, r.stdout)
					requireOneLine(t, r.stderr)
					return
				}
				require.Equal(t, 0, r.code, r.stderr)
				lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
				fit := decode[predictSummary](t, lines[len(lines)-1]).Fit
				said := fmt.Sprint(fit.Warnings, fit.Remarks)
				require.Equal(t, cells[1+k], outcome(said), said)
				if cells[1+k] == "W" {
					require.Contains(t, r.stderr, "gpexplain: warning: The ")
					return
				}
				for i, text := range lines[:len(lines)-1] {
					row := decode[prediction](t, text)
					for j, want := range v.want(likelihood, i) {
						// 1e-12: the order of additions; 2e-6 where PyTorch cut or rounded its own.
						tol := 1e-12
						if strings.Contains(cells[0], "cast") || strings.Contains(cells[0], "clip") {
							tol = 2e-6
						}
						require.InDelta(t, want, given(&row, likelihood, j), tol*max(1, math.Abs(want)), "row %d, output %d", i, j)
					}
				}
			})
		}
	}
}

// outcome is the letter for what a command said about the function at the end.
func outcome(said string) string {
	switch {
	case strings.Contains(said, " takes ") || strings.Contains(said, "applies a softmax to them"):
		return "W"
	case strings.Contains(said, "was removed"):
		return "R"
	case strings.Contains(said, "stays part of the outputs"):
		return "K"
	}
	return "="
}

// given is what a prediction says for output j: its probability, mean or rate.
func given(row *prediction, likelihood string, j int) float64 {
	switch likelihood {
	case "gaussian":
		return float64(row.Mean[j])
	case "poisson":
		return math.Exp(float64(row.Mean[j]))
	}
	return float64(row.MAPProbability[j])
}

// want is what PyTorch's outputs of row i mean under a likelihood.
func (v *headVariant) want(likelihood string, i int) []float64 {
	y := slices.Clone(v.Y[i])
	each := func(f func(v float64) float64) []float64 {
		for j := range y {
			y[j] = f(y[j])
		}
		return y
	}
	logs := v.Means == "logprobability"
	switch {
	case likelihood == "gaussian" || likelihood == "poisson" && v.Means == "rate":
		return y
	case likelihood == "poisson":
		return each(math.Exp)
	case likelihood == "categorical" && logs:
		return each(math.Exp)
	case likelihood == "categorical" && v.Means == "probability":
		return y
	case v.labels(likelihood):
		return y
	case likelihood == "bernoulli" && v.Means == "probability":
		return []float64{1 - y[0], y[0]}
	case likelihood == "bernoulli":
		p := 1 / (1 + math.Exp(-y[0]))
		return []float64{1 - p, p}
	}
	sum := 0.0
	for _, f := range each(math.Exp) {
		sum += f
	}
	return each(func(v float64) float64 { return v / sum })
}

// labels tells whether the targets are those of several labels a row.
func (v *headVariant) labels(likelihood string) bool {
	return likelihood == "bernoulli" && v.Means == "probabilities"
}

func (v *headVariant) targets(likelihood string) string {
	if likelihood == "bernoulli" && !v.labels(likelihood) || likelihood == "categorical" {
		return "t0"
	}
	names := make([]string, len(v.Y[0]))
	for j := range names {
		names[j] = fmt.Sprintf("t%d", j)
	}
	return strings.Join(names, ",")
}

// table writes rows whose targets are drawn as PyTorch's outputs say.
func (v *headVariant) table(t *testing.T, x [][]float64, likelihood string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("a,b,c," + v.targets(likelihood) + "\n")
	for i, row := range x {
		for _, f := range row {
			fmt.Fprintf(&b, "%v,", f)
		}
		y := v.Y[i]
		u := math.Mod(float64(i+1)*math.Phi, 1) // spread evenly over (0, 1)
		classes := max(2, len(y))
		switch likelihood {
		case "gaussian":
			for j, f := range y {
				fmt.Fprintf(&b, "%v%s", f+.1*(u-.5), map[bool]string{true: "\n", false: ","}[j == len(y)-1])
			}
		case "poisson":
			for j, f := range y {
				rate := f
				if v.Means != "rate" && v.Means != "probability" && v.Means != "probabilities" && v.Means != "positions" || rate <= 0 {
					rate = math.Exp(f)
				}
				fmt.Fprintf(&b, "%d%s", poissonAt(rate, u), map[bool]string{true: "\n", false: ","}[j == len(y)-1])
			}
		case "bernoulli":
			for j := range strings.Count(v.targets(likelihood), ",") + 1 {
				k := 0
				if (v.F[i][j] > 0) != (i%8 == 7) {
					k = 1
				}
				fmt.Fprintf(&b, "%s%d", map[bool]string{true: ","}[j > 0], k)
			}
			b.WriteString("\n")
		default:
			if i < classes {
				fmt.Fprintf(&b, "%d\n", i)
			} else {
				fmt.Fprintf(&b, "%d\n", int(u*float64(classes)))
			}
		}
	}
	return write(t, filepath.Join(t.TempDir(), "d.csv"), []byte(b.String()))
}

// poissonAt is the quantile u of counts with this rate.
func poissonAt(rate, u float64) int {
	k, p := 0, math.Exp(-rate)
	for sum := p; sum < u && k < 1000; sum += p {
		k++
		p *= rate / float64(k)
	}
	return k
}

// TestHeadAndTargets checks that the outputs of a Sigmoid that is part of f are not taken
// for those of a network of standardized targets, which are negative for about half of the rows.
func TestHeadAndTargets(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "heads")
	var expected struct {
		X [][]float64 `json:"x"`
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, filepath.Join(dir, "expected.json"))), &expected))
	var b strings.Builder
	b.WriteString("a,b,c,y\n")
	for i, row := range expected.X {
		fmt.Fprintf(&b, "%v,%v,%v,%v\n", row[0], row[1], row[2], float64(i%7+1)/9)
	}
	file := write(t, filepath.Join(t.TempDir(), "d.csv"), []byte(b.String()))
	for model, want := range map[string]string{"sigmoid": "targets as they are", "none-one": "standardized targets"} {
		r := gpexplain(t.Context(), "fit", "--model", filepath.Join(dir, model+".onnx"), "--data", file, "--prior-precision", "1", "--noise-variance", "1", "-o", filepath.Join(t.TempDir(), "a.gp"))
		require.Equal(t, 0, r.code, r.stderr)
		require.Contains(t, r.stderr, want+":")
	}
}
