package compile

import (
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// Each fused operator computes what several of ONNX's own operators compute one after another. Tools such as ONNX
// Runtime fuse the nodes of an exported model. The operators of domain com.microsoft are read as ONNX Runtime
// documents them.
func init() {
	list := map[string]operator{
		"com.microsoft.Gelu":                             {translate: func(c *compiler) { c.elementwise(graph.Gelu) }, inputs: 1},
		"com.microsoft.FastGelu":                         {translate: (*compiler).fastGelu, inputs: 2},
		"com.microsoft.BiasGelu":                         {translate: func(c *compiler) { c.result(c.mapped(graph.Gelu, c.sum())) }, inputs: 2},
		"com.microsoft.QuickGelu":                        {translate: (*compiler).quickGelu, inputs: 1},
		"com.microsoft.SkipLayerNormalization":           {translate: (*compiler).skipNorm, inputs: 5, note: "the mean and the deviation are no outputs"},
		"com.microsoft.SkipSimplifiedLayerNormalization": {translate: (*compiler).skipRMS, inputs: 4, note: "the deviation is no output"},
		"com.microsoft.EmbedLayerNormalization":          {translate: (*compiler).embed, inputs: 9, integers: ownType, note: "without a mask"},
		"com.microsoft.FusedMatMul":                      {translate: (*compiler).fusedMatMul, inputs: 2},
		"com.microsoft.FusedGemm":                        {translate: (*compiler).fusedGemm, inputs: 3},
		"com.microsoft.FusedConv":                        {translate: (*compiler).fusedConv, inputs: 4},
		"com.microsoft.Attention":                        {translate: (*compiler).selfAttention, inputs: 7, note: "without mask_index and past; attention_bias may be any"},
		"com.microsoft.MultiHeadAttention":               {translate: (*compiler).multiHead, inputs: 8, note: "without packed inputs, key_padding_mask and past; attention_bias may be any"},
		"SimplifiedLayerNormalization":                   {translate: (*compiler).rms, inputs: 2, note: "the deviation is no output"},
		"RMSNormalization":                               {translate: (*compiler).rms, inputs: 2},
		"Attention":                                      {translate: (*compiler).attention, inputs: 7, note: "without past and truth values as mask, and with as many heads of keys as of queries"},
	}
	for name, o := range list {
		translate := o.translate
		o.translate = func(c *compiler) {
			translate(c)
			for i, name := range c.node.Outputs {
				if name != "" && c.uses[name] > 0 && c.env[name] == nil {
					panic(refuse("its output %d (%s) is used, which is not supported", i, quote(name)))
				}
			}
		}
		list[name] = o
	}
	register("Fused operators", list)
}

// without refuses the node if it has one of these optional inputs; what names them in the message.
func (c *compiler) without(what string, inputs ...int) {
	for _, i := range inputs {
		if c.has(i) {
			panic(refuse("its input %d (%s) is not supported; export the model without it", i, what))
		}
	}
}

// ranked returns floating point input i, which must have rank dimensions.
func (c *compiler) ranked(i, rank int) *value {
	v := c.float(i)
	if len(v.shape) != rank {
		panic(refuse("input %d has shape %v, want %d dimensions", i, v.shape, rank))
	}
	return v
}

// sum returns the sum of inputs 0 and 1 and of the given optional inputs that the node has.
func (c *compiler) sum(optional ...int) *value {
	y := c.addInputs(c.float(0), c.float(1))
	for _, i := range optional {
		if c.has(i) {
			y = c.combine(graph.Add, y, c.float(i))
		}
	}
	return y
}

// fastGelu translates FastGelu, the tanh approximation of Gelu, of the input or of the input plus a bias.
func (c *compiler) fastGelu() {
	if x := c.float(0); !c.has(1) {
		c.result(c.mapped(graph.GeluTanh(), x))
		return
	}
	c.result(c.mapped(graph.GeluTanh(), c.sum()))
}

// quickGelu translates QuickGelu, x·σ(α·x).
func (c *compiler) quickGelu() {
	x := c.float(0)
	c.result(c.combine(graph.Mul, x, c.mapped(graph.Sigmoid, c.times(x, c.attrFloat("alpha", 1.702)))))
}

// skipNorm translates SkipLayerNormalization: it normalizes input + skip connection (+ bias) over the last axis.
func (c *compiler) skipNorm() {
	sum := c.sum(4)
	c.set(0, c.normalized(sum, -1, c.attrFloat("epsilon", 1e-12), 2, 3))
	c.set(3, sum)
}

// skipRMS translates SkipSimplifiedLayerNormalization: it divides input + skip connection (+ bias) by the root of
// the mean square.
func (c *compiler) skipRMS() {
	sum := c.sum(3)
	c.set(0, c.rmsOf(sum, c.float(2), -1, c.attrFloat("epsilon", 1e-12)))
	c.set(3, sum)
}

// rms translates RMSNormalization: it divides by the root of the mean square over the last dimensions.
func (c *compiler) rms() {
	c.set(0, c.rmsOf(c.float(0), c.float(1), c.attrInt("axis", -1), c.attrFloat("epsilon", 1e-5)))
}

// rmsOf returns scale·x/√(mean x² + ε). The mean runs over the dimensions from axis from on.
func (c *compiler) rmsOf(x, scale *value, from int, epsilon float64) *value {
	from = axis(from, len(x.shape))
	drop := make([]bool, len(x.shape))
	for d := range drop {
		drop[d] = d >= from
	}
	square := c.reduceAxes(c.combine(graph.Mul, x, x), drop, true, meanOf)
	root := c.mapped(graph.Sqrt, c.combine(graph.Add, square, c.single(epsilon)))
	return c.combine(graph.Mul, c.combine(graph.Div, x, root), scale)
}

// embed translates EmbedLayerNormalization: the normalized sum of the embeddings of words, positions and segments.
func (c *compiler) embed() {
	ids, positions := c.input(0), c.ranked(3, 2)
	c.without("mask", 7)
	if len(ids.shape) != 2 {
		panic(refuse("input 0 has shape %v, want 2 dimensions", ids.shape))
	}
	sum := c.gathered(2, 0, 0)
	if c.has(8) {
		sum = c.combine(graph.Add, sum, c.gathered(3, 0, 8))
	} else {
		order := upTo(ids.shape[1])
		if len(order) > positions.shape[0] {
			panic(refuse("%d positions are embedded, and there are %d", len(order), positions.shape[0]))
		}
		sum = c.combine(graph.Add, sum, c.takeAxis(positions, 0, order, nil))
	}
	if c.has(4) {
		sum = c.combine(graph.Add, sum, c.gathered(4, 0, 1))
	}
	if sum.integer != 0 {
		panic(refuse("its tables hold integers"))
	}
	c.set(0, c.normalized(sum, -1, c.attrFloat("epsilon", 1e-12), 5, 6))
	c.set(2, sum)
}

// fusedMatMul translates FusedMatMul, α·A·B. transA and transB swap the last two dimensions of A and B. transBatchA
// and transBatchB first turn dimensions (M, batch…, K) into (batch…, M, K).
func (c *compiler) fusedMatMul() {
	in := []*value{c.float(0), c.float(1)}
	inByOut := true // false if a layer reads matrix B as out×in
	for i, which := range []string{"A", "B"} {
		batch, trans := c.attrInt("transBatch"+which, 0) != 0, c.attrInt("trans"+which, 0) != 0
		rank := len(in[i].shape)
		if rank < 2 || !batch && !trans {
			continue // a vector has no transpose
		}
		if i == 1 && rank == 2 && c.layered(in[0], in[1]) {
			inByOut = !trans
			continue
		}
		perm := upTo(rank)
		if batch {
			perm = append(slices.Insert(perm[1:rank-1:rank-1], rank-2, 0), rank-1)
		}
		if trans {
			perm[rank-2], perm[rank-1] = perm[rank-1], perm[rank-2]
		}
		in[i] = c.transpose(in[i], perm)
	}
	y := c.matrices(in[0], in[1], inByOut, nil, 0)
	if alpha := c.attrFloat("alpha", 1); alpha != 1 {
		y = c.times(y, alpha)
	}
	c.result(y)
}

// fusedGemm translates FusedGemm: a Gemm followed by an activation.
func (c *compiler) fusedGemm() {
	var params []float64
	for _, name := range []string{"activation_alpha", "activation_beta", "activation_gamma"} {
		if c.attr(name, onnx.AttrFloat) != nil {
			params = append(params, c.attrFloat(name, 0))
		}
	}
	c.result(c.activation(c.gemm(), params))
}

// fusedConv translates FusedConv: a convolution, perhaps the addition of input 3, and an activation.
func (c *compiler) fusedConv() {
	y := c.conv()
	if c.has(3) {
		y = c.combine(graph.Add, y, c.float(3))
	}
	c.result(c.activation(y, c.attrFloats("activation_params")))
}

// activation applies the function that the node's attribute activation names, with these parameters and defaults
// for missing ones. Without the attribute it returns x.
func (c *compiler) activation(x *value, params []float64) *value {
	kind := c.attrString("activation", "")
	f, ok := functions[kind]
	switch {
	case kind == "":
		return x
	case kind == "Clip":
		if len(params) != 2 {
			panic(refuse("its activation Clip has %d parameters, want 2", len(params)))
		}
		return c.mapped(graph.Clip(params[0], params[1]), x)
	case !ok || !slices.Contains([]string{"Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "Elu", "HardSwish", "Gelu"}, kind):
		panic(refuse("its activation %s is not supported; export the model without fused operators", quote(kind)))
	case len(params) > len(f.attrs):
		panic(refuse("its activation %s has %d parameters, want at most %d", kind, len(params), len(f.attrs)))
	}
	for _, a := range f.attrs[len(params):] {
		params = append(params, float64(a.def))
	}
	return c.mapped(f.of(c, params), x)
}

// A heads holds the inputs and settings of attention. q, k and v are N×heads×length×size.
type heads struct {
	q, k, v *value
	scale   float64 // multiplies the scores q·kᵀ; 0 stands for 1/√size
	bias    int     // the number of the node's input that is added to the scores, if the node has it
	causal  bool    // no query attends to a later key
}

// toHeads turns N×length×(heads·size) into N×heads×length×size.
func (c *compiler) toHeads(x *value, heads int) *value {
	x = c.alias(x, []int{x.shape[0], x.shape[1], heads, x.shape[2] / heads}, x.batch)
	return c.transpose(x, []int{0, 2, 1, 3})
}

// fromHeads turns N×heads×length×size into N×length×(heads·size).
func (c *compiler) fromHeads(x *value) *value {
	x = c.transpose(x, []int{0, 2, 1, 3})
	return c.alias(x, []int{x.shape[0], x.shape[1], x.shape[2] * x.shape[3]}, x.batch)
}

// attend returns softmax(scale·q·kᵀ + bias)·v, N×heads×length×size.
func (c *compiler) attend(h *heads) *value {
	if h.scale == 0 {
		h.scale = 1 / math.Sqrt(float64(h.q.shape[3]))
	}
	s := c.times(c.product(h.q, c.transpose(h.k, []int{0, 1, 3, 2})), h.scale)
	if c.has(h.bias) {
		s = c.combine(graph.Add, s, c.float(h.bias))
	}
	if h.causal {
		queries, keys := h.q.shape[2], h.k.shape[2]
		if queries*keys > 1<<22 {
			panic(refuse("its mask of %d×%d numbers is too large", queries, keys))
		}
		c.spend(numberBytes * queries * keys)
		mask := make([]float64, queries*keys)
		for i := range queries {
			for j := i + 1; j < keys; j++ {
				mask[i*keys+j] = math.Inf(-1)
			}
		}
		s = c.combine(graph.Add, s, c.addConstant(mask, []int{queries, keys}))
	}
	return c.product(c.softmaxOf(s, len(s.shape)-1, false), h.v)
}

// headCount returns the number of heads, the attribute with this name. It must divide the given sizes.
func (c *compiler) headCount(name string, sizes ...int) int {
	n := c.attrInt(name, 0)
	if n < 1 || n > 1<<16 {
		panic(refuse("its attribute %s is %d", name, n))
	}
	for _, size := range sizes {
		if size < 1 || size%n != 0 {
			panic(refuse("its number of heads does not divide the hidden size; export the model again"))
		}
	}
	return n
}

// unsupported returns the refusal of a node that uses a feature that is not supported; what names the feature.
func unsupported(what string) refusal {
	return refuse("%s: not supported; export the model without fused operators", what)
}

// selfAttention translates com.microsoft's Attention: queries, keys and values come from one input. The weight
// matrix and the bias hold the columns for queries, keys and values side by side.
func (c *compiler) selfAttention() {
	x, w := c.ranked(0, 3), c.ranked(1, 2)
	c.without("mask_index, past", 3, 4, 6)
	if c.attrInt("do_rotary", 0) != 0 {
		panic(unsupported("rotary embedding"))
	}
	columns := w.shape[1]
	sizes := []int{columns / 3, columns / 3, columns - 2*(columns/3)}
	if given := c.attrInts("qkv_hidden_sizes"); given != nil {
		if len(given) != 3 || given[0] != given[1] || min(given[0], given[2]) < 1 || max(given[0], given[2]) > maxElements {
			panic(refuse("its qkv_hidden_sizes are %v", given))
		}
		sizes = given
	}
	if sizes[0]+sizes[1]+sizes[2] != columns || sizes[0] != sizes[1] || sizes[0] < 1 {
		panic(refuse("its weights have %d columns for hidden sizes %v", columns, sizes))
	}
	n := c.headCount("num_heads", sizes...)
	all := c.matrices(x, w, true, c.optional(2), 2)
	h := &heads{scale: c.attrFloat("scale", 0), bias: 5, causal: c.attrInt("unidirectional", 0) != 0}
	at := 0
	for i, part := range []**value{&h.q, &h.k, &h.v} {
		*part = c.toHeads(c.sliceAxis(all, 2, at, at+sizes[i], 1), n)
		at += sizes[i]
	}
	c.set(0, c.fromHeads(c.attend(h)))
}

// multiHead translates MultiHeadAttention. Queries, keys and values are three inputs; one bias holds the numbers
// for all three side by side.
func (c *compiler) multiHead() {
	q := c.ranked(0, 3)
	c.without("key_padding_mask, past", 4, 6, 7)
	n := c.headCount("num_heads", q.shape[2])
	h := &heads{q: q, k: c.float(1), v: c.float(2), scale: c.attrFloat("scale", 0), bias: 5, causal: c.attrInt("unidirectional", 0) != 0}
	if len(h.k.shape) == 4 { // keys and values are N×heads×length×size already
		k, v := h.k.shape, c.ranked(2, 4).shape
		if c.has(3) {
			panic(unsupported("a bias of keys that are split into heads"))
		}
		if k[1] != n || k[3] != q.shape[2]/n || v[1] != n || v[2] != k[2] {
			panic(refuse("keys %v and values %v do not go with %d heads of %d", k, v, n, q.shape[2]/n))
		}
		h.q = c.toHeads(q, n)
	} else {
		c.together(h, n)
		if c.has(3) {
			at, bias := 0, c.ranked(3, 1)
			if want := 2*q.shape[2] + h.v.shape[2]; bias.shape[0] != want {
				panic(refuse("its bias has %d numbers, want %d", bias.shape[0], want))
			}
			for _, part := range []**value{&h.q, &h.k, &h.v} {
				size := (*part).shape[2]
				*part = c.combine(graph.Add, *part, c.sliceAxis(bias, 0, at, at+size, 1))
				at += size
			}
		}
		h.q, h.k, h.v = c.toHeads(h.q, n), c.toHeads(h.k, n), c.toHeads(h.v, n)
	}
	c.set(0, c.fromHeads(c.attend(h)))
}

// together refuses queries, keys and values N×length×(heads·size) whose shapes do not fit together for n heads.
func (c *compiler) together(h *heads, n int) {
	q, k, v := h.q.shape, c.ranked(1, 3).shape, c.ranked(2, 3).shape
	if v[2]%n != 0 {
		panic(refuse("its number of heads does not divide the hidden size; export the model again"))
	}
	if k[2] != q[2] || v[1] != k[1] {
		panic(refuse("queries %v, keys %v and values %v do not go together", q, k, v))
	}
}

// attention translates Attention of ONNX's own domain, which exists since opset 23.
func (c *compiler) attention() {
	c.without("past", 4, 5, 6)
	if c.attrFloat("softcap", 0) != 0 || c.attrInt("qk_matmul_output_mode", 0) != 0 {
		panic(unsupported("softcap or an output of scores"))
	}
	h := &heads{q: c.float(0), k: c.float(1), v: c.float(2), scale: c.attrFloat("scale", 0), bias: 3, causal: c.attrInt("is_causal", 0) != 0}
	if len(h.q.shape) == 3 {
		q, k, v := h.q.shape, c.ranked(1, 3).shape, c.ranked(2, 3).shape
		n := c.headCount("q_num_heads", q[2], k[2], v[2])
		if c.headCount("kv_num_heads", k[2], v[2]) != n {
			panic(unsupported("fewer heads of keys than of queries"))
		}
		c.together(h, n)
		h.q, h.k, h.v = c.toHeads(h.q, n), c.toHeads(h.k, n), c.toHeads(h.v, n)
		c.set(0, c.fromHeads(c.attend(h)))
		return
	}
	q, k, v := c.ranked(0, 4).shape, c.ranked(1, 4).shape, c.ranked(2, 4).shape
	if k[1] != q[1] || v[1] != q[1] {
		panic(unsupported("fewer heads of keys than of queries"))
	}
	c.set(0, c.attend(h))
}
