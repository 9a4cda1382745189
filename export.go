package funcgp

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/funcgp/funcgp/explain/portable"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/atomicfile"
)

// An Exported graph is one that Export wrote.
type Exported = result.Exported

// Export writes the network and the posterior to a file as one graph of ONNX's standard operators, which answers in any
// runtime: its input x takes rows in the units of the data, T×D in float64, and doc/export.md has its outputs. It lists so
// many terms of each row; 0 are 10, and −1 none. Of method parameters, likelihoods other than of classes and gaussian, and
// networks with operators whose gradient has no such graph, it is an error. The file is written under a temporary name first.
func (p *Posterior) Export(ctx context.Context, path string, terms int) (*Exported, error) {
	end, err := p.begun(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	switch {
	case terms == 0:
		terms = 10
	case terms < -1:
		return nil, errors.New("funcgp: fewer than -1 terms are asked of Export; give how many to list, 0 for 10 or -1 for none")
	}
	graph, r, err := p.post.Export(ctx, p.problem, max(0, terms))
	if err != nil {
		return nil, named(err)
	}
	return r, named(atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(graph)
		return err
	}))
}

// ExportPage writes to a file a page on which to draw, of classes of grey pictures. It answers in a browser, by a graph that
// Export wrote and by onnxruntime-web, npm's package, of a folder.
func (p *Posterior) ExportPage(ctx context.Context, path, graph, runtime string) error {
	end, err := p.begun(ctx)
	if err != nil {
		return err
	}
	defer end()
	model, err := os.ReadFile(graph)
	if err != nil {
		return err
	}
	files, err := portable.ReadRuntime(runtime)
	if err != nil {
		return named(err)
	}
	page, err := exportPage(ctx, p.problem, model, files)
	if err == nil {
		err = atomicfile.Write(path, page.Write)
	}
	return named(err)
}
