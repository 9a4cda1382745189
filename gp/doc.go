// Package gp is exact Gaussian process inference over the functions of a
// linearized network.
package gp
