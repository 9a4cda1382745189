//go:build (!amd64 && !arm64) || !gc || noasm

package vector

const fast = false

func tanh(_, _ *float64, _ int) {}

func copyRows(_ *float64, _ int, _ *float64, _, _, _, _ int) {}

func relu(_, _ *float64, _ int) {}

func wherePositive(_, _, _ *float64, _ int) {}

func maxPairs(_, _, _ *float64, _ int) {}

func spreadPairs(_, _, _, _, _, _ *float64, _ int) {}

func addRows(_ *float64, _ int, _ *float64, _, _, _ int) {}

func axpy(_ *float64, _ float64, _ *float64, _ int) {}

func dot(_, _ *float64, _ int) float64 { return 0 }

func expAffine(_, _, _, _, _ *float64, _, _, _, _, _, _ int) {}

func deviations(_, _ *float64, _ int, _ float64) (sum, square float64) { return 0, 0 }

func addLargest(_, _, _, _, _ *float64, _ *int, _, _, _ int) {}

func largestPlaces(_ *int, _ *float64, _, _ float64, _, _, _, _ int) {}
