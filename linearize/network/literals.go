package network

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/compile"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/rewrite"
)

// nodeTensors holds the floating point tensors that a file stores in Constant nodes, that it stores twice, or that
// it stores once for several.
type nodeTensors struct {
	moved  []string          // from Constant nodes, now initializers
	left   []rewrite.Literal // still in Constant nodes
	copies []rewrite.Copy    // now computed from another tensor
	equal  []rewrite.Equal   // stored once with others
}

// named returns o.Freeze and o.Learn with patterns replaced by the names that they match.
func named(g *onnx.Graph, o *ReadOptions) (freeze, learn []string, err error) {
	all := rewrite.Floats(g)
	expand := func(do string, list, apart []string) (out []string, err error) {
		for _, entry := range list {
			if !strings.ContainsAny(entry, "*?") || slices.Contains(all, entry) {
				out = append(out, entry)
				continue
			}
			names, err := rewrite.Select(do, []string{entry}, all)
			if err != nil {
				return nil, fmt.Errorf("network: %w", err)
			}
			out = append(out, slices.DeleteFunc(names, func(name string) bool { return slices.Contains(apart, name) })...)
		}
		return out, nil
	}
	if learn, err = expand("learn", o.Learn, nil); err == nil {
		freeze, err = expand("freeze", o.Freeze, learn)
	}
	return freeze, learn, err
}

// list adds the tensors in Constant nodes to the program's list of tensors, and returns warnings
// that name the weights among them.
func (w *nodeTensors) list(p *graph.Program) (warnings []error) {
	for _, e := range w.equal {
		if i := slices.IndexFunc(p.Tensors, func(t graph.Tensor) bool { return t.Name == e.Name }); i >= 0 {
			p.Tensors[i].Reason += fmt.Sprintf(", and the file stores it as %s, whose numbers it has", strconv.Quote(e.Of))
		}
	}
	var names []string
	for i := range p.Tensors {
		if t := &p.Tensors[i]; slices.Contains(w.moved, t.Name) {
			if t.Node = true; t.Parameter {
				names = append(names, strconv.Quote(t.Name))
			}
		}
	}
	if len(names) > 0 {
		more := ""
		if len(names) > 4 {
			names, more = names[:4], fmt.Sprintf(" and %d more", len(names)-4)
		}
		warnings = append(warnings, linearize.NewWarning("taken-for-parameters", math.NaN(), math.NaN(), "Name what was not learnt in ReadOptions.Freeze.",
			"%s%s: weights in Constant nodes, taken for parameters. The posterior lets them vary.", strings.Join(names, ", "), more))
	}
	var doubts []graph.Tensor
	for _, l := range w.left {
		if graph.Product(l.Shape) < 2 {
			continue
		}
		t := graph.Tensor{Name: l.Name, Shape: l.Shape, Doubtful: l.Weight, Node: true, Reason: "is a literal in a Constant node"}
		if l.Weight {
			t.Reason += ", while the file stores other tensors as initializers"
			doubts = append(doubts, t)
		}
		p.Tensors = append(p.Tensors, t)
	}
	for _, c := range w.copies {
		p.Tensors = append(p.Tensors, graph.Tensor{Name: c.Name, Shape: c.Shape, Reason: "repeats " + strconv.Quote(c.Of) + ", from which it is computed, so that both are one parameter"})
		warnings = append(warnings, linearize.NewWarning("shared-tensor", math.NaN(), math.NaN(), "", "Tensor %s repeats %s, as an exporter stores one weight in two places. They are one parameter.", strconv.Quote(c.Name), strconv.Quote(c.Of)))
	}
	return append(warnings, compile.Doubts(doubts)...)
}
