package autoencoder

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/network/head"
)

// reference returns the autoencoder of the reference and its numbers.
func reference(t *testing.T) (*Autoencoder, *testref.Ref) {
	t.Helper()
	ref := testref.Open(t, "structures/autoencoder")
	net := testref.Must(network.ReadONNX(bytes.NewReader(ref.Model(t)), &network.ReadOptions{Head: head.Keep}))(t)
	a := testref.Must(New(net, ""))(t)
	return a, ref
}

// requireClose compares matrices relative to the largest entry.
func requireClose(t *testing.T, what string, want, got []float64, tol float64) {
	t.Helper()
	require.Len(t, got, len(want), what)
	largest := 0.0
	for _, v := range want {
		largest = math.Max(largest, math.Abs(v))
	}
	for i, v := range want {
		if !(math.Abs(got[i]-v) <= tol*largest) {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got[i], v)
		}
	}
}

func raw(m *mat.Dense) []float64 { return dense.Contiguous(m) }

// The code of the reference is found, and its halves give what PyTorch's do.
func TestReferenceCode(t *testing.T) {
	a, ref := reference(t)
	_, l := a.Code()
	require.Equal(t, 2, l)
	z, f, err := a.Encode(t.Context(), ref.MatrixRC("x_test", 10, 64))
	require.NoError(t, err)
	requireClose(t, "latent", ref.Floats("latent_test"), raw(z), 1e-12)
	requireClose(t, "reconstruction", ref.Floats("f_test"), raw(f), 1e-12)
	again := testref.Must(a.Decode(t.Context(), z))(t)
	requireClose(t, "decoded", ref.Floats("f_test"), raw(again), 1e-12)
}

// [lae algorithm 1]: the posteriors with the exact, approximate and mixed diagonals have
// the determinants, evidences and predictive variances of the reference.
func TestReferencePosteriors(t *testing.T) {
	a, ref := reference(t)
	x, test := ref.MatrixRC("x_train", 40, 64), ref.MatrixRC("x_test", 10, 64)
	for c, name := range map[Curvature]string{Exact: "exact", Approximate: "approximate", Mixed: "mixed"} {
		p := testref.Must(fit(t.Context(), a, x, c, 0.01, 1, func(int, int) {}))(t)
		requireClose(t, name, ref.Floats("ggn_diagonal_"+name), p.GGN(), 1e-10)
		require.InEpsilon(t, ref.Scalar("log_det_"+name), p.LogDet(), 1e-10)
		e := testref.Must(p.LogEvidence(t.Context(), x))(t)
		require.InEpsilon(t, ref.Scalar("log_evidence_"+name), e, 1e-9)
		lin := testref.Must(p.Linearized(t.Context(), test))(t)
		requireClose(t, name, ref.Floats("f_test"), raw(lin.Mean), 1e-10)
		requireClose(t, name, ref.Floats("reconstruction_variance_"+name), raw(lin.Variance), 1e-9)
		requireClose(t, name, ref.Floats("latent_cov_"+name), raw(lin.LatentCov), 1e-9)
	}
}

// [lae eq. 52 and 53]: three steps from given noise, with J at θ or at the drawn
// parameters, and with the exact or the mixed diagonal.
func TestReferenceSteps(t *testing.T) {
	a, ref := reference(t)
	x := ref.MatrixRC("x_train", 40, 64)
	p := len(a.net.Theta())
	steps := ref.MatrixRC("online_noise", 3, p)
	for name, o := range map[string]TrainOptions{
		"online":           {Rule: Published, Curvature: Exact},
		"online_mixed":     {Rule: Published, Curvature: Mixed},
		"online_at_sample": {Rule: Published, Curvature: Exact, atSample: true},
	} {
		o.Ascent, o.Memory, o.Prior = true, 1-ref.Scalar("online_alpha"), ref.Scalar("online_h0")
		o.LearningRate, o.Batch = ref.Scalar("online_step"), 10
		opt := testref.Must(o.withDefaults(40))(t)
		tr := testref.Must(newTraining(a, x, opt))(t)
		tr.rate = opt.LearningRate
		theta, h := ref.MatrixRC(name+"_theta", 3, p), ref.MatrixRC(name+"_h", 3, p)
		for s := range 3 {
			_, err := tr.step(t.Context(), x.Slice(10*s, 10*s+10, 0, 64).(*mat.Dense), func(int) noise {
				return func(dst []float64, lo int) { copy(dst, steps.RawRowView(s)[lo:]) }
			})
			require.NoError(t, err)
			tr.s.Step++
			requireClose(t, name, theta.RawRowView(s), tr.s.Theta, 1e-10)
			precision := slices.Clone(tr.s.GGN)
			floats.AddConst(opt.prior(s+1), precision)
			requireClose(t, name, h.RawRowView(s), precision, 1e-10)
		}
		end := testref.Must(a.WithTheta(tr.s.Theta))(t)
		_, f, err := end.Encode(t.Context(), ref.MatrixRC("x_test", 10, 64))
		require.NoError(t, err)
		requireClose(t, name, ref.Floats(name+"_f_test"), raw(f), 1e-10)
	}
}

// TestReleasedRule checks that a step of the released rule adds ½·N/B times what one of the published rule with J at the
// drawn parameters adds.
func TestReleasedRule(t *testing.T) {
	a, ref := reference(t)
	x := ref.MatrixRC("x_train", 40, 64)
	eps := ref.Floats("online_noise")
	added := func(o TrainOptions) []float64 {
		o.Batch, o.Memory, o.Prior, o.Curvature = 10, 0.9, 25, Exact
		opt := testref.Must(o.withDefaults(40))(t)
		tr := testref.Must(newTraining(a, x, opt))(t)
		before := slices.Clone(tr.s.GGN)
		_, err := tr.step(t.Context(), x.Slice(0, 10, 0, 64).(*mat.Dense), func(int) noise {
			return func(dst []float64, lo int) { copy(dst, eps[lo:]) }
		})
		require.NoError(t, err)
		floats.AddScaled(tr.s.GGN, -0.9, before)
		return tr.s.GGN
	}
	want := added(TrainOptions{Rule: Published, atSample: true})
	floats.Scale(0.5*40/10, want)
	requireClose(t, "released", want, added(TrainOptions{Rule: Released}), 1e-13)
}
