package suspects

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/studies/trained"
)

// rows writes a table of two classes that x1 tells, or of a line in x1.
func rows(t *testing.T, path string, classes bool) {
	t.Helper()
	var b strings.Builder
	b.WriteString("x1,x2,y\n")
	for i := range 60 {
		x := math.Sin(float64(7 * i))
		y := fmt.Sprint(x / 2)
		if classes {
			y = map[bool]string{true: "1", false: "0"}[x > 0]
		}
		fmt.Fprintf(&b, "%v,%v,%s\n", x, math.Cos(float64(i*i)), y)
	}
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
}

// TestResumes runs the study on classes and a regression, and again from its steps: the records are the same, and
// the labels are found by a regression of them.
func TestResumes(t *testing.T) {
	dir := t.TempDir()
	rows(t, filepath.Join(dir, "classes.csv"), true)
	rows(t, filepath.Join(dir, "line.csv"), false)
	noise, err := glm.NewGaussian(1)
	require.NoError(t, err)
	s := &study{out: io.Discard, Flags: trained.Flags{Cache: filepath.Join(dir, "cache"), Records: filepath.Join(dir, "records"), Shared: dir}, seeds: 1, rows: 50, tables: []trained.Table{
		{Name: "classes", File: "classes.csv", Likelihood: glm.Bernoulli{}, Outputs: 1, Hidden: []int{5}, Epochs: 30, Lambda: 1e-3},
		{Name: "line", File: "line.csv", Likelihood: noise, Outputs: 1, Hidden: []int{5}, Norm: true, Epochs: 30},
	}}
	require.NoError(t, s.run(context.Background()))
	first, err := os.ReadFile(filepath.Join(dir, "records", "suspects.csv"))
	require.NoError(t, err)
	require.Contains(t, string(first), "line,0,\""+ofLabels+"\",1.0000,0.6667,1.0000\n", "three of fifty, of which two are looked at first")
	require.NoError(t, s.run(context.Background()))
	again, err := os.ReadFile(filepath.Join(dir, "records", "suspects.csv"))
	require.NoError(t, err)
	require.Equal(t, string(first), string(again))
}

// Wrong targets are a twentieth of the rows, and no others change.
func TestSpoil(t *testing.T) {
	noise, err := glm.NewGaussian(1)
	require.NoError(t, err)
	for _, lik := range []glm.Likelihood{noise, glm.Bernoulli{}} {
		y := mat.NewDense(40, 1, nil)
		wrong := spoil(y, &trained.Table{Likelihood: lik, Outputs: 1}, 3)
		count := 0
		for i, w := range wrong {
			require.Equal(t, w, y.At(i, 0) != 0)
			if w {
				count++
				require.LessOrEqual(t, math.Abs(y.At(i, 0)), 2.0)
				require.GreaterOrEqual(t, math.Abs(y.At(i, 0)), 1.0)
			}
		}
		require.Equal(t, 2, count)
	}
}
