package explain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A prior mean that is not the posterior's makes other remainders, and is refused.
func TestRefusesOtherPrior(t *testing.T) {
	r := testkit.OpenReference(t, "snelson")
	post := testref.Must(gp.Refit(t.Context(), r.Kernel, r.Train, r.Targets(), nil))(t)
	require.NoError(t, testref.Err(explain.New(post, r.Kernel, nil)))
	theta := r.Net.Theta()
	theta[0]++
	other := ntk.New(r.Prior, theta)
	_, err := explain.New(post, other, nil)
	require.EqualError(t, err, "explain: the prior mean is not that of the posterior: the parameters of the network are others; give New the kernel that the posterior was fitted with")

	// Without fingerprints the prior means tell.
	unknown, test := *r.Train, *r.Test
	unknown.Model, test.Model = linearize.ModelFingerprint{}, linearize.ModelFingerprint{}
	post = testref.Must(gp.Refit(t.Context(), r.Kernel, &unknown, r.Targets(), nil))(t)
	require.ErrorContains(t, testref.Err(explain.New(post, other, nil)), "at training example 0, output 0, it is")
	shifted := testref.Must(ntk.NewIsotropic(1, []float64{.5}))(t)
	_, err = explain.New(post, ntk.New(shifted, r.Net.Theta()), nil)
	require.ErrorContains(t, err, "at training example 0, output 0, it is")

	// Of examples that are not in memory the test rows tell.
	p, err := kept.Refit(t.Context(), testkit.InTiles(r.Train, 20), r.Targets(), r.Prior, r.Net.Theta(), nil)
	require.NoError(t, err)
	e := testref.Must(explain.New(p, other, nil))(t)
	_, err = e.Explain(t.Context(), r.Test.Slice(0, 2))
	require.ErrorContains(t, err, "explain: the prior mean is not that of the posterior: the parameters of the network are others")
}
