// Package digits draws synthetic handwritten digits. Each class has several variants of strokes,
// which are moved by random affine maps and elastic jitter and drawn with a soft pen.
package digits

import (
	"math"
	"math/rand/v2"
	"sync"
)

// The side of an image in pixels, and of the box into which the glyph is fitted.
const (
	Side  = 28
	inner = 20
)

// Labels returns n labels: every block of a hundred rows holds ten of each digit in random order. Those
// of the rows of a part depend on (seed, part, row) alone.
func Labels(seed, part uint64, n int) []int {
	const block = 100
	labels := make([]int, (n+block-1)/block*block)
	for b := 0; b < n; b += block {
		h := newHand(seed, part+2, uint64(b/block))
		l := labels[b : b+block]
		for i := range l {
			l[i] = i % 10
		}
		for i := block - 1; i > 0; i-- {
			j := int(h.uniform(0, float64(i+1)))
			l[i], l[j] = l[j], l[i]
		}
	}
	return labels[:n]
}

// pens holds pens for reuse.
var pens = sync.Pool{New: func() any { return new(pen) }}

// DrawTo writes a digit of the class into dst, one byte for each of Side·Side pixels. It depends on
// (seed, part, row) and the class alone, and is safe for concurrent use.
func DrawTo(dst []byte, seed, part, row uint64, class int) {
	h := newHand(seed, part, row)
	p := pens.Get().(*pen)
	p.drawTo(dst, class, &h)
	pens.Put(p)
}

// hand is the random source of one digit. It uses only the words of PCG, so that
// digits do not change if the samplers of math/rand do.
type hand struct{ pcg rand.PCG }

// newHand returns the random source of a row, given by (seed, part, row) alone.
func newHand(seed, part, row uint64) hand {
	var h hand
	h.pcg.Seed(mix(seed^mix(part)), mix(row+mix(seed)))
	return h
}

// mix is the finalizer of splitmix64: it separates neighbouring seeds.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// uniform draws from [lo, hi).
func (h *hand) uniform(lo, hi float64) float64 {
	u := float64(h.pcg.Uint64()>>11) / (1 << 53)
	return lo + float64((hi-lo)*u)
}

// normal draws a standard deviate as a sum of four 16-bit uniforms: variance
// one, and bounded by 3.5, so that no digit is torn apart.
func (h *hand) normal() float64 {
	w := h.pcg.Uint64()
	sum := w&0xffff + w>>16&0xffff + w>>32&0xffff + w>>48
	return (float64(sum)/65536 - 2) * math.Sqrt(3)
}

// chance is true with probability p.
func (h *hand) chance(p float64) bool { return h.uniform(0, 1) < p }

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
	g.knots, g.strokes = g.knots[:0], g.strokes[:0]
	switch d {
	case 0:
		rx := h.uniform(0.2, 0.38)
		g.arc(0, 0, rx, 0.5, h.uniform(-140, -60), -h.uniform(345, 390), h.uniform(0.88, 1.1), 9)
		g.lift()
	case 1:
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
	case 2:
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
	case 3:
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
	case 4:
		switch k := h.uniform(0, 1); {
		case k < 0.45: // a bent arm and a stem, with a gap at the top that may almost close
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
		case k < 0.65: // printed: one triangle and a stem through it
			bar := h.uniform(0.02, 0.2)
			stem := h.uniform(0.04, 0.16)
			g.to(stem+h.uniform(-0.04, 0.02), -0.5)
			g.turn(-h.uniform(0.24, 0.36), bar)
			g.to(stem+h.uniform(0.08, 0.24), bar+0.04*h.normal())
			g.lift()
			g.to(stem, -0.5+h.uniform(0, 0.12))
			g.to(stem+0.03*h.normal(), 0.5)
			g.lift()
		default: // one line: down, round to the right and up, then the stem
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
	case 5:
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
	case 6:
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
	case 7:
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
	case 8:
		t, b := h.uniform(0.13, 0.22), h.uniform(0.18, 0.28)
		w := h.uniform(-0.1, 0.02) // height of the waist
		if h.chance(0.25) {        // two rings
			a := h.uniform(-120, -60)
			g.arc(0, (w-0.5)/2, t+0.02, (w+0.5)/2, a, -h.uniform(345, 375), 1, 8)
			g.lift()
			g.arc(0.02*h.normal(), (w+0.5)/2, b, (0.5-w)/2, a, h.uniform(345, 375), 1, 8)
			g.lift()
			break
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
	case 9:
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
		} else {
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
		}
		if h.chance(0.3) { // a hook
			g.to(w-0.01, 0.1)
			g.to(w*0.6, 0.4)
			g.to(-0.06, 0.5)
			g.to(-0.26, h.uniform(0.34, 0.46))
		} else { // a straight stem
			g.to(w-0.02, 0.06)
			g.to(w-h.uniform(0.02, 0.2), 0.5)
		}
		g.lift()
	}
}

