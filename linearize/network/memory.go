package network

import (
	"fmt"
	"math"
	"runtime"

	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
)

// BatchBytes returns the bytes of the Batch that Linearize makes for a number of
// examples, without the inputs, which belong to the caller. A result too large
// for an int64 is returned as the largest int64.
func (n *Network) BatchBytes(examples int) int64 { return n.batchBytes(examples, n.prog.C) }

// batchBytes is BatchBytes for c outputs, or sums of outputs, for each example.
func (n *Network) batchBytes(examples, c int) int64 {
	p := n.prog
	perExample := c                                 // F
	width := 0                                      // columns of the Full block
	nodes, inputs := map[int]bool{}, map[int]bool{} // nodes whose gradients, and slots whose values, are counted
	for k := range p.Places {
		st := &p.Places[k]
		w, _ := p.Spans(st)
		if st.Full {
			for _, s := range p.SpanList(st) {
				width += s.Len()
			}
			continue
		}
		if !nodes[st.Node] {
			perExample += c * p.Slots[p.Nodes[st.Node].Out].Size
		}
		nodes[st.Node] = true
		switch {
		case st.Table != nil:
			perExample += p.Slots[st.Input].Size
		case st.Input != p.Input && (w != nil || st.Layout != nil) && !inputs[st.Input]:
			perExample += p.Slots[st.Input].Size
			inputs[st.Input] = true
		}
	}
	for _, slot := range p.Full {
		width += p.Slots[slot].Size
	}
	bytes := 8 * (float64(perExample) + float64(c)*float64(width)) * float64(examples)
	if bytes >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(bytes)
}

// fewBytes is a size up to which the free memory is not checked, since the check would take longer than the
// computation.
const fewBytes = 64 << 20

// checkBatch returns a *linearize.MemoryError if the Batch of c outputs, or sums of outputs, for
// each example, with the memory needed to compute it, takes more than 80 % of the free memory.
func (n *Network) checkBatch(rows, c int) error {
	stacked := 0 // gradients of all outputs of an example that keep stores until the end of a chunk
	j := &jacobian{prog: n.prog, c: c}
	for k := range n.prog.Places {
		if st := &n.prog.Places[k]; st.Full && j.stacks(st) {
			stacked += n.prog.Slots[n.prog.Nodes[st.Node].Out].Size
		}
	}
	need := func(rows int) int64 {
		atOnce := min(rows, memory.MulInt(runtime.GOMAXPROCS(0), n.prog.Chunk))
		return memory.Add(n.batchBytes(rows, c), memory.Mul(8*int64(atOnce), memory.Mul(int64(c), int64(stacked))))
	}
	if need(rows) <= fewBytes {
		return nil
	}
	if err := linearize.CheckMemory(fmt.Sprintf("the Jacobian of %d examples with %d outputs", rows, c), linearize.Examples, rows, 0, need); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	return nil
}
