// Package vector does simple operations on many numbers, several at a time where the processor can: activations and
// their gradients, maxima of neighbours, sums, and copies with strides.
package vector
