package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// nearby writes networks with parameters near those of the built-in one, as if they had
// been trained from other starts.
func nearby(t *testing.T, count int) []string {
	t.Helper()
	net := testref.Must(network.ReadONNX(bytes.NewReader(builtin(t)), nil))(t)
	dir := t.TempDir()
	var list []string
	for k := range count {
		rng := rand.New(rand.NewPCG(uint64(k), 5))
		theta := net.Theta()
		for i := range theta {
			theta[i] *= 1 + 0.05*rng.NormFloat64()
		}
		other := testref.Must(net.WithTheta(theta))(t)
		list = append(list, writeNetwork(t, other, filepath.Join(dir, fmt.Sprintf("net%d.onnx", k))))
	}
	return list
}

func writeNetwork(t *testing.T, net *network.Network, path string) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, net.WriteONNX(&b))
	return write(t, path, b.Bytes())
}

// The sum over networks closes, is the mean of the single ones, and its error bars are
// those of a plain computation.
func TestExplainNetworks(t *testing.T) {
	models := nearby(t, 3)
	text := succeed(t, small("explain", "--quiet", "--json", "--top", "1000", "--model", strings.Join(models, ","))...)
	requireSchema(t, "explain", text)
	got := decode[result.Report](t, text)
	require.Len(t, got.Networks.Models, 3)
	require.Contains(t, got.Networks.Says, "mean over 3 networks. se is the standard error")
	var each []result.Report
	for k, model := range models {
		one := decode[result.Report](t, succeed(t, small("explain", "--quiet", "--json", "--top", "1000", "--model", model)...))
		each = append(each, one)
		its := got.Networks.Models[k]
		require.Equal(t, model, its.Model)
		require.Equal(t, one.Prediction.Probability, its.Probability)
		require.Equal(t, one.Prediction.Mean, its.Mean)
		require.Equal(t, asJSON(t, one.Fit), asJSON(t, its.Fit))
		sum := got.Outputs[0].Networks.Each[k]
		o := one.Outputs[0]
		require.Equal(t, []result.Float{o.Network, o.PriorMean, o.ContributionSum, o.Remainder}, []result.Float{sum.Network, sum.PriorMean, sum.ContributionSum, sum.Remainder})
	}
	average := func(of func(r *result.Report) result.Float) (mean, sd float64) {
		var v []float64
		for k := range each {
			v = append(v, float64(of(&each[k])))
		}
		return stat.MeanStdDev(v, nil)
	}
	o := got.Outputs[0]
	require.Len(t, o.Contributions, 60)
	sum := 0.0
	for i, x := range o.Contributions {
		sum += float64(x.Value)
		if i > 0 {
			require.GreaterOrEqual(t, math.Abs(float64(o.Contributions[i-1].Value)), math.Abs(float64(x.Value)))
		}
		of := func(r *result.Report) result.Contribution {
			for _, y := range r.Outputs[0].Contributions {
				if y.Index == x.Index {
					return y
				}
			}
			panic("no such row")
		}
		for _, one := range []struct {
			mean  result.Float
			have  result.Spread
			value func(r *result.Report) result.Float
		}{{x.Value, x.Networks.Value, func(r *result.Report) result.Float { return of(r).Value }}, {x.Raw, x.Networks.Raw, func(r *result.Report) result.Float { return of(r).Raw }},
			{x.Removal, x.Networks.Removal, func(r *result.Report) result.Float { return of(r).Removal }}} {
			mean, sd := average(one.value)
			require.InDelta(t, mean, float64(one.mean), 1e-9)
			require.InDelta(t, sd, float64(one.have.SD), 1e-9)
			require.InDelta(t, sd/math.Sqrt(3), float64(one.have.SE), 1e-9)
		}
		require.Nil(t, x.SD)
	}
	require.InDelta(t, float64(o.Network), float64(o.PriorMean)+sum+float64(o.Remainder), 1e-8)
	require.InDelta(t, float64(got.Prediction.Mean[0]), float64(o.Network), 1e-12)
	mean, sd := average(func(r *result.Report) result.Float { return r.Outputs[0].Network })
	require.InDelta(t, mean, float64(o.Network), 1e-12)
	require.InDelta(t, sd, float64(o.Networks.Spread.Network.SD), 1e-12)
	require.InDelta(t, sigmoid(mean), float64(got.Prediction.MAPProbability[1]), 1e-12, "of the mean output")
	p, between := average(func(r *result.Report) result.Float { return r.Prediction.Probability[1] })
	require.InDelta(t, p, float64(got.Prediction.Probability[1]), 1e-12)
	within, _ := average(func(r *result.Report) result.Float {
		return r.Prediction.ProbabilitySD[1] * r.Prediction.ProbabilitySD[1]
	})
	require.InDelta(t, math.Sqrt(within+between*between*2/3), float64(got.Prediction.ProbabilitySD[1]), 1e-12, "the variance of a mixture")
}

