package graph

// LSTM is a cell with a memory c. Its gates are the input gate i, the output gate
// o, the forget gate f and the candidate g:
//
//	c' = f c + i g,  h' = o H(c')
//
// with i, o, f = F(·), g = G(·).
type LSTM struct {
	F, G, H Activation
	Coupled bool // f = 1 − i
}

var _ Cell = (*LSTM)(nil)

// Gates implements Cell.
func (*LSTM) Gates() int { return 4 }

// work counts i, o, f, g and H(c'), and the derivative of each.
func (*LSTM) work() int { return 10 }

func (*LSTM) more() rest { return memories }

func (l *LSTM) forward(r *recurrence) {
	r.load(0)
	r.recur(r.Before(r.d, r.t, false), 0, 4)
	h := r.H
	for e := range r.n {
		z, kept := r.gatesOf(r.z, e), r.work(e)
		y, dy := kept[:5*h], kept[5*h:]
		_, hidden := r.hidden(e)
		before, after := r.memory(e)
		pi, po, pf := r.peepholes()
		for j := range h {
			zi, zo, zf := z[j], z[h+j], z[2*h+j]
			if pi != nil {
				zi += pi[j] * before[j]
				zf += pf[j] * before[j]
			}
			y[j], dy[j] = l.F(zi)
			if l.Coupled {
				y[2*h+j], dy[2*h+j] = 1-y[j], 0
			} else {
				y[2*h+j], dy[2*h+j] = l.F(zf)
			}
			y[3*h+j], dy[3*h+j] = l.G(z[3*h+j])
			after[j] = y[2*h+j]*before[j] + y[j]*y[3*h+j]
			if po != nil {
				zo += po[j] * after[j]
			}
			y[h+j], dy[h+j] = l.F(zo)
			y[4*h+j], dy[4*h+j] = l.H(after[j])
			hidden[j] = y[h+j] * y[4*h+j]
		}
	}
}

// peepholes returns the weights of the memory in the gates i, o and f; nil without peepholes.
func (r *recurrence) peepholes() (i, o, f []float64) {
	if r.Peepholes < 0 {
		return nil, nil, nil
	}
	return r.split(r.s.val(r.nd.In[r.Peepholes]))
}

// split returns the three parts of a D×3·H tensor for this direction.
func (r *recurrence) split(p []float64) (i, o, f []float64) {
	p = p[3*r.d*r.H:]
	return p[:r.H], p[r.H : 2*r.H], p[2*r.H : 3*r.H]
}

func (l *LSTM) backward(r *recurrence) {
	h := r.H
	for e := range r.n {
		kept, dz := r.work(e), r.gatesOf(r.dz, e)
		y, dy := kept[:5*h], kept[5*h:]
		before, after := r.memory(e)
		dh, dc := r.hiddenOf(r.dh, e), r.hiddenOf(r.dc, e)
		pi, po, pf := r.peepholes()
		for j := range h {
			dzo := dh[j] * y[4*h+j] * dy[h+j]
			g := dc[j] + dh[j]*y[h+j]*dy[4*h+j] // gradient of c'
			if po != nil {
				g += po[j] * dzo
			}
			di, df := g*y[3*h+j], g*before[j]
			if l.Coupled {
				di -= df
			}
			dzi, dzf := di*dy[j], df*dy[2*h+j]
			dz[j], dz[h+j], dz[2*h+j], dz[3*h+j] = dzi, dzo, dzf, g*y[j]*dy[3*h+j]
			dc[j] = g * y[2*h+j]
			if pi != nil {
				dc[j] += pi[j]*dzi + pf[j]*dzf
			}
		}
		if r.Peepholes >= 0 && r.s.needsGrad(r.nd.In[r.Peepholes]) {
			gi, gout, gf := r.split(r.s.GradAt(r.nd.In[r.Peepholes], e))
			for j := range h {
				gi[j] += dz[j] * before[j]
				gout[j] += dz[h+j] * after[j]
				gf[j] += dz[2*h+j] * before[j]
			}
		}
	}
}

func (*LSTM) through(r *recurrence) { r.back(r.dh, r.dz, 0, 4, 0) }

// GRU is a cell with the update gate z, the reset gate r and the candidate g:
//
//	h' = (1−z) g + z h
//
// with z, r = F(·), g = G(·).
type GRU struct {
	F, G Activation
	// ResetAfter says that r multiplies the candidate's product R h, instead of h before the product.
	ResetAfter bool
}

var _ Cell = (*GRU)(nil)

// Gates implements Cell.
func (*GRU) Gates() int { return 3 }

// work counts z, r and g, the derivative of each, and the candidate's product R h.
func (*GRU) work() int { return 7 }

