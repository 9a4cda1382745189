// Package archtest holds tests about the code itself: which package may import
// which, formatting, what messages look like, and that the README's code is
// the code that compiles.
package archtest
