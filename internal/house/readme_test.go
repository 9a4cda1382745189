package house

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

func posterior(ctx context.Context, model io.Reader, x, y, xTest *mat.Dense) (mean, cov *mat.Dense, err error) {
	net, err := network.ReadONNX(model, nil)
	if err != nil {
		return nil, nil, err
	}
	train, err := net.Linearize(ctx, x) // outputs and Jacobian, N×C and N·C×P in structured blocks
	if err != nil {
		return nil, nil, err
	}
	prior, _ := ntk.NewIsotropic(10, nil) // N(0, I/10) on every parameter
	post, err := gp.Refit(ctx, ntk.New(prior, net.Theta(), nil), train, y, glm.Bernoulli{}, nil)
	if err != nil {
		return nil, nil, err
	}
	test, err := net.Linearize(ctx, xTest)
	if err != nil {
		return nil, nil, err
	}
	mean, cov = new(mat.Dense), new(mat.Dense)
	return mean, cov, post.PredictTo(ctx, mean, cov, test)
}

// TestReadmeExample checks that the README shows the function above, and runs
// it.
func TestReadmeExample(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	self, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(self), "\nfunc posterior(")
	require.True(t, ok)
	body, _, ok := strings.Cut(rest, "\n}\n")
	require.True(t, ok)
	require.Equal(t, 1, strings.Count(string(readme), "```go\n"), "another one is not run")
	require.Contains(t, string(readme), "```go\nfunc posterior("+body+"\n}\n```")

	ref := testref.Open(t, "two-moons")
	mean, cov, err := posterior(t.Context(), bytes.NewReader(ref.Model(t)), ref.Matrix("x_train"), ref.Matrix("y_train"), ref.Matrix("x_test"))
	require.NoError(t, err)
	n, c := mean.Dims()
	require.Equal(t, []int{200, 1}, []int{n, c})
	n, c = cov.Dims()
	require.Equal(t, []int{200, 1}, []int{n, c})
}
