package report

import (
	"fmt"

	"github.com/funcgp/funcgp/explain/result"
)

// certificateFacts are the rows that say most and what the others could change, as a table.
func certificateFacts(k *result.Certificate) []fact {
	if k == nil {
		return nil
	}
	list := []fact{{"Rows kept", result.Count(k.Kept), fmt.Sprintf("hold %.4g %% of tr Λ; a row is a training example with an eigenvector of its Λ", 100*float64(k.Trace))}}
	if k.Dropped == 0 {
		return append(list, fact{"Rows left out", "0", "the posterior is exact"})
	}
	of := result.Short(float64(k.DroppedTrace))
	if k.DroppedTraceError > 0 {
		of += " ± " + result.Short(float64(k.DroppedTraceError))
	}
	return append(list,
		fact{"Rows left out", result.Count(k.Dropped), "the strength of each is at most " + result.Short(float64(k.Threshold)) + ": its λ times its prior variance"},
		fact{"What they could still tell, tr M", of, "λ times the posterior variance, summed over them: 0 where they would change nothing"},
		fact{"of it in one direction, ‖M‖₂", between(k.Norm), "the most"},
		fact{"Variance, at most", fmt.Sprintf("%.4g times", float64(k.VarianceAtMost)), "that of all rows, for any input, and never below it: 1 + ‖M‖₂"},
		fact{"Variance, measured", fmt.Sprintf("%.4g times", float64(k.Ratio)), "at most, for 99 % of the rows asked about"},
		fact{"Log determinant of all rows", between(k.LogDet), "that of the kept rows is below, with the log evidence"},
		fact{"How sure this is", sureness(k), ""},
	)
}

// sureness says whether the intervals are bounds.
func sureness(k *result.Certificate) string {
	switch {
	case k.Sampled:
		return fmt.Sprintf("Estimated: intervals of 95 %%, from a sample of %s of the rows left out. They are no bounds; --certify looks at all of them.", result.Count(k.Rows))
	case k.Failure > 0:
		return fmt.Sprintf("Bounds from all rows left out; the probability that one does not hold is %.1g.", float64(k.Failure))
	}
	return "Exact, from all rows left out."
}

// between shows an interval, or a number where it has no width.
func between(v [2]result.Float) string {
	lo, hi := result.Short(float64(v[0])), result.Short(float64(v[1]))
	if lo == hi {
		return lo
	}
	return lo + " to " + hi
}
