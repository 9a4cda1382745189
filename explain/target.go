package explain

import "fmt"

// A Target is what is explained: one output, or the difference of two. The zero
// Target is output 0.
type Target struct {
	Plus  int // output that counts positively
	minus int // 1 + the output that is subtracted; 0 for none
}

// Single is the target f_c.
func Single(c int) Target { return Target{Plus: c} }

// Contrast is the target f_a − f_b: why a rather than b.
func Contrast(a, b int) Target { return Target{Plus: a, minus: 1 + b} }

// Minus returns the output that is subtracted, −1 for none.
func (t Target) Minus() int { return t.minus - 1 }

// IsContrast reports whether two outputs are involved.
func (t Target) IsContrast() bool { return t.minus > 0 }

// valid returns an error unless t is a target of a model with so many outputs.
func (t Target) valid(outputs int) error {
	for _, c := range []int{t.Plus, t.Minus()} {
		if c >= outputs || c < -1 {
			return fmt.Errorf("explain: there is no output %d: the model has outputs 0 to %d", c, outputs-1)
		}
	}
	if t.Plus < 0 {
		return fmt.Errorf("explain: a target needs an output that counts positively")
	}
	if t.Plus == t.Minus() {
		return fmt.Errorf("explain: the contrast of output %d with itself is zero; choose two outputs", t.Plus)
	}
	return nil
}

// Of returns wᵀv, where w are the weights of the target and v has an entry for each output.
func (t Target) Of(v []float64) float64 { return t.weigh(func(c int) float64 { return v[c] }) }

// weigh returns wᵀv, where v(c) is element c of v.
func (t Target) weigh(v func(c int) float64) float64 {
	if !t.IsContrast() {
		return v(t.Plus)
	}
	return v(t.Plus) - v(t.Minus())
}

// quadratic returns wᵀ a w for a C×C row-major matrix a.
func (t Target) quadratic(a []float64, outputs int) float64 {
	p := a[t.Plus*outputs+t.Plus]
	if !t.IsContrast() {
		return p
	}
	pm, mp := a[t.Plus*outputs+t.Minus()], a[t.Minus()*outputs+t.Plus]
	return p - pm - mp + a[t.Minus()*outputs+t.Minus()]
}

// rowTo writes wᵀ a to dst, where row(c) is row c of a.
func (t Target) rowTo(dst []float64, row func(c int) []float64) {
	copy(dst, row(t.Plus))
	if !t.IsContrast() {
		return
	}
	for i, v := range row(t.Minus()) {
		dst[i] -= v
	}
}
