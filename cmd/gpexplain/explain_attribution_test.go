package main

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize/network"
)

// requireTermsAt checks that an explanation closes, that its terms are those of a fit at this
// precision, and its prediction that without --attribution-precision.
func requireTermsAt(t *testing.T, got result.Report, precision float64, args ...string) {
	t.Helper()
	require.InEpsilon(t, precision, float64(got.Attribution.Precision), 1e-9)
	o, sum := got.Outputs[0], 0.0
	for _, x := range o.Contributions {
		sum += float64(x.Value)
	}
	require.Len(t, o.Contributions, got.Fit.Examples)
	require.InDelta(t, float64(o.Network), float64(o.PriorMean)+sum+float64(o.Remainder), 1e-8)
	ordered := strings.Split(strings.Replace(strings.Join(args, "\n"), "--at\nstated\n", "", 1), "\n") // an order says the precision too
	there := decode[result.Report](t, succeed(t, append(ordered, "--prior-precision", fmt.Sprint(float64(got.Attribution.Precision)))...))
	for i, x := range there.Outputs[0].Contributions {
		y := o.Contributions[i]
		require.Equal(t, x.Index, y.Index)
		require.InDelta(t, float64(x.Value), float64(y.Value), 1e-6)
		require.InDelta(t, float64(x.Removal), float64(y.Removal), 1e-6)
	}
	plain := decode[result.Report](t, succeed(t, args...))
	require.Equal(t, plain.Prediction, got.Prediction)
	require.Equal(t, plain.Fit.PriorPrecision, got.Fit.PriorPrecision)
	require.Equal(t, "prior", plain.Attribution.Rule)
	require.Equal(t, plain.Fit.PriorPrecision, plain.Attribution.Precision)
}

// Every rule gives the precision of a plain computation, and the explanation still closes.
func TestAttributionPrecision(t *testing.T) {
	args := small("explain", "--quiet", "--json", "--top", "100")
	explained := func(extra ...string) result.Report {
		text := succeed(t, append(args, extra...)...)
		requireSchema(t, "explain", text)
		return decode[result.Report](t, text)
	}
	chosen := map[string]float64{}
	for _, rule := range []string{"loo", "evidence"} {
		chosen[rule] = float64(explained("--tune-prior", rule).Fit.PriorPrecision)
	}
	// The built-in network was trained at the precision 10.
	length := 60 * 0.1 / (0.01 * 75)
	for rule, want := range map[string]float64{
		"30": 30, "1e2": 100, "loo": chosen["loo"], "training:0.01,0.9,75": 10 / (1 - math.Exp(-10/length)),
	} {
		got := explained("--attribution-precision", rule)
		requireTermsAt(t, got, want, args...)
		require.Contains(t, got.Attribution.Says, "predictions are those of 10.")
	}
	removals := explained("--attribution-precision", "removals")
	require.InEpsilon(t, 8*float64(removals.Fit.PriorPrecision), float64(removals.Attribution.Precision), 1e-12, "the network saw other rows, so that there is no match")
	evidence := explained("--attribution-precision", "evidence")
	require.InEpsilon(t, chosen["evidence"], float64(evidence.Attribution.Precision), 1e-12)
	require.Contains(t, fmt.Sprint(evidence.Fit.Warnings), "The best prior precision of --attribution-precision evidence")
	same := explained("--attribution-precision", "10")
	require.Equal(t, explained().Outputs, same.Outputs)
	require.Equal(t, "given", same.Attribution.Rule)
}

