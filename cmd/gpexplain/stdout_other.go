//go:build !linux

package main

// stdoutClosed is known on Linux only.
func stdoutClosed() bool { return false }
