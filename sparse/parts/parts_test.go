package parts

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/sparse/shard"
)

// selectInducing writes the inducing examples of a small fit.
func selectInducing(t *testing.T, path string) {
	t.Helper()
	pass := testref.Must(funcgp.NewPass(t.Context(), funcgp.Model{}, funcgp.Data{Source: "digits:300,40", TrainCount: 60}, &funcgp.FitOptions{Method: funcgp.Method{Inducing: 8}}))(t)
	defer pass.Close()
	r := testref.Must(pass.Save(t.Context(), path))(t)
	require.Equal(t, []int{60, 8}, []int{r.Examples, r.Inducing})
	require.Positive(t, r.Bytes)
}

// fitIn fits in n parts, the last one first, and returns the posterior's file.
func fitIn(t *testing.T, dir, z string, n int) string {
	t.Helper()
	fit := testref.Must(funcgp.OpenPass(t.Context(), z, nil))(t)
	defer fit.Close()
	require.Equal(t, 60, fit.Len())
	var total *sparse.Sums
	var files []string
	for i := range n {
		files = append(files, filepath.Join(dir, fmt.Sprintf("%d-%d.rows", n, i)))
		sums := testref.Must(fit.WriteApart(t.Context(), shard.Part{Number: n - 1 - i, Of: n}, files[i]))(t)
		if total == nil {
			total = sums
		} else {
			require.NoError(t, total.Merge(sums))
		}
	}
	out := filepath.Join(dir, fmt.Sprintf("%d.gp", n))
	post := testref.Must(funcgp.Merge(t.Context(), files, total, "", "", &funcgp.OpenOptions{Fit: funcgp.FitOptions{Calibrate: "none"}}))(t)
	defer post.Close()
	require.NoError(t, post.Save(t.Context(), out, nil))
	require.Equal(t, 60, post.Info().Examples)
	_, err := fit.WriteApart(t.Context(), shard.Part{Number: 0, Of: 61}, files[0])
	require.ErrorContains(t, err, "it has no rows, as there are 60 training rows")
	return out
}

// sent is a part as another process gets it.
func sent(t *testing.T, p *TermsPart) *TermsPart {
	t.Helper()
	data := testref.Must(p.MarshalBinary())(t)
	q := new(TermsPart)
	require.Error(t, q.UnmarshalBinary(data[:len(data)/2]))
	require.NoError(t, q.UnmarshalBinary(data))
	return q
}

// asked are options, as another process gets them, that ask for two rows.
func asked(t *testing.T, posterior string) *TermsOptions {
	t.Helper()
	text, err := json.Marshal(&TermsOptions{Posterior: posterior, Question: Question{Rows: Rows{Index: "6,24"}, Top: 5}})
	require.NoError(t, err)
	o := new(TermsOptions)
	require.NoError(t, json.Unmarshal(text, o))
	return o
}

// explainIn explains two rows in n parts.
func explainIn(t *testing.T, posterior string, n int) *TermsPart {
	t.Helper()
	w := testref.Must(OpenTerms(t.Context(), asked(t, posterior)))(t)
	defer func() { require.NoError(t, w.Close()) }()
	require.Equal(t, 60, w.Len())
	var sum *TermsPart
	for i := range n {
		p := testref.Must(w.Part(t.Context(), shard.Part{Number: n - 1 - i, Of: n}))(t)
		q := sent(t, p)
		if sum == nil {
			sum = q
		} else {
			sum = testref.Must(q.Add(sum))(t)
		}
	}
	require.Equal(t, 60, sum.Len())
	path := posterior + fmt.Sprint(n)
	require.NoError(t, sum.Write(path))
	require.True(t, IsTerms(path))
	p := testref.Must(MergeTerms(t.Context(), []string{path}))(t)
	require.Equal(t, sum, p)
	return p
}

