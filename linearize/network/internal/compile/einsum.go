package compile

import (
	"slices"
	"strings"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	register("Products", map[string]operator{
		"Einsum": {translate: (*compiler).einsum, inputs: anyNumber, roles: learnt.Multiplies, note: "in pairs; a stored weight that multiplies each position is a layer"},
	})
}

// maxOperands is the largest number of operands of an Einsum.
const maxOperands = 64

// A term is an operand of an Einsum, with a label for each axis. A label is a letter, or a negative number for an
// axis of the ellipsis: −1 is its last axis, −2 the axis before.
type term struct {
	v      *value
	labels []int
	input  int // the number of the node's input, −1 for an intermediate result
}

func (t *term) has(label int) bool { return slices.Contains(t.labels, label) }

// size returns the length of the axis with a label, or 1 if the term has no such axis.
func (t *term) size(label int) int {
	if i := slices.Index(t.labels, label); i >= 0 {
		return t.v.shape[i]
	}
	return 1
}

func (c *compiler) einsum() {
	n := len(c.node.Inputs)
	if n == 0 || n > maxOperands {
		panic(refuse("it has %d operands, 1 to %d are allowed", n, maxOperands))
	}
	terms := make([]*term, n)
	for i := range terms {
		v := c.float(i)
		terms[i] = &term{v: v, input: i}
	}
	result := parseEinsum(c.attrString("equation", ""), terms)
	for _, t := range terms {
		// Axes of a term with the same label become one axis, the diagonal.
		shape, labels, batch, steps, st := []int{}, []int{}, -1, []int{}, strides(t.v.shape)
		for i, label := range t.labels {
			k := slices.Index(labels, label)
			if k < 0 {
				if t.v.isBatch(i) {
					batch = len(labels)
				}
				shape, labels, steps = append(shape, t.v.shape[i]), append(labels, label), append(steps, st[i])
				continue
			}
			if k == batch || t.v.isBatch(i) {
				panic(errMixes)
			}
			if shape[k] != t.v.shape[i] {
				panic(refuse("a diagonal of axes of lengths %d and %d", shape[k], t.v.shape[i]))
			}
			steps[k] += st[i]
		}
		if len(labels) == len(t.labels) {
			continue
		}
		table := c.table(shape, func(d, i int) int { return i * steps[d] })
		t.labels = labels
		t.v = c.apply(t.v, shape, batch, table, 0)
	}
	c.checkLabels(terms, result)
	for i, t := range terms {
		others := slices.Concat(terms[:i], terms[i+1:])
		// Sum over the labels that neither the result nor another term has.
		keep := func(label int) bool { return needed(label, result, others) }
		drop := make([]bool, len(t.labels))
		for i, label := range t.labels {
			drop[i] = !keep(label)
		}
		if !slices.Contains(drop, true) {
			continue
		}
		t.v = c.reduceAxes(t.v, drop, false, sumOf)
		t.labels = slices.DeleteFunc(slices.Clone(t.labels), func(label int) bool { return !keep(label) })
	}
	// Multiply the terms one by one, starting with the first term that depends on the input. The next term is
	// always the one that gives the smallest product. A stored weight that could not be used as a layer counts as
	// if its product were four times as large.
	first := max(slices.IndexFunc(terms, func(t *term) bool { return !c.isStatic(t.v) }), 0)
	out, rest := terms[first], slices.Concat(terms[:first], terms[first+1:])
	for len(rest) > 0 {
		best, least := 0, 0
		for i, t := range rest {
			p := pairing(out, t, result, slices.Concat(rest[:i], rest[i+1:]))
			// Count the elements of the product, but no further than 4·maxElements.
			shape := p.shape(p.batch, p.left, p.right)
			cost := 1
			for _, d := range shape {
				cost = min(cost*d, 4*maxElements)
			}
			if t.v.weight != nil && !c.isLayer(p) {
				cost *= 4
			}
			if i == 0 || cost < least {
				best, least = i, cost
			}
		}
		p := pairing(out, rest[best], result, slices.Concat(rest[:best], rest[best+1:]))
		rest = slices.Delete(rest, best, best+1)
		out = c.contract(p)
	}
	c.result(c.permuted(out, result))
}

// needed reports whether a label is in the result or in one of the terms.
func needed(label int, result []int, terms []*term) bool {
	return slices.Contains(result, label) || slices.ContainsFunc(terms, func(t *term) bool { return t.has(label) })
}

