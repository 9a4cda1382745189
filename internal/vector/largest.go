package vector

const (
	// LargestNodes is the number of nodes of a table that AddLargest adds up.
	LargestNodes = 32
	// LargestLanes is the number of partial sums of AddLargest for each of the c rows.
	LargestLanes = 8
	// LargestPhases is the number of rows of a table for LargestPlaces.
	LargestPhases = 64
)

// LargestPlaces writes the positions at which AddLargest reads tables of LargestPhases rows with columns numbers
// each. l has c rows of n values, ld apart. For value k of row i, let u be its distance below the largest value k
// of all rows, times scale, rounded, and at most last. Then at[i·ld+k] is the position of row u%LargestPhases,
// column u/LargestPhases. last must be below 2³¹.
func LargestPlaces(at []int, l []float64, scale float64, last, columns, c, ld, n int) {
	if c <= 0 || n <= 0 {
		return
	}
	at, l = at[:(c-1)*ld+n], l[:(c-1)*ld+n]
	k := 0
	if whole := n &^ (LargestLanes - 1); fast && whole > 0 {
		largestPlaces(&at[0], &l[0], scale, float64(last), columns, c, ld, whole)
		k = whole
	}
	for ; k < n; k++ {
		top := l[k]
		for i := k; i < len(l); i += ld {
			if l[i] > top {
				top = l[i]
			}
		}
		for i := k; i < len(l); i += ld {
			u := int(min((top-l[i])*scale+.5, float64(last)))
			at[i] = u%LargestPhases*columns + u/LargestPhases
		}
	}
}

// AddLargest adds products of values in tables. For each k < n, with the positions a_j = at[j·ld+k] and π_i = Π_j
// cdf[a_j+i], i < LargestNodes, it adds Σ_i π_i first[a_j+i] to sums[j·LargestLanes:] and Σ_i π_i second[a_j+i] to
// squares[j·LargestLanes:], for j < c. Each sum is in LargestLanes parts. The tables must have LargestNodes
// elements from each position on.
func AddLargest(sums, squares, cdf, first, second []float64, at []int, c, ld, n int) {
	if c <= 0 || n <= 0 {
		return
	}
	sums, squares, at = sums[:c*LargestLanes], squares[:c*LargestLanes], at[:(c-1)*ld+n]
	places := min(len(cdf), len(first), len(second)) - LargestNodes + 1
	for j := range c {
		for _, a := range at[j*ld : j*ld+n] {
			if a < 0 || a >= places {
				panic("vector: place outside a table")
			}
		}
	}
	if fast {
		addLargest(&sums[0], &squares[0], &cdf[0], &first[0], &second[0], &at[0], c, ld, n)
		return
	}
	for k := range n {
		var product [LargestNodes]float64
		copy(product[:], cdf[at[k]:])
		for j := 1; j < c; j++ {
			a := at[j*ld+k]
			for i, v := range cdf[a : a+LargestNodes] {
				product[i] *= v
			}
		}
		for j := range c {
			a := at[j*ld+k]
			s, q := sums[j*LargestLanes:][:LargestLanes], squares[j*LargestLanes:][:LargestLanes]
			u, v := first[a:a+LargestNodes], second[a:a+LargestNodes]
			for i, p := range product {
				s[i%LargestLanes] += p * u[i]
				q[i%LargestLanes] += p * v[i]
			}
		}
	}
}
