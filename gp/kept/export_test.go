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
