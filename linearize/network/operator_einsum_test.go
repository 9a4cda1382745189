package network_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func einsumCases() []operatorCase {
	var all []operatorCase
	add := func(name, equation string, dims []int, operands ...any) {
		all = append(all, operatorCase{name: "Einsum-" + name, opset: 17, dims: dims, build: func(g *graph) string {
			return g.einsum(equation, operands...)
		}})
	}
	v, m, c := []int{3}, []int{2, 3}, []int{2, 3, 4}
	add("layer", "bi,io->bo", v, "x", []int{3, 2})
	add("layer-out-by-in", "bi,oi->bo", v, "x", []int{2, 3})
	add("layer-first", "oi,bi->bo", v, []int{2, 3}, "x")
	add("layer-implicit", "bi,io", v, "x", []int{3, 2})
	add("layer-implicit-sorted", "zi,oi", v, "x", []int{2, 3}) // the result is o×z: the batch comes second
	all[len(all)-1].build = func(g *graph) string {
		return g.op("Transpose", in(g.einsum("zi,oi", "x", []int{2, 3})))
	}
	add("layer-spaces", " b i , i o -> b o ", v, "x", []int{3, 2})
	add("layer-of-positions", "bti,io->bto", m, "x", []int{3, 2})
	add("layer-of-positions-last", "bti,io->bot", m, "x", []int{3, 2})
	add("layer-ellipsis", "...i,oi->...o", c, "x", []int{2, 4})
	add("layer-heads", "bti,hdi->bthd", m, "x", []int{2, 2, 3})
	add("layer-heads-in-first", "bti,ihd->bhtd", m, "x", []int{3, 2, 2})
	add("layer-from-heads", "bthd,hdo->bto", c, "x", []int{3, 4, 2})
	add("layer-from-heads-swapped", "bthd,dho->bto", c, "x", []int{4, 3, 2})
	add("layer-from-heads-out-first", "bthd,ohd->bto", c, "x", []int{2, 3, 4})
	add("layer-vector", "bti,i->bt", m, "x", []int{3})
	add("layer-over-positions", "bti,ts->bsi", m, "x", []int{2, 4})
	add("weight-of-each-position", "bti,tio->bto", m, "x", []int{2, 3, 2})
	add("weight-between", "bti,oti->bto", m, "x", []int{4, 2, 3})
	add("weight-elementwise", "bti,ti->bti", m, "x", []int{2, 3})
	add("weight-outer", "bi,j->bij", v, "x", []int{2})
	add("weight-summed", "bi,ijk->bj", v, "x", []int{3, 2, 4})
	add("weight-diagonal", "bi,ii->bi", v, "x", []int{3, 3})
	add("weight-trace", "bi,jj->bi", v, "x", []int{4, 4})
	add("broadcast", "bti,ti->bti", m, "x", []int{1, 3})
	add("broadcast-batch", "bti,bti->bti", m, "x", []int{1, 2, 3})
	add("broadcast-batch-summed", "bti,bto->bio", m, "x", []int{1, 2, 2})
	add("ellipsis-broadcast", "...ti,...io->...to", []int{2, 2, 3}, "x", []int{2, 3, 2})
	add("ellipsis-lengths", "...i,...i->...", c, "x", []int{3, 4})
	add("ellipsis-implicit", "...ij,j", c, "x", []int{4})
	add("ellipsis-first", "i...,io->o...", m, "t", []int{2, 2}) // the axes of the ellipsis come first there
	all[len(all)-1].build = func(g *graph) string {
		x := g.op("Transpose", in(g.input()), intsA("perm", 1, 0, 2))
		y := g.op("Einsum", in(x, g.param(2, 2)), textA("equation", "i...,io->o..."))
		return g.op("Transpose", in(y), intsA("perm", 1, 0, 2))
	}
	add("transpose", "btij->bjti", c, "x")
	add("layer-large", "bti,hdi->bhtd", []int{2, 20}, "x", []int{3, 5, 20})
	add("layer-large-in-first", "bthd,hdo->bto", []int{2, 4, 5}, "x", []int{4, 5, 15})
	add("sum", "bti->b", m, "x")
	add("sum-some", "btij->bj", c, "x")
	add("diagonal", "bii->bi", []int{3, 3}, "x")
	add("trace", "bii->b", []int{3, 3}, "x")
	add("trace-implicit", "bii", []int{3, 3}, "x") // b, since i occurs twice
	add("squares", "bi,bi->b", v, "x", "x")
	add("gram", "bti,bsi->bts", m, "x", "x")
	add("gram-of-features", "bti,btj->bij", m, "x", "x")
	add("outer", "bi,bj->bij", v, "x", "x")
	add("outer-summed", "bti,bsj->bij", m, "x", "x")
	add("three", "bi,ij,bj->b", v, "x", []int{3, 3}, "x")
	add("bilinear", "bi,oij,bj->bo", v, "x", []int{2, 3, 3}, "x")
	add("chain", "ij,jk,bk->bi", v, []int{2, 4}, []int{4, 3}, "x")
	add("low-rank", "bi,ir,or->bo", v, "x", []int{3, 2}, []int{4, 2})
	add("cubic", "bi,bi,bi->bi", v, "x", "x", "x")
	add("shared-by-three", "bti,ti,tj->bij", m, "x", []int{2, 3}, []int{2, 2})
	all = append(all, operatorCase{name: "Einsum-attention", opset: 17, dims: []int{3, 4}, build: func(g *graph) string {
		x := g.input()
		head := func() string {
			return g.op("Einsum", in(x, g.spread(0, 0.5, 4, 2, 2)), textA("equation", "btm,mhd->bthd"))
		}
		scores := g.op("Softmax", in(g.op("Einsum", in(head(), head()), textA("equation", "bthd,bshd->bhts"))), intA("axis", -1))
		y := g.op("Einsum", in(scores, head()), textA("equation", "bhts,bshd->bthd"))
		return g.op("Einsum", in(y, g.spread(0, 0.5, 2, 2, 2)), textA("equation", "bthd,hdm->btm"))
	}})
	all = append(all, operatorCase{name: "Einsum-tied", opset: 17, dims: v, build: func(g *graph) string {
		w := g.param(3, 3)
		y := g.op("Tanh", in(g.op("Einsum", in(g.input(), w), textA("equation", "bi,io->bo"))))
		return g.op("Einsum", in(y, w), textA("equation", "bi,oi->bo"))
	}}, operatorCase{name: "Einsum-bias", opset: 17, dims: m, build: func(g *graph) string {
		return g.op("Add", in(g.op("Einsum", in(g.input(), g.param(3, 2)), textA("equation", "bti,io->bto")), g.param(2)))
	}}, operatorCase{name: "Einsum-weight-transposed", opset: 17, dims: v, build: func(g *graph) string {
		w := g.op("Transpose", in(g.param(2, 3)), intsA("perm", 1, 0))
		return g.op("Einsum", in(g.input(), w), textA("equation", "bi,io->bo"))
	}}, operatorCase{name: "Einsum-time-first", opset: 17, dims: m, build: func(g *graph) string {
		x := g.op("Transpose", in(g.input()), intsA("perm", 1, 0, 2))
		y := g.op("Einsum", in(x, g.param(3, 2)), textA("equation", "tbi,io->tbo"))
		return g.op("Transpose", in(y), intsA("perm", 1, 0, 2))
	}}, operatorCase{name: "Einsum-rows-of-positions", opset: 17, dims: m, build: func(g *graph) string {
		rows := g.op("Reshape", in(g.input(), g.ints(-1, 3)))
		y := g.op("Einsum", in(rows, g.param(3, 2)), textA("equation", "ni,io->no"))
		return g.op("Reshape", in(y, g.ints(-1, 2, 2)))
	}})
	return all
}

