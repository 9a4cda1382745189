//go:build !amd64 || !gc || noasm

package vector

const fast = false

func tanh(_, _ *float64, _ int) {}

func copyRows(_ *float64, _ int, _ *float64, _, _, _, _ int) {}
