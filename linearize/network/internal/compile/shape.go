package compile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

func (c *compiler) flatten() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	ax := c.attrInt("axis", 1)
	if ax < -len(v.shape) || ax > len(v.shape) {
		return fmt.Errorf("axis %d is out of range for %d dimensions", ax, len(v.shape))
	}
	if ax < 0 {
		ax += len(v.shape)
	}
	return c.result(c.alias(v, []int{graph.Product(v.shape[:ax]), graph.Product(v.shape[ax:])}, int(graph.Step(v.batch >= ax))))
}

func (c *compiler) reshapeOp() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	to, err := c.intsAt(1)
	if err != nil {
		return err
	}
	if len(to.shape) != 1 {
		return errors.New("its shape is not a vector")
	}
	return c.result(c.reshape(v, to.ints, c.attrInt("allowzero", 0) != 0))
}

func (c *compiler) transposeOp() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	perm := c.attrInts("perm")
	if perm == nil {
		for i := range v.shape {
			perm = append([]int{i}, perm...)
		}
	}
	sorted := slices.Sorted(slices.Values(perm))
	if len(perm) != len(v.shape) {
		return fmt.Errorf("perm %v does not permute %d dimensions", perm, len(v.shape))
	}
	for i := range v.shape {
		if sorted[i] != i {
			return fmt.Errorf("perm %v does not permute %d dimensions", perm, len(v.shape))
		}
	}
	out, err := c.transpose(v, perm)
	if err == nil && slices.Equal(perm, []int{1, 0}) {
		out.weight, out.transposed = v.weight, !v.transposed
	}
	return c.result(out, err)
}

func (c *compiler) squeeze() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	axes, given, err := c.intsOr(1, "axes")
	if err != nil {
		return err
	}
	drop := make([]bool, len(v.shape))
	for _, a := range axes {
		if a, err = axis(a, len(v.shape)); err != nil {
			return err
		}
		if v.shape[a] != 1 || v.isBatch(a) {
			return fmt.Errorf("axis %d of %v cannot be removed", a, v.shape)
		}
		drop[a] = true
	}
	var shape []int
	batch := v.batch
	for i, d := range v.shape {
		if drop[i] || !given && d == 1 && !v.isBatch(i) {
			if i < v.batch {
				batch--
			}
			continue
		}
		shape = append(shape, d)
	}
	return c.result(c.alias(v, shape, batch))
}

func (c *compiler) unsqueeze() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	axes, _, err := c.intsOr(1, "axes")
	if err != nil {
		return err
	}
	rank := len(v.shape) + len(axes)
	if rank > 16 {
		return fmt.Errorf("%d dimensions are too many", rank)
	}
	insert := make([]bool, rank)
	for _, a := range axes {
		if a, err = axis(a, rank); err != nil {
			return err
		}
		if insert[a] {
			return fmt.Errorf("axis %d is inserted twice", a)
		}
		insert[a] = true
	}
	shape, batch, from := make([]int, rank), -1, 0
	for i := range shape {
		if insert[i] {
			shape[i] = 1
			continue
		}
		if v.isBatch(from) {
			batch = i
		}
		shape[i] = v.shape[from]
		from++
	}
	return c.result(c.alias(v, shape, batch))
}

func (c *compiler) concat() error {
	if len(c.node.Inputs) == 0 {
		return errors.New("it has no inputs")
	}
	var in []*value
	ints := true
	for i := range c.node.Inputs {
		v, err := c.input(i)
		if err != nil {
			return err
		}
		ints = ints && v.isInt
		in = append(in, v)
	}
	if ints {
		return c.result(c.concatInts(in))
	}
	for i := range in {
		v, err := c.float(i)
		if err != nil {
			return err
		}
		in[i] = v
	}
	a := c.node.Attr("axis")
	if a == nil {
		return errors.New("it has no axis")
	}
	ax, err := axis(clampInt(a.I), len(in[0].shape))
	if err != nil {
		return err
	}
	return c.result(c.concatTensors(in, ax))
}

func (c *compiler) concatTensors(in []*value, ax int) (*value, error) {
	shape := slices.Clone(in[0].shape)
	batch := -1
	o := &graph.Concat{Outer: graph.Product(shape[:ax])}
	shape[ax] = 0
	for i, v := range in {
		if len(v.shape) != len(shape) || !slices.Equal(v.shape[:ax], shape[:ax]) || !slices.Equal(v.shape[ax+1:], shape[ax+1:]) {
			return nil, fmt.Errorf("input %d has shape %v, which does not fit %v beside axis %d", i, v.shape, in[0].shape, ax)
		}
		if v.isBatch(ax) || v.batch >= 0 && batch >= 0 && v.batch != batch {
			return nil, errMixes
		}
		batch = max(batch, v.batch)
		shape[ax] += v.shape[ax]
		if shape[ax] > maxElements {
			return nil, errors.New("the result is too large")
		}
		o.Width = append(o.Width, graph.Product(v.shape[ax:]))
	}
	if batch >= 0 && shape[batch] != 1 {
		for _, v := range in {
			if v.batch < 0 {
				return nil, errMixes
			}
		}
	}
	return c.emit(o, shape, batch, in...)
}

