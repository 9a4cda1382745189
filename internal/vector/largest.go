package vector

const (
	// LargestNodes is how many nodes AddLargest takes of a table.
	LargestNodes = 32
	// LargestLanes is how many sums AddLargest has for each of the c rows.
	LargestLanes = 8
)

// AddLargest adds products of values in tables. For each run of c places a in at, with
// π_i = Π_k cdf[a_k+i], i < LargestNodes, it adds Σ π_i first[a_j+i] and
// Σ π_i second[a_j+i] to sums[j·LargestLanes:] and squares[j·LargestLanes:], each in
// LargestLanes parts. The tables must have LargestNodes elements from each place on.
func AddLargest(sums, squares, cdf, first, second []float64, at []int, c int) {
	if len(at) == 0 {
		return
	}
	_, _ = sums[c*LargestLanes-1], squares[c*LargestLanes-1]
	for _, a := range at {
		_, _, _ = cdf[a:a+LargestNodes], first[a:a+LargestNodes], second[a:a+LargestNodes]
	}
	if fast {
		addLargest(&sums[0], &squares[0], &cdf[0], &first[0], &second[0], &at[0], c, len(at)/c)
		return
	}
	for ; len(at) >= c; at = at[c:] {
		var product [LargestNodes]float64
		copy(product[:], cdf[at[0]:])
		for _, a := range at[1:c] {
			for i, v := range cdf[a : a+LargestNodes] {
				product[i] *= v
			}
		}
		for j, a := range at[:c] {
			s, q := sums[j*LargestLanes:][:LargestLanes], squares[j*LargestLanes:][:LargestLanes]
			u, v := first[a:a+LargestNodes], second[a:a+LargestNodes]
			for i, p := range product {
				s[i%LargestLanes] += p * u[i]
				q[i%LargestLanes] += p * v[i]
			}
		}
	}
}
