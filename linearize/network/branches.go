package network

import (
	"errors"
	"fmt"

	"github.com/funcgp/funcgp/linearize/network/head"
	"github.com/funcgp/funcgp/linearize/network/internal/compile"
	"github.com/funcgp/funcgp/linearize/network/internal/rewrite"
)

// mostRounds bounds the nodes If of which one decides on the condition of the next.
const mostRounds = 256

// decided returns the model with the branches that nodes If take in their place. Their
// conditions must be known without running the network.
func decided(r *rewrite.Rewritten) (*rewrite.Rewritten, error) {
	for range mostRounds {
		if !r.Conditional() {
			return r, nil
		}
		_, err := compile.Compile(r.Model, compile.Options{Head: head.Keep, Number: r.Number})
		e := (*compile.ConditionsError)(nil)
		if !errors.As(err, &e) {
			return r, nil // another error comes again
		}
		if r, err = r.Branches(e.Conditions); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("more than %d nodes If decide on one another; export the model with the branches that are meant", mostRounds)
}
