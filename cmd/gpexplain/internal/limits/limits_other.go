//go:build !linux

// Package limits does nothing where limits are not known.
package limits
