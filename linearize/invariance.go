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
					only := make([]float64, len(theta))
					copy(only[s.Offset:s.Offset+s.Len()], theta[s.Offset:])
					l.only = append(l.only, only)
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
			if err := layers[i].add(ctx, k, b); err != nil {
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
	layer  []int       // layer of each tensor, counted from 0
	only   [][]float64 // for each tensor: θ* in it and zero elsewhere
	jw     []float64   // ‖J w‖² of each layer
	tensor []struct{ jw, j float64 }
}

// upToDot returns the name up to its last dot, or all of it without a dot.
func upToDot(name string) string {
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		return name[:i]
	}
	return name
}

func (l *blockNorms) add(ctx context.Context, k Block, b *Batch) error {
	whole := make([][]float64, len(l.jw))
	for i := range whole {
		whole[i] = make([]float64, b.Len()*b.Outputs())
	}
	for t, only := range l.only {
		part := make([]float64, b.Len()*b.Outputs())
		k.AddMulVec(part, only)
		l.tensor[t].jw += dense.Dot(part, part)
		dense.Axpy(whole[l.layer[t]], 1, part)
	}
	for i, w := range whole {
		l.jw[i] += dense.Dot(w, w)
	}
	squares, err := tensorSquares(ctx, k, b)
	for t, s := range squares {
		l.tensor[t].j += s
	}
	return err
}

// tensorSquares returns the sum of the squares of J in each tensor of the block. It forms J example by example.
func tensorSquares(ctx context.Context, k Block, b *Batch) ([]float64, error) {
	spans, n, c := k.Spans(), b.Len(), b.Outputs()
	parts := make([][]float64, n)
	err := par.Do(ctx, 0, n, func(i int) error {
		one, sums := k.Slice(i, i+1), make([]float64, len(spans))
		parts[i] = sums
		if o, ok := one.(*Outer); ok {
			o.squares(sums)
			return nil
		}
		tile := mat.NewDense(c, Width(k), nil)
		one.TileTo(tile)
		for r := range c {
			row := tile.RawRowView(r)
			for t, s := range spans {
				sums[t] += dense.Dot(row[:s.Len()], row[:s.Len()])
				row = row[s.Len():]
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	total := make([]float64, len(spans))
	for _, p := range parts {
		dense.Axpy(total, 1, p)
	}
	return total, nil
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
