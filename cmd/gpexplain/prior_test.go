package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// rows are the lines of predict --json without the summary, compared as text, and the
// summary.
func rows(t *testing.T, text string) (string, predictSummary) {
	t.Helper()
	_, sum := predicted(t, text)
	return text[:strings.LastIndexByte(strings.TrimSuffix(text, "\n"), '\n')], sum
}

// net is the network of the reference.
func (r *reference) net(t *testing.T) *network.Network {
	t.Helper()
	return testref.Must(network.ReadONNX(bytes.NewReader(r.Model(t)), nil))(t)
}

// A priorFile is a prior as evidence --optimize writes it.
type priorFile struct {
	Schema     string        `json:"schema"`
	Kind       string        `json:"kind"`
	Likelihood string        `json:"likelihood"`
	Noise      *float64      `json:"noise_variance,omitempty"`
	Theta      linearize.Sum `json:"theta"`
	Parameters int           `json:"parameters"`
	Groups     []priorGroup  `json:"groups"`
}

// A priorGroup is the variance of some parameter tensors.
type priorGroup struct {
	Name     string        `json:"name"`
	Variance float64       `json:"variance"`
	Tensors  []priorTensor `json:"tensors"`
}

type priorTensor struct {
	Name  string `json:"name"`
	Shape []int  `json:"shape"`
}

// prior is a prior of the reference's model; the noise variance is for the gaussian likelihood.
func (r *reference) prior(t *testing.T, kind string, groups []priorGroup, noise float64) *priorFile {
	t.Helper()
	theta := r.net(t).Theta()
	f := &priorFile{Schema: "funcgp/prior/1", Kind: kind, Likelihood: r.likelihood, Theta: linearize.SumOf(theta), Parameters: len(theta), Groups: groups}
	if r.likelihood == "gaussian" {
		f.Noise = &noise
	}
	return f
}

// write writes the file.
func (f *priorFile) write(t *testing.T, path string) string {
	t.Helper()
	return write(t, path, testref.Must(json.Marshal(f))(t))
}

// priorFile writes a prior of the reference's model.
func (r *reference) priorFile(t *testing.T, kind string, groups []priorGroup, noise float64) string {
	t.Helper()
	return r.prior(t, kind, groups, noise).write(t, filepath.Join(t.TempDir(), "prior.json"))
}

// layers are the reference's parameter tensors by layer, which is a tensor's name up to its last dot.
func (r *reference) layers(t *testing.T, variance float64) []priorGroup {
	t.Helper()
	var groups []priorGroup
	for _, x := range r.net(t).Params() {
		name := x.Name[:strings.LastIndexByte(x.Name, '.')]
		i := slices.IndexFunc(groups, func(g priorGroup) bool { return g.Name == name })
		if i < 0 {
			i, groups = len(groups), append(groups, priorGroup{Name: name, Variance: variance})
		}
		groups[i].Tensors = append(groups[i].Tensors, priorTensor{x.Name, x.Shape})
	}
	return groups
}

// byLayer are the reference's layers with their variances times 1.5, 1, 0.67, …
func (r *reference) byLayer(t *testing.T) []priorGroup {
	groups := r.layers(t, 1/r.Scalar("delta"))
	require.Greater(t, len(groups), 1)
	for i := range groups {
		groups[i].Variance *= []float64{1.5, 1, .67}[i%3]
	}
	return groups
}

// layerwise is that prior by the library.
func (r *reference) layerwise(t *testing.T) (*network.Network, ntk.Prior) {
	net := r.net(t)
	x := testref.Must(net.Linearize(t.Context(), r.Matrix("x_train")))(t)
	groups := ntk.ByLayer(ntk.Spans(x), 1)
	for i, g := range r.byLayer(t) {
		require.Equal(t, groups[i].Name, g.Name)
		groups[i].Precision = 1 / g.Variance
	}
	prior := testref.Must(ntk.NewLayerwise(len(net.Theta()), groups, nil))(t)
	return net, prior
}

