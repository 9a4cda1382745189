package explain

import "math"

// A sum adds numbers in the order given and keeps track of the rounding error
// (Neumaier's method). Σ κα is then accurate although its terms cancel 88 to 1.
type sum struct{ s, c float64 }

func (a *sum) add(v float64) {
	t := a.s + v
	if math.Abs(a.s) >= math.Abs(v) {
		a.c += (a.s - t) + v
	} else {
		a.c += (v - t) + a.s
	}
	a.s = t
}

func (a *sum) value() float64 { return a.s + a.c }