// pen draws glyphs on a canvas of 28×28 pixels. It is for one goroutine at a
// time.
type pen struct {
	g      glyph
	line   []dot // flattened strokes
	ends   []int // end of each stroke in line
	canvas [Side * Side]float64
	spare  [Side * Side]float64
}

// dot is a point of a stroke: glyph units until fit, pixels after.
type dot struct{ x, y, r float64 }

// drawTo writes one digit of the given class into dst, Side·Side bytes.
func (p *pen) drawTo(dst []byte, class int, h *hand) {
	p.g.write(class, h)
	p.strokes(h)
	clear(p.canvas[:])
	soft := h.uniform(0.8, 1.4)
	first := 0
	for _, end := range p.ends {
		for i := first; i+1 < end; i++ {
			// Ink the pixels near the line from a to b. Coverage falls from one to zero over soft pixels around
			// the pen's radius; strokes do not add up.
			a := p.line[i]
			b := p.line[i+1]
			reach := max(a.r, b.r) + soft/2
			x0 := max(0, int(min(a.x, b.x)-reach))
			x1 := min(Side-1, int(max(a.x, b.x)+reach))
			y0 := max(0, int(min(a.y, b.y)-reach))
			y1 := min(Side-1, int(max(a.y, b.y)+reach))
			dx, dy := b.x-a.x, b.y-a.y
			inv := 0.0
			if l := dx*dx + dy*dy; l > 0 {
				inv = 1 / l
			}
			far := reach * reach
			for y := y0; y <= y1; y++ {
				py := float64(y) + 0.5 - a.y
				row := p.canvas[y*Side : (y+1)*Side]
				for x := x0; x <= x1; x++ {
					if row[x] == 1 { // full of ink
						continue
					}
					px := float64(x) + 0.5 - a.x
					t := min(max((px*dx+py*dy)*inv, 0), 1)
					ex, ey := px-t*dx, py-t*dy
					e2 := ex*ex + ey*ey
					if e2 >= far {
						continue
					}
					r := a.r + t*(b.r-a.r)
					v := min(0.5+(r-math.Sqrt(e2))/soft, 1)
					row[x] = max(row[x], v)
				}
			}
		}
		first = end
	}
	// Every pixel is mixed with its neighbours: weights b, 1-2b, b both ways.
	b := h.uniform(0.02, 0.14)
	blurLines(&p.spare, &p.canvas, b, 1, Side)
	blurLines(&p.canvas, &p.spare, b, Side, 1)
	// Coverage becomes grey levels, with grain where there is ink.
	gain := h.uniform(0.97, 1.15)
	grain := h.uniform(0, 0.06)
	for i, v := range p.canvas {
		if v < 0.02 {
			dst[i] = 0
			continue
		}
		v *= gain * (1 + grain*h.normal())
		dst[i] = byte(255*min(max(v, 0), 1) + 0.5)
	}
}

