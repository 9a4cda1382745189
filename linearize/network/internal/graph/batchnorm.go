package graph

import (
	"context"
	"math"

	"github.com/funcgp/funcgp/internal/par"
)

// A BatchNorm subtracts from each channel its mean over the minibatch, divides by √(variance + Eps), and applies a
// scale and a shift, inputs 1 and 2. It exists in training only. It mixes examples, so it runs in a Minibatch.
type BatchNorm struct {
	Channels, Inner int // an example has the shape …×Channels×Inner
	Eps             float64
	Layer           int // index into Program.Norms
}

// A Norm has the data of a batch normalization in the file: its running statistics, and the share of them that one
// minibatch keeps.
type Norm struct {
	Mean, Variance string // names of the initializers
	Momentum       float64
	Start          [2][]float64 // mean and variance in the file
}

// Moments are the mean and the variance of each channel over a minibatch.
type Moments struct {
	Mean, Variance []float64 // biased variance
	Count          float64   // numbers in a channel
	inv            []float64 // 1/√(variance + Eps)
	sum, dot       []float64 // sums of the gradients, and of their products with the normalized values
}

// lines calls do for every run lo to hi−1 of elements of one channel in an example with size elements.
func (o *BatchNorm) lines(size int, do func(channel, lo, hi int)) {
	for at := 0; at < size; at += o.Inner {
		do(at/o.Inner%o.Channels, at, at+o.Inner)
	}
}

// Forward implements Op.
func (o *BatchNorm) Forward(s *State, nd *Node) {
	m, scale, shift := s.moments[o.Layer], s.val(nd.In[1]), s.val(nd.In[2])
	for e := range s.N {
		x, y := s.At(nd.In[0], e), s.At(nd.Out, e)
		o.lines(len(x), func(ch, lo, hi int) {
			mean, inv, a, b := m.Mean[ch], m.inv[ch], scale[ch], shift[ch]
			for i, v := range x[lo:hi] {
				y[lo+i] = (v-mean)*inv*a + b
			}
		})
	}
}

// Backward implements Op. It leaves the gradients of the scale and the shift to AddGradients.
func (o *BatchNorm) Backward(s *State, nd *Node) {
	if !s.needsGrad(nd.In[0]) {
		return
	}
	m, scale := s.moments[o.Layer], s.val(nd.In[1])
	for e := range s.N {
		x, dy, dx := s.At(nd.In[0], e), s.GradAt(nd.Out, e), s.GradAt(nd.In[0], e)
		o.lines(len(x), func(ch, lo, hi int) {
			mean, inv, sum, dot := m.Mean[ch], m.inv[ch], m.sum[ch]/m.Count, m.dot[ch]/m.Count
			for i, g := range dy[lo:hi] {
				// ∂/∂x = scale·inv·(g − mean g − x̂·mean(g x̂))
				dx[lo+i] += scale[ch] * inv * (g - sum - (x[lo+i]-mean)*inv*dot)
			}
		})
	}
}

// A Minibatch runs a program with batch normalization on chunks of the examples of a minibatch. All chunks reach a
// normalization before any of them goes on.
type Minibatch struct {
	program *Program
	states  []*State // one for each chunk
	chunks  int
	norms   []int // positions of the nodes that are a BatchNorm
	Moments []*Moments
	parts   [][]float64 // sums of each chunk
}

// NewMinibatch returns a Minibatch for at most the given number of chunks.
func NewMinibatch(p *Program, chunks int) *Minibatch {
	m := &Minibatch{program: p, states: make([]*State, chunks), parts: make([][]float64, chunks)}
	most := 0
	for i, nd := range p.Nodes {
		if o, ok := nd.Op.(*BatchNorm); ok {
			m.norms = append(m.norms, i)
			most = max(most, o.Channels)
		}
	}
	for range p.Norms {
		m.Moments = append(m.Moments, &Moments{})
	}
	for i := range m.states {
		m.states[i] = NewState(p, nil)
		m.states[i].moments = m.Moments
		m.parts[i] = make([]float64, 2*most)
	}
	return m
}

// State returns the State of chunk i.
func (m *Minibatch) State(i int) *State { return m.states[i] }

// each calls do for every chunk, on all workers.
func (m *Minibatch) each(ctx context.Context, do func(i int, s *State)) error {
	return par.Do(ctx, m.chunks, func(i int) error { do(i, m.states[i]); return nil })
}

// total writes the sum of what add computes for each chunk to dst, added in the order of the chunks.
func (m *Minibatch) total(ctx context.Context, dst []float64, add func(s *State, part []float64)) error {
	err := m.each(ctx, func(i int, s *State) {
		part := m.parts[i][:len(dst)]
		clear(part)
		add(s, part)
	})
	clear(dst)
	for _, part := range m.parts[:m.chunks] {
		for ch := range dst {
			dst[ch] += part[ch]
		}
	}
	return err
}