// einsumMixing are equations that mix examples or are wrong.
func einsumMixing() []badCase {
	var all []badCase
	add := func(name, want, equation string, dims []int, operands ...any) {
		all = append(all, badCase{name: "Einsum " + name, opset: 13, dims: dims, want: want, build: func(g *graph) string {
			return g.einsum(equation, operands...)
		}})
	}
	v, m := []int{3}, []int{2, 3}
	add("sums over the batch", mixes, "bi->i", v, "x")
	add("sums over the batch of two", mixes, "bi,bj->ij", v, "x", "x")
	add("pairs of examples", mixes, "bi,ci->bc", v, "x", "x")
	add("diagonal of the batch", mixes, "bb->b", []int{1}, "x")
	add("constants for five examples", mixes, "bi,bi->bi", v, "x", []int{5, 3})
	add("ellipsis over the batch", mixes, "...i,...i", v, "x", []int{4, 3})
	add("batch by an ellipsis and a letter", mixes, "...i,bi->b...", v, "x", "x")
	add("no equation", "terms", "", v, "x", []int{3})
	add("too few terms", "1 terms for 2 inputs", "bi->bi", v, "x", []int{3, 2})
	add("too few letters", "2 letters for 3 axes", "bi->b", m, "x")
	add("too many letters", "4 letters for 3 axes", "bijk->b", m, "x")
	add("other lengths", "lengths 3 and 4", "bi,io->bo", v, "x", []int{4, 2})
	add("a result from nowhere", "in no term", "bi->bj", v, "x")
	add("a label twice in the result", "twice", "bi->bii", v, "x")
	add("a digit", "no letter", "b1->b1", v, "x")
	add("two ellipses", "letters", "...i...->...", v, "x")
	add("an ellipsis left out", "ellipsis", "b...i->bi", m, "x")
	add("two arrows", "no letter", "bi->b->b", v, "x")
	add("a long diagonal", "diagonal", "bii->bi", []int{3, 1}, "x")
	return all
}

