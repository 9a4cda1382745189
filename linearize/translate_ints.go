package linearize

import (
	"errors"
	"fmt"
	"slices"
)

// bounded keeps integer arithmetic far from overflow.
func bounded(a affine) (affine, error) {
	const bound = 1 << 40
	if a.n < -bound || a.n > bound || a.k < -bound || a.k > bound {
		return a, errors.New("integer arithmetic leaves the range of any shape")
	}
	return a, nil
}

func addInt(a, b affine) (affine, error) { return bounded(affine{a.n + b.n, a.k + b.k}) }
func subInt(a, b affine) (affine, error) { return bounded(affine{a.n - b.n, a.k - b.k}) }

func mulInt(a, b affine) (affine, error) {
	const bound = 1 << 31
	switch {
	case max(abs(a.n), abs(a.k), abs(b.n), abs(b.k)) > bound:
		return a, errors.New("integer arithmetic leaves the range of any shape")
	case a.constant():
		return bounded(affine{a.k * b.n, a.k * b.k})
	case b.constant():
		return bounded(affine{b.k * a.n, b.k * a.k})
	}
	return a, errors.New("it multiplies two batch sizes")
}

func abs(a int) int { return max(a, -a) }

func divInt(a, b affine) (affine, error) {
	if b.k == 0 && b.n == 0 {
		return a, errors.New("integer division by zero")
	}
	switch {
	case a.constant() && b.constant():
		return affine{k: a.k / b.k}, nil
	case b.constant() && a.n%b.k == 0 && a.k%b.k == 0:
		return affine{a.n / b.k, a.k / b.k}, nil
	case a.k == 0 && b.k == 0 && b.n != 0 && a.n%b.n == 0:
		return affine{k: a.n / b.n}, nil
	}
	return a, errors.New("it divides the batch size, which would mix examples")
}

func modInt(a, b affine) (affine, error) {
	switch {
	case b == affine{}:
		return a, errors.New("integer division by zero")
	case a.constant() && b.constant():
		m := a.k % b.k
		if m != 0 && (m < 0) != (b.k < 0) {
			m += b.k
		}
		return affine{k: m}, nil
	case b.constant() && a.n%b.k == 0:
		return modInt(affine{k: a.k}, b)
	}
	return a, errors.New("it divides the batch size, which would mix examples")
}

func (c *compiler) mod() error {
	a, err := c.intsAt(0)
	if err != nil {
		return err
	}
	b, err := c.intsAt(1)
	if err != nil {
		return err
	}
	return c.result(combineInts(a, b, modInt))
}

func combineInts(a, b *value, f func(a, b affine) (affine, error)) (*value, error) {
	shape, _, err := broadcastShape(a, b, 0)
	if err != nil {
		return nil, err
	}
	if len(a.ints) == 0 || len(b.ints) == 0 {
		return nil, errors.New("an operand is empty")
	}
	ia, err := broadcastTable(shape, a.shape)
	if err != nil {
		return nil, err
	}
	ib, err := broadcastTable(shape, b.shape)
	if err != nil {
		return nil, err
	}
	out := &value{shape: shape, batch: -1, isInt: true, ints: make([]affine, product(shape))}
	for i := range out.ints {
		if out.ints[i], err = f(a.ints[pick(ia, i)], b.ints[pick(ib, i)]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func concatInts(in []*value) (*value, error) {
	out := &value{batch: -1, isInt: true}
	for _, v := range in {
		if len(v.shape) != 1 {
			return nil, fmt.Errorf("integer tensors of shape %v cannot be joined", v.shape)
		}
		out.ints = append(out.ints, v.ints...)
		if len(out.ints) > maxElements {
			return nil, errors.New("the result is too large")
		}
	}
	out.shape = []int{len(out.ints)}
	return out, nil
}

func (c *compiler) shape() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	out := &value{batch: -1, isInt: true}
	for i, d := range v.shape {
		if v.isBatch(i) {
			out.ints = append(out.ints, affine{n: d})
		} else {
			out.ints = append(out.ints, affine{k: d})
		}
	}
	rank := len(v.shape)
	start, end := c.attrInt("start", 0), c.attrInt("end", rank)
	if start < 0 {
		start += rank
	}
	if end < 0 {
		end += rank
	}
	start = min(max(start, 0), rank)
	end = min(max(end, start), rank)
	out.ints = out.ints[start:end]
	out.shape = []int{len(out.ints)}
	return c.result(out, nil)
}

func (c *compiler) rangeOp() error {
	var arg [3]int
	for i := range arg {
		list, err := c.constants(i)
		if err != nil {
			return err
		}
		if len(list) != 1 {
			return fmt.Errorf("input %d is not a single number", i)
		}
		arg[i] = list[0]
	}
	start, limit, delta := arg[0], arg[1], arg[2]
	if delta == 0 || abs(limit-start)/abs(delta) > maxElements {
		return fmt.Errorf("a range from %d to %d by %d", start, limit, delta)
	}
	out := &value{batch: -1, isInt: true}
	for k := start; delta > 0 && k < limit || delta < 0 && k > limit; k += delta {
		out.ints = append(out.ints, affine{k: k})
	}
	out.shape = []int{len(out.ints)}
	return c.result(out, nil)
}

func (c *compiler) constantOfShape() error {
	to, err := c.intsAt(0)
	if err != nil {
		return err
	}
	shape := []int{}
	for _, a := range to.ints {
		shape = append(shape, a.one())
	}
	n, err := count(shape)
	if err != nil {
		return err
	}
	a := c.node.Attr("value")
	if a == nil || a.T == nil {
		return c.result(c.addConstant(make([]float64, n), shape), nil)
	}
	switch {
	case len(a.T.Floats) == 1:
		return c.result(c.addConstant(slices.Repeat(a.T.Floats, n), shape), nil)
	case len(a.T.Ints) == 1:
		fill := []affine{{k: clampInt(a.T.Ints[0])}}
		return c.result(&value{shape: shape, batch: -1, isInt: true, ints: slices.Repeat(fill, n)}, nil)
	}
	return errors.New("its value is not a single number")
}