// The evidences under a prior of several variances are those of the library, for every
// method, and the two spaces agree.
func TestPriorByLayer(t *testing.T) {
	for _, name := range []string{"snelson", "categorical"} {
		ref := openReference(t, name)
		net, prior := ref.layerwise(t)
		x := testref.Must(net.Linearize(t.Context(), ref.Matrix("x_train")))(t)
		var lik glm.Likelihood = glm.Categorical{}
		noise := 0.2
		if name == "snelson" {
			lik = testref.Must(glm.NewGaussian(noise))(t)
		}
		y := mat.NewDense(ref.n, 1, ref.Floats("y_train"))
		sites := testref.Must(gp.NewSites(gp.NewTargets(y, lik), x.F))(t)
		k := ntk.New(prior, net.Theta())
		e := testref.Must(gp.Fit(t.Context(), k, x, sites, nil))(t)
		refit := testref.Must(gp.Refit(t.Context(), k, x, gp.NewTargets(y, lik), nil))(t)
		path := ref.priorFile(t, "groups", ref.byLayer(t), noise)
		for method, args := range map[string][]string{"exact": nil, "subset": {"--inducing", strconv.Itoa(ref.n)}, "nystrom": {"--inducing", strconv.Itoa(ref.n)}, "parameters": nil} {
			text := ref.run(t, "evidence", append(args, "--json", "--prior", path, "--method", method)...)
			requireSchema(t, "evidence", text)
			r := decode[result.Evidence](t, text)
			const tolerance = 1e-7 // rounding of a kernel that is nearly singular
			require.InEpsilon(t, e.EvidenceAtTheta(gp.Scatter(prior, net.Theta())).Value, float64(r.AtTheta), tolerance, "%s %s", name, method)
			require.InEpsilon(t, testref.Must(e.EvidenceLinearGaussian(t.Context()))(t).Value, float64(r.LinearGaussian), tolerance, "%s %s", name, method)
			require.InEpsilon(t, refit.EvidenceRefit().Value, float64(r.Refit), tolerance, "%s %s", name, method)
			require.Contains(t, text, `"prior_precision":null`)
			require.Contains(t, text, "from --prior "+filepath.Base(path))
			if name == "snelson" {
				require.EqualValues(t, noise, r.NoiseVariance)
			}
		}
		require.Contains(t, ref.run(t, "validate", "--prior", path), "ok")
	}
}

// A prior with the same variance for all groups answers as --prior-precision does, bit
// for bit, and so does an isotropic one.
func TestPriorOfOneVariance(t *testing.T) {
	ref := openReference(t, "poisson")
	want, _ := rows(t, ref.run(t, "predict", "--json", "--quiet", "--prior-precision", "4", "--refit", "--all"))
	layers, all := ref.layers(t, .25), priorGroup{Name: "all", Variance: .25}
	for _, g := range layers {
		all.Tensors = append(all.Tensors, g.Tensors...)
	}
	for kind, groups := range map[string][]priorGroup{"isotropic": {all}, "groups": layers} {
		got, sum := rows(t, ref.run(t, "predict", "--json", "--prior", ref.priorFile(t, kind, groups, 1), "--refit", "--all"))
		require.True(t, want == got, kind)
		require.Equal(t, kind == "groups", sum.Fit.Prior != nil)
		require.Equal(t, kind == "isotropic", sum.Fit.PriorPrecision == 4)
		alarms, _ := sum.Fit.Alarms()
		require.Empty(t, alarms)
	}
}

