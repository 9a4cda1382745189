package funcgp

import (
	"context"
	"errors"
	"io"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/atomicfile"
)

// ExportOptions say what an exported graph lists. The zero value is the default.
type ExportOptions struct {
	Terms int // terms of each row: 0 is 10, −1 none
}

// An Exported graph is one that Export wrote.
type Exported struct {
	Outputs []string // names, in order
	// The largest difference of each output from Predict on some training rows; relative to the largest number, but
	// absolute for probabilities.
	Errors map[string]float64
	// The same on rows far from the data: training rows times up to 10⁸, with signs of their own, with one huge number,
	// of zeros. Each is relative to the largest number of its row.
	FarErrors map[string]float64
	// The largest error that the integral over the link can have, for any mean and covariance, of probability and
	// probability_sd.
	Bounds map[string]float64
	Bytes  int
}

// Export writes the network and the posterior to a file as one graph of ONNX's standard operators, which answers in any
// runtime: its input x takes rows in the units of the data, T×D in float64, and doc/export.md has its outputs. The
// options may be nil. Of method parameters, likelihoods other than of classes and gaussian, and networks with
// operators whose gradient has no such graph, it is an error. The file is written under a temporary name first.
func (p *Posterior) Export(ctx context.Context, path string, o *ExportOptions) (*Exported, error) {
	end, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	terms := 10
	if o != nil && o.Terms != 0 {
		terms = o.Terms
	}
	if terms < -1 {
		return nil, errors.New("funcgp: ExportOptions.Terms is below -1; give how many to list, 0 for 10 or -1 for none")
	}
	data, r, err := p.post.Export(ctx, p.problem, max(0, terms))
	if err != nil {
		return nil, named(err)
	}
	if err := atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}); err != nil {
		return nil, named(err)
	}
	floats := func(m map[string]result.Float) map[string]float64 {
		out := map[string]float64{}
		for name, v := range m {
			out[name] = float64(v)
		}
		return out
	}
	return &Exported{Outputs: r.Outputs, Errors: floats(r.Errors), FarErrors: floats(r.FarErrors), Bounds: floats(r.Bounds), Bytes: r.Bytes}, nil
}
