package campaign

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	require.Contains(t, list, target{"../../parquet", "./.", "FuzzOpen"})
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
