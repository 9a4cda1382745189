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
