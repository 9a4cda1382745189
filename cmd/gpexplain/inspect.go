package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/linearize/network"
)

func inspectCommand(con *console.Console) *cobra.Command {
	var common flags.Common
	operators := false
	v := &verb{
		name:  "inspect",
		short: "Show what a model is made of",
		long: `Inspect lists a model's operators, its input shape, outputs and parameters,
the function that it ends with and under which likelihood that is removed, the
kind of Jacobian block of each parameter, the layers before a normalization, on
whose scale the outputs do not depend, what is not a parameter, its metadata and
the warnings on reading it. A file does not say which of its tensors were
learnt: for each the decision is printed with its reason. --learn and --freeze
decide otherwise. No data are opened. --operators lists the operators that are
read of any model.`,
		example: `  gpexplain inspect --model net.onnx
  gpexplain inspect --operators`,
		flags: func(c *cobra.Command) {
			c.Flags().BoolVar(&operators, "operators", false, "list the ONNX operators that are read, without a model")
		},
		rules: []flags.Rule{flags.Not("operators", ", which lists what is read of any model; leave it out", "model", "layers", "last-layer", "freeze", "learn", "tie", "output", "bind")},
		run: func(ctx context.Context, c *console.Console) error {
			if operators {
				// Print the operators that are read.
				out := operatorList{Schema: "funcgp/operators/1", Opsets: [2]int{network.MinOpset, network.MaxOpset}}
				for _, o := range network.Operators() {
					out.Operators = append(out.Operators, operatorInfo{o.Name, o.Group, o.Note})
				}
				for _, u := range network.UnreadOperators() {
					out.Unread = append(out.Unread, unreadInfo{strings.Fields(u.Operators), u.Reason.In(c.Words), u.Cure.In(c.Words)})
				}
				if c.JSON {
					return json.NewEncoder(c.Out).Encode(out)
				}
				width := 0
				for _, o := range out.Operators {
					width = max(width, len(o.Name))
				}
				var text strings.Builder
				fmt.Fprintf(&text, "opsets %d to %d\n", network.MinOpset, network.MaxOpset)
				group := ""
				for _, o := range out.Operators {
					if o.Group != group {
						group = o.Group
						fmt.Fprintf(&text, "\n%s\n", group)
					}
					text.WriteString(strings.TrimRight(fmt.Sprintf("  %-*s  %s", width, o.Name, o.Note), " ") + "\n")
				}
				text.WriteString("\nNot read\n")
				for _, u := range out.Unread {
					fmt.Fprintf(&text, "  %s\n    %s; %s\n", strings.Join(u.Operators, " "), u.Reason, u.Cure)
				}
				_, err := io.WriteString(c.Out, text.String())
				return err
			}
			f := &common.Model
			x, err := funcgp.Inspect(ctx, *f, &funcgp.Limits{Memory: common.Fit.Memory})
			if err != nil {
				return err
			}
			if c.JSON {
				return json.NewEncoder(c.Out).Encode(x)
			}
			return inspectionText(c.Out, x)
		},
		only: []string{"operators", "model", "layers", "last-layer", "freeze", "learn", "tie", "output", "bind", "max-memory", "json", "strict", "quiet", "verbose", "profile", "workers"},
	}
	return v.command(con, &common)
}

// inspectionText prints what a model is made of.
func inspectionText(stdout io.Writer, x *funcgp.Inspection) error {
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "model\t%s\n", job.OneLine(x.Model))
	fmt.Fprintf(w, "written by\t%s, opset %d\n", job.OneLine(x.Producer), x.Opset)
	for _, name := range x.Files {
		fmt.Fprintf(w, "weights in\t%s\n", job.OneLine(name))
	}
	for _, in := range x.Inputs {
		place, kind := "", ""
		if len(x.Inputs) > 1 {
			place = fmt.Sprintf(", from column %d of a row", in.Offset)
		}
		if in.Integer {
			kind = ", whole numbers"
		}
		fmt.Fprintf(w, "input\t%s %v%s%s\n", job.OneLine(in.Name), in.Shape, kind, place)
	}
	fmt.Fprintf(w, "outputs C\t%d\n", x.Outputs)
	fmt.Fprintf(w, "parameters P\t%d\n", x.Parameters)
	if h := x.Head; h != nil {
		text := h.Text + ", part of the outputs"
		if h.Likelihood != nil {
			text += "; removed under --likelihood " + *h.Likelihood + ", which applies it"
		}
		fmt.Fprintf(w, "ends with\t%s\n", job.OneLine(text))
	}
	for _, name := range slices.Sorted(maps.Keys(x.Operators)) {
		fmt.Fprintf(w, "operator\t%s × %d\n", job.OneLine(name), x.Operators[name])
	}
	blocks := map[string]result.Tensor{}
	for _, t := range x.Tensors {
		blocks[t.Name] = t
	}
	for _, t := range x.Decisions {
		kind, at := "fixed", ""
		if t.Parameter {
			kind, at = "tensor", fmt.Sprintf(" in layer %d, at %d, %s block", blocks[t.Name].Layer, blocks[t.Name].Offset, blocks[t.Name].Block)
		}
		if t.Node {
			at += ", in a Constant node"
		}
		uncertain := ""
		if t.Uncertain {
			uncertain = " (uncertain)"
		}
		fmt.Fprintf(w, "%s\t%s %v%s: it %s%s\n", kind, job.OneLine(t.Name), t.Shape, at, job.OneLine(t.Reason), uncertain)
	}
	for _, k := range slices.Sorted(maps.Keys(x.Metadata)) {
		fmt.Fprintf(w, "metadata\t%s = %s\n", job.OneLine(k), job.Cut(job.OneLine(x.Metadata[k]), 40))
	}
	for _, name := range x.Normalized {
		fmt.Fprintf(w, "normalized\t%s: the outputs do not depend on its scale, so that the trained parameters are a mode for no Gaussian prior\n", job.OneLine(name))
	}
	for _, warning := range x.Warnings {
		fmt.Fprintf(w, "warning\t%s\n", job.OneLine(warning.Error()))
	}
	return w.Flush()
}

// operatorList is what inspect --operators prints with --json.
type operatorList struct {
	Schema    string         `json:"schema"`
	Opsets    [2]int         `json:"opsets"`
	Operators []operatorInfo `json:"operators"`
	Unread    []unreadInfo   `json:"unread"`
}

type unreadInfo struct {
	Operators []string `json:"operators"`
	Reason    string   `json:"reason"`
	Cure      string   `json:"cure"`
}

type operatorInfo struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	Note  string `json:"note"`
}