// Text, page and table say what the error bars are and whose sums these are.
func TestExplainNetworksShown(t *testing.T) {
	models, dir := nearby(t, 3), t.TempDir()
	page, table := filepath.Join(dir, "page.html"), filepath.Join(dir, "terms.csv")
	text := succeed(t, small("explain", "--quiet", "--model", strings.Join(models, ","), "--html", page, "--csv", table)...)
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, len([]rune(line)), 81, line)
	}
	flat := strings.Join(strings.Fields(text), " ")
	for _, say := range []string{"± se", "± se, in the unit of f: standard error of the term's mean over the 3 networks", "mean output alone", "network f prior mean contributions remainder"} {
		require.Contains(t, flat, say)
	}
	require.NotContains(t, text, "± sd")
	shown := read(t, page)
	for _, model := range models {
		require.Contains(t, shown, `<th scope="row">`+model+`</th>`)
	}
	require.Contains(t, shown, "By network")
	require.Contains(t, shown, "mean of 3 networks")
	require.Contains(t, shown, "by the mean output alone")
	require.NotContains(t, shown, "by the network alone")

	lines := testref.Must(csv.NewReader(strings.NewReader(read(t, table))).ReadAll())(t)
	require.Equal(t, []string{"influence", "sd", "networks_sd", "networks_se", "distinguishable"}, lines[0][11:])
	require.Len(t, lines, 9)
	for _, line := range lines[1:] {
		require.Empty(t, line[11])
		require.Empty(t, line[12])
		require.NotEmpty(t, line[13])
		require.NotEmpty(t, line[14])
	}
}

// Each class has an output: the contrast is that of the mean output, and its terms are the
// differences of those of the two classes.
func TestExplainNetworksOfClasses(t *testing.T) {
	dir := t.TempDir()
	var models []string
	for seed := range uint64(2) {
		net, err := network.Seeded(seed, network.Shape{1, 28, 28}, network.Flatten{}, network.Dense{Units: 3}, network.Tanh, network.Dense{Units: 10})
		require.NoError(t, err)
		models = append(models, writeNetwork(t, net, filepath.Join(dir, fmt.Sprintf("net%d.onnx", seed))))
	}
	args := []string{"explain", "--quiet", "--data", "digits:30,5", "--all", "--json", "--top", "30"}
	var rows []result.Report
	for line := range strings.Lines(succeed(t, append(args, "--model", strings.Join(models, ","))...)) {
		requireSchema(t, "explain", line)
		rows = append(rows, decode[result.Report](t, line))
	}
	require.Len(t, rows, 5)
	for _, r := range rows {
		require.Len(t, r.Outputs, 11)
		x := r.Outputs[10]
		a, b := r.Outputs[x.Contrast.Plus], r.Outputs[x.Contrast.Minus]
		for k, o := range r.Outputs[:10] {
			require.LessOrEqual(t, o.Network, a.Network)
			if k != x.Contrast.Plus {
				require.LessOrEqual(t, o.Network, b.Network)
			}
		}
		require.InDelta(t, float64(a.ContributionSum-b.ContributionSum), float64(x.ContributionSum), 1e-8)
		sum := 0.0
		for _, c := range x.Contributions {
			sum += float64(c.Value)
		}
		require.InDelta(t, float64(x.Network), float64(x.PriorMean)+sum+float64(x.Remainder), 1e-8)
	}
}

// Saved posteriors of several networks answer as their networks do.
func TestExplainNetworksSaved(t *testing.T) {
	models, dir := nearby(t, 2), t.TempDir()
	var saved []string
	for k, model := range models {
		saved = append(saved, filepath.Join(dir, fmt.Sprintf("%d.gp", k)))
		succeed(t, small("fit", "--quiet", "--model", model, "-o", saved[k])...)
	}
	want := decode[result.Report](t, succeed(t, small("explain", "--quiet", "--json", "--model", strings.Join(models, ","))...))
	got := decode[result.Report](t, succeed(t, "explain", "--quiet", "--json", "--posterior", strings.Join(saved, ",")))
	require.Equal(t, want.Outputs, got.Outputs)
	require.Equal(t, want.Prediction, got.Prediction)
	require.Equal(t, saved[1], got.Networks.Models[1].Model)

	again := filepath.Join(dir, "again.gp")
	succeed(t, small("fit", "--quiet", "--model", models[0], "--prior-precision", "3", "-o", again)...)
	require.Contains(t, refuse(t, 1, "explain", "--posterior", saved[0]+","+again), "posteriors of the same network")
	require.Contains(t, refuse(t, 2, "explain", "--posterior", strings.Join(saved, ","), "--model", models[0]), "leave --model out")
	require.Contains(t, refuse(t, 2, "explain", "--posterior", strings.Join(saved, ","), "--shard", "0/2", "-o", filepath.Join(dir, "part")), "--shard is for one network")
	require.Contains(t, refuse(t, 2, "explain", "--posterior", saved[0], "--model", strings.Join(models, ",")), "give --posterior a file for each")
	require.Contains(t, refuse(t, 2, "explain", "--posterior", saved[0]+","+saved[0]), "--posterior names "+saved[0]+" twice")
}

