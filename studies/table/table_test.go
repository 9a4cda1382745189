package table_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/studies/table"
)

func TestTable(t *testing.T) {
	t1 := &table.Table{Header: []string{"name", "a", "b"}}
	t1.Add("x, y", 0.12345, 3)
	t1.Add("z", math.NaN(), 12.3456)
	require.Equal(t, "| name | a | b |\n|---|---|---|\n| x, y | 0.1235 | 3 |\n| z |  | 12.35 |\n", t1.Markdown())
	dir := filepath.Join(t.TempDir(), "records")
	require.NoError(t, t1.WriteCSV(dir, "one.csv"))
	text, err := os.ReadFile(filepath.Join(dir, "one.csv"))
	require.NoError(t, err)
	require.Equal(t, "name,a,b\n\"x, y\",0.1235,3\nz,,12.35\n", string(text))
	for v, want := range map[float64]string{0: "0.0000", -0.00001: "-1e-05", 1e-4: "0.0001", 25000: "2.5e+04", -2: "-2.0000"} {
		require.Equal(t, want, table.Cell(v))
	}
}