// Any number of parts, in any order, gives the same evidence and explanations, whose terms
// are the largest of all training rows.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	z := filepath.Join(dir, "z.gp")
	selectInducing(t, z)
	evidence := func(path string) float64 {
		post := testref.Must(funcgp.Open(t.Context(), path, nil))(t)
		defer post.Close()
		return float64(post.Info().LogEvidence)
	}
	one := fitIn(t, dir, z, 1)
	want := explainIn(t, one, 1)
	require.Len(t, want.Explanations(), 2)
	for _, n := range []int{2, 7} {
		got := fitIn(t, dir, z, n)
		require.InEpsilon(t, evidence(one), evidence(got), 1e-10)
		for k, row := range explainIn(t, got, n).Explanations() {
			for c, x := range row {
				y := want.Explanations()[k][c]
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

// A posterior that is open already is explained as one that is opened for it, and stays open.
func TestNewTerms(t *testing.T) {
	dir := t.TempDir()
	z := filepath.Join(dir, "z.gp")
	selectInducing(t, z)
	gp := fitIn(t, dir, z, 1)
	post := testref.Must(funcgp.Open(t.Context(), gp, nil))(t)
	w := testref.Must(NewTerms(t.Context(), post, asked(t, gp).Question))(t)
	part := testref.Must(w.Part(t.Context(), shard.Part{Number: 0, Of: 1}))(t)
	require.Equal(t, explainIn(t, gp, 1).Explanations(), sent(t, part).Explanations())
	_, err := w.Part(t.Context(), shard.Part{Number: 0, Of: 61})
	require.ErrorContains(t, err, "it has no rows, as there are 60 training rows")
	require.NoError(t, w.Close())
	require.NoError(t, testref.Err(post.TestRows(t.Context(), 6)))
	require.NoError(t, post.Close())
	require.ErrorIs(t, testref.Err(w.Part(t.Context(), shard.Part{Number: 0, Of: 1})), funcgp.ErrClosed)

	fresh, err := funcgp.Fit(t.Context(), funcgp.Model{}, funcgp.Data{Source: "digits:200,20", TrainCount: 20}, nil)
	require.NoError(t, err)
	defer fresh.Close()
	require.ErrorContains(t, testref.Err(NewTerms(t.Context(), fresh, Question{})), "the posterior is of no file")
}

// Options and files that are wrong are one clear error, and a usage error where no file need be
// opened to see it.
func TestRefusals(t *testing.T) {
	usage := func(err error, want string) {
		t.Helper()
		require.Error(t, err)
		require.Contains(t, option.Word(err, option.Flags), want)
		_, ok := errors.AsType[*job.UsageError](err)
		require.True(t, ok, want)
	}
	usage(testref.Err(funcgp.Merge(t.Context(), nil, nil, "", "", &funcgp.OpenOptions{Fit: funcgp.FitOptions{Calibrate: "x"}})), `--calibrate "x" must be`)
	_, err := OpenTerms(t.Context(), &TermsOptions{})
	usage(err, "--posterior FILE is needed")
	for want, q := range map[string]Question{
		"--top -1 must be at least 1":          {Top: -1},
		`--terms "cooked" must be`:             {Terms: "cooked"},
		`--calibrate "x" must be`:              {Calibrate: "x"},
		`--contrast "4" must be two different`: {Contrast: "4"},
		`--index "x" must list rows`:           {Rows: Rows{Index: "x"}},
		"--index and --all exclude each other": {Rows: Rows{Index: "1", All: true}},
		"--invert is for --input":              {Rows: Rows{Invert: "yes"}},
	} {
		_, err := OpenTerms(t.Context(), &TermsOptions{Posterior: "a.gp", Question: q})
		usage(err, want)
	}
	require.ErrorContains(t, testref.Err(funcgp.OpenPass(t.Context(), "", nil)), "the file of a pass")
	_, fit := funcgp.OpenPass(t.Context(), "none.gp", nil)
	_, terms := OpenTerms(t.Context(), &TermsOptions{Posterior: "none.gp"})
	_, merged := funcgp.Merge(t.Context(), []string{"none.gp"}, new(sparse.Sums), "", "", nil)
	_, read := MergeTerms(t.Context(), []string{"none.gp"})
	for _, err := range []error{fit, terms, merged, read} {
		require.ErrorContains(t, err, "none.gp")
		_, ok := errors.AsType[*job.UsageError](err)
		require.False(t, ok, err)
	}
}

// Whatever the bytes are, they are a part or an error.
func FuzzTermsPart(f *testing.F) {
	part := &TermsPart{header: header{Part: shard.Part{Of: 1}, Examples: 3}, covered: 3}
	data := testref.Must(part.MarshalBinary())(f)
	f.Add(data)
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		p := new(TermsPart)
		if p.UnmarshalBinary(data) == nil {
			require.NoError(t, testref.Err(p.MarshalBinary()))
		}
	})
}

// Whatever the scores in a file of a part of an audit are, they are of rows of the part and name classes, or are
// refused.
func FuzzReadAudit(f *testing.F) {
	f.Add(0, 4, 0, 1, 1, -1)
	f.Add(1, 3, 1, 0, 2, -1)
	f.Add(7, -1, 1<<40, -5, 3, 9)
	path := filepath.Join(f.TempDir(), "a")
	f.Fuzz(func(t *testing.T, number, examples, first, second, label, suggested int) {
		h := header{Part: shard.Part{Number: number, Of: 2}, Examples: examples}
		list := []audit.Example{{Index: first, Label: label, Suggested: -1, Probability: []float64{.5, .5}}, {Index: second, Label: -1, Suggested: suggested}}
		require.NoError(t, write(path, auditKind, "scores", &h, list))
		a, err := ReadAudit(path)
		if err != nil {
			require.ErrorContains(t, err, path+": holds ")
			return
		}
		lo, hi := a.header.Part.Rows(examples)
		require.True(t, lo <= first && first < second && second < hi, "rows of the part, ascending")
		require.True(t, -1 <= label && label < 2 && suggested == -1)
	})
}
