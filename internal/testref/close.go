package testref

import (
	"math"
	"testing"
)

// RequireClose fails the test when an entry of got differs from want by more
// than rel times the largest absolute entry of want, and names the worst one.
// NaN or Inf on either side is a difference, and so is another length.
func RequireClose(t testing.TB, got, want []float64, rel float64, what string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d entries, want %d", what, len(got), len(want))
	}
	scale, worst, at := 0.0, -1.0, 0
	for i, w := range want {
		scale = math.Max(scale, math.Abs(w))
		// max |got − want|; what is not finite counts as the worst of all.
		d := math.Abs(got[i] - w)
		if math.IsNaN(d) {
			d = math.Inf(1)
		}
		if d > worst {
			worst, at = d, i
		}
	}
	if len(want) > 0 && !(worst <= rel*scale) || math.IsInf(worst, 1) {
		t.Fatalf("%s: entry %d is %v, want %v: off by %.3g of the largest entry %.6g, tolerance %.3g",
			what, at, got[at], want[at], worst/scale, scale, rel)
	}
}