// A network that train trained by SGD knows the length of its training; page and text say
// which precision is used, and by which rule.
func TestAttributionPrecisionOfTraining(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "net.onnx")
	train := []string{"train", "--quiet", "--arch", "mlp:784-3-1", "--data", "digits:400,20", "--classes", "4,9", "--optimizer", "sgd", "--lbfgs", "0", "--epochs", "3", "--batch", "10", "--train-count", "30", "--out"}
	succeed(t, append(train, model, "--schedule", "constant", "--lr", "0.02", "--momentum", "0.5")...)
	args := []string{"explain", "--quiet", "--json", "--at", "stated", "--top", "100", "--data", "digits:400,20", "--model", model}
	got := decode[result.Report](t, succeed(t, append(args, "--attribution-precision", "training")...))
	length := 30 * 0.5 / (0.02 * 9) // three epochs of three steps
	require.Equal(t, "training", got.Attribution.Rule)
	requireTermsAt(t, got, 1/(1-math.Exp(-1/length)), args...)

	page := filepath.Join(dir, "page.html")
	text := strings.Join(strings.Fields(succeed(t, append(args[:2:2], "--at", "stated", "--data", "digits:400,20", "--model", model, "--attribution-precision", "training", "--html", page)...)), " ")
	say := "(rule training: δ/(1 − exp(−δ/δ_T)) with the decay δ = 1 and δ_T = N(1−μ)/(ηT) = 30 × (1 − 0.5)/(0.02 × 9), the length of the training); predictions are those of 1."
	require.Contains(t, text, say)
	require.Contains(t, strings.ReplaceAll(read(t, page), "\u00a0", " "), say)
	require.Contains(t, read(t, page), "Prior precision of the terms")

	// Other optimizers and schedules have no such length.
	other := filepath.Join(dir, "other.onnx")
	succeed(t, append(train, other, "--schedule", "cosine")...)
	says := refuse(t, 1, "explain", "--quiet", "--data", "digits:400,20", "--model", other, "--attribution-precision", "training")
	require.Contains(t, says, other+" does not say how it was trained by SGD; give training:RATE,MOMENTUM,STEPS")

	// Of several networks each has its own.
	both := decode[result.Report](t, succeed(t, append(args[:3:3], "--data", "digits:400,20", "--model", model+","+other, "--attribution-precision", "training:0.02,0.5,9", "--html", page)...))
	require.Equal(t, got.Attribution.Precision, both.Attribution.Precision)
	for k := range both.Networks.Models {
		require.Equal(t, both.Attribution.Precision, both.Networks.Models[k].Attribution.Precision)
	}
	apart := decode[result.Report](t, succeed(t, append(args[:3:3], "--data", "digits:400,20", "--model", model+","+other, "--attribution-precision", "loo", "--html", page)...))
	require.False(t, apart.Attribution.Precision.Finite(), "null")
	require.Contains(t, read(t, page), "a prior precision of each network")
}

func TestAttributionPrecisionRefused(t *testing.T) {
	for _, one := range []struct {
		code int
		args []string
		says string
	}{
		{2, []string{"--attribution-precision", "0"}, "--attribution-precision 0 must be a positive number"},
		{2, []string{"--attribution-precision", "NaN"}, "--attribution-precision NaN must be a positive number"},
		{2, []string{"--attribution-precision", "trianing"}, "training"},
		{2, []string{"--attribution-precision", ""}, "--attribution-precision is empty"},
		{2, []string{"--attribution-precision", "training:0.1,1,5"}, "must give step size, momentum and steps, as in training:0.01,0.9,3950"},
		{2, []string{"--attribution-precision", "training:0.1,0.5"}, "must give step size, momentum and steps"},
		{2, []string{"--attribution-precision", "3", "--posterior", "a.gp"}, "--attribution-precision fits another posterior than that of --posterior"},
		{2, []string{"--attribution-precision", "3", "--method", "fitc"}, "not for --method fitc"},
		{1, []string{"--attribution-precision", "training"}, "the built-in network does not say how it was trained by SGD; give training:RATE"},
	} {
		require.Contains(t, refuse(t, one.code, append([]string{"explain", "--data", "digits:400,100"}, one.args...)...), one.says)
	}
	net, err := network.ReadONNX(bytes.NewReader(problem.Builtin), nil)
	require.NoError(t, err)
	kv := net.Metadata()
	kv[problem.KeyTraining] = "0.1,0.9,-4"
	bad := writeNetwork(t, net.WithMetadata(kv), filepath.Join(t.TempDir(), "bad.onnx"))
	require.Contains(t, refuse(t, 1, small("explain", "--model", bad)...), bad+`: its metadata entry funcgp.sgd is "0.1,0.9,-4"`)
}
