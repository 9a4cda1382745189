package inference

import (
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
)

// An Open posterior is what is behind a *funcgp.Posterior.
type Open struct {
	Job       *job.Job
	Problem   *problem.Problem
	Posterior *Posterior
	Begin     func() (end func(), err error) // keeps it open until end is called; an error where it is closed
}

// Front returns the *funcgp.Posterior of a problem and its posterior, which closes the job in the end, and Behind leads back.
// Package funcgp sets both: they let packages above it serve what it and the command opened.
var (
	Front  func(c *job.Job, p *problem.Problem, q *Posterior) any
	Behind func(front any) Open
)
