package dataset

import "math"

// The side of an image in pixels, and of the box into which the glyph is fitted.
const (
	side  = 28
	inner = 20
)

// pen draws glyphs on a canvas of 28×28 pixels. It is for one goroutine at a
// time.
type pen struct {
	g      glyph
	line   []dot // flattened strokes
	ends   []int // end of each stroke in line
	canvas [side * side]float64
	spare  [side * side]float64
}

// dot is a point of a stroke: glyph units until fit, pixels after.
type dot struct{ x, y, r float64 }

// drawTo writes one digit of the given class into dst, side·side bytes.
func (p *pen) drawTo(dst []byte, class int, h *hand) {
	p.g.write(class, h)
	p.wobble(h)
	p.flatten()
	p.bend(h)
	p.fit(h)
	p.press(h)
	clear(p.canvas[:])
	soft := h.uniform(0.8, 1.4)
	first := 0
	for _, end := range p.ends {
		for i := first; i+1 < end; i++ {
			p.segment(p.line[i], p.line[i+1], soft)
		}
		first = end
	}
	p.blur(h.uniform(0.02, 0.14))
	p.inkTo(dst, h)
}

// wobble moves every knot a little, so that no two digits are equal.
func (p *pen) wobble(h *hand) {
	sd := h.uniform(0.008, 0.034)
	if h.chance(0.2) { // written in haste
		sd *= 1.6
	}
	for i := range p.g.knots {
		k := &p.g.knots[i]
		k.x += sd * h.normal()
		k.y += sd * h.normal()
	}
}

// steps is the number of line segments between two knots.
const steps = 5

// flatten turns the knots into points of Catmull-Rom curves.
func (p *pen) flatten() {
	p.line, p.ends = p.line[:0], p.ends[:0]
	first := 0
	for _, end := range p.g.strokes {
		k := p.g.knots[first:end]
		for i := 0; i+1 < len(k); i++ {
			before, after := reflect(k[i+1], k[i]), reflect(k[i], k[i+1])
			if i > 0 && !k[i].corner {
				before = k[i-1]
			}
			if i+2 < len(k) && !k[i+1].corner {
				after = k[i+2]
			}
			p.span(before, k[i], k[i+1], after)
		}
		p.line = append(p.line, dot{x: k[len(k)-1].x, y: k[len(k)-1].y})
		p.ends = append(p.ends, len(p.line))
		first = end
	}
}

// reflect mirrors a in b: the missing neighbour at the end of a curve.
func reflect(a, b knot) knot { return knot{x: 2*b.x - a.x, y: 2*b.y - a.y} }

// span adds the curve from b to c, without its last point.
func (p *pen) span(a, b, c, d knot) {
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

// bend is the elastic jitter: a smooth displacement of two plane waves.
func (p *pen) bend(h *hand) {
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
}

// fit applies slant, rotation and aspect, and places the digit on the canvas.
func (p *pen) fit(h *hand) {
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
	cx := side/2 - scale*(x0+x1)/2 + 0.9*h.normal()
	cy := side/2 - scale*(y0+y1)/2 + 0.7*h.normal()
	for i := range p.line {
		p.line[i].x = cx + scale*p.line[i].x
		p.line[i].y = cy + scale*p.line[i].y
	}
}

// press sets the pen's radius along every stroke: a base width, a slow change
// of pressure, and lighter ends.
func (p *pen) press(h *hand) {
	base := max(0.55, 1.15+0.32*h.normal())
	swing := h.uniform(0, 0.22)
	first := 0
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

// segment inks the pixels near the line from a to b. Coverage falls from one
// to zero over soft pixels around the pen's radius; strokes do not add up.
func (p *pen) segment(a, b dot, soft float64) {
	reach := max(a.r, b.r) + soft/2
	x0 := max(0, int(min(a.x, b.x)-reach))
	x1 := min(side-1, int(max(a.x, b.x)+reach))
	y0 := max(0, int(min(a.y, b.y)-reach))
	y1 := min(side-1, int(max(a.y, b.y)+reach))
	dx, dy := b.x-a.x, b.y-a.y
	inv := 0.0
	if l := dx*dx + dy*dy; l > 0 {
		inv = 1 / l
	}
	for y := y0; y <= y1; y++ {
		py := float64(y) + 0.5 - a.y
		row := p.canvas[y*side : (y+1)*side]
		for x := x0; x <= x1; x++ {
			px := float64(x) + 0.5 - a.x
			t := min(max((px*dx+py*dy)*inv, 0), 1)
			ex, ey := px-t*dx, py-t*dy
			e2 := ex*ex + ey*ey
			if e2 >= reach*reach {
				continue
			}
			r := a.r + t*(b.r-a.r)
			v := min(0.5+(r-math.Sqrt(e2))/soft, 1)
			row[x] = max(row[x], v)
		}
	}
}

// blur mixes every pixel with its neighbours: weights b, 1-2b, b both ways.
func (p *pen) blur(b float64) {
	blurLines(&p.spare, &p.canvas, b, 1, side)
	blurLines(&p.canvas, &p.spare, b, side, 1)
}

func blurLines(dst, src *[side * side]float64, b float64, step, stride int) {
	for l := range side {
		last, here := 0.0, src[l*stride]
		for i := range side {
			next := 0.0
			if i+1 < side {
				next = src[l*stride+(i+1)*step]
			}
			dst[l*stride+i*step] = here + b*(last-2*here+next)
			last, here = here, next
		}
	}
}

// inkTo turns coverage into grey levels, with grain where there is ink.
func (p *pen) inkTo(dst []byte, h *hand) {
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
