package testref

import (
	"runtime"
	"testing"
)

// Procs sets GOMAXPROCS, the number of goroutines that share a computation, to n until the test ends. Tests that call
// it must not be parallel.
func Procs(t testing.TB, n int) {
	old := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(old) })
}