// parseEinsum sets the labels of the terms and returns the labels of the result. Where the equation has no right
// side, the result has first the axes of the ellipsis and then, in alphabetical order, the letters that occur once.
func parseEinsum(equation string, terms []*term) []int {
	equation = strings.ReplaceAll(equation, " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	parts := strings.Split(left, ",")
	if len(parts) != len(terms) {
		panic(refuse("its equation %s has %d terms for %d inputs", quote(equation), len(parts), len(terms)))
	}
	occurs, dots := map[int]int{}, 0
	for i, t := range terms {
		var labels []int
		within(func() { labels = parseTerm(parts[i], len(t.v.shape)) }, "its equation %s: term %d", quote(equation), i)
		t.labels = labels
		for _, label := range labels {
			occurs[label]++
			dots = max(dots, -label)
		}
	}
	if explicit {
		rank := len(strings.ReplaceAll(right, "...", ""))
		if strings.Contains(right, "...") {
			rank += dots
		} else if dots > 0 {
			panic(refuse("its equation %s leaves the axes of the ellipsis out of the result", quote(equation)))
		}
		var result []int
		within(func() { result = parseTerm(right, rank) }, "its equation %s: result", quote(equation))
		for i, label := range result {
			if slices.Contains(result[:i], label) || occurs[label] == 0 {
				panic(refuse("its equation %s has a label in the result twice or in no term", quote(equation)))
			}
		}
		return result
	}
	result := []int{}
	for label := -dots; label < 128; label++ {
		if label < 0 || occurs[label] == 1 {
			result = append(result, label)
		}
	}
	return result
}

// parseTerm returns the labels of a term s of the equation, for an operand with rank axes.
func parseTerm(s string, rank int) []int {
	before, after, dots := strings.Cut(s, "...")
	labels := []int{}
	add := func(letters string) error {
		for _, r := range letters {
			if (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
				panic(refuse("%q is no letter", r))
			}
			labels = append(labels, int(r))
		}
		return nil
	}
	add(before)
	covered := rank - len(before) - len(after)
	if covered < 0 || covered > 0 && !dots {
		panic(refuse("%d letters for %d axes", len(before)+len(after), rank))
	}
	for k := covered; k > 0; k-- {
		labels = append(labels, -k)
	}
	add(after)
	return labels
}

// checkLabels refuses axes that have the same label and different lengths, unless one length is 1. The batch axis
// must have one label only, and the result must keep it. checkLabels also drops axes that are to be broadcast.
func (c *compiler) checkLabels(terms []*term, result []int) {
	size, batch, found := map[int]int{}, 0, false
	for _, t := range terms {
		for i, label := range t.labels {
			d := t.v.shape[i]
			if size[label] > 1 && d > 1 && d != size[label] {
				panic(refuse("axes of lengths %d and %d have the same label", size[label], d))
			}
			size[label] = max(size[label], d)
			if t.v.isBatch(i) {
				if found && batch != label {
					panic(errMixes)
				}
				batch, found = label, true
			}
		}
	}
	if !found {
		return
	}
	if !slices.Contains(result, batch) {
		panic(errMixes)
	}
	for _, t := range terms {
		for i, label := range t.labels {
			if label == batch && !t.v.isBatch(i) && t.v.shape[i] != 1 || t.v.isBatch(i) && t.v.shape[i] != size[label] {
				panic(errMixes)
			}
		}
	}
	// An axis of length 1 is dropped from its term if its label has a greater length or the batch axis in another
	// term: the product then reads the same element for all positions of that axis.
	for _, t := range terms {
		// drop reports whether axis i of t is such an axis.
		drop := func(i int) bool {
			return !t.v.isBatch(i) && t.v.shape[i] == 1 && (size[t.labels[i]] > 1 || t.labels[i] == batch)
		}
		shape, labels, batch := []int{}, []int{}, t.v.batch
		for i, d := range t.v.shape {
			if !drop(i) {
				shape, labels = append(shape, d), append(labels, t.labels[i])
			} else if i < t.v.batch {
				batch--
			}
		}
		if len(labels) == len(t.labels) {
			continue
		}
		t.v, t.labels = c.alias(t.v, shape, batch), labels
	}
}

// A pair holds two terms to multiply and sorts their labels: batch holds the labels that both terms have and the
// product keeps, sum the labels that both have and the product sums over, left and right those that only a or b
// has. The batch axis comes first in left.
type pair struct {
	a, b                    *term
	batch, sum, left, right []int
}

func pairing(a, b *term, result []int, rest []*term) *pair {
	if a.v.batch < 0 && b.v.batch >= 0 {
		a, b = b, a
	}
	p := &pair{a: a, b: b}
	for i, label := range a.labels {
		switch {
		case b.has(label) && needed(label, result, rest):
			p.batch = append(p.batch, label)
		case b.has(label):
			p.sum = append(p.sum, label)
		case a.v.isBatch(i):
			p.left = slices.Insert(p.left, 0, label)
		default:
			p.left = append(p.left, label)
		}
	}
	for _, label := range b.labels {
		if !a.has(label) {
			p.right = append(p.right, label)
		}
	}
	return p
}

// shape returns the lengths of the axes with these labels, list after list.
func (p *pair) shape(lists ...[]int) []int {
	shape := []int{}
	for _, list := range lists {
		for _, label := range list {
			shape = append(shape, max(p.a.size(label), p.b.size(label)))
		}
	}
	return shape
}

// isLayer reports whether b is a constant matrix that multiplies every position of a, so that a layer with weight b
// computes the product. The summed axes of b must come all before or all after its other axes.
func (c *compiler) isLayer(p *pair) bool {
	if c.isStatic(p.a.v) || !c.isStatic(p.b.v) || p.b.v.batch >= 0 || p.a.v.batch < 0 || len(p.batch) > 0 || len(p.sum) == 0 {
		return false
	}
	head, tail := p.b.labels[:len(p.sum)], p.b.labels[len(p.right):]
	return sameLabels(head, p.sum) || sameLabels(tail, p.sum)
}

func sameLabels(a, b []int) bool {
	return !slices.ContainsFunc(a, func(label int) bool { return !slices.Contains(b, label) })
}

// contract multiplies the two terms of a pair and returns the product, with axes batch, left, right.
func (c *compiler) contract(p *pair) *term {
	out := &term{labels: slices.Concat(p.batch, p.left, p.right), input: -1}
	shape := p.shape(p.batch, p.left, p.right)
	if len(shape) > maxRank {
		panic(refuse("a product of %d dimensions; at most %d are allowed", len(shape), maxRank))
	}
	var y *value // the product; the axes of each list of labels may be merged into one
	switch {
	case c.isLayer(p):
		// A layer multiplies by a matrix. The matrix is stored as in×out or out×in; each side may consist of
		// several axes.
		inByOut := sameLabels(p.b.labels[:len(p.sum)], p.sum)
		sum := p.b.labels[len(p.right):]
		if inByOut {
			sum = p.b.labels[:len(p.sum)]
		}
		x := c.grouped(p.a, p.left, sum)
		in, out := graph.Product(p.shape(sum)), graph.Product(p.shape(p.right))
		x = c.alias(x, append(p.shape(p.left), in), 0)
		w := &value{slot: p.b.v.slot, shape: []int{in, out}, batch: -1, fromInts: p.b.v.fromInts}
		if !inByOut {
			w.shape = []int{out, in}
		}
		if p.b.input >= 0 && (!p.b.v.transposed || len(p.b.v.shape) == 2) {
			w.weight, w.transposed = p.b.v.weight, p.b.v.transposed
		}
		y = c.dense(x, w, p.b.input, inByOut, nil, 0)
	case len(p.sum) == 0: // nothing is summed: multiply with broadcasting
		a := c.grouped(p.a, p.batch, p.left, slices.Repeat([]int{0}, len(p.right)))
		b := c.grouped(p.b, p.batch, slices.Repeat([]int{0}, len(p.left)), p.right)
		y = c.combine(graph.Mul, a, b)
	default:
		y = c.product(c.merged(p.a, p.batch, p.left, p.sum), c.merged(p.b, p.batch, p.sum, p.right))
	}
	batch := -1
	if p.a.v.batch >= 0 {
		batch = slices.Index(out.labels, p.a.labels[p.a.v.batch])
	}
	out.v = c.alias(y, shape, batch)
	return out
}

// permuted returns the value of a term with its axes in the order of labels.
func (c *compiler) permuted(t *term, labels []int) *value {
	if slices.Equal(t.labels, labels) {
		return t.v
	}
	perm := make([]int, len(labels))
	for i, label := range labels {
		if perm[i] = slices.Index(t.labels, label); perm[i] < 0 {
			panic(refuse("a label of the result has no axis"))
		}
	}
	return c.transpose(t.v, perm)
}

// grouped returns the value of a term with its axes in the order of these lists of labels. For each label 0, which
// no axis has, it inserts an axis of length 1.
func (c *compiler) grouped(t *term, lists ...[]int) *value {
	all := slices.Concat(lists...)
	order := slices.DeleteFunc(slices.Clone(all), func(label int) bool { return label == 0 })
	v := c.permuted(t, order)
	if len(order) == len(all) {
		return v
	}
	shape, batch, k := []int{}, -1, 0
	for i, label := range all {
		if label == 0 {
			shape = append(shape, 1)
			continue
		}
		if v.isBatch(k) {
			batch = i
		}
		shape = append(shape, v.shape[k])
		k++
	}
	return c.alias(v, shape, batch)
}

// merged returns the value of a term as a stack of matrices: first the axes of batch, then all axes of rows merged
// into one, then all axes of cols merged into one.
func (c *compiler) merged(t *term, batch, rows, cols []int) *value {
	v := c.grouped(t, batch, rows, cols)
	nb, nr := len(batch), len(batch)+len(rows)
	shape := slices.Concat(v.shape[:nb], []int{graph.Product(v.shape[nb:nr]), graph.Product(v.shape[nr:])})
	at := v.batch
	switch {
	case at >= nr:
		at = nb + 1
	case at >= nb:
		at = nb
	}
	return c.alias(v, shape, at)
}