// What cannot be averaged is refused in one line that names the files and what to do.
func TestExplainNetworksRefused(t *testing.T) {
	models, dir := nearby(t, 2), t.TempDir()
	both := strings.Join(models, ",")
	for _, flag := range [][]string{{"--without", "1"}, {"--flip", "1=4"}, {"--smallest-flip"}, {"--by-layer"}} {
		require.Contains(t, refuse(t, 2, small("explain", append(flag, "--model", both)...)...), flag[0]+" is for one network, not for the mean of 2")
	}
	require.Contains(t, refuse(t, 2, small("explain", "--model", models[0]+","+models[0])...), "names "+models[0]+" twice; a network counts once")
	require.Contains(t, refuse(t, 2, small("explain", "--model", models[0]+","+filepath.Dir(models[0])+"/./net0.onnx")...), "twice")
	require.Contains(t, refuse(t, 2, small("explain", "--model", models[0]+",")...), "has an empty name between its commas")
	require.Contains(t, refuse(t, 1, small("explain", "--model", models[0]+","+filepath.Join(dir, "none.onnx"))...), "none.onnx: no such file")
	require.Contains(t, refuse(t, 2, small("explain", "--model", both, "--html", models[1])...), "--model and --html both name "+models[1])

	shape := func(name string, inputs network.Shape, outputs int) string {
		net := testref.Must(network.Seeded(1, inputs, network.Flatten{}, network.Dense{Units: outputs}))(t)
		return writeNetwork(t, net, filepath.Join(dir, name))
	}
	narrow, two := shape("narrow.onnx", network.Shape{1, 14, 14}, 1), shape("two.onnx", network.Shape{1, 28, 28}, 2)
	ten := shape("ten.onnx", network.Shape{1, 28, 28}, 10)
	said := refuse(t, 1, small("explain", "--quiet", "--model", models[0]+","+narrow)...)
	require.Contains(t, said, narrow+" takes 196")
	said = refuse(t, 1, small("explain", "--quiet", "--classes", "4,9", "--model", models[0]+","+two)...)
	require.Contains(t, said, models[0]+" and "+two+" cannot be averaged: they have 1 and 2 outputs; leave one of them out")
	said = refuse(t, 1, small("explain", "--quiet", "--model", models[0]+","+ten)...)
	require.Contains(t, said, ten)

	net := testref.Must(network.ReadONNX(bytes.NewReader(builtin(t)), nil))(t)
	kv := net.Metadata()
	kv[keyClasses] = "9,4"
	turned := writeNetwork(t, net.WithMetadata(kv), filepath.Join(dir, "turned.onnx"))
	said = refuse(t, 1, small("explain", "--quiet", "--model", models[0]+","+turned)...)
	require.Contains(t, said, "one tells the classes 4,9 apart, the other 9,4; give --classes")
	kv[keyClasses] = "4,9"
	kv[keyRows] = "1,2,8,9"
	other := writeNetwork(t, net.WithMetadata(kv), filepath.Join(dir, "other.onnx"))
	fitted := filepath.Join(dir, "a.gp")
	succeed(t, "fit", "--quiet", "--data", "digits:400,100", "--train-count", "30", "--model", models[0], "-o", fitted)
	more := filepath.Join(dir, "b.gp")
	succeed(t, "fit", "--quiet", "--data", "digits:400,100", "--train-count", "40", "--model", other, "-o", more)
	said = refuse(t, 1, "explain", "--quiet", "--posterior", fitted+","+more)
	require.Contains(t, said, "the training rows are not the same, 30 of digits (seed 0) and 40 of digits (seed 0); give")

	// A file whose name has a comma is one network.
	comma := filepath.Join(dir, "a,b.onnx")
	require.NoError(t, os.WriteFile(comma, []byte(read(t, models[0])), 0o600))
	require.Nil(t, decode[result.Report](t, succeed(t, small("explain", "--quiet", "--json", "--model", comma)...)).Networks)
}
