package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/testref"
)

// The exit status says that something differs, and the table what.
func TestValidateDiffers(t *testing.T) {
	ref := openReference(t, "categorical")
	r := gpexplain(t.Context(), append([]string{"validate", "--tolerance", "1e-17"}, ref.args...)...)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stdout, "DIFFERS")
	requireOneLine(t, r.stderr)
	text := ref.run(t, "validate", "--json", "--method", "parameters")
	requireSchema(t, "validate", text)
	require.True(t, decode[result.Validation](t, text).OK)
	requireSchema(t, "validate", ref.run(t, "validate", "--json"))
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
