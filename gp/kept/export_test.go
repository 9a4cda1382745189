package kept

import "testing"

// SetFirstMost changes the number of rows with which FindThreshold begins, for one test.
func SetFirstMost(t *testing.T, n int) {
	before := firstMost
	firstMost = n
	t.Cleanup(func() { firstMost = before })
}

// RowBytes is the memory of a row of an example, linearized.
var RowBytes = rowBytes

// SetMostAlone sets how many rows do without representatives, and among how many these are drawn, during a test.
func SetMostAlone(t *testing.T, n, pool, compared int) {
	before := [...]int{mostAlone, poolRows, comparedRows}
	mostAlone, poolRows, comparedRows = n, pool, compared
	t.Cleanup(func() { mostAlone, poolRows, comparedRows = before[0], before[1], before[2] })
}
