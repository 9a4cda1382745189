package campaign

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// TestRecordsAddUp checks that runs add up in the file, that a finding is recorded once until it is
// mended, and that the page counts both.
func TestRecordsAddUp(t *testing.T) {
	dir := t.TempDir()
	p := Part{Name: "bits", Run: func(ctx context.Context, env *Env, r *Result) error {
		r.Count("files", 3)
		r.Find("seed %d\n is refused", 9)
		<-ctx.Done()
		return ctx.Err()
	}}
	for seed := range uint64(3) {
		env := &Env{Dir: filepath.Join(dir, "kept"), Temp: filepath.Join(dir, "temp"), Seed: seed, Log: os.Stderr}
		r, took, err := try(t.Context(), p, env, time.Millisecond)
		require.NoError(t, err, "the end of the time is no error")
		require.NoDirExists(t, env.Temp)
		require.DirExists(t, env.Dir)
		require.NoError(t, update(dir, p.Name, func(c *record) {
			c.add(r, seed, took)
			c.Findings[0].Mended = map[bool]string{true: "TestBits"}[seed >= 1]
		}))
	}
	records, err := read(dir)
	require.NoError(t, err)
	c := records["bits"]
	require.Equal(t, []uint64{0, 1, 2}, c.Seeds)
	require.Equal(t, map[string]int64{"files": 9}, c.Trials)
	require.Equal(t, []finding{{0, "seed 9 is refused", "TestBits"}, {2, "seed 9 is refused", ""}}, c.Findings)
	page, err := os.ReadFile(filepath.Join(dir, "campaign.md"))
	require.NoError(t, err)
	require.Contains(t, string(page), "| 3 | 2 | 9 | 1 | 1 |")
}

// TestFindTargets checks that the fuzz tests of the module and of a nested one are found.
func TestFindTargets(t *testing.T) {
	list, err := findTargets("../..", func(target) bool { return true })
	require.NoError(t, err)
	require.Contains(t, list, target{"../..", "./linearize/network", "FuzzReadONNX"})
	require.Contains(t, list, target{"../../linearize/rowfile/parquet", "./.", "FuzzOpen"})
}

// TestWrong checks which ends of a program that was given something damaged are findings.
func TestWrong(t *testing.T) {
	for _, x := range []struct {
		stderr string
		exit   int
		found  bool
	}{
		{"", 0, false},
		{"gpexplain: a.gp: it is damaged\n", 1, false},
		{"", 1, true},
		{"gpexplain: a.gp: it is damaged\nand more\n", 1, true},
		{"panic: index out of range\n\ngoroutine 1 [running]:\n", 2, true},
		{"", -1, true},
	} {
		require.Equal(t, x.found, wrong(x.stderr, x.exit) != "", "%q, status %d", x.stderr, x.exit)
	}
}

// TestDamage checks that a damaged file differs from the whole one, which stays as it is.
func TestDamage(t *testing.T) {
	whole := []byte("a posterior")
	env, kinds := &Env{Seed: 3}, map[string]bool{}
	for n := range uint64(100) {
		text, what := damage(env.Rand(n), whole)
		again, _ := damage(env.Rand(n), whole)
		require.Equal(t, text, again)
		require.LessOrEqual(t, len(text), len(whole), what)
		kinds[strings.Fields(what)[0]] = true
	}
	require.Equal(t, "a posterior", string(whole))
	require.Equal(t, map[string]bool{"byte": true, "cut": true, "random": true}, kinds)
}

// TestNear checks what counts as another prediction than that of a fit.
func TestNear(t *testing.T) {
	want := &result.Prediction{Mean: []result.Float{0.5, -20}, Probability: []result.Float{0.9, 0.1}}
	for _, x := range []struct {
		mean, probability float64
		says              string
	}{
		{-20.00001, 0.1, ""}, {-20.0001, 0.1, "mean 1"}, {-20, 0.101, "probability 1"}, {math.NaN(), 0.1, "mean 1"},
	} {
		err := near(&result.Changed{Mean: []result.Float{0.5, result.Float(x.mean)}, Probability: []result.Float{0.9, result.Float(x.probability)}}, want)
		if x.says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, x.says)
	}
	require.Error(t, near(nil, want))
	require.True(t, ahead([]result.Float{-1e-3}))
	require.False(t, ahead([]result.Float{0.5, 0.2, 0.5 + 1e-12}))
	require.Equal(t, 1, largest([]result.Float{0.1}))
}

// TestNewSmall checks that tables have equal rows, every class, and few training rows of 1,000 classes.
func TestNewSmall(t *testing.T) {
	env, equal := &Env{Seed: 2}, 0
	for n := range uint64(40) {
		s := newSmall(env.Rand(n), n)
		seen, classes := map[[2]float64]bool{}, map[float64]bool{}
		for _, row := range s.rows {
			if seen[[2]float64(row[:2])] {
				equal++
			}
			seen[[2]float64(row[:2])] = true
			classes[row[2]] = true
		}
		if s.c > 0 && len(s.rows) >= s.c {
			require.Len(t, classes, s.c, s.what)
		}
		if s.c == 1000 {
			require.LessOrEqual(t, len(s.train), 6)
		}
	}
	require.Positive(t, equal)
}
