package cg_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// A benchJob is a network with all rows of two classes.
type benchJob struct {
	kernel      *ntk.NTK
	train, test *linearize.Batch
	y           *mat.Dense
	sites       *gp.Sites
}

func newBenchJob(b *testing.B, model []byte, data string, count int) *benchJob {
	b.Helper()
	net := testref.Must(network.ReadONNX(bytes.NewReader(model), nil))(b)
	precision := 10.0
	if v, ok := net.Metadata()["funcgp.prior_precision"]; ok {
		precision = testref.Must(strconv.ParseFloat(v, 64))(b)
	}
	d := testref.Must(dataset.Open(b.Context(), data, nil))(b)
	rows := testref.Must(d.Train.Select(&dataset.SelectOptions{Classes: []int{4, 9}, Count: count}))(b)
	test := testref.Must(d.Test.Select(&dataset.SelectOptions{Classes: []int{4, 9}, Count: 64}))(b)
	j := &benchJob{y: mat.NewDense(rows.Len(), 1, rows.Targets)}
	j.train = testref.Must(net.Linearize(b.Context(), rows.Matrix()))(b)
	j.test = testref.Must(net.Linearize(b.Context(), test.Matrix()))(b)
	prior := testref.Must(ntk.NewIsotropic(precision, nil))(b)
	j.kernel = ntk.New(prior, net.Theta())
	j.sites = testref.Must(gp.NewSites(gp.NewTargets(j.y, glm.Bernoulli{}), j.train.F))(b)
	return j
}

// BenchmarkPosterior fits, refits, predicts 64 rows with their variances and
// estimates the log determinant. K of the largest job would take 3 GB.
func BenchmarkPosterior(b *testing.B) {
	thesis := testref.Open(b, "thesis-cnn").Model(b)
	builtin := testref.Must(os.ReadFile("../../internal/problem/builtin.onnx"))(b)
	for _, c := range []struct {
		name, data string
		model      []byte
		count      int
	}{
		{"thesis-cnn", testref.MNIST(b), thesis, 3000},
		{"thesis-cnn", testref.MNIST(b), thesis, 11791},
		{"builtin", "digits:100000", builtin, 20000},
	} {
		b.Run(fmt.Sprintf("%s/N=%d", c.name, c.count), func(b *testing.B) {
			if c.count > 3000 && testing.Short() {
				b.Skip("a minute")
			}
			newBenchJob(b, c.model, c.data, c.count).run(b)
		})
	}
}

func (j *benchJob) run(b *testing.B) {
	o := &cg.Options{Mean: gp.LinearGaussian}
	var p *cg.Posterior
	var err error
	b.Run("fit", func(b *testing.B) {
		for b.Loop() {
			p, err = cg.Fit(b.Context(), j.kernel, j.train, j.sites, o)
			require.NoError(b, err)
			require.Empty(b, p.Warnings())
		}
		b.ReportMetric(float64(p.Solved().Steps), "steps")
		b.ReportMetric(float64(p.Rank()), "rank")
	})
	b.Run("predict", func(b *testing.B) {
		steps := 0
		for b.Loop() {
			bounds := testref.Must(p.PredictBounded(b.Context(), new(mat.Dense), new(mat.Dense), j.test))(b)
			steps = bounds.Solve.Steps
		}
		b.ReportMetric(float64(steps), "steps")
		b.ReportMetric(float64(j.test.Len()*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
	b.Run("logdet", func(b *testing.B) {
		var det *cg.LogDet
		for b.Loop() {
			b.StopTimer()
			p := testref.Must(cg.Fit(b.Context(), j.kernel, j.train, j.sites, o))(b)
			b.StartTimer()
			det = testref.Must(p.LogDet(b.Context()))(b)
		}
		b.ReportMetric(det.Value, "logdet")
		b.ReportMetric(det.StdErr, "stderr")
		b.ReportMetric(float64(det.Steps), "steps")
	})
	b.Run("refit", func(b *testing.B) {
		for b.Loop() {
			p := testref.Must(cg.Refit(b.Context(), j.kernel, j.train, gp.NewTargets(j.y, glm.Bernoulli{}), o))(b)
			b.ReportMetric(float64(p.Solved().Steps), "steps")
		}
	})
}
