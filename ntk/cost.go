package ntk

// The ways to form a block of the kernel are compared by their cost in
// multiply-adds of a matrix product. What runs outside of one is counted as so
// many multiply-adds a number, measured on amd64 with AVX-512; elsewhere the
// choice may be a little off, the result not.
const (
	hadamardCost = 25 // multiply two products and add
	fillCost     = 30 // write one number of a column
	dotCost      = 10 // one term of a scalar product
)

// extent is the size of a block of the kernel: examples and outputs of a and
// of b, and whether they are the same.
type extent struct {
	na, nb, ca, cb int
	same           bool
}

// pairs returns the number of pairs of examples.
func (x extent) pairs() float64 { return float64(x.na) * float64(x.nb) }

// entries returns the number of entries of the block; that one triangle may
// do is the same for every way.
func (x extent) entries() float64 { return x.pairs() * float64(x.ca) * float64(x.cb) }

// rows returns the number of rows of the Jacobian on both sides, or on the one
// that is both.
func (x extent) rows() float64 {
	if x.same {
		return float64(x.na) * float64(x.ca)
	}
	return float64(x.na)*float64(x.ca) + float64(x.nb)*float64(x.cb)
}

// columnsCost is that of a product of columns that are copied or as cheap to
// make as a copy.
func columnsCost(width int, x extent) float64 {
	return float64(width) * (x.entries() + fillCost*x.rows())
}

// outerCost is that of (A Aᵀ ⊗ 1) ∘ G Gᵀ.
func outerCost(in, out int, x extent) float64 {
	return float64(in)*x.pairs() + float64(out+hadamardCost)*x.entries()
}

// perOutputCost is that of forming Σ_p σ²_op a_p a'_p for every o and summing
// over o.
func perOutputCost(in, out int, x extent) float64 {
	return float64(in)*float64(out+fillCost)*x.pairs() + float64(out)*dotCost*x.entries()
}

// factors is the size of a weight used at t positions: groups of m×k.
type factors struct{ groups, t, k, m int }

// convColumnsCost is that of forming Σ_t g_t p_tᵀ and multiplying those.
func convColumnsCost(f factors, x extent) float64 {
	return columnsCost(f.groups*f.k*f.m, x) + formingCost(f, x)
}

// formingCost is that of Σ_t g_t p_tᵀ for every row of the Jacobian.
func formingCost(f factors, x extent) float64 {
	return float64(f.groups) * float64(f.k) * float64(f.m) * float64(f.t) * x.rows()
}

// contractionCost is that of Σ_tt' (g_t·g_t')(p_t·p_t').
func contractionCost(f factors, x extent) float64 {
	tt := float64(f.groups) * float64(f.t) * float64(f.t)
	return tt * (float64(f.k)*x.pairs() + float64(f.m+dotCost)*x.entries())
}