func (c *compiler) slice() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	starts, _, err := c.intsOr(1, "starts")
	if err != nil {
		return err
	}
	ends, _, err := c.intsOr(2, "ends")
	if err != nil {
		return err
	}
	axes, given, err := c.intsOr(3, "axes")
	if err != nil {
		return err
	}
	steps, stepped, err := c.intsOr(4, "steps")
	if err != nil {
		return err
	}
	if len(starts) != len(ends) || given && len(axes) != len(starts) || stepped && len(steps) != len(starts) {
		return errors.New("starts, ends, axes and steps differ in length")
	}
	for i := range starts {
		ax, by := i, 1
		if given {
			ax = axes[i]
		}
		if stepped {
			by = steps[i]
		}
		if ax, err = axis(ax, len(v.shape)); err != nil {
			return err
		}
		if v, err = c.sliceAxis(v, ax, starts[i], ends[i], by); err != nil {
			return err
		}
	}
	return c.result(v, nil)
}

func (c *compiler) sliceAxis(v *value, ax, start, end, by int) (*value, error) {
	dim := v.shape[ax]
	if by == 0 {
		return nil, errors.New("a step of zero")
	}
	// For one example the batch dimension is 1, so its end must be open.
	if v.isBatch(ax) {
		if whole := end >= 1<<30 || c.batch > 0 && end >= c.batch*dim; start != 0 || by != 1 || !whole {
			return nil, errMixes
		}
		return v, nil
	}
	if start < 0 {
		start += dim
	}
	if end < 0 {
		end += dim
	}
	if by > 0 {
		start, end = min(max(start, 0), dim), min(max(end, 0), dim)
	} else {
		start, end = min(max(start, 0), dim-1), min(max(end, -1), dim-1)
	}
	if err := c.spend(numberBytes * max(0, (end-start)/by)); err != nil {
		return nil, err
	}
	positions := make([]int, 0, max(0, (end-start)/by)+1)
	for p := start; by > 0 && p < end || by < 0 && p > end; p += by {
		positions = append(positions, p)
	}
	if by == 1 && start == 0 && end == dim {
		return v, nil
	}
	if v.isInt && len(positions) == 0 {
		return &value{shape: slices.Concat(v.shape[:ax], []int{0}, v.shape[ax+1:]), batch: -1, isInt: true}, nil
	}
	return c.takeAxis(v, ax, positions, nil)
}

func (c *compiler) split() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	ax, err := axis(c.attrInt("axis", 0), len(v.shape))
	if err != nil {
		return err
	}
	sizes, given, err := c.intsOr(1, "split")
	if err != nil {
		return err
	}
	n := len(c.node.Outputs)
	if parts := c.attrInt("num_outputs", n); parts != n {
		return fmt.Errorf("num_outputs is %d, and it has %d", parts, n)
	}
	if !given {
		each := (v.shape[ax] + n - 1) / max(n, 1)
		for i := range n {
			sizes = append(sizes, min(each, v.shape[ax]-i*each))
		}
	}
	if len(sizes) != n {
		return fmt.Errorf("%d sizes for %d outputs", len(sizes), n)
	}
	at := 0
	for i, size := range sizes {
		if size <= 0 || size > v.shape[ax]-at {
			return fmt.Errorf("sizes %v do not split %d", sizes, v.shape[ax])
		}
		part, err := c.sliceAxis(v, ax, at, at+size, 1)
		if err != nil {
			return err
		}
		if err := c.set(i, part); err != nil {
			return err
		}
		at += size
	}
	if at != v.shape[ax] {
		return fmt.Errorf("sizes %v do not split %d", sizes, v.shape[ax])
	}
	return nil
}

func (c *compiler) gather() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	ax, err := axis(c.attrInt("axis", 0), len(v.shape))
	if err != nil {
		return err
	}
	at, err := c.intsAt(1)
	if err != nil {
		return err
	}
	positions, err := c.constants(1)
	if err != nil {
		return err
	}
	for i, p := range positions {
		if positions[i], err = axis(p, v.shape[ax]); err != nil {
			return fmt.Errorf("index %d is out of range for a dimension of %d", p, v.shape[ax])
		}
	}
	newDims := at.shape
	if newDims == nil {
		newDims = []int{}
	}
	return c.result(c.takeAxis(v, ax, positions, newDims))
}

func (c *compiler) expand() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	to, err := c.intsAt(1)
	if err != nil {
		return err
	}
	target := &value{}
	if target.shape, target.batch, err = known(to); err != nil {
		return err
	}
	if _, err := Count(target.shape); err != nil {
		return err
	}
	lead := len(target.shape) - len(v.shape)
	switch i := v.batch + lead; {
	case target.batch >= 0 && v.isInt:
		return errors.New("as many integers as there are examples")
	case target.batch >= 0:
	case v.batch >= 0 && i >= 0 && target.shape[i] != 1:
		if !c.isBatchSize(to.ints[i], v.shape[v.batch]) {
			return errMixes
		}
		target.shape[i], target.batch = v.shape[v.batch], i
	case v.batch < 0 && !v.isInt && c.batch > 1 && len(to.ints) > 1 && lead >= 0 && to.ints[0] == affine{k: c.batch} && (lead > 0 || v.shape[0] == 1):
		// A token repeated for the examples of a model with a fixed batch size.
		target.shape[0], target.batch = 1, 0
	}
	shape, batch, err := broadcastShape(v, target, 0)
	if err != nil {
		return err
	}
	table, err := c.broadcastTable(shape, v.shape)
	if err != nil {
		return err
	}
	if table == nil {
		w := *v
		w.batch = batch
		return c.result(&w, nil)
	}
	return c.result(c.apply(v, shape, batch, table, 0))
}

// isBatchSize reports whether a dimension given as a number is that of a
// batch dimension with d elements for each example.
func (c *compiler) isBatchSize(a affine, d int) bool {
	return a == affine{n: d} || c.batch > 0 && a == affine{k: c.batch * d}
}
