package rewrite

import (
	"math"

	"github.com/funcgp/funcgp/internal/onnx"
)

// A heads says what attention works on: names of N×heads×length×size tensors.
type heads struct {
	q, k, v       string
	queries, keys int     // lengths
	size          int     // of a head of q and k
	scale         float64 // of the scores; 0 is 1/√size
	bias          string  // added to the scores; "" for none
	causal        bool    // no query attends to later keys
	count, vSize  int     // heads, and size of a head of v
}

// split makes N×length×(heads·size) of a name N×heads×length×size.
func (e *expansion) split(x string, count, length, size int) string {
	x = e.op("Reshape", []string{x, e.ints(0, int64(length), int64(count), int64(size))})
	return e.op("Transpose", []string{x}, intsAttribute("perm", 0, 2, 1, 3))
}

// attend is softmax(scale·q·kᵀ + bias)·v.
func (e *expansion) attend(h *heads) string {
	scale := h.scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(h.size))
	}
	s := e.op("MatMul", []string{h.q, e.op("Transpose", []string{h.k}, intsAttribute("perm", 0, 1, 3, 2))})
	s = e.op("Mul", []string{s, e.number(scale)})
	if h.bias != "" {
		s = e.op("Add", []string{s, h.bias})
	}
	if h.causal {
		if h.queries*h.keys > 1<<22 {
			e.fail("its mask of %d×%d numbers is too large", h.queries, h.keys)
			return ""
		}
		mask := make([]float64, h.queries*h.keys)
		for i := range h.queries {
			for j := i + 1; j < h.keys; j++ {
				mask[i*h.keys+j] = math.Inf(-1)
			}
		}
		s = e.op("Add", []string{s, e.numbers(mask, int64(h.queries), int64(h.keys))})
	}
	return e.op("MatMul", []string{e.op("Softmax", []string{s}, intAttribute("axis", 3)), h.v})
}

// join makes N×length×(heads·size) of N×heads×length×size.
func (e *expansion) join(x string, h *heads) string {
	x = e.op("Transpose", []string{x}, intsAttribute("perm", 0, 2, 1, 3))
	return e.op("Reshape", []string{x, e.ints(0, int64(h.queries), int64(h.count*h.vSize))})
}

// columns are columns [lo, hi) of the last of three dimensions, or all of one.
func (e *expansion) columns(x string, axis, lo, hi int) string {
	return e.op("Slice", []string{x, e.ints(int64(lo)), e.ints(int64(hi)), e.ints(int64(axis))})
}

// headCount returns the number of heads, which divides the given sizes.
func (e *expansion) headCount(name string, sizes ...int) int {
	n := e.int(name, 0)
	if n < 1 || n > 1<<16 {
		e.fail("its attribute %s is %d", name, n)
	}
	for _, size := range sizes {
		if e.err == nil && (size < 1 || size%int(n) != 0) {
			e.err = errHeads
		}
	}
	if e.err != nil {
		return 1
	}
	return int(n)
}

// attention is self-attention of an input with the weights and biases of queries, keys and
// values side by side.
func (e *expansion) attention() error {
	x, w := e.shape(0, 3), e.shape(1, 2)
	e.without("mask_index, past", 3, 4, 6)
	if e.int("do_rotary", 0) != 0 {
		e.unsupported("rotary embedding")
	}
	sizes := []int{w[1] / 3, w[1] / 3, w[1] - 2*(w[1]/3)}
	if a := e.attribute("qkv_hidden_sizes", onnx.AttrInts); a != nil {
		if len(a.Ints) != 3 || a.Ints[0] != a.Ints[1] || a.Ints[0] < 1 || a.Ints[2] < 1 || a.Ints[0] > 1<<24 || a.Ints[2] > 1<<24 {
			e.fail("its qkv_hidden_sizes are %v", a.Ints)
		} else {
			sizes = []int{int(a.Ints[0]), int(a.Ints[1]), int(a.Ints[2])}
		}
	}
	if e.err == nil && sizes[0]+sizes[1]+sizes[2] != w[1] || sizes[0] != sizes[1] || sizes[0] < 1 {
		e.fail("its weights have %d columns for hidden sizes %v", w[1], sizes)
	}
	n := e.headCount("num_heads", sizes...)
	if e.err != nil {
		return e.err
	}
	all := e.op("MatMul", []string{e.in(0), e.in(1)})
	if e.has(2) {
		all = e.op("Add", []string{all, e.in(2)})
	}
	h := &heads{queries: x[1], keys: x[1], size: sizes[0] / n, vSize: sizes[2] / n, count: n, scale: float64(e.float("scale", 0)), causal: e.int("unidirectional", 0) != 0}
	h.q = e.split(e.columns(all, 2, 0, sizes[0]), n, x[1], h.size)
	h.k = e.split(e.columns(all, 2, sizes[0], 2*sizes[0]), n, x[1], h.size)
	h.v = e.split(e.columns(all, 2, 2*sizes[0], w[1]), n, x[1], h.vSize)
	if e.has(5) {
		h.bias = e.in(5)
	}
	e.result(0, e.join(e.attend(h), h))
	return nil
}

