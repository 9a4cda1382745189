package weightspace_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// toys are the references of structures with a network, data and a prior of their own.
var toys = []string{"snelson", "two-moons", "categorical", "categorical-diagonal-prior", "poisson", "gaussian-two-outputs"}

// eachStructureReference calls f with every reference of structures and the numbers
// that belong to it.
func eachStructureReference(t *testing.T, f func(t *testing.T, q *testkit.Reference, want *testref.Ref, tests int)) {
	for _, name := range append([]string{"structures/normalized"}, toys...) {
		t.Run(name, func(t *testing.T) {
			q := testkit.OpenReference(t, name)
			want := q.Ref
			if name != "structures/normalized" {
				want = testref.Open(t, "structures/"+name)
			}
			f(t, q, want, want.Shape("full_cov_test")[0])
		})
	}
}

func requireStructure(t *testing.T, key string, w weightspace.Weights, q *testkit.Reference, want *testref.Ref, tests int) {
	t.Helper()
	var cov mat.Dense
	require.NoError(t, w.PredictTo(t.Context(), nil, &cov, q.Test.Slice(0, tests)))
	c := q.Train.Outputs()
	// The reference solves with factors of condition number up to 1e8.
	requireMatrix(t, key+" covariance", &cov, want.MatrixRC(key+"_cov_test", tests*c, c), 1e-8)
	requireNear(t, key+" log det", w.LogDet(), want.Scalar(key+"_log_det"), 1e-9)
	requireNear(t, key+" evidence", w.EvidenceAtTheta().Value, want.Scalar(key+"_log_evidence"), 1e-9)
	t.Logf("%s: log det %v, evidence %v", key, w.LogDet(), w.EvidenceAtTheta().Value)
}

// [glm 8], (E7): the diagonal of H as precision, against PyTorch.
func TestDiagonalAgainstReference(t *testing.T) {
	eachStructureReference(t, func(t *testing.T, q *testkit.Reference, want *testref.Ref, tests int) {
		w, err := weightspace.FitStructure(t.Context(), weightspace.Diagonal, q.Train, q.Sites(t), q.Prior, q.Net.Theta(), nil)
		require.NoError(t, err)
		requireStructure(t, "diagonal", w, q, want, tests)
		h := w.(*weightspace.DiagonalPosterior).GGN()
		requireMatrix(t, "diagonal of the GGN", vector(h), want.Matrix("ggn_diagonal"), 1e-11)
		require.False(t, math.Signbit(h[0]))
	})
}

func TestFullAgainstReference(t *testing.T) {
	eachStructureReference(t, func(t *testing.T, q *testkit.Reference, want *testref.Ref, tests int) {
		w, err := weightspace.FitStructure(t.Context(), weightspace.Full, q.Train, q.Sites(t), q.Prior, q.Net.Theta(), nil)
		require.NoError(t, err)
		requireStructure(t, "full", w, q, want, tests)
	})
}

// [note 4.2] and the structures whose blocks are layers.
func TestBlocksAgainstReference(t *testing.T) {
	eachStructureReference(t, func(t *testing.T, q *testkit.Reference, want *testref.Ref, tests int) {
		for _, c := range []struct {
			key       string
			structure weightspace.Structure
			o         weightspace.Options
		}{
			{"full", weightspace.Full, weightspace.Options{Center: q.Net.Theta()}},
			{"block", weightspace.Block, weightspace.Options{}},
			{"last_layer", weightspace.LastLayer, weightspace.Options{}},
			{"subnetwork", weightspace.Subnetwork, weightspace.Options{Size: 20}},
			{"subnetwork_informed", weightspace.Subnetwork, weightspace.Options{Size: 20, Informed: true}},
		} {
			if strings.HasSuffix(t.Name(), "gaussian-two-outputs") && c.key == "subnetwork" {
				c.o.Parameters = want.Ints("subnetwork_index") // rounding decides among its 72 pruned parameters
			}
			w, err := weightspace.FitStructure(t.Context(), c.structure, testkit.InTiles(q.Train, 7), q.Sites(t), q.Prior, q.Net.Theta(), &c.o)
			require.NoError(t, err)
			requireStructure(t, c.key, w, q, want, tests)
			b := w.(*weightspace.BlockPosterior)
			if want.Has(c.key + "_index") {
				require.Equal(t, want.Ints(c.key+"_index"), b.Selected())
			}
		}
	})
}

// [lae E.4.1]: posteriors with the exact and the approximate diagonals of the GGN.
func TestDiagonalOfAutoencoderAgainstReference(t *testing.T) {
	want := testref.Open(t, "structures/autoencoder")
	net := testref.Must(network.ReadONNX(bytes.NewReader(want.Model(t)), nil))(t)
	x := want.MatrixRC("x_train", 40, 64)
	train := testref.Must(net.Linearize(t.Context(), x))(t)
	test := testref.Must(net.Linearize(t.Context(), want.MatrixRC("x_test", 10, 64)))(t)
	lik := testref.Must(glm.NewGaussian(1))(t)
	sites := testref.Must(gp.NewSites(gp.NewTargets(x, lik), train.F))(t)
	prior := testref.Must(ntk.NewIsotropic(want.Scalar("delta"), nil))(t)
	for b, name := range map[network.Backpropagation]string{network.Exact: "exact", network.Diagonals: "approximate", network.ConvolutionDiagonals: "mixed", network.FullAtConvolutions: "mixed_full_at_conv"} {
		h := make([]float64, train.P)
		require.NoError(t, net.GGNDiagonal(t.Context(), h, x, nil, b))
		w := testref.Must(weightspace.FitDiagonal(h, train, sites, prior, net.Theta(), nil))(t)
		requireNear(t, name+" log det", w.LogDet(), want.Scalar("log_det_"+name), 1e-10)
		requireNear(t, name+" evidence", w.EvidenceAtTheta().Value, want.Scalar("log_evidence_"+name), 1e-10)
		var cov mat.Dense
		require.NoError(t, w.PredictTo(t.Context(), nil, &cov, test))
		variance := mat.NewDense(10, 64, nil)
		variance.Apply(func(n, c int, _ float64) float64 { return cov.At(n*64+c, c) }, variance)
		requireMatrix(t, name+" variance", variance, want.Matrix("reconstruction_variance_"+name), 1e-10)
	}
}

// One pass gives the diagonal posterior under every prior.
func TestDiagonalWithPrior(t *testing.T) {
	q := structureProblems(t)[1]
	w := q.fit(t, weightspace.Diagonal, q.train, nil).(*weightspace.DiagonalPosterior)
	prior := testref.Must(ntk.NewIsotropic(3, nil))(t)
	got := testref.Must(w.WithPrior(prior))(t)
	before := weightAnswers(t, w, q.test)
	q.prior = prior
	gptest.RequireBits(t, "another prior", weightAnswers(t, got, q.test), weightAnswers(t, q.fit(t, weightspace.Diagonal, q.train, nil), q.test))
	gptest.RequireBits(t, "the first posterior", weightAnswers(t, w, q.test), before)
	require.Panics(t, func() { weightspace.FitDiagonal(make([]float64, 3), q.train, q.sites, q.prior, q.theta, nil) })
	h := make([]float64, len(q.theta))
	h[2] = -1
	require.Panics(t, func() { weightspace.FitDiagonal(h, q.train, q.sites, q.prior, q.theta, nil) })
	h[2] = math.Inf(1)
	testref.As[*gp.NotPDError](t, testref.Err(weightspace.FitDiagonal(h, q.train, q.sites, q.prior, q.theta, nil)))
}
