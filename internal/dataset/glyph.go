package dataset

import "math"

// A glyph is drawn in a box of height one: x to the right, y down, both about
// [-0.5, 0.5]. The strokes of one digit are smooth curves through their knots,
// broken where a knot is a corner.
type knot struct {
	x, y   float64
	corner bool
}

// glyph collects the strokes of one digit in buffers that are used again.
type glyph struct {
	knots   []knot
	strokes []int // end of each stroke in knots
}

func (g *glyph) reset() { g.knots, g.strokes = g.knots[:0], g.strokes[:0] }

// to extends the current stroke with a smooth knot.
func (g *glyph) to(x, y float64) { g.knots = append(g.knots, knot{x, y, false}) }

// turn extends the current stroke with a corner.
func (g *glyph) turn(x, y float64) { g.knots = append(g.knots, knot{x, y, true}) }

// lift ends the current stroke.
func (g *glyph) lift() { g.strokes = append(g.strokes, len(g.knots)) }

// arc adds n+1 knots of an ellipse, from angle a by sweep (degrees, clockwise
// as seen, 0 to the right). The radius grows by the factor drift on the way.
func (g *glyph) arc(cx, cy, rx, ry, a, sweep, drift float64, n int) {
	for i := range n + 1 {
		t := float64(i) / float64(n)
		sin, cos := math.Sincos((a + sweep*t) * math.Pi / 180)
		s := 1 + (drift-1)*t
		g.to(cx+rx*s*cos, cy+ry*s*sin)
	}
}

// write draws digit d in one of its variants.
func (g *glyph) write(d int, h *hand) {
	g.reset()
	[10]func(*hand){
		g.zero, g.one, g.two, g.three, g.four, g.five, g.six, g.seven, g.eight, g.nine,
	}[d](h)
}

func (g *glyph) zero(h *hand) {
	rx := h.uniform(0.2, 0.38)
	g.arc(0, 0, rx, 0.5, h.uniform(-140, -60), -h.uniform(345, 390), h.uniform(0.88, 1.1), 9)
	g.lift()
}

func (g *glyph) one(h *hand) {
	flag, foot := h.chance(0.3), h.chance(0.12)
	if flag {
		g.to(-h.uniform(0.12, 0.28), -0.5+h.uniform(0.08, 0.24))
		g.turn(0, -0.5)
	} else {
		g.to(0, -0.5)
	}
	g.to(h.uniform(-0.03, 0.03), 0)
	g.to(0, 0.5)
	g.lift()
	if foot {
		g.to(-h.uniform(0.14, 0.28), 0.5)
		g.to(h.uniform(0.14, 0.28), 0.5+0.03*h.normal())
		g.lift()
	}
}

func (g *glyph) two(h *hand) {
	w := h.uniform(0.2, 0.3)
	g.to(-w, -0.28+0.05*h.normal())
	g.to(-0.04, -0.5)
	g.to(w*0.9, -0.38)
	g.to(w*0.95, -0.2)
	g.to(0.06, 0.12)
	if h.chance(0.4) { // a loop at the foot
		r := h.uniform(0.6, 1.3)
		g.to(-0.16, 0.36)
		g.to(-0.28, 0.47)
		g.to(-0.34, 0.47-0.09*r)
		g.to(-0.25, 0.47-0.17*r)
		g.to(-0.08, 0.47-0.1*r)
		g.to(0.12, 0.47)
		g.to(w+0.1, 0.42+0.04*h.normal())
	} else {
		g.turn(-w-0.02, 0.46)
		g.to(0, 0.42+0.03*h.normal())
		g.to(w+h.uniform(0, 0.1), 0.46+0.04*h.normal())
	}
	g.lift()
}

func (g *glyph) three(h *hand) {
	in := h.uniform(-0.1, 0.06) // how far the waist reaches back
	if h.chance(0.18) {         // a flat top
		g.to(-0.22, -0.48)
		g.turn(0.22, -0.48+0.03*h.normal())
		g.turn(in, -0.08)
	} else {
		g.to(-0.24, -0.36+0.05*h.normal())
		g.to(-0.02, -0.5)
		g.to(0.2, -0.36)
		g.to(0.15, -0.14)
		g.turn(in, -0.03+0.03*h.normal())
	}
	b := h.uniform(0.18, 0.3)
	g.to(b*0.75, 0.06)
	g.to(b, 0.26)
	g.to(0.04, 0.5)
	g.to(-0.2, 0.44)
	if h.chance(0.6) {
		g.to(-0.28, 0.33)
	}
	g.lift()
}

