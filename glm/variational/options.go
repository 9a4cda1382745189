package variational

import (
	"cmp"
	"fmt"

	"github.com/funcgp/funcgp/internal/lattice"
	"github.com/funcgp/funcgp/linearize"
)

// StageRefine is the stage of Options.Progress: it counts iterations of a refinement,
// whose total is not known.
const StageRefine = "refine"

// A Solver is the matrix from which a refinement computes means and covariances. The results are the same.
type Solver int

// The solvers.
const (
	Smaller    Solver = iota // Rows or Parameters, whichever matrix is smaller
	Rows                     // B of the training examples, N·C×N·C (package gp)
	Parameters               // the precision of the parameters, P×P (package weightspace)
)

// Options are the options of a refinement. Nil and zero mean the defaults.
type Options struct {
	Solver Solver
	// Tolerance ends the iteration: no site is further than this from its condition, in
	// units of the posterior standard deviation. 0 means 1e-10.
	Tolerance float64
	// MaxIter bounds the iterations; 0 means 500.
	MaxIter int
	// Points is the number of points of quasi–Monte Carlo, which integrates a softmax of
	// more than two classes where a trapezoid has more than eight times as many nodes.
	// 0 means 4,096, and at most 65,536 are allowed.
	Points int
	linearize.Limits
}

func (o *Options) withDefaults() (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	if !(d.Tolerance >= 0) || d.MaxIter < 0 || d.Points < 0 || d.Points > lattice.Points || d.Solver < Smaller || d.Solver > Parameters {
		return d, fmt.Errorf("variational: a tolerance of %v, %d iterations, %d points and solver %d; a number is not negative, and at most %d points are allowed",
			d.Tolerance, d.MaxIter, d.Points, d.Solver, lattice.Points)
	}
	d.Tolerance, d.MaxIter, d.Points = cmp.Or(d.Tolerance, 1e-10), cmp.Or(d.MaxIter, 500), cmp.Or(d.Points, 4096)
	return d, nil
}
