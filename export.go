package funcgp

import (
	"context"
	"errors"
	"io"

	"github.com/funcgp/funcgp/explain/portable"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/atomicfile"
)

// ExportOptions say what Export writes. The zero value is the default.
type ExportOptions struct {
	Terms int // terms of each row that the graph lists: 0 is 10, −1 none
	// Page is a file for a page on which to draw, which answers by the graph in a browser, of classes of grey pictures; ""
	// writes none. It takes onnxruntime-web from the folder Runtime, npm's package.
	Page, Runtime string
}

// An Exported graph is one that Export wrote.
type Exported = result.Exported

// Export writes the network and the posterior to a file as one graph of ONNX's standard operators, which answers in any
// runtime: its input x takes rows in the units of the data, T×D in float64, and doc/export.md has its outputs. The
// options may be nil. Of method parameters, likelihoods other than of classes and gaussian, and networks with
// operators whose gradient has no such graph, it is an error. The file is written under a temporary name first.
func (p *Posterior) Export(ctx context.Context, path string, o *ExportOptions) (*Exported, error) {
	end, err := p.begun(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if o == nil {
		o = &ExportOptions{}
	}
	terms := o.Terms
	switch {
	case terms == 0:
		terms = 10
	case terms < -1:
		return nil, errors.New("funcgp: ExportOptions.Terms is below -1; give how many to list, 0 for 10 or -1 for none")
	}
	graph, r, err := p.post.Export(ctx, p.problem, max(0, terms))
	if err != nil {
		return nil, named(err)
	}
	if o.Page != "" {
		runtime, err := portable.ReadRuntime(o.Runtime)
		if err != nil {
			return nil, named(err)
		}
		page, err := exportPage(ctx, p.problem, graph, runtime)
		if err == nil {
			err = atomicfile.Write(o.Page, page.Write)
		}
		if err != nil {
			return nil, named(err)
		}
	}
	return r, named(atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(graph)
		return err
	}))
}