// A saved posterior keeps a prior of several variances, also times the factor of
// --tune-prior, and answers from it as a fit does.
func TestPriorSaved(t *testing.T) {
	ref := openReference(t, "poisson")
	path := ref.priorFile(t, "groups", ref.byLayer(t), 1)
	for _, way := range [][]string{nil, {"--method", "subset", "--inducing", "20"}, {"--method", "nystrom", "--inducing", "20"}, {"--method", "parameters"}, {"--tune-prior", "evidence"}, {"--method", "nystrom", "--inducing", "20", "--tune-prior", "loo"}} {
		file := filepath.Join(t.TempDir(), "a.gp")
		text := ref.run(t, "fit", slices.Concat([]string{"--json", "--quiet", "--refit", "-o", file, "--prior", path}, way)...)
		requireSchema(t, "fit", text)
		require.NoError(t, os.Rename(path, path+".away"))
		answers, sum := rows(t, ref.run(t, "predict", "--json", "--quiet", "--all", "--posterior", file))
		require.NoError(t, os.Rename(path+".away", path))
		if len(way) == 0 || !strings.HasPrefix(way[len(way)-2], "--tune") {
			fresh, again := rows(t, ref.run(t, "predict", slices.Concat([]string{"--json", "--quiet", "--all", "--refit", "--prior", path}, way)...))
			require.True(t, fresh == answers, "%v", way)
			require.Equal(t, again.Fit.Prior, sum.Fit.Prior)
			continue
		}
		// The chosen prior is the file's times one factor.
		one := decode[result.Saved](t, text)
		require.Equal(t, one.Fit.Prior, sum.Fit.Prior)
		groups := ref.byLayer(t)
		factor := float64(one.Fit.Prior.Groups[0].Variance) / groups[0].Variance
		require.NotEqual(t, 1., factor)
		for i, g := range one.Fit.Prior.Groups {
			require.InEpsilon(t, factor, float64(g.Variance)/groups[i].Variance, 1e-12)
			groups[i].Variance = float64(g.Variance)
		}
		fixed := slices.Clone(way[:len(way)-2])
		same := decode[result.Saved](t, ref.run(t, "fit", slices.Concat([]string{"--json", "--quiet", "--refit", "-o", file, "--prior", ref.priorFile(t, "groups", groups, 1)}, fixed)...))
		require.InEpsilon(t, float64(same.Fit.LogEvidence), float64(one.Fit.LogEvidence), 1e-9, "%v", way)
		require.Contains(t, ref.run(t, "fit", slices.Concat([]string{"--quiet", "--refit", "-o", file, "--prior", path}, way)...), "chosen by")
	}
}

// A prior that does not go with the flags, the model or the likelihood is one error, and
// one that was found before more training is a warning.
func TestPriorRefused(t *testing.T) {
	ref, other := openReference(t, "poisson"), openReference(t, "two-moons")
	path := ref.priorFile(t, "groups", ref.byLayer(t), 1)
	for _, flag := range []string{"--prior-precision", "--weight-decay", "--noise-variance"} {
		require.Contains(t, refuse(t, 2, "fit", "-o", "a.gp", "--prior", path, flag, "1"), "exclude each other")
	}
	require.Contains(t, refuse(t, 2, "predict", "--prior", ""), "--prior is empty")
	require.Contains(t, refuse(t, 2, "importances", "--prior", path, "--html", path), "both name")
	require.Contains(t, refuse(t, 1, slices.Concat([]string{"explain", "--prior", path}, other.args)...), "--prior "+path+": ")
	require.Contains(t, refuse(t, 1, slices.Concat([]string{"explain", "--prior", "none.json"}, other.args)...), "cannot be opened")
	gaussian, noise := ref.prior(t, "groups", ref.byLayer(t), 0), 1.
	gaussian.Likelihood, gaussian.Noise = "gaussian", &noise
	gaussian.write(t, path)
	require.Contains(t, refuse(t, 1, slices.Concat([]string{"explain", "--prior", path}, ref.args)...), "it was found for the gaussian likelihood")

	theta := ref.net(t).Theta()
	theta[0] *= 1.0001
	earlier := ref.prior(t, "groups", ref.byLayer(t), 0)
	earlier.Theta = linearize.SumOf(theta)
	earlier.write(t, path)
	require.NotNil(t, linearize.FindWarning(decode[result.Evidence](t, ref.run(t, "evidence", "--json", "--quiet", "--prior", path)).Warnings, "prior-of-other-parameters"))
}
