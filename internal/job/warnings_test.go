package job

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
)

// Warnings name options in the words of who asked.
func TestWarningsAreWorded(t *testing.T) {
	ours := NewWarning("bad-fit", 1, 2, "Give {tune-prior} {{}}.", "%s: it is {within=%v}.", "{seed}", .5)
	library := linearize.NewWarning("taken-for-constants", 1, 2, "Name what was learnt in ReadOptions.Learn.", "{seed} was.")
	for _, x := range []struct {
		err         error
		goes, flags string
	}{
		{ours, "{seed}: it is Method.Within 0.5. Give Tuned {}.", "{seed}: it is --within 0.5. Give --tune-prior {}."},
		{library, "{seed} was. Name what was learnt in Model.Learn (gpexplain inspect lists all).", "{seed} was. Name what was learnt in --learn (gpexplain inspect lists all)."},
		{option.New("raise {max-memory}"), "raise Limits.Memory", "raise --max-memory"},
		{errors.New("{seed}"), "{seed}", "{seed}"},
	} {
		require.EqualError(t, Worded(x.err, option.Go), x.goes)
		require.EqualError(t, Worded(x.err, option.Flags), x.flags)
		require.Equal(t, "--strict: "+x.flags+" (and 1 more)", option.Word(&StrictError{[]error{x.err, ours}}, option.Flags))
	}
	w := linearize.WarningOf(ours)
	require.Equal(t, linearize.Warning{Code: "bad-fit", Value: 1, Limit: 2, Text: "{seed}: it is Method.Within 0.5.", Remedy: "Give Tuned {}."}, *w)
	require.True(t, math.IsNaN(linearize.WarningOf(Worded(option.New("a"), option.Go)).Value))

	// A file keeps the options.
	kept := Kept([]error{ours, library})
	require.Equal(t, "{{seed}}: it is {within=0.5}.", kept[0].(*linearize.Warning).Text)
	for i, err := range Restored(kept) {
		for _, words := range []option.Words{option.Go, option.Flags} {
			require.EqualError(t, Worded(err, words), Worded([]error{ours, library}[i], words).Error())
		}
	}

	j := New(nil)
	j.Words = option.Flags
	j.Warn(ours, library, ours)
	require.Len(t, j.Warnings, 2)
	require.EqualError(t, j.Warnings[0], "{seed}: it is --within 0.5. Give --tune-prior {}.")
}