func (g *GRU) more() rest {
	if g.ResetAfter {
		return nothing
	}
	return resets
}

func (g *GRU) forward(r *recurrence) {
	h := r.H
	if g.ResetAfter {
		r.load(r.Addend)
		r.recur(r.Before(r.d, r.t, false), 0, 3)
	} else {
		r.load(0)
		r.recur(r.Before(r.d, r.t, false), 0, 2)
	}
	for e := range r.n {
		z, kept := r.gatesOf(r.z, e), r.work(e)
		y, dy, product := kept[:3*h], kept[3*h:6*h], kept[6*h:]
		before, _ := r.hidden(e)
		if g.ResetAfter {
			x := r.products(r.s.At(r.nd.In[0], e))
			for j := range h {
				y[j], dy[j] = g.F(x[j] + z[j])
				y[h+j], dy[h+j] = g.F(x[h+j] + z[h+j])
				product[j] = z[2*h+j]
				z[2*h+j] = x[2*h+j] + y[h+j]*product[j]
			}
			continue
		}
		reset := r.s.At(r.nd.Out, e)[r.ResetState(r.d, r.t):][:h]
		for j := range h {
			y[j], dy[j] = g.F(z[j])
			y[h+j], dy[h+j] = g.F(z[h+j])
			reset[j] = y[h+j] * before[j]
		}
	}
	if !g.ResetAfter {
		r.recur(r.ResetState(r.d, r.t), 2, 3)
	}
	for e := range r.n {
		z, kept := r.gatesOf(r.z, e), r.work(e)
		y, dy := kept[:3*h], kept[3*h:6*h]
		before, after := r.hidden(e)
		for j := range h {
			y[2*h+j], dy[2*h+j] = g.G(z[2*h+j])
			after[j] = (1-y[j])*y[2*h+j] + y[j]*before[j]
		}
	}
}

func (g *GRU) backward(r *recurrence) {
	h := r.H
	for e := range r.n {
		kept, dz := r.work(e), r.gatesOf(r.dz, e)
		y, dy := kept[:3*h], kept[3*h:6*h]
		before, _ := r.hidden(e)
		dh := r.hiddenOf(r.dh, e)
		for j := range h {
			dz[j] = dh[j] * (before[j] - y[2*h+j]) * dy[j]
			dz[2*h+j] = dh[j] * (1 - y[j]) * dy[2*h+j]
			dh[j] *= y[j]
		}
	}
	if g.ResetAfter {
		for e := range r.n {
			kept, dz, du := r.work(e), r.gatesOf(r.dz, e), r.gatesOf(r.du, e)
			reset, slope, product := kept[h:2*h], kept[4*h:5*h], kept[6*h:]
			for j := range h {
				dz[h+j] = dz[2*h+j] * product[j] * slope[j]
				du[2*h+j] = dz[2*h+j] * reset[j]
			}
			copy(du, dz[:2*h])
		}
		return
	}
	r.back(r.spare, r.dz, 2, 3, 0) // gradient of r h
	for e := range r.n {
		kept, dz, dh, dq := r.work(e), r.gatesOf(r.dz, e), r.hiddenOf(r.dh, e), r.hiddenOf(r.spare, e)
		reset, slope := kept[h:2*h], kept[4*h:5*h]
		before, _ := r.hidden(e)
		for j := range h {
			dz[h+j] = dq[j] * before[j] * slope[j]
			dh[j] += dq[j] * reset[j]
		}
	}
}

func (g *GRU) through(r *recurrence) {
	if g.ResetAfter {
		r.back(r.dh, r.du, 0, 3, 1)
		return
	}
	r.back(r.dh, r.dz, 0, 2, 1)
}

// RNN is a cell without gates: h' = F(·).
type RNN struct{ F Activation }

var _ Cell = (*RNN)(nil)

// Gates implements Cell.
func (*RNN) Gates() int { return 1 }

// work counts the derivative of h'.
func (*RNN) work() int { return 1 }

func (*RNN) more() rest { return nothing }

func (c *RNN) forward(r *recurrence) {
	r.load(0)
	r.recur(r.Before(r.d, r.t, false), 0, 1)
	for e := range r.n {
		slope := r.work(e)
		_, after := r.hidden(e)
		for j, z := range r.gatesOf(r.z, e) {
			after[j], slope[j] = c.F(z)
		}
	}
}

func (c *RNN) backward(r *recurrence) {
	for e := range r.n {
		slope, dh := r.work(e), r.hiddenOf(r.dh, e)
		for j := range r.gatesOf(r.dz, e) {
			r.dz[e*r.H+j] = dh[j] * slope[j]
		}
	}
}

func (*RNN) through(r *recurrence) { r.back(r.dh, r.dz, 0, 1, 0) }
