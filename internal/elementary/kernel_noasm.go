//go:build !amd64 || !gc || noasm

package elementary

const fast = false

func tanh(_, _ *float64, _ int) {}
