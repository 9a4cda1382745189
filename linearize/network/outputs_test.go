package network_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// classifier is a network of five classes on three inputs.
func classifier(t *testing.T) *network.Network {
	t.Helper()
	g := newGraph(17, 3)
	h := g.op("Tanh", in(g.op("Gemm", in("x", g.param(3, 4), g.param(4)))))
	return mustLoad(t, g.output(g.op("Gemm", in(h, g.param(4, 5), g.param(5)))))
}

// TestGroupOutputs compares probabilities with sums of those of the whole network, and
// J with central differences, for groups with several, one and no other outputs.
func TestGroupOutputs(t *testing.T) {
	net := classifier(t)
	x := gaussianMatrix(rand.New(rand.NewPCG(3, 4)), 6, 3)
	whole := testref.Must(net.Forward(t.Context(), x))(t)
	for _, keep := range [][]int{{3}, {4, 0}, {1, 0, 4, 2}, {4, 3, 2, 1, 0}} {
		grouped := testref.Must(net.GroupOutputs(keep))(t)
		f := testref.Must(grouped.Forward(t.Context(), x))(t)
		_, c, _ := grouped.Dims()
		require.Equal(t, min(len(keep)+1, 5), c)
		for i := range 6 {
			want, got := make([]float64, 5), make([]float64, c)
			glm.Categorical{}.MeanTo(want, whole.RawRowView(i))
			glm.Categorical{}.MeanTo(got, f.RawRowView(i))
			rest := 1.0
			for k, from := range keep {
				require.InDelta(t, want[from], got[k], 1e-15)
				rest -= want[from]
			}
			if c > len(keep) {
				require.InDelta(t, rest, got[c-1], 1e-15)
			}
		}
		requireDifferences(t, grouped)
		b := testref.Must(grouped.Linearize(t.Context(), x))(t)
		requireBatch(t, b, rand.New(rand.NewPCG(5, 6)))
		moved := testref.Must(grouped.WithTheta(grouped.Theta()))(t)
		require.Equal(t, grouped.Fingerprint(), moved.Fingerprint())
		require.NotEqual(t, net.Fingerprint(), grouped.Fingerprint())
	}
}

// TestGroupOutputsOfGroups groups twice, where the others of the first group are one
// of the classes.
func TestGroupOutputsOfGroups(t *testing.T) {
	net := classifier(t)
	once := testref.Must(net.GroupOutputs([]int{2, 4}))(t)
	twice := testref.Must(once.GroupOutputs([]int{1}))(t)
	direct := testref.Must(net.GroupOutputs([]int{4}))(t)
	x := gaussianMatrix(rand.New(rand.NewPCG(3, 4)), 6, 3)
	want := testref.Must(direct.Linearize(t.Context(), x))(t)
	got := testref.Must(twice.Linearize(t.Context(), x))(t)
	testref.RequireClose(t, got.F.RawMatrix().Data, want.F.RawMatrix().Data, 1e-14, "f")
	var a, b mat.Dense
	got.JacobianTo(&a)
	want.JacobianTo(&b)
	testref.RequireClose(t, a.RawMatrix().Data, b.RawMatrix().Data, 1e-13, "J")
}

func TestGroupOutputsRefuses(t *testing.T) {
	net := classifier(t)
	for _, c := range []struct {
		keep []int
		want string
	}{{nil, "no output to keep"}, {[]int{5}, "there is no output 5; the network has 0 to 4"}, {[]int{-1}, "no output -1"}, {[]int{2, 2}, "output 2 is named twice"}} {
		require.ErrorContains(t, testref.Err(net.GroupOutputs(c.keep)), c.want)
	}
	grouped := testref.Must(net.GroupOutputs([]int{2}))(t)
	_, err := grouped.Rescaled([]float64{1, 1}, []float64{0, 0})
	require.ErrorContains(t, err, "grouped outputs are logits of classes")
}

// TestGroupedLabelsSayLess checks that JᵀΛJ of all classes, less that of grouped ones, is
// positive semidefinite, so that a posterior of grouped classes has no smaller
// covariance, and that the difference vanishes where no class was grouped.
func TestGroupedLabelsSayLess(t *testing.T) {
	net := classifier(t)
	x := gaussianMatrix(rand.New(rand.NewPCG(7, 8)), 12, 3)
	// curvature returns JᵀΛJ, whose Λ depends on no label.
	curvature := func(net *network.Network) *mat.Dense {
		b := testref.Must(net.Linearize(t.Context(), x))(t)
		s := testref.Must(gp.NewSites(gp.NewTargets(mat.NewDense(12, 1, nil), glm.Categorical{}), b.F))(t)
		var j, part, sum mat.Dense
		b.JacobianTo(&j)
		_, c, p := net.Dims()
		sum.CloneFrom(mat.NewDense(p, p, nil))
		for n := range 12 {
			own := j.Slice(n*c, (n+1)*c, 0, p)
			part.Mul(s.Lambda.Slice(n*c, (n+1)*c, 0, c), own)
			var add mat.Dense
			add.Mul(own.T(), &part)
			sum.Add(&sum, &add)
			part.Reset()
		}
		return &sum
	}
	whole := curvature(net)
	for _, keep := range [][]int{{3, 1}, {0}, {4, 2, 1}, {4, 3, 2, 1, 0}} {
		grouped := testref.Must(net.GroupOutputs(keep))(t)
		var less mat.Dense
		less.Sub(whole, curvature(grouped))
		p, _ := less.Dims()
		var eigen mat.EigenSym
		require.True(t, eigen.Factorize(mat.NewSymDense(p, less.RawMatrix().Data), false))
		v, scale := eigen.Values(nil), mat.Norm(whole, 2)
		require.GreaterOrEqual(t, v[0], -1e-13*scale)
		if len(keep) == 5 {
			require.Less(t, v[len(v)-1], 1e-13*scale)
		} else {
			require.Greater(t, v[len(v)-1], 1e-3*scale)
		}
	}
}

// TestLinearizeStopsBetweenOutputs holds that one example with very many outputs does not
// keep a cancelled Linearize waiting.
func TestLinearizeStopsBetweenOutputs(t *testing.T) {
	net, x := classifier(t), gaussianMatrix(rand.New(rand.NewPCG(3, 4)), 1, 3)
	testkit.Stops(t, "Linearize", 5, func(ctx context.Context) error {
		_, err := net.Linearize(ctx, x)
		return err
	})
}
