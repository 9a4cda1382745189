package funcgp

import (
	"context"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/linearize/network/head"
)

// An Inspection describes what a model is made of.
type Inspection = result.Inspection

// Inspect describes what a model is made of: its operators, its inputs and outputs, the function at its end,
// and for each stored tensor whether it is a parameter and why. It opens no data. The limits may be nil.
func Inspect(ctx context.Context, m Model, l *Limits) (*Inspection, error) {
	c, f := job.FromContext(ctx), asked{Model: m}
	if l != nil {
		f.Fit.Limits = *l
	}
	read, err := readModel(ctx, c, &f)
	if err != nil {
		return nil, named(err)
	}
	net := read.Net
	d := net.Describe()
	out := &Inspection{Schema: "funcgp/inspect/1", Model: read.Name, Producer: d.Producer, Opset: d.Opset, Input: net.InputShape(), Outputs: read.Outputs, Parameters: read.Parameters(), Operators: map[string]int{},
		Inputs: []result.ModelInput{}, Files: net.ExternalFiles(), Tensors: []result.Tensor{}, Fixed: append([]string{}, d.Fixed...), Decisions: []result.Decision{}, Metadata: net.Metadata()}
	out.Warnings = c.Warnings // but for the head, which the likelihood decides
	for _, in := range net.Inputs() {
		out.Inputs = append(out.Inputs, result.ModelInput{Name: in.Name, Shape: append([]int{}, in.Shape...), Offset: in.Offset, Integer: in.Integer})
	}
	for _, o := range d.Operators {
		out.Operators[o.Name] = o.Count
	}
	for _, t := range d.Params {
		out.Tensors = append(out.Tensors, result.Tensor{Name: t.Name, Shape: t.Shape, Offset: t.Offset, Block: t.Block, Layer: t.Layer})
	}
	for _, t := range d.Tensors {
		out.Decisions = append(out.Decisions, result.Decision{Name: t.Name, Shape: append([]int{}, t.Shape...), Parameter: t.Parameter, Reason: t.Reason, Uncertain: t.Doubtful, Node: t.Node})
	}
	if h := net.Head(); h.Function != head.None {
		out.Head = &result.Head{Function: h.Function.String(), Nodes: h.Nodes, Groups: h.Groups, Text: h.String()}
		if h.Clip != "" {
			out.Head.Clip = &h.Clip
		}
		if name := headLikelihood(net); name != "" {
			out.Head.Likelihood = &name
		}
	}
	out.Normalized, err = read.Normalized(ctx, c)
	return out, named(err)
}
