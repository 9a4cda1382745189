package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/internal/console"
)

type exportVerb struct {
	common flags.Common

	out     string
	top     int
	page    string
	runtime string
}

func exportCommand(con *console.Console) *cobra.Command { return new(exportVerb).command(con) }

func (s *exportVerb) command(con *console.Console) *cobra.Command {
	v := &verb{
		name:  "export",
		short: "Write the network and its posterior as one ONNX file",
		long: `Export writes an ONNX file that answers wherever ONNX runs, without gpexplain: its input x
takes rows in the units of the data, and its outputs are the mean and covariance of the
network's outputs, calibrated probabilities with their standard deviations, the novelty of
the row with its rank among the training rows, and the --top terms of the sum over training
examples with the numbers of their rows. It uses standard operators of opset 17 in float64.

It compares the file with its own answers on training rows and on rows far from them, says the
largest differences, of probabilities as they are and of others relative to the largest
number, and writes them into the metadata of the file, with bounds for any row.
Probabilities of three or more classes are averages over fixed points. A row with a number
that is not finite has NaN in all outputs, and a novelty rank of 1.

With --page it also writes a page on which to draw, for classes of grey pictures: it answers
in the browser, from one file and without a network, by the onnxruntime-web of --runtime,
which npm has.

The posterior is exact, nystrom, subset or kept, or by --structure one over the parameters;
kept rows and parameters have no terms. A network with recurrent layers, or others whose
gradient cannot be written in ONNX, is refused by their names.`,
		example: `  gpexplain export --train-count 300 -o explained.onnx
  gpexplain fit -o digits.gp --method nystrom --inducing 100
  gpexplain export --posterior digits.gp --top 5 -o explained.onnx`,
		flags: s.add, run: s.run, writes: []string{"out", "page"},
		rules: append([]flags.Rule{
			flags.OneOf("structure", []string{"full", "block", "last-layer", "subnetwork"}...),
			flags.Needed("out", "where to write the ONNX file"),
			flags.AtLeast(0, "top"),
			flags.Needs("page", "runtime", ": it runs the graph in the page"),
			flags.Needs("runtime", "page", ""),
		}, flags.Parameters...),
	}
	return v.command(con, &s.common)
}

func (s *exportVerb) add(c *cobra.Command) {
	f := c.Flags()
	flags.Method(c, "at", "refit", "inference", "tune-prior", "posterior", "calibrate")
	f.String("structure", "", "take the posterior over the parameters with the `STRUCTURE` full, "+
		"block (a block a layer), last-layer or subnetwork")
	f.StringVarP(&s.out, "out", "o", "", "write the graph to `FILE`; needed")
	f.StringVar(&s.page, "page", "", "write a page on which to draw to `FILE`, which answers by the graph in a browser, "+
		"without a server; of classes of grey pictures")
	f.StringVar(&s.runtime, "runtime", "", "take onnxruntime-web for --page from `DIR`, the folder of npm's package")
	f.IntVar(&s.top, "top", 10, "list `K` terms of each row; 0 leaves them out")
}

func (s *exportVerb) run(ctx context.Context, c *console.Console) error {
	post, err := s.common.Posterior(ctx, nil)
	if err != nil {
		return err
	}
	terms := s.top
	if terms == 0 {
		terms = -1
	}
	r, err := post.Export(ctx, s.out, terms)
	if err == nil && s.page != "" {
		err = post.ExportPage(ctx, s.page, s.out, s.runtime)
	}
	if err != nil {
		return err
	}
	c.Clear()
	for _, path := range []string{s.page, s.out} {
		if path != "" {
			c.Detail("wrote %s", path)
		}
	}
	if c.JSON {
		return json.NewEncoder(c.Out).Encode(r)
	}
	fmt.Fprintf(c.Out, "%s: %.1f MB, with the outputs %s\n", s.out, float64(r.Bytes)/1e6, strings.Join(r.Outputs, ", "))
	fmt.Fprintf(c.Out, "Largest differences from gpexplain's own answers on %d training rows, and on %d rows far from the data,\n"+
		"relative to the largest number but of probabilities; and the largest error that an integral over a link can have:\n", r.Rows, r.FarRows)
	for _, name := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(c.Out, "  %-15s %.1e  %.1e", name, float64(r.Errors[name]), float64(r.FarErrors[name]))
		if bound, ok := r.Bounds[name]; ok {
			fmt.Fprintf(c.Out, "  %.1e", float64(bound))
		}
		fmt.Fprintln(c.Out)
	}
	return nil
}
