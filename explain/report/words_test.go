package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// The text and the page say by which method the posterior was computed, whether
// its evidence is a bound, and when the remainder is large.
func TestPagesNameTheMethod(t *testing.T) {
	p := newDemo(3, 24, 9, 4, 9).page(t, 9, nil)
	exact := text(t, p, 80)
	require.NotContains(t, exact, "The posterior is")
	f := &p.Report.Fit
	f.Method, f.Inducing, f.TraceError, f.Bound = "nystrom", 200, 0.0875, "upper"
	require.Contains(t, text(t, p, 200), "The posterior is a Nyström approximation with 200 inducing examples. They leave 8.8 % of the prior variance")
	page := html(t, p)
	require.Contains(t, page, "a Nyström approximation with 200 inducing examples")
	require.Contains(t, page, "not below the exact one")
	require.Contains(t, page, "Trace error")
	f.Method, f.Inducing, f.TraceError, f.Bound = "subset", 1, result.Undefined(), "none"
	require.Contains(t, text(t, p, 200), "The posterior is exact for a subset of 1 example.")
	f.Method, f.Inducing = "cg", -1
	require.Contains(t, html(t, p), "exact, by conjugate gradients")
	require.Equal(t, exact, text(t, p, 80))
	f.Refit = false
	for i := range p.Report.Outputs {
		p.Report.Outputs[i].Remainder = 2 * p.Report.Outputs[i].ContributionSum
	}
	require.Contains(t, text(t, p, 200), "The remainder is large")
}
