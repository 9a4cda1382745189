package network

import (
	"maps"
	"slices"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/head"
)

// A Head is the function that the last nodes of a file apply to f, by one operator or
// written out: a Sigmoid also as 1/(1+exp(−x)), a Softmax as exp(x)/Σexp(x), with or without
// the largest x subtracted, or as [1−p, p] or [p, 1−p] with p by a Sigmoid. Between it and
// the output there may be nodes that only move numbers (Reshape, Flatten, Squeeze,
// Unsqueeze, Cast, Identity), and a Clip to [0, 1] or to bounds that guard a logarithm,
// such as [1e−7, 1−1e−7], which goes with it.
type Head = head.Head

// A HeadFunction is the function of a Head.
type HeadFunction = head.Function

// The functions of heads. The likelihoods of package glm apply some of them to f:
// Bernoulli a Sigmoid, Categorical a Softmax, which gives the same probabilities after a
// LogSoftmax, and Poisson Exp. None applies Softplus.
const (
	NoHead         = head.None
	SigmoidHead    = head.Sigmoid
	SoftmaxHead    = head.Softmax
	LogSoftmaxHead = head.LogSoftmax
	ExpHead        = head.Exp
	SoftplusHead   = head.Softplus
)

// A HeadRule says what becomes of a network's head.
type HeadRule = head.Rule

// The rules for heads.
const (
	AutoHead   = head.Auto   // a Sigmoid, Softmax or LogSoftmax is removed, any other stays
	KeepHead   = head.Keep   // it is part of f
	RemoveHead = head.Remove // f is what it is applied to
)

// Head returns what the file ends with, and whether that was removed.
func (n *Network) Head() Head { return n.head }

// WithHead returns the network with its head removed or kept. θ* and the metadata are
// those of n; the parameters may differ in tensors that scale what the head is applied
// to, which are constants after the last layer. A Softmax over groups of outputs
// (Head.Groups above 1) stays in any case.
func (n *Network) WithHead(rule HeadRule) (*Network, error) {
	if n.head.Removes(rule) == n.head.Removed {
		m := *n
		m.read.Head = rule
		if rule == KeepHead {
			m.warnings = slices.DeleteFunc(n.Warnings(), func(err error) bool { return linearize.WarningOf(err).Code == "head" })
		}
		return &m, nil
	}
	o := n.read
	o.Head = rule
	model, _ := n.withParameters()
	m, err := compiled(model, nil, o, n.inNodes)
	if err != nil {
		return nil, err
	}
	m.metadata, m.double, m.files = maps.Clone(n.metadata), n.double, n.files
	return m, nil
}
