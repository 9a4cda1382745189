package cg_test

import (
	"testing"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
)

// Shared helpers under short names.
var (
	column        = testkit.Column
	vec           = testkit.Vec
	flat          = testkit.Flat
	crossOf       = testkit.CrossOf
	written       = testkit.Written
	contributions = testkit.Contributions
	requireClose  = testkit.RequireClose
	requireNumber = testkit.RequireNumber
)

// A problem is a random problem with posteriors by conjugate gradients.
type problem struct{ *testkit.Problem }

func problems(t *testing.T) []*problem {
	t.Helper()
	var all []*problem
	for _, q := range testkit.Problems(t) {
		all = append(all, &problem{q})
	}
	return all
}

func newProblem(name string, seed uint64, n, c int, lik gp.Likelihood, scale float64) *problem {
	return &problem{testkit.NewProblem(name, seed, n, c, lik, scale)}
}

func newProblemOf(name string, seed uint64, n, c int, lik gp.Likelihood, scale float64, width int) *problem {
	return &problem{testkit.NewProblemOf(name, seed, n, c, lik, scale, width)}
}

// each runs f for every problem.
func each(t *testing.T, f func(t *testing.T, q *problem)) {
	for _, q := range problems(t) {
		t.Run(q.Name, func(t *testing.T) { f(t, q) })
	}
}

// A reference is a trained network with its data.
type reference struct{ *testkit.Reference }

func openReference(t testing.TB, name string) *reference {
	t.Helper()
	return &reference{testkit.OpenReference(t, name)}
}