// Forward runs the program on the chunks. start sets up the State of chunk i with its examples, by State.Start.
func (m *Minibatch) Forward(ctx context.Context, chunks int, start func(i int, s *State)) error {
	m.chunks = chunks
	if err := m.each(ctx, start); err != nil {
		return err
	}
	from := 0
	for _, at := range m.norms {
		if err := m.each(ctx, func(_ int, s *State) { s.forwardNodes(from, at) }); err != nil {
			return err
		}
		// Compute the moments at a BatchNorm.
		nd := &m.program.Nodes[at]
		o := nd.Op.(*BatchNorm)
		mo := m.Moments[o.Layer]
		if mo.Mean == nil {
			*mo = Moments{Mean: make([]float64, o.Channels), Variance: make([]float64, o.Channels), inv: make([]float64, o.Channels), sum: make([]float64, o.Channels), dot: make([]float64, o.Channels)}
		}
		mo.Count = 0
		for _, s := range m.states[:m.chunks] {
			mo.Count += float64(s.N * m.program.Slots[nd.Out].Size / o.Channels)
		}
		// mean writes the mean of each channel's numbers, or of their squared differences from the means from.
		mean := func(dst, from []float64) error {
			err := m.total(ctx, dst, func(s *State, part []float64) {
				for e := range s.N {
					x := s.At(nd.In[0], e)
					o.lines(len(x), func(ch, lo, hi int) {
						for _, v := range x[lo:hi] {
							if from != nil {
								v = (v - from[ch]) * (v - from[ch])
							}
							part[ch] += v
						}
					})
				}
			})
			for ch := range dst {
				dst[ch] /= mo.Count
			}
			return err
		}
		if err := mean(mo.Mean, nil); err != nil {
			return err
		}
		err := mean(mo.Variance, mo.Mean)
		for ch, v := range mo.Variance {
			mo.inv[ch] = 1 / math.Sqrt(v+o.Eps)
		}
		if err != nil {
			return err
		}
		from = at
	}
	return m.each(ctx, func(_ int, s *State) { s.forwardNodes(from, len(m.program.Nodes)) })
}

// AddGradients adds Σ_e J_eᵀ u_e over the examples of each chunk to its part, P numbers. u[i] is the u of
// State.AddGradient for chunk i.
func (m *Minibatch) AddGradients(ctx context.Context, parts, u [][]float64) error {
	to := len(m.program.Nodes)
	err := m.each(ctx, func(i int, s *State) { s.startBackward(u[i]) })
	back := func(from int) error {
		return m.each(ctx, func(i int, s *State) {
			s.backwardNodes(from, to, func(place int) { s.addPlace(parts[i], place) })
		})
	}
	for k := len(m.norms) - 1; k >= 0 && err == nil; k-- {
		at := m.norms[k]
		nd := &m.program.Nodes[at]
		o := nd.Op.(*BatchNorm)
		if err = back(at + 1); err != nil {
			break
		}
		both := make([]float64, 2*o.Channels)
		err = m.total(ctx, both, func(s *State, part []float64) {
			if s.touched[nd.Out] {
				// Write the sums of each channel's gradients, and of their products with the normalized values, to
				// dst. Add the sums of each example to the gradients of the shift and the scale.
				dst := part
				m := s.moments[o.Layer]
				sum, dot := dst[:o.Channels], dst[o.Channels:]
				own := s.Buffer(0, 2*o.Channels)
				for e := range s.N {
					clear(own)
					x, dy := s.At(nd.In[0], e), s.GradAt(nd.Out, e)
					o.lines(len(x), func(ch, lo, hi int) {
						mean, inv, a, b := m.Mean[ch], m.inv[ch], 0.0, 0.0
						for i, g := range dy[lo:hi] {
							a += g
							b += g * (x[lo+i] - mean) * inv
						}
						own[ch] += a
						own[o.Channels+ch] += b
					})
					for ch := range o.Channels {
						sum[ch] += own[ch]
						dot[ch] += own[o.Channels+ch]
					}
					for i, part := range [][]float64{own[o.Channels:], own[:o.Channels]} {
						if slot := nd.In[1+i]; s.needsGrad(slot) {
							for ch, g := range s.GradAt(slot, e) {
								s.GradAt(slot, e)[ch] = g + part[ch]
							}
						}
					}
				}
			}
		})
		copy(m.Moments[o.Layer].sum, both)
		copy(m.Moments[o.Layer].dot, both[o.Channels:])
		to = at + 1
	}
	if err == nil {
		err = back(0)
	}
	if err == nil {
		err = m.each(ctx, func(i int, s *State) { s.addFull(parts[i]) })
	}
	return err
}
