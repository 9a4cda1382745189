package audit_test

import (
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/ntk"
)

var (
	studyOut    = flag.String("study", "", "add lines to audit-mnist.csv in this folder")
	studySeed   = flag.Uint64("study-seed", 0, "of the flips, the first parameters and the minibatches")
	studyArch   = flag.String("study-arch", "mlp", "of the network: mlp, that of dattri, or lenet5")
	studyRows   = flag.Int("study-rows", 1000, "training rows")
	studyEpochs = flag.Int("study-epochs", 50, "of training")
	studyList   = flag.String("study-precisions", "100,10,1", "precisions of the prior")
	studyDraws  = flag.Int("study-draws", 4, "shuffled parameters for OfLabels; 0 for the trained ones")
	studyKept   = flag.Float64("study-kept", 0, "strength of kept rows; 0 for the exact posterior")
	studyMean   = flag.String("study-mean", "labels", "prior mean of a refit: zero or initial, of the parameters, or function-zero; labels for OfLabels")
)

// TestStudyOfWrongLabels makes a table of studies/records/figures: MNIST's first 1,000
// training rows with a tenth of their labels flipped at random, dattri's MLP
// 784-128-64-10 (dropout .1, SGD .01 with momentum .9, minibatches of 64, 50 epochs,
// inputs normalized by .1307 and .3081), and how the audit finds the flips by OfLabels or
// under refits of some precisions.
func TestStudyOfWrongLabels(t *testing.T) {
	if *studyOut == "" {
		t.Skip("it takes minutes and is made with -study")
	}
	n := *studyRows
	data := testref.Must(dataset.Open(t.Context(), testref.MNIST(t), nil))(t)
	rows := testref.Must(data.Train.Select(nil, n))(t)
	x := rows.Matrix()
	x.Apply(func(_, _ int, v float64) float64 { return (v - 0.1307) / 0.3081 }, x)
	y, truth := mat.NewDense(n, 1, nil), make([]int, n)
	rng := rand.New(rand.NewPCG(*studySeed, 10))
	flipped := make([]bool, n)
	for k, i := range rng.Perm(n) {
		truth[i] = rows.Labels[i]
		y.Set(i, 0, float64(truth[i]))
		if flipped[i] = k < n/10; flipped[i] {
			y.Set(i, 0, float64((truth[i]+1+rng.IntN(9))%10))
		}
	}
	net := testref.Must(network.Seeded(*studySeed, network.Shape{1, 28, 28}, studyLayers(t)...))(t)
	_, _, p := net.Dims()
	init := net.Theta()
	net, trained, err := train.MAP(t.Context(), net, x, y, glm.Categorical{}, &train.Options{Precision: make([]float64, p), Optimizer: train.SGD{Momentum: 0.9},
		Schedule: train.Constant{}, LearningRate: 0.01, Batch: 64, Epochs: *studyEpochs, LBFGS: -1, Seed: *studySeed})
	require.NoError(t, err)
	t.Logf("trained: %.4f nats an example", -trained.LogLik/float64(n))
	batch := testref.Must(net.Linearize(t.Context(), x))(t)

	s := &study{y: y, truth: truth, flipped: flipped}
	file, err := os.OpenFile(filepath.Join(*studyOut, "audit-mnist.csv"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	s.table = csv.NewWriter(file)
	if info, err := file.Stat(); err == nil && info.Size() == 0 {
		s.write(t, "rows", "epochs", "seed", "prior_mean", "method", "precision_or_noise", "loo_nll", "effective_parameters", "auc", "suggested_right", "caught_among_first_tenth",
			"calibrated_scale", "calibrated_loo_nll", "calibrated_auc", "calibrated_suggested_right", "support_label_right")
	}
	s.prefix = []string{strconv.Itoa(n), strconv.Itoa(*studyEpochs), strconv.FormatUint(*studySeed, 10), *studyMean}
	kernel := func(precision float64) ntk.Kernel {
		prior := testref.Must(ntk.NewIsotropic(precision, nil))(t)
		switch *studyMean {
		case "initial":
			prior = testref.Must(ntk.NewIsotropic(precision, init))(t)
		case "function-zero":
			return noMean{ntk.New(prior, net.Theta())}
		}
		return ntk.New(prior, net.Theta())
	}
	if *studyMean == "labels" {
		prior := testref.Must(ntk.NewIsotropic(1, nil))(t)
		draws := audit.Shuffles(net.Theta(), net.Params(), *studyDraws, 0, func(theta []float64) (*linearize.Batch, error) {
			return testref.Must(net.WithTheta(theta))(t).Linearize(t.Context(), x)
		})
		if *studyDraws == 0 {
			draws = at(batch)
		}
		found, err := audit.OfLabels(t.Context(), ntk.New(prior, net.Theta()), draws, y, 10, &audit.Options{MostPaired: -1, Top: n / 10})
		require.NoError(t, err)
		t.Logf("%+v temperature %v", found.Tried, found.Temperature)
		number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
		a := &found.Audit
		method := fmt.Sprintf("%d shuffles to the power %d", *studyDraws, found.Regression.Power)
		if *studyArch != "mlp" {
			method += " of " + *studyArch
		}
		s.line(t, method, number(found.Regression.Noise), "", number(found.Effective), number(s.auc(a)), number(s.right(a)), number(s.caught(a)), "", "", "", "", number(s.supported(a)))
		return
	}
	var last *gp.Exact
	var before float64
	for _, text := range strings.Split(*studyList, ",") {
		precision := testref.Must(strconv.ParseFloat(text, 64))(t)
		prior := testref.Must(ntk.NewIsotropic(precision, nil))(t)
		if *studyMean == "initial" {
			prior = testref.Must(ntk.NewIsotropic(precision, init))(t)
		}
		var post gp.Dual
		method := "exact"
		switch {
		case *studyKept > 0:
			k, err := kept.Refit(t.Context(), batch, gp.NewTargets(y, glm.Categorical{}), prior, net.Theta(), &kept.Options{Strength: *studyKept})
			require.NoError(t, err)
			t.Logf("%d rows kept, %v", k.Kept().Len(), k.Warnings())
			post, method = k, "kept"
		case last == nil:
			last = testref.Must(gp.Refit(t.Context(), kernel(precision), batch, gp.NewTargets(y, glm.Categorical{}), nil))(t)
			post = last
		default:
			last = testref.Must(last.Rescale(t.Context(), kernel(precision), before/precision, gp.NewTargets(y, glm.Categorical{})))(t)
			post = last
		}
		before = precision
		s.add(t, method, precision, post)
	}
	require.NoError(t, file.Close())
}

// studyLayers are those of the network.
func studyLayers(t *testing.T) []network.Layer {
	drop, pool := network.Dropout{Ratio: 0.1}, network.MaxPool2D{Size: 2}
	switch *studyArch {
	case "mlp":
		return []network.Layer{network.Flatten{}, network.Dense{Units: 128}, network.ReLU, drop, network.Dense{Units: 64}, network.ReLU, drop, network.Dense{Units: 10}}
	case "lenet5":
		return []network.Layer{network.Conv2D{Filters: 6, Kernel: 5}, network.ReLU, pool, network.Conv2D{Filters: 16, Kernel: 5}, network.ReLU, pool,
			network.Flatten{}, network.Dense{Units: 120}, network.ReLU, network.Dense{Units: 84}, network.ReLU, network.Dense{Units: 10}}
	}
	t.Fatalf("-study-arch %s: there are mlp and lenet5", *studyArch)
	return nil
}

// noMean is a kernel with the prior mean 0.
type noMean struct{ *ntk.NTK }

func (noMean) MeanTo(dst []float64, _ *linearize.Batch) { clear(dst) }

// A study judges audits by the labels before the flips.
type study struct {
	y       *mat.Dense
	truth   []int
	flipped []bool
	table   *csv.Writer
	prefix  []string
}

// line writes a line about a posterior.
func (s *study) line(t *testing.T, cells ...string) {
	s.write(t, append(slices.Clone(s.prefix), cells...)...)
}

func (s *study) write(t *testing.T, cells ...string) {
	require.NoError(t, s.table.Write(cells))
	s.table.Flush()
	require.NoError(t, s.table.Error())
}

func (s *study) add(t *testing.T, method string, precision float64, post gp.Dual) {
	n := len(s.truth)
	mean, cov := mat.NewDense(n, 10, nil), mat.NewDense(10*n, 10, nil)
	batch := post.Data().(*linearize.Batch)
	require.NoError(t, post.LeaveOneOutTo(t.Context(), mean, cov, dense.Range(n), batch))
	known := func(_ context.Context, m, c *mat.Dense, _ []int, _ *linearize.Batch) error {
		m.Copy(mean)
		c.Copy(cov)
		return nil
	}
	scale, err := score.Calibrate(t.Context(), glm.Categorical{}, s.y, mean, cov, &score.CalibrateOptions{Link: predictive.QMC{Tol: 1e-3, MaxPoints: 4096}})
	require.NoError(t, err)
	var cells []string
	number := func(v float64) { cells = append(cells, strconv.FormatFloat(v, 'g', 6, 64)) }
	for _, c := range []*score.Calibration{nil, scale} {
		o := &audit.Options{LeaveOneOut: known, Calibration: c, MostPaired: -1, Top: n / 10}
		found := testref.Must(audit.Of(t.Context(), post, glm.Categorical{}, s.y, o))(t)
		_, tempered, scaled, err := c.Apply(glm.Categorical{}, mean, cov)
		require.NoError(t, err)
		score := testref.Must(score.ScoreOf(nil, glm.Categorical{}, s.y, tempered, scaled))(t)
		if c == nil {
			number(score.NLL)
			number(found.Effective)
			number(s.auc(found))
			number(s.right(found))
			number(s.caught(found))
			continue
		}
		number(c.Scale)
		number(score.NLL)
		number(s.auc(found))
		number(s.right(found))
		number(s.supported(found))
	}
	s.line(t, append([]string{method, strconv.FormatFloat(precision, 'g', -1, 64)}, cells...)...)
}

// auc is the share of pairs of a flipped and another example of which the flipped one
// comes first.
func (s *study) auc(found *audit.Audit) float64 {
	before, sum := 0, 0.0
	for _, k := range found.Mislabelled {
		if s.flipped[found.Examples[k].Index] {
			before++
			continue
		}
		sum += float64(before)
	}
	return sum / float64(before*(len(found.Mislabelled)-before))
}

// right is the share of the flipped examples whose suggested label is the true one.
func (s *study) right(found *audit.Audit) float64 {
	right, all := 0.0, 0.0
	for _, x := range found.Examples {
		if s.flipped[x.Index] {
			if all++; x.Suggested == s.truth[x.Index] {
				right++
			}
		}
	}
	return right / all
}

// caught is the share of flipped examples among as many of the first.
func (s *study) caught(found *audit.Audit) float64 {
	caught, all := 0.0, 0
	for _, f := range s.flipped {
		if f {
			all++
		}
	}
	for _, k := range found.Mislabelled[:all] {
		if s.flipped[found.Examples[k].Index] {
			caught++
		}
	}
	return caught / float64(all)
}

// supported is the share of supports whose recorded label is the true one of the flipped
// example that they speak about.
func (s *study) supported(found *audit.Audit) float64 {
	right, all := 0.0, 0.0
	for _, x := range found.Examples {
		if !s.flipped[x.Index] {
			continue
		}
		for _, v := range x.Supports {
			if all++; int(s.y.At(v.Index, 0)) == s.truth[x.Index] {
				right++
			}
		}
	}
	return right / all
}
