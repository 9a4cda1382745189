package graph

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"sync"
)

// Features holds what the constant part of a program computes, by the input: the nodes whose results depend on the
// input and on no parameter. Of a network of which only the last layer is learnt they are the features. An input that
// comes again, as in each pass over the training rows, goes through the rest of the program alone. It is safe for
// concurrent use.
type Features struct {
	skip  []bool // nodes of the constant part
	slots []int  // that its nodes compute and the other nodes read
	width int    // numbers in them for one example
	most  int    // examples that may be held

	mu       sync.Mutex
	rows     map[[sha256.Size]byte][]float64
	computed int
}

// featureWork is how many multiplications the constant part takes at least for each number that is looked at to find
// its results again.
const featureWork = 64

// NewFeatures returns an empty store of at most so many bytes for a program, or nil where its constant part is none or
// takes less time than the store.
func NewFeatures(p *Program, bytes int64) *Features {
	f := &Features{skip: make([]bool, len(p.Nodes)), rows: map[[sha256.Size]byte][]float64{}}
	work := 0
	made, read := make([]bool, len(p.Slots)), make([]bool, len(p.Slots))
	for i, nd := range p.Nodes {
		if sl := &p.Slots[nd.Out]; !sl.Static && !sl.NeedsGrad {
			f.skip[i], made[nd.Out] = true, true
			work += Multiplications(nd.Op)
		}
	}
	for i, nd := range p.Nodes {
		if f.skip[i] {
			continue
		}
		for _, slot := range nd.In {
			if slot >= 0 && made[slot] && !read[slot] {
				read[slot] = true
				f.slots = append(f.slots, slot)
				f.width += p.Slots[slot].Size
			}
		}
	}
	if f.most = int(bytes / int64(8*f.width+sha256.Size+64)); work < featureWork*(p.D+f.width) || f.most < 1 {
		return nil
	}
	return f
}

// Held returns the numbers that are held for an example, of how many examples, and how often the constant part was
// computed for one.
func (f *Features) Held() (width, held, computed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.width, len(f.rows), f.computed
}

// forward runs the program on n examples, and its constant part on those that are not held.
func (f *Features) forward(s *State, x []float64, n int) {
	d := s.Program.D
	keys, rows := make([][sha256.Size]byte, n), make([][]float64, n)
	text := make([]byte, 8*d)
	for e := range n {
		for i, v := range x[e*d : (e+1)*d] {
			binary.LittleEndian.PutUint64(text[8*i:], math.Float64bits(v))
		}
		keys[e] = sha256.Sum256(text)
	}
	var missing []int
	f.mu.Lock()
	for e, key := range keys {
		if rows[e] = f.rows[key]; rows[e] == nil {
			missing = append(missing, e)
		}
	}
	f.mu.Unlock()
	if len(missing) > 0 {
		own := make([]float64, 0, len(missing)*d)
		for _, e := range missing {
			own = append(own, x[e*d:(e+1)*d]...)
		}
		s.Start(own, len(missing))
		s.forwardOf(func(i int) bool { return i < len(f.skip) && f.skip[i] })
		for k, e := range missing {
			rows[e] = make([]float64, 0, f.width)
			for _, slot := range f.slots {
				rows[e] = append(rows[e], s.At(slot, k)...)
			}
		}
		bad := s.bad
		f.mu.Lock()
		for _, e := range missing {
			if f.computed++; bad == nil && len(f.rows) < f.most {
				f.rows[keys[e]] = rows[e]
			}
		}
		f.mu.Unlock()
		if bad != nil { // of an example that reads outside of a table; Outputs says so
			s.Start(x, n)
			bad.Row = missing[bad.Row]
			s.bad = bad
			return
		}
	}
	s.Start(x, n)
	for e, row := range rows {
		for _, slot := range f.slots {
			row = row[copy(s.At(slot, e), row):]
		}
	}
	s.forwardOf(func(i int) bool { return i >= len(f.skip) || !f.skip[i] })
}
