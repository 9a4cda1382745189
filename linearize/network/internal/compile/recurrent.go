package compile

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

func init() {
	register("Recurrent layers", map[string]operator{
		"LSTM": {translate: (*compiler).lstm, inputs: 8, note: recurrentNote},
		"GRU":  {translate: (*compiler).gru, inputs: 6, note: recurrentNote},
		"RNN":  {translate: (*compiler).rnn, inputs: 6, note: recurrentNote},
	})
}

const recurrentNote = "sequence_lens must be absent or one constant length for all examples; clip bounds the input of every activation"

// A recurrent holds what a recurrent layer's node says: T positions, I inputs, H
// hidden units, D directions, a cell of G gates.
type recurrent struct {
	op         *graph.Recurrent
	batchFirst bool // layout is 1
	steps      int  // of the sequence, of which only the first T may be used
	inputs     int  // I
	batch      bool // the results have a batch dimension
	x, w, r, b *value
	states     []*value // initial ones
	peepholes  *value
}

func (r *recurrent) dirs() int  { return len(r.op.Reverse) }
func (r *recurrent) gates() int { return r.op.Cells[0].Gates() }

// width is D·G·H, the products at a position.
func (r *recurrent) width() int { return r.dirs() * r.gates() * r.op.H }

// timeAxis is that of the sequence in X and Y.
func (r *recurrent) timeAxis() int { return int(graph.Step(r.batchFirst)) }

func (c *compiler) lstm() error {
	f, err := c.activations("Sigmoid", "Tanh", "Tanh")
	if err != nil {
		return err
	}
	cells := make([]graph.Cell, len(f))
	for d, a := range f {
		cells[d] = &graph.LSTM{F: a[0], G: a[1], H: a[2], Coupled: c.attrInt("input_forget", 0) != 0}
	}
	return c.recurrent(cells)
}

func (c *compiler) gru() error {
	f, err := c.activations("Sigmoid", "Tanh")
	if err != nil {
		return err
	}
	cells := make([]graph.Cell, len(f))
	for d, a := range f {
		cells[d] = &graph.GRU{F: a[0], G: a[1], ResetAfter: c.attrInt("linear_before_reset", 0) != 0}
	}
	return c.recurrent(cells)
}

func (c *compiler) rnn() error {
	f, err := c.activations("Tanh")
	if err != nil {
		return err
	}
	cells := make([]graph.Cell, len(f))
	for d, a := range f {
		cells[d] = &graph.RNN{F: a[0]}
	}
	return c.recurrent(cells)
}

// directions returns which directions run in reverse.
func (c *compiler) directions() ([]bool, error) {
	switch name := c.attrString("direction", "forward"); name {
	case "forward":
		return []bool{false}, nil
	case "reverse":
		return []bool{true}, nil
	case "bidirectional":
		return []bool{false, true}, nil
	default:
		return nil, fmt.Errorf("direction is %s, not forward, reverse or bidirectional", quote(name))
	}
}

// activations returns the functions of a cell for each direction.
func (c *compiler) activations(defaults ...string) ([][]graph.Activation, error) {
	reverse, err := c.directions()
	if err != nil {
		return nil, err
	}
	names := slices.Repeat(defaults, len(reverse))
	if a := c.node.Attr("activations"); a != nil {
		if len(a.Strings) != len(names) {
			return nil, fmt.Errorf("it names %d activations, %d are expected", len(a.Strings), len(names))
		}
		for i, s := range a.Strings {
			names[i] = string(s)
		}
	}
	limit, err := c.attrFloat("clip", math.MaxFloat32)
	if err != nil {
		return nil, err
	}
	if limit <= 0 {
		return nil, fmt.Errorf("clip is %v, which is not positive", limit)
	}
	var alphas, betas []float32
	if a := c.node.Attr("activation_alpha"); a != nil {
		alphas = a.Floats
	}
	if a := c.node.Attr("activation_beta"); a != nil {
		betas = a.Floats
	}
	var list []graph.Activation
	for _, name := range names {
		kind, ok := graph.Activations[strings.ToLower(name)]
		if !ok {
			return nil, fmt.Errorf("activation %s is none of those that ONNX has", quote(name))
		}
		var number [2]float64
		if number[0], alphas, err = parameter(kind.Alpha, alphas, kind.Uses > 0); err == nil {
			number[1], betas, err = parameter(kind.Beta, betas, kind.Uses > 1)
		}
		if err != nil {
			return nil, fmt.Errorf("activation %s: %w", quote(name), err)
		}
		f := kind.Make(number[0], number[1])
		if c.node.Attr("clip") != nil {
			f = f.Clipped(limit)
		}
		list = append(list, f)
	}
	if len(alphas) > 0 || len(betas) > 0 {
		return nil, errors.New("it has more activation_alpha or activation_beta than its activations take")
	}
	return slices.Collect(slices.Chunk(list, len(defaults))), nil
}

// parameter returns the first number of a list, or def for an empty one, and the
// rest of the list.
func parameter(def float64, list []float32, used bool) (float64, []float32, error) {
	v := def
	if used && len(list) > 0 {
		v, list = float64(list[0]), list[1:]
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, nil, errors.New("its alpha or beta is not given or no number")
	}
	return v, list, nil
}
