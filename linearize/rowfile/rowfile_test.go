package rowfile_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/rowfile"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/sparse/shard"
)

// A line is the model θ·x of three inputs, whose Jacobian is x.
type line struct{}

func (line) Dims() (d, c, p int) { return 3, 1, 3 }

func (line) Linearize(_ context.Context, x *mat.Dense) (*linearize.Batch, error) {
	n, _ := x.Dims()
	full := &linearize.Full{J: mat.DenseCopyOf(x), Params: []linearize.Span{{Name: "theta", Rows: 1, Cols: 3}}, C: 1}
	return &linearize.Batch{X: x, F: mat.NewDense(n, 1, nil), Blocks: []linearize.Block{full}, P: 3}, nil
}

// Parts of rows in several files, read by range, merge to the posterior of all rows in memory.
func TestFiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n, d = 40, 3
	files := fstest.MapFS{}
	x, y := mat.NewDense(n, d, nil), mat.NewDense(n, 1, nil)
	for k := range 4 {
		text := "a,b,c,y\n"
		for i := 10 * k; i < 10*(k+1); i++ {
			for j := range d {
				x.Set(i, j, float64(rng.IntN(1000))/8)
				text += fmt.Sprintf("%v,", x.At(i, j))
			}
			y.Set(i, 0, float64(rng.IntN(100))/4)
			text += fmt.Sprintf("%v\n", y.At(i, 0))
		}
		files[fmt.Sprintf("part-%d.csv", k)] = &fstest.MapFile{Data: []byte(text)}
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, files))
	rows := testref.Must(rowfile.Open(t.Context(), os.DirFS(dir), "part-*.csv", &rowfile.Options{Target: "y"}))(t)
	require.Equal(t, n, rows.Len())
	require.Equal(t, []int{d}, rows.Shape())
	require.Equal(t, []string{"a", "b", "c"}, rows.Columns())
	require.Nil(t, rows.Classes())
	require.True(t, mat.Equal(y, rows.Targets(0, n)))
	for range 20 {
		lo := rng.IntN(n)
		hi := lo + 1 + rng.IntN(n-lo)
		got := testref.Must(rows.ReadRows(t.Context(), lo, hi))(t)
		require.True(t, mat.Equal(x.Slice(lo, hi, 0, d), got))
	}
	require.PanicsWithValue(t, "rowfile: rows out of range", func() { _, _ = rows.ReadRows(t.Context(), 3, 3) })
	require.PanicsWithValue(t, "rowfile: rows out of range", func() { rows.Targets(3, n+1) })

	lik := testref.Must(glm.NewGaussian(1))(t)
	z := testref.Must(line{}.Linearize(t.Context(), mat.DenseCopyOf(x.Slice(0, 3, 0, d))))(t)
	prior := testref.Must(ntk.NewIsotropic(1, nil))(t)
	b, err := sparse.NewBuilder(t.Context(), ntk.New(prior, make([]float64, d)), &sparse.Inducing{Rows: []int{0, 1, 2}, Batch: z}, &sparse.Options{Mean: gp.LinearGaussian})
	require.NoError(t, err)
	base := testref.Must(b.Posterior(t.Context()))(t)
	whole, err := shard.Compute(t.Context(), base, nil, linearize.NewSource(line{}, n, 8, func(lo, hi int) (*mat.Dense, error) {
		return mat.DenseCopyOf(x.Slice(lo, hi, 0, d)), nil
	}), gp.NewTargets(y, lik))
	require.NoError(t, err)
	sum := base.Builder()
	for k := range 3 {
		lo, hi := shard.Part{Number: k, Of: 3}.Rows(n)
		part, err := shard.Compute(t.Context(), base, nil, linearize.NewSource(line{}, hi-lo, 8, func(i, j int) (*mat.Dense, error) {
			return rows.ReadRows(t.Context(), lo+i, lo+j)
		}), gp.NewTargets(rows.Targets(lo, hi), lik))
		require.NoError(t, err)
		require.NoError(t, sum.Merge(part.Sums))
	}
	own := base.Builder()
	require.NoError(t, own.Merge(whole.Sums))
	p := testref.Must(own.Posterior(t.Context()))(t)
	q := testref.Must(sum.Posterior(t.Context()))(t)
	at := testref.Must(line{}.Linearize(t.Context(), mat.NewDense(1, d, []float64{1, 2, 3})))(t)
	mean := func(p *sparse.Projected) float64 {
		var mean, cov mat.Dense
		require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, at))
		return mean.At(0, 0)
	}
	require.NotZero(t, mean(p))
	require.InEpsilon(t, mean(p), mean(q), 1e-10) // sums of 40 rows in another order
	require.NoError(t, rows.Close())

	files["part-1.csv"].Data = []byte(strings.Replace(string(files["part-1.csv"].Data), ",", ";,", 1))
	require.ErrorContains(t, testref.Err(rowfile.Open(t.Context(), files, "part-*.csv", nil)), "part-1.csv:")
	_, err = rowfile.Open(t.Context(), files, "none-*.csv", nil)
	require.EqualError(t, err, "none-*.csv: no file has such a name; check the pattern and its folder")
}
