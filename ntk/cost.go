package ntk

// The methods that form a block of the kernel are compared by their cost in
// multiply-adds of a matrix product. Other work counts as the following numbers of
// multiply-adds, measured on amd64 with AVX-512. Elsewhere the choice may be
// slightly slower, but the result is right.
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

// entries returns the number of entries of the block. It ignores that one triangle
// of a symmetric block is enough, which is so for every method.
func (x extent) entries() float64 { return x.pairs() * float64(x.ca) * float64(x.cb) }

// rows returns the number of rows of the Jacobians of a and b, which count once
// where a is b.
func (x extent) rows() float64 {
	if x.same {
		return float64(x.na) * float64(x.ca)
	}
	return float64(x.na)*float64(x.ca) + float64(x.nb)*float64(x.cb)
}

// columnsCost is the cost of a product of columns that take no longer to form than
// to copy.
func columnsCost(width int, x extent) float64 {
	return float64(width) * (x.entries() + fillCost*x.rows())
}

// factors holds the sizes of a weight used at t positions, in groups of m×k.
type factors struct{ groups, t, k, m int }

// formingCost is the cost of Σ_t g_t p_tᵀ for every row of the Jacobian.
func formingCost(f factors, x extent) float64 {
	return float64(f.groups) * float64(f.k) * float64(f.m) * float64(f.t) * x.rows()
}
