package funcgp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/testref"
)

// TestDamagedBundle writes other values into a bundle, a byte at a time at 500 random places. Open or Explain
// refuses the file, or the explanation is what it was.
func TestDamagedBundle(t *testing.T) {
	p := testref.Must(funcgp.Fit(t.Context(), funcgp.Model{}, funcgp.Data{TrainCount: 40}, nil))(t)
	defer p.Close()
	path := filepath.Join(t.TempDir(), "digits.gp")
	require.NoError(t, p.Save(t.Context(), path, &funcgp.SaveOptions{Bundle: true}))
	whole := testref.Must(os.ReadFile(path))(t)
	want := testref.Must(explained(t.Context(), path))(t)

	random, refused := rand.New(rand.NewPCG(1, 2)), 0
	for range 500 {
		damaged := bytes.Clone(whole)
		damaged[random.IntN(len(damaged))] ^= byte(1 + random.IntN(255))
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		got, err := explained(t.Context(), path)
		if err != nil {
			require.Contains(t, err.Error(), "digits.gp")
			refused++
			continue
		}
		require.Equal(t, want, got)
	}
	t.Logf("%d of 500 refused", refused)
	require.Greater(t, refused, 400)
}

// explained opens a file and explains a picture with one white line.
func explained(ctx context.Context, path string) (string, error) {
	p, err := funcgp.Open(ctx, path, nil)
	if err != nil {
		return "", err
	}
	defer p.Close()
	x := mat.NewDense(1, 784, nil)
	for i := range 20 {
		x.Set(0, 28*(i+4)+14, 255)
	}
	rows, err := p.Rows(ctx, x)
	if err != nil {
		return "", err
	}
	list, err := p.Explain(ctx, rows, nil)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(list)
	return string(text), err
}