// multiHead is attention to keys and values with biases for all three side by side.
func (e *expansion) multiHead() error {
	q := e.shape(0, 3)
	e.without("key_padding_mask, past", 4, 6, 7)
	if e.in(2); e.err != nil {
		return e.err
	}
	n := e.headCount("num_heads", q[2])
	h := &heads{queries: q[1], size: q[2] / n, count: n, scale: float64(e.float("scale", 0)), causal: e.int("unidirectional", 0) != 0}
	if len(e.shapes[1]) == 4 { // N×heads×length×size already
		k, v := e.shape(1, 4), e.shape(2, 4)
		if e.has(3) {
			e.unsupported("a bias of keys that are split into heads")
		}
		if k[1] != n || k[3] != h.size || v[1] != n || v[2] != k[2] {
			e.fail("keys %v and values %v do not go with %d heads of %d", k, v, n, h.size)
		}
		h.keys, h.vSize = k[2], v[3]
		h.q, h.k, h.v = e.split(e.in(0), n, q[1], h.size), e.in(1), e.in(2)
	} else {
		k, v := e.shape(1, 3), e.shape(2, 3)
		if e.headCount("num_heads", v[2]); e.err == nil && (k[2] != q[2] || v[1] != k[1]) {
			e.fail("queries %v, keys %v and values %v do not go together", q, k, v)
		}
		h.keys, h.vSize = k[1], v[2]/n
		names := []string{e.in(0), e.in(1), e.in(2)}
		if e.has(3) {
			ends := []int{0, q[2], 2 * q[2], 2*q[2] + v[2]}
			if b := e.shape(3, 1); e.err == nil && b[0] != ends[3] {
				e.fail("its bias has %d numbers, want %d", b[0], ends[3])
			}
			for i := range names {
				names[i] = e.op("Add", []string{names[i], e.columns(e.in(3), 0, ends[i], ends[i+1])})
			}
		}
		h.q = e.split(names[0], n, h.queries, h.size)
		h.k = e.split(names[1], n, h.keys, h.size)
		h.v = e.split(names[2], n, h.keys, h.vSize)
	}
	if e.has(5) {
		h.bias = e.in(5)
	}
	e.result(0, e.join(e.attend(h), h))
	return nil
}

// standardAttention is the operator of ONNX itself, from opset 23 on.
func (e *expansion) standardAttention() error {
	if e.in(2); e.err != nil {
		return e.err
	}
	e.without("past", 4, 5, 6)
	if e.float("softcap", 0) != 0 || e.int("qk_matmul_output_mode", 0) != 0 {
		e.unsupported("softcap or an output of scores")
	}
	h := &heads{scale: float64(e.float("scale", 0)), causal: e.int("is_causal", 0) != 0}
	h.q, h.k, h.v = e.in(0), e.in(1), e.in(2)
	flat := len(e.shapes[0]) == 3
	if flat {
		q, k, v := e.shape(0, 3), e.shape(1, 3), e.shape(2, 3)
		h.count = e.headCount("q_num_heads", q[2], k[2], v[2])
		if n := e.headCount("kv_num_heads", k[2], v[2]); n != h.count {
			e.unsupported("fewer heads of keys than of queries")
		}
		h.queries, h.keys, h.size, h.vSize = q[1], k[1], q[2]/h.count, v[2]/h.count
		if e.err == nil && (k[2] != q[2] || v[1] != k[1]) {
			e.fail("queries %v, keys %v and values %v do not go together", q, k, v)
		}
		h.q, h.k, h.v = e.split(h.q, h.count, h.queries, h.size), e.split(h.k, h.count, h.keys, h.size), e.split(h.v, h.count, h.keys, h.vSize)
	} else {
		q, k, v := e.shape(0, 4), e.shape(1, 4), e.shape(2, 4)
		if e.err == nil && (k[1] != q[1] || v[1] != q[1]) {
			e.unsupported("fewer heads of keys than of queries")
		}
		h.queries, h.keys, h.size = q[2], k[2], q[3]
	}
	if e.has(3) {
		h.bias = e.in(3)
	}
	y := e.attend(h)
	if flat {
		y = e.join(y, h)
	}
	e.result(0, y)
	return nil
}