// strokes turns the knots of the glyph into lines on the canvas with a radius at every point: knots
// are moved, joined by smooth curves, and these bent, slanted, turned and placed.
func (p *pen) strokes(h *hand) {
	// Every knot moves a little, so that no two digits are equal.
	sd := h.uniform(0.008, 0.034)
	if h.chance(0.2) { // written in haste
		sd *= 1.6
	}
	for i := range p.g.knots {
		k := &p.g.knots[i]
		k.x += sd * h.normal()
		k.y += sd * h.normal()
	}

	// Catmull-Rom curves go through the knots of a stroke; where a neighbour is missing, or a knot
	// is a corner, it is the other neighbour mirrored.
	p.line, p.ends = p.line[:0], p.ends[:0]
	first := 0
	for _, end := range p.g.strokes {
		k := p.g.knots[first:end]
		for i := 0; i+1 < len(k); i++ {
			b, c := k[i], k[i+1]
			a, d := reflect(c, b), reflect(b, c)
			if i > 0 && !k[i].corner {
				a = k[i-1]
			}
			if i+2 < len(k) && !k[i+1].corner {
				d = k[i+2]
			}
			for s := range steps {
				t := float64(s) / steps
				wa := t * (-1 + t*(2-t)) / 2
				wb := (2 + t*t*(-5+3*t)) / 2
				wc := t * (1 + t*(4-3*t)) / 2
				wd := t * t * (t - 1) / 2
				p.line = append(p.line, dot{
					x: wa*a.x + wb*b.x + wc*c.x + wd*d.x,
					y: wa*a.y + wb*b.y + wc*c.y + wd*d.y,
				})
			}
		}
		p.line = append(p.line, dot{x: k[len(k)-1].x, y: k[len(k)-1].y})
		p.ends = append(p.ends, len(p.line))
		first = end
	}

	// The elastic jitter is a smooth displacement of two plane waves.
	amp := h.uniform(0, 0.035)
	for range 2 {
		kx, ky := h.uniform(-5, 5), h.uniform(-5, 5)
		phase, angle := h.uniform(0, 2*math.Pi), h.uniform(0, 2*math.Pi)
		dy, dx := math.Sincos(angle)
		for i := range p.line {
			d := &p.line[i]
			s := amp * math.Sin(kx*d.x+ky*d.y+phase)
			d.x += s * dx
			d.y += s * dy
		}
	}

	// Slant, rotation and aspect; then the digit is placed on the canvas.
	sin, cos := math.Sincos(0.11 * h.normal())
	shear := 0.12 + 0.17*h.normal()
	wide := math.Exp(0.1 + 0.13*h.normal())
	x0, y0 := math.Inf(1), math.Inf(1)
	x1, y1 := math.Inf(-1), math.Inf(-1)
	for i := range p.line {
		d := &p.line[i]
		x, y := wide*d.x-shear*d.y, d.y
		d.x, d.y = cos*x-sin*y, sin*x+cos*y
		x0, x1 = min(x0, d.x), max(x1, d.x)
		y0, y1 = min(y0, d.y), max(y1, d.y)
	}
	scale := h.uniform(0.82, 1) * inner / max(x1-x0, y1-y0)
	cx := Side/2 - scale*(x0+x1)/2 + 0.9*h.normal()
	cy := Side/2 - scale*(y0+y1)/2 + 0.7*h.normal()
	for i := range p.line {
		p.line[i].x = cx + scale*p.line[i].x
		p.line[i].y = cy + scale*p.line[i].y
	}

	// The radius is a base width, a slow change of pressure, and lighter ends.
	base := max(0.55, 1.15+0.32*h.normal())
	swing := h.uniform(0, 0.22)
	first = 0
	for _, end := range p.ends {
		phase, freq := h.uniform(0, 2*math.Pi), h.uniform(2, 7)
		taper := h.uniform(0, 0.4)
		for i := first; i < end; i++ {
			t := float64(i-first) / float64(end-first-1)
			edge := max(0, 1-8*min(t, 1-t))
			p.line[i].r = base * (1 + swing*math.Sin(phase+freq*t)) * (1 - taper*edge)
		}
		first = end
	}
}

// steps is the number of line segments between two knots.
const steps = 5

// reflect mirrors a in b: the missing neighbour at the end of a curve.
func reflect(a, b knot) knot { return knot{x: 2*b.x - a.x, y: 2*b.y - a.y} }

// blurLines mixes the pixels of each line with their neighbours.
func blurLines(dst, src *[Side * Side]float64, b float64, step, stride int) {
	for l := range Side {
		last, here := 0.0, src[l*stride]
		for i := range Side {
			next := 0.0
			if i+1 < Side {
				next = src[l*stride+(i+1)*step]
			}
			dst[l*stride+i*step] = here + b*(last-2*here+next)
			last, here = here, next
		}
	}
}
