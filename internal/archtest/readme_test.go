package archtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/testref"
)

func why(ctx context.Context, out io.Writer) error {
	p, err := funcgp.Fit(ctx, funcgp.Model{}, funcgp.Data{}, nil) // built in; or Model{File: "net.onnx"}, Data{Source: "train.csv"}
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Check(); err != nil { // the network does not suit the data or the prior
		return err
	}
	rows, err := p.TestRows(ctx, 6) // or p.ReadCSV, p.Records, p.Picture
	if err != nil {
		return err
	}
	list, err := p.Explain(ctx, rows, &funcgp.ExplainOptions{Top: 3})
	if err != nil {
		return err
	}
	x := list[0]
	fmt.Fprintf(out, "P(%s) = %.3f; %s against %s: %.2f = %.2f + %.2f + %.2f\n", x.Prediction.Class,
		x.Prediction.Probability[x.Prediction.ClassIndex], x.For, x.Against, x.Mean, x.PriorMean, x.Sum, x.Remainder)
	for _, t := range x.Terms {
		fmt.Fprintf(out, "training row %d, a %s: %+.2f ± %.2f\n", t.Row, t.Label, t.Value, t.SD)
	}
	return nil
}

// TestReadmeExample checks that the README shows the function above, and runs
// it.
func TestReadmeExample(t *testing.T) {
	readme := testref.Must(os.ReadFile(filepath.Join("..", "..", "README.md")))(t)
	self := testref.Must(os.ReadFile("readme_test.go"))(t)
	_, rest, ok := strings.Cut(string(self), "\nfunc why(")
	require.True(t, ok)
	body, _, ok := strings.Cut(rest, "\n}\n")
	require.True(t, ok)
	require.Equal(t, 1, strings.Count(string(readme), "```go\n"), "another one is not run")
	require.Contains(t, string(readme), "```go\nfunc why("+body+"\n}\n```")

	var out bytes.Buffer
	require.NoError(t, why(t.Context(), &out))
	require.Regexp(t, `^P\(4\) = 0\.993; 9 against 4: -5\.45 = 21\.51 \+ -27\.25 \+ 0\.29\ntraining row 1696, a 4: -1\.70 ± 0\.63\n`, out.String())
}
