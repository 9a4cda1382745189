// Package vector does simple things to many numbers, several at a time where the
// processor can: tanh of every element, and copies with strides.
package vector
