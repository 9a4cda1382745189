package linearize

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
)

// invariantBelow is the Ratio below which a layer counts as scale-invariant. A normalization adds ε to the
// variance, which leaves a ratio of about ε over the variance, 1e-5 to 1e-4. Other layers rarely have a ratio below
// 1e-2.
const invariantBelow = 1e-3

// An Invariance compares the change of the outputs when a group of parameters w is scaled, J w, with the largest
// possible change, over all N·C outputs [gprior eq. 6]. J w is zero where the outputs do not depend on the scale of
// w, for example before a normalization. Then a Gaussian prior on w has no mode: every step towards w = 0 raises
// the objective and leaves the function as it is.
type Invariance struct {
	Name  string
	Spans []Span
	JW    float64 // ‖J w‖
	J     float64 // ‖J‖, the Frobenius norm
	W     float64 // ‖w‖
	// Tensors has the Invariance of each parameter tensor of a layer. It is nil for a tensor.
	Tensors []Invariance
}

// Ratio returns ‖J w‖ / (‖J‖‖w‖), between 0 and 1, and NaN where J or w is zero.
func (v Invariance) Ratio() float64 { return v.JW / (v.J * v.W) }

// Invariant tells whether the outputs do not depend on the scale of the parameters: Ratio < 1e-3. It is false where
// J or w is zero.
func (v Invariance) Invariant() bool { return v.Ratio() < invariantBelow }

// Invariances returns the Invariance of each layer at theta = θ* and of the layer's tensors, in the order of θ. A
// layer is a Block of src, such as the weight and the bias of a dense layer. In a Full block, a layer is the
// tensors whose names agree up to the last dot. All batches must have the same blocks. It takes one pass over src.
func Invariances(ctx context.Context, src Source, theta []float64) ([]Invariance, error) {
	var layers []blockNorms
	err := ordered(ctx, src, func(_ int, b *Batch) error {
		if len(theta) != b.P {
			panic("linearize: the length of theta is not the batch's number of parameters")
		}
		if layers == nil {
			for _, k := range b.Blocks {
				l := blockNorms{spans: k.Spans()}
				l.tensor = make([]struct{ jw, j float64 }, len(l.spans))
				_, full := k.(*Full)
				at := make(map[string]int)
				for _, s := range l.spans {
					name := "" // all tensors of a block that is one layer
					if full {
						name = upToDot(s.Name)
					}
					i, ok := at[name]
					if !ok {
						i = len(at)
						at[name] = i
					}
					l.layer = append(l.layer, i)
				}
				l.jw = make([]float64, len(at))
				layers = append(layers, l)
			}
		}
		if len(layers) != len(b.Blocks) {
			return fmt.Errorf("linearize: a batch has %d blocks where the first had %d", len(b.Blocks), len(layers))
		}
		for i, k := range b.Blocks {
			if err := layers[i].add(ctx, k, b, theta); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []Invariance
	for _, l := range layers {
		out = append(out, l.result(theta)...)
	}
	slices.SortStableFunc(out, func(a, b Invariance) int { return cmp.Compare(a.Spans[0].Offset, b.Spans[0].Offset) })
	return out, nil
}

// blockNorms has the sums of squares for the layers and tensors of a block.
type blockNorms struct {
	spans  []Span
	layer  []int     // layer of each tensor, counted from 0
	jw     []float64 // ‖J w‖² of each layer
	tensor []struct{ jw, j float64 }
}

// upToDot returns the name up to its last dot, or all of it without a dot.
func upToDot(name string) string {
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		return name[:i]
	}
	return name
}

// add adds the norms of a batch's block. It forms J example by example.
func (l *blockNorms) add(ctx context.Context, k Block, b *Batch, theta []float64) error {
	n, c := b.Len(), b.Outputs()
	parts := make([][]float64, n) // for each example ‖J‖² and ‖J w‖² of each tensor, then ‖J w‖² of each layer
	err := par.Do(ctx, 0, n, func(i int) error {
		one, spans := k.Slice(i, i+1), len(l.spans)
		sums := make([]float64, 2*spans+len(l.jw))
		parts[i] = sums
		jw := mat.NewDense(c, spans, nil)
		if o, ok := one.(*Outer); ok {
			o.squares(sums)
			only, column := make([]float64, len(theta)), make([]float64, c) // θ* in one tensor, zero elsewhere
			for t, s := range l.spans {
				copy(only[s.Offset:s.Offset+s.Len()], theta[s.Offset:])
				clear(column)
				one.AddMulVec(column, only)
				jw.SetCol(t, column)
				clear(only[s.Offset : s.Offset+s.Len()])
			}
		} else {
			tile := mat.NewDense(c, Width(k), nil)
			one.TileTo(tile)
			for r := range c {
				row := tile.RawRowView(r)
				for t, s := range l.spans {
					sums[t] += dense.Dot(row[:s.Len()], row[:s.Len()])
					jw.Set(r, t, dense.Dot(row[:s.Len()], theta[s.Offset:s.Offset+s.Len()]))
					row = row[s.Len():]
				}
			}
		}
		whole := make([]float64, len(l.jw))
		for r := range c {
			clear(whole)
			for t, v := range jw.RawRowView(r) {
				sums[spans+t] += v * v
				whole[l.layer[t]] += v
			}
			for i, v := range whole {
				sums[2*spans+i] += v * v
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, part := range parts {
		for t := range l.tensor {
			l.tensor[t].j += part[t]
			l.tensor[t].jw += part[len(l.tensor)+t]
		}
		dense.Axpy(l.jw, 1, part[2*len(l.tensor):])
	}
	return nil
}

// squares adds ‖a‖²Σ_c‖g_c‖² for the weight and Σ_c‖g_c‖² for the bias of one example to sums.
func (o *Outer) squares(sums []float64) {
	g := 0.0
	for c := range o.C {
		g += dense.Dot(o.G.RawRowView(c), o.G.RawRowView(c))
	}
	if o.Weight != nil {
		a := o.A.RawRowView(0)
		sums[0] += dense.Dot(a, a) * g
		sums = sums[1:]
	}
	if o.Bias != nil {
		sums[0] += g
	}
}

func (l *blockNorms) result(theta []float64) []Invariance {
	out := make([]Invariance, len(l.jw))
	for t, s := range l.spans {
		v, of := &out[l.layer[t]], theta[s.Offset:s.Offset+s.Len()]
		w := dense.Dot(of, of)
		v.Spans = append(v.Spans, s)
		v.Tensors = append(v.Tensors, Invariance{Name: s.Name, Spans: []Span{s}, JW: math.Sqrt(l.tensor[t].jw), J: math.Sqrt(l.tensor[t].j), W: math.Sqrt(w)})
		v.J += l.tensor[t].j
		v.W += w
	}
	for i := range out {
		v := &out[i]
		v.Name = v.Spans[0].Name
		if len(v.Spans) > 1 {
			v.Name = upToDot(v.Name)
		}
		v.JW, v.J, v.W = math.Sqrt(l.jw[i]), math.Sqrt(v.J), math.Sqrt(v.W)
	}
	return out
}
