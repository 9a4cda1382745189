package dataset

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// Quartiles are those of numpy.percentile(x, [0, 25, 50, 75, 100]).
func TestQuartiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.csv")
	require.NoError(t, os.WriteFile(path, []byte("a,b,y\n3,1,0\n-1,1,1\n10,1,0\n4,5,1\n0,1,1\n2,9,0\n"), 0o600))
	d := testref.Must(Open(context.Background(), path, nil))(t)
	all := testref.Must(d.Train.Select(nil, 0))(t)
	q := testref.Must(all.Quartiles(context.Background()))(t)
	require.Equal(t, [5][]float64{{-1, 1}, {.5, 1}, {2.5, 1}, {3.75, 4}, {10, 9}}, q)
	one := testref.Must(d.Train.Pick(nil, []int{3}, ""))(t)
	q = testref.Must(one.Quartiles(context.Background()))(t)
	require.Equal(t, [5][]float64{{4, 5}, {4, 5}, {4, 5}, {4, 5}, {4, 5}}, q)
	// Rows of others count as if they were of the same set, and so they do in moments.
	rest := testref.Must(d.Train.Pick(nil, []int{0, 1, 2, 4, 5}, ""))(t)
	both := testref.Must(one.Quartiles(context.Background(), rest))(t)
	require.Equal(t, testref.Must(all.Quartiles(context.Background()))(t), both)
	a, b := testref.Must(all.Scaling(context.Background()))(t), testref.Must(one.Scaling(context.Background(), rest))(t)
	require.InDeltaSlice(t, a.Mean, b.Mean, 1e-14)
	require.InDeltaSlice(t, a.Scale, b.Scale, 1e-14)
}