func (g *glyph) four(h *hand) {
	switch k := h.uniform(0, 1); {
	case k < 0.45:
		g.openFour(h)
	case k < 0.65:
		g.closedFour(h)
	default:
		g.roundFour(h)
	}
}

// openFour has a bent arm and a stem, with a gap at the top that may almost close.
func (g *glyph) openFour(h *hand) {
	bar := h.uniform(-0.06, 0.14)
	left := h.uniform(-0.34, -0.2)
	gap := h.uniform(0.1, 0.42)
	stem := h.uniform(0.06, 0.2)
	g.to(stem-gap, -0.5+h.uniform(0, 0.1))
	if h.chance(0.6) {
		g.turn(left, bar)
	} else { // a soft elbow
		g.to(left, bar-0.1)
		g.to(left+0.08, bar)
	}
	g.to(stem+h.uniform(0.02, 0.24), bar+0.05*h.normal())
	g.lift()
	g.to(stem+h.uniform(-0.02, 0.08), -0.5+h.uniform(0, 0.22))
	g.to(stem, 0)
	g.to(stem+0.04*h.normal(), 0.5)
	g.lift()
}

// closedFour is printed: one triangle and a stem through it.
func (g *glyph) closedFour(h *hand) {
	bar := h.uniform(0.02, 0.2)
	stem := h.uniform(0.04, 0.16)
	g.to(stem+h.uniform(-0.04, 0.02), -0.5)
	g.turn(-h.uniform(0.24, 0.36), bar)
	g.to(stem+h.uniform(0.08, 0.24), bar+0.04*h.normal())
	g.lift()
	g.to(stem, -0.5+h.uniform(0, 0.12))
	g.to(stem+0.03*h.normal(), 0.5)
	g.lift()
}

// roundFour is one line: down, round to the right and up, then the stem.
func (g *glyph) roundFour(h *hand) {
	w := h.uniform(0.18, 0.28)
	gap := h.uniform(0.6, 1.1) // opening at the top as a part of the width
	if h.chance(0.12) {
		gap = h.uniform(0.42, 0.6)
	}
	low := h.uniform(-0.02, 0.14)
	g.to(w-2*w*gap, -0.48+h.uniform(0, 0.1))
	g.to(-w-0.02, low-0.22)
	g.to(-w*0.6, low-0.02)
	g.to(0, low)
	g.to(w*0.7, low-0.1)
	g.turn(w, -0.5+h.uniform(0, 0.2))
	g.to(w-0.02+0.02*h.normal(), 0)
	g.to(w-h.uniform(0, 0.12), 0.5)
	g.lift()
}

func (g *glyph) five(h *hand) {
	top := h.uniform(0.14, 0.3)
	left := -h.uniform(0.12, 0.22)
	apart := h.chance(0.4) // the bar is a second stroke
	switch {
	case apart:
		g.to(left+0.02*h.normal(), -0.46)
		g.turn(left-0.04, -0.08)
	case h.chance(0.35): // no corners
		g.to(top, -0.46)
		g.to(0, -0.47)
		g.to(left, -0.36)
		g.to(left+0.02, -0.14)
	default:
		g.to(top, -0.48+0.03*h.normal())
		g.turn(left+0.03, -0.46)
		g.turn(left-0.04, -0.08)
	}
	b := h.uniform(0.16, 0.28)
	g.to(0.02, -0.13+0.03*h.normal())
	g.to(b, 0.1)
	g.to(b*0.7, 0.38)
	g.to(-0.08, 0.5)
	g.to(-0.28, 0.38+0.04*h.normal())
	g.lift()
	if apart {
		g.to(left+h.uniform(-0.04, 0.1), -0.46+0.03*h.normal())
		g.to(top+0.04, -0.5+0.04*h.normal())
		g.lift()
	}
}

