package funcgp_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/internal/testref"
)

// withTest puts the rows of a toy into files, with its first test rows, whose targets are made up.
func (r *toy) withTest(t *testing.T, count int) *toy {
	t.Helper()
	file := func(name string, x *mat.Dense, n int, target func(i int) float64) string {
		_, d := x.Dims()
		var b strings.Builder
		for j := range d {
			b.WriteString("x" + strconv.Itoa(j) + ",")
		}
		b.WriteString("y\n")
		for i := range n {
			for _, v := range append(x.RawRowView(i)[:d:d], target(i)) {
				b.WriteString(strconv.FormatFloat(v, 'g', -1, 64) + ",")
			}
			b.WriteString("\n")
		}
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(b.String(), ",\n", "\n")), 0o644))
		return path
	}
	y := r.data.Y
	out := *r
	out.data = funcgp.Data{Source: file("train.csv", r.Matrix("x_train"), r.n, func(i int) float64 { return y.At(i, 0) }),
		TestFile: file("test.csv", r.Matrix("x_test"), count, func(i int) float64 { return float64(i % 2) })}
	return &out
}

// validationText is the comparison as text.
func validationText(t *testing.T, v *funcgp.Validation) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, report.ValidationText(&b, v))
	return b.String()
}

// The closed form of leave-one-out is that of refits for a Gaussian, and one Newton
// step away for others.
func TestValidate(t *testing.T) {
	for _, name := range []string{"snelson", "poisson", "categorical"} {
		p := openToy(t, name).withTest(t, 16).fit(t, funcgp.FitOptions{AtTheta: true})
		v := testref.Must(p.Validate(t.Context(), 0))(t)
		require.True(t, v.OK)
		require.Len(t, v.LeaveOneOut.Rows, 20)
		require.Len(t, v.LeaveOneOut.Values, 3)
		for _, v := range v.LeaveOneOut.Values {
			require.True(t, v.OK)
			require.Equal(t, name == "snelson", v.Tolerance.Finite())
			if name != "snelson" {
				require.Greater(t, float64(v.Difference), 1e-8, "%s %s", name, v.Quantity)
				require.Less(t, float64(v.Difference), 0.3, "%s %s", name, v.Quantity)
			}
		}
		text := validationText(t, v)
		require.NotContains(t, text, "DIFFERS")
		for _, quantity := range []string{"mean", "covariance", "log det", "(E7)", "(E8)", "(E9)", "Σ C(x,x_i) b_i", "Σ κ(x,x_i) α_i", "leave-one-out, 20 rows"} {
			require.Contains(t, text, quantity)
		}
		require.ErrorContains(t, testref.Err(p.Validate(t.Context(), 1)), "between 0 and 1")
	}
}

// Each method is held against what it can be: its own sums, and the precision
// of the parameters against function space as well. The report of the fit goes with it.
func TestValidateByMethod(t *testing.T) {
	for _, name := range []string{"categorical", "poisson"} {
		r := openToy(t, name).withTest(t, 16)
		for method, quantities := range map[string]int{"subset": 2, "nystrom": 2, "parameters": 5} {
			how := funcgp.Method{Name: method}
			if method != "parameters" {
				how.Inducing = 5 // of more, K_ZZ is singular to working precision
			}
			p := r.fit(t, funcgp.FitOptions{Method: how, AtTheta: true})
			v := testref.Must(p.Validate(t.Context(), 0))(t)
			require.True(t, v.OK)
			require.Len(t, v.Rows, quantities)
			require.Equal(t, method, v.Fit.Method)
			require.Equal(t, method != "parameters", v.Fit.Approximation != nil)
			text := validationText(t, v)
			require.NotContains(t, text, "DIFFERS")
			require.NotContains(t, text, "one step")
			require.Equal(t, quantities, strings.Count(text, "  ok"), text)
			if method == "subset" { // the tolerance is the caller's
				v = testref.Must(p.Validate(t.Context(), 1e-17))(t)
				require.False(t, v.OK)
				require.Contains(t, validationText(t, v), "DIFFERS")
			}
		}
	}
}
