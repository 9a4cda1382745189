package cg_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/linearize"
)

// unreadable examples fail to load.
type unreadable struct {
	linearize.Source
	err error
}

func (u unreadable) Batches(context.Context, func(int, *linearize.Batch) error) error { return u.err }

// Where the examples fail to load, that is the only thing an error says.
func TestSourceOfUnreadableExamples(t *testing.T) {
	q := newProblem("bernoulli", 3, 20, 1, glm.Bernoulli{}, 1)
	disk := errors.New("disk on fire")
	data := unreadable{q.Train, disk}
	_, err := cg.Fit(t.Context(), q.Kernel, data, q.Sites(t), nil)
	require.Equal(t, disk, err)
	_, err = cg.Refit(t.Context(), q.Kernel, data, q.Y, q.Likelihood, nil)
	require.Equal(t, disk, err)
	_, err = cg.Fit(t.Context(), q.Kernel, unreadable{q.Train, nil}, q.Sites(t), nil)
	require.EqualError(t, err, "gp: there are no training examples")
}
