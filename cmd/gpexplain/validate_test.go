package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/testref"
)

func TestValidate(t *testing.T) {
	for _, name := range []string{"categorical", "poisson"} {
		ref := openReference(t, name)
		text := ref.run(t, "validate")
		require.NotContains(t, text, "DIFFERS")
		for _, quantity := range []string{"mean", "covariance", "log det", "(E7)", "(E8)", "(E9)", "Σ C(x,x_i) b_i", "Σ κ(x,x_i) α_i"} {
			require.Contains(t, text, quantity)
		}
		text = ref.run(t, "validate", "--json")
		requireSchema(t, "validate", text)
		require.True(t, decode[result.Validation](t, text).OK)
	}
}

// The exit status says that something differs, and the table what.
func TestValidateDiffers(t *testing.T) {
	ref := openReference(t, "categorical")
	r := gpexplain(t.Context(), append([]string{"validate", "--tolerance", "1e-17"}, ref.args...)...)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stdout, "DIFFERS")
	requireOneLine(t, r.stderr)
}

// Each method is held against what it can be: its own sums, and the precision
// of the parameters against function space as well. The report of the fit goes with it.
func TestValidateByMethod(t *testing.T) {
	for _, name := range []string{"categorical", "poisson"} {
		ref := openReference(t, name)
		for method, quantities := range map[string]int{"subset": 2, "nystrom": 2, "parameters": 5} {
			args := []string{"--method", method}
			if method != "parameters" {
				args = append(args, "--inducing", "5") // of more, K_ZZ is singular to working precision
			}
			text := ref.run(t, "validate", args...)
			require.NotContains(t, text, "DIFFERS")
			require.Equal(t, quantities, strings.Count(text, "  ok"), text)
			r := decode[struct {
				OK   bool
				Rows []result.Comparison
				Fit  result.Fit
			}](t, ref.run(t, "validate", append(args, "--json")...))
			require.True(t, r.OK)
			require.Len(t, r.Rows, quantities)
			require.Equal(t, method, r.Fit.Method)
			require.Equal(t, method != "parameters", r.Fit.Approximation != nil)
		}
	}
	// The tolerance is the user's.
	ref := openReference(t, "categorical")
	r := gpexplain(t.Context(), append([]string{"validate", "--method", "subset", "--inducing", "5", "--tolerance", "1e-17"}, ref.args...)...)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stdout, "DIFFERS")
	requireOneLine(t, r.stderr)
}

// Cancelled at the ends of any stage of its progress, validate ends with the context's
// error and begins nothing more.
func TestValidateIsCancelledAtEachStage(t *testing.T) {
	testref.Long(t, "takes many whole commands; run without -short")
	args := append([]string{"validate"}, openReference(t, "poisson").args...)
	seen := map[string]bool{}
	all, r := steps(t, -1, args)
	require.Zero(t, r.code, r.stderr)
	for _, at := range breaks(all) {
		done, r := steps(t, at, args)
		require.Equal(t, job.StatusInterrupted, r.code, all[at])
		require.Equal(t, "gpexplain: interrupted\n", r.stderr, all[at])
		require.Len(t, done, at+1, "progress after the cancellation")
		seen[all[at].stage] = true
	}
	for _, stage := range []string{"kernel", "precision", "comparison", "newton", "contributions", "leave one out"} {
		require.True(t, seen[stage], stage)
	}
}

// The table says where the refit of weight space is not at its mode.
func TestValidateWarnsOfWeightSpace(t *testing.T) {
	ref := openReference(t, "poisson")
	r := gpexplain(t.Context(), append([]string{"validate", "--prior-precision", "1e-12"}, ref.args...)...)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stdout, "warning: At the end of the refit the gradient of the log posterior has norm ")
}