// einsum adds an Einsum of the input (by a name) and of parameters (by a shape).
func (g *graph) einsum(equation string, operands ...any) string {
	x, names := g.input(), []string{}
	for _, o := range operands {
		if shape, ok := o.([]int); ok {
			names = append(names, g.param(shape...))
		} else {
			names = append(names, x)
		}
	}
	return g.op("Einsum", names, textA("equation", equation))
}

// TestEinsumLayers checks that a stored weight whose summed axes are all before or all
// after the others has a structured Jacobian, a matrix of the right size.
func TestEinsumLayers(t *testing.T) {
	for _, c := range []struct {
		equation   string
		dims       []int
		weight     []int
		kind       string
		rows, cols int
	}{
		{"bi,io->bo", []int{20}, []int{20, 15}, "Outer", 20, 15},
		{"bi,oi->bo", []int{20}, []int{15, 20}, "Outer", 15, 20},
		{"bi,hdi->bhd", []int{20}, []int{3, 5, 20}, "Outer", 15, 20},
		{"bhd,hdo->bo", []int{4, 5}, []int{4, 5, 15}, "Outer", 20, 15},
		{"bhd,dho->bo", []int{4, 5}, []int{5, 4, 15}, "Outer", 20, 15},
		{"bhd,ohd->bo", []int{4, 5}, []int{15, 4, 5}, "Outer", 15, 20},
		{"bti,io->bto", []int{2, 20}, []int{20, 15}, "Conv", 20, 15},
		{"bti,hdi->bhtd", []int{2, 20}, []int{3, 5, 20}, "Conv", 15, 20},
		{"hdo,bthd->bto", []int{2, 4, 5}, []int{4, 5, 15}, "Conv", 20, 15},
		{"bi,i->b", []int{20}, []int{20}, "Outer", 20, 1},
		{"bti,tio->bto", []int{2, 20}, []int{2, 20, 7}, "Full", 2, 140},
		{"bhd,hod->bo", []int{4, 5}, []int{4, 15, 5}, "Full", 4, 75},
	} {
		t.Run(c.equation, func(t *testing.T) {
			g := newGraph(17, c.dims...)
			names := in("x", g.param(c.weight...))
			if strings.Index(c.equation, "b") > strings.Index(c.equation, ",") {
				slices.Reverse(names)
			}
			net := mustLoad(t, g.output(g.op("Einsum", names, textA("equation", c.equation))))
			require.Equal(t, c.kind, net.Describe().Params[0].Block)
			x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 3, size(c.dims))
			b, err := net.Linearize(t.Context(), x)
			require.NoError(t, err)
			require.Equal(t, [2]int{c.rows, c.cols}, [2]int{b.Blocks[0].Spans()[0].Rows, b.Blocks[0].Spans()[0].Cols})
			requireDifferences(t, net)
		})
	}
}

// evalEinsum sums over all labels at once.
func evalEinsum(e *evaluator) []*tensor {
	equation := strings.ReplaceAll(e.text("equation", ""), " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	terms := strings.Split(left, ",")
	check(len(terms) == len(e.node.Inputs), "terms")
	// Digits stand for the axes of the ellipsis, 0 for the last.
	dots := ""
	for i, term := range terms {
		rank := e.in(i).rank()
		check(rank < 8, "rank")
		n := rank - len(strings.Replace(term, "...", "", 1))
		check(n >= 0 && (n == 0 || strings.Contains(term, "...")), "letters")
		digits := "76543210"[8-n:]
		if len(digits) > len(dots) {
			dots = digits
		}
		terms[i] = strings.Replace(term, "...", digits, 1)
	}
	all := strings.Join(terms, "")
	if explicit {
		check(dots == "" || strings.Contains(right, "..."), "ellipsis")
		right = strings.Replace(right, "...", dots, 1)
	} else {
		right = dots
		for r := 'A'; r <= 'z'; r++ {
			if strings.Count(all, string(r)) == 1 {
				right += string(r)
			}
		}
	}
	size := map[rune]int{}
	for i, term := range terms {
		for k, r := range term {
			check(e.in(i).shape[k] == e.in(i).shape[strings.IndexRune(term, r)], "diagonal")
			check(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z', "letter")
			d := e.in(i).shape[k]
			check(d > 0 && (d == 1 || size[r] <= 1 || d == size[r]), "lengths")
			size[r] = max(size[r], d)
		}
	}
	labels := right
	for _, r := range all {
		if !strings.ContainsRune(labels, r) {
			labels += string(r)
		}
	}
	shape, total := []int{}, 1
	for i, r := range labels {
		check(size[r] > 0 && strings.IndexRune(labels, r) == i, "result")
		shape = append(shape, size[r])
		total *= size[r]
		check(total <= evaluateLimit, "size")
	}
	out := newTensor(shape[:len(right)])
	each(shape, func(idx []int) {
		product := 1.0
		for i, term := range terms {
			at := []int{}
			for k, r := range term {
				at = append(at, min(idx[strings.IndexRune(labels, r)], e.in(i).shape[k]-1))
			}
			product *= e.in(i).at(at...)
		}
		out.add(product, idx[:len(right)]...)
	})
	return one(out)
}