func (g *glyph) six(h *hand) {
	if h.chance(0.5) { // a curved back
		g.to(h.uniform(0.06, 0.24), -0.5)
		g.to(-0.1, -0.26)
	} else { // a straight back
		g.to(h.uniform(-0.04, 0.16), -0.5)
		g.to(-0.12, -0.2)
	}
	r := h.uniform(0.16, 0.27)
	top := h.uniform(-0.06, 0.14)
	g.to(-0.23, 0.1)
	g.to(-0.19, 0.38)
	g.to(0.01, 0.5)
	g.to(r, 0.36)
	g.to(r*0.9, top+0.1)
	g.to(0.02, top)
	g.to(-0.14, top+0.1)
	if h.chance(0.7) {
		g.to(-0.2, top+0.24)
	}
	g.lift()
}

func (g *glyph) seven(h *hand) {
	l, r := -h.uniform(0.2, 0.32), h.uniform(0.18, 0.3)
	if h.chance(0.25) { // a serif
		g.to(l, -0.5+h.uniform(0.1, 0.2))
		g.turn(l+0.01, -0.48)
	} else {
		g.to(l, -0.46+0.03*h.normal())
	}
	g.turn(r, -0.48+0.03*h.normal())
	end := h.uniform(-0.2, 0.06)
	bow := h.uniform(-0.08, 0.04)
	g.to((r+end)/2+bow, 0)
	g.to(end, 0.5)
	g.lift()
	if h.chance(0.3) { // crossed
		y := h.uniform(-0.06, 0.1)
		c := (r+end)/2 + bow - y*0.3
		g.to(c-h.uniform(0.14, 0.24), y+0.03*h.normal())
		g.to(c+h.uniform(0.1, 0.22), y+0.03*h.normal())
		g.lift()
	}
}

func (g *glyph) eight(h *hand) {
	t, b := h.uniform(0.13, 0.22), h.uniform(0.18, 0.28)
	w := h.uniform(-0.1, 0.02) // height of the waist
	if h.chance(0.25) {        // two rings
		a := h.uniform(-120, -60)
		g.arc(0, (w-0.5)/2, t+0.02, (w+0.5)/2, a, -h.uniform(345, 375), 1, 8)
		g.lift()
		g.arc(0.02*h.normal(), (w+0.5)/2, b, (0.5-w)/2, a, h.uniform(345, 375), 1, 8)
		g.lift()
		return
	}
	g.to(t, -0.36+0.04*h.normal())
	g.to(0, -0.5)
	g.to(-t, -0.34)
	g.to(-t*0.6, w-0.12)
	g.to(t*0.4, w+0.06)
	g.to(b, 0.26)
	g.to(0, 0.5)
	g.to(-b, 0.28)
	g.to(-b*0.5, w+0.1)
	g.to(t*0.55, w-0.12)
	g.to(t+0.01, -0.34+0.04*h.normal())
	if h.chance(0.6) {
		g.to(t*0.8, -0.44)
	}
	g.lift()
}

func (g *glyph) nine(h *hand) {
	w := h.uniform(0.17, 0.27)
	low := h.uniform(-0.08, 0.1)
	mid := (low - 0.5) / 2
	open := h.uniform(-0.03, 0.1) // gap between the loop's start and the stem
	if h.chance(0.2) {            // an angular loop, flat below as in a 4
		g.to(w-open-0.02, -0.46+0.03*h.normal())
		g.to(-0.02, -0.5)
		g.to(-w, mid+0.06)
		g.turn(-w+h.uniform(0, 0.12), low)
		g.to(w*0.9, low-h.uniform(0, 0.14))
		g.lift()
		g.to(w-0.01, -0.5+h.uniform(0.02, 0.12))
		g.nineTail(h, w)
		return
	}
	g.to(w-open, mid-0.1+0.04*h.normal())
	g.to(w*0.6-open, -0.48)
	g.to(-w*0.4, -0.48)
	g.to(-w, mid)
	g.to(-w*0.5, low-0.02)
	g.to(w*0.4, low-0.06)
	g.to(w*0.95, mid)
	if h.chance(0.6) {
		g.turn(w+0.01, -0.46+h.uniform(0, 0.14))
	}
	g.nineTail(h, w)
}

// nineTail ends a 9 with a straight stem or a hook.
func (g *glyph) nineTail(h *hand, w float64) {
	if h.chance(0.3) {
		g.to(w-0.01, 0.1)
		g.to(w*0.6, 0.4)
		g.to(-0.06, 0.5)
		g.to(-0.26, h.uniform(0.34, 0.46))
	} else {
		g.to(w-0.02, 0.06)
		g.to(w-h.uniform(0.02, 0.2), 0.5)
	}
	g.lift()
}
