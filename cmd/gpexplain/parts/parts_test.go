package parts

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/internal/terms"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/sparse/shard"
)

// selectInducing writes the inducing examples of a small fit.
func selectInducing(t *testing.T, path string) {
	t.Helper()
	var common problem.Flags
	var posterior inference.Flags
	con, err := parse("fit", []string{"--data", "digits:300,40", "--train-count", "60", "--method", "nystrom", "--inducing", "8"}, nil, &common,
		func(c *cobra.Command) { flags.Method(c, &posterior) }, func(c *cobra.Command) error { return posterior.Check(c.Flags().Changed) })
	require.NoError(t, err)
	defer con.Close()
	p, err := problem.Open(t.Context(), con.Job, &common, "")
	require.NoError(t, err)
	pass, err := inference.NewPass(t.Context(), con.Job, p, &posterior)
	require.NoError(t, err)
	require.NoError(t, pass.Save(t.Context(), path, nil))
}

// fitIn fits in n parts, the last one first, and returns the posterior's file.
func fitIn(t *testing.T, dir, z string, n int) string {
	t.Helper()
	fit, err := OpenFit(t.Context(), []string{"--inducing-file", z}, nil)
	require.NoError(t, err)
	defer fit.Close()
	require.Equal(t, 60, fit.Len())
	var total *sparse.Sums
	var files []string
	for i := range n {
		files = append(files, filepath.Join(dir, fmt.Sprintf("%d-%d.rows", n, i)))
		sums, err := fit.Part(t.Context(), shard.Part{Number: n - 1 - i, Of: n}, files[i])
		require.NoError(t, err)
		if total == nil {
			total = sums
		} else {
			require.NoError(t, total.Merge(sums))
		}
	}
	out := filepath.Join(dir, fmt.Sprintf("%d.gp", n))
	require.NoError(t, Merge(t.Context(), []string{"--calibrate", "none"}, nil, files, total, out))
	_, err = fit.Part(t.Context(), shard.Part{Number: 0, Of: 61}, files[0])
	require.ErrorContains(t, err, "it has no rows, as there are 60 training rows")
	return out
}

// explainIn explains two rows in n parts.
func explainIn(t *testing.T, posterior string, n int) *terms.Part {
	t.Helper()
	w, err := OpenTerms(t.Context(), []string{"--posterior", posterior, "--index", "6,24", "--top", "5"}, nil)
	require.NoError(t, err)
	defer w.Close()
	require.Equal(t, 60, w.Len())
	var sum *TermsPart
	for i := range n {
		p, err := w.Part(t.Context(), shard.Part{Number: n - 1 - i, Of: n})
		require.NoError(t, err)
		data, err := p.MarshalBinary()
		require.NoError(t, err)
		q := new(TermsPart)
		require.NoError(t, q.UnmarshalBinary(data))
		require.Error(t, q.UnmarshalBinary(data[:len(data)/2]))
		if sum == nil {
			sum = q
		} else {
			sum, err = q.Add(sum)
			require.NoError(t, err)
		}
	}
	require.Equal(t, 60, sum.Len())
	path := posterior + fmt.Sprint(n)
	require.NoError(t, sum.Write(path))
	p, err := terms.Read(path)
	require.NoError(t, err)
	require.Equal(t, 60, p.Covered)
	return p
}

// Any number of parts, in any order, gives the same evidence and explanations, whose terms
// are the largest of all training rows.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	z := filepath.Join(dir, "z.gp")
	selectInducing(t, z)
	evidence := func(path string) float64 {
		f, err := problem.PosteriorFile.Open(t.Context(), path, 0, false)
		require.NoError(t, err)
		defer f.Close()
		var h problem.SavedHeader
		require.NoError(t, f.JSON("header", &h))
		return float64(h.Fit.LogEvidence)
	}
	one := fitIn(t, dir, z, 1)
	want := explainIn(t, one, 1)
	require.Len(t, want.Rows, 2)
	for _, n := range []int{2, 7} {
		got := fitIn(t, dir, z, n)
		require.InEpsilon(t, evidence(one), evidence(got), 1e-10)
		for k, row := range explainIn(t, got, n).Rows {
			for c, x := range row {
				y := want.Rows[k][c]
				require.InDelta(t, y.Sum, x.Sum, 1e-10*max(1, y.AbsSum))
				require.Len(t, x.Terms, 5)
				for i := range x.Terms {
					require.Equal(t, y.Terms[i].Index, x.Terms[i].Index)
					require.InDelta(t, y.Terms[i].Value, x.Terms[i].Value, 1e-10*max(1, y.AbsSum))
				}
			}
		}
	}
}

// Arguments and files that are wrong are one clear error, and which of them are wrong by
// themselves can be told.
func TestRefusals(t *testing.T) {
	for want, args := range map[string][]string{
		"--inducing-file FILE is needed": nil,
		"unknown flag: --shrad":          {"--shrad", "1"},
		"fit takes no argument z.gp":     {"z.gp"},
	} {
		_, err := OpenFit(t.Context(), args, nil)
		require.ErrorContains(t, err, want)
		require.True(t, IsUsage(err), want)
	}
	for want, args := range map[string][]string{
		"--posterior FILE is needed": nil,
		"--top 0 must be at least 1": {"--posterior", "a.gp", "--top", "0"},
		"--terms":                    {"--posterior", "a.gp", "--terms", "cooked"},
	} {
		_, err := OpenTerms(t.Context(), args, nil)
		require.ErrorContains(t, err, want)
		require.True(t, IsUsage(err), want)
	}
	var notes bytes.Buffer
	for _, err := range []error{
		func() error {
			_, err := OpenFit(t.Context(), []string{"--inducing-file", "none.gp"}, &notes)
			return err
		}(),
		func() error { _, err := OpenTerms(t.Context(), []string{"--posterior", "none.gp"}, &notes); return err }(),
		func() error {
			return Merge(t.Context(), nil, &notes, []string{"none.gp"}, new(sparse.Sums), "a")
		}(),
	} {
		require.ErrorContains(t, err, "none.gp")
		require.False(t, IsUsage(err))
	}
	require.Equal(t, "a.gp: no such part", Message(fmt.Errorf("a.gp: shard: no such part\n")))
}

// Whatever the bytes are, they are a part or an error.
func FuzzTermsPart(f *testing.F) {
	part := &TermsPart{&terms.Part{Header: terms.Header{Part: shard.Part{Of: 1}, Examples: 3}, Covered: 3}}
	data, err := part.MarshalBinary()
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		p := new(TermsPart)
		if p.UnmarshalBinary(data) == nil {
			_, err := p.MarshalBinary()
			require.NoError(t, err)
		}
	})
}
