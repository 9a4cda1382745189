package inference

import (
	"errors"
	"fmt"
	"sort"
	"strconv"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

// planPosterior refuses what cannot fit before anything large is taken: flags
// with their defaults, and the rows that choose the prior precision, if any. What
// conjugate gradients do with more than they need, they plan themselves.
func planPosterior(c *job.Job, p *problem.Problem, f *Flags, heldOut *dataset.Subset) error {
	err := planMethod(c, p, f, heldOut)
	if e := (*gp.MemoryError)(nil); errors.As(err, &e) && p.ManyClasses() {
		return job.FullErrorf("%s that tells %s classes apart takes %s; leave --outputs out, or give --outputs top:10", e.Op, job.Count(p.Model.Outputs), problem.Takes(e))
	}
	return err
}

// planMethod is planPosterior without the remedy for many classes.
func planMethod(c *job.Job, p *problem.Problem, f *Flags, heldOut *dataset.Subset) error {
	n, memory := p.Examples.Train.Len(), p.Limits.Memory
	switch f.Method {
	case "exact":
		const mib = 1 << 20
		c.Detail("memory: %.1f MiB of %.0f MiB allowed: kernel and factor %.1f MiB, Jacobian %.1f MiB", float64(p.ExactBytes(n))/mib, float64(gp.MemoryBudget(memory))/mib,
			float64(gp.Bytes(n, p.Model.Outputs))/mib, float64(p.Model.Net.BatchBytes(n))/mib)
		return rowsCure(c, p, f, heldOut, gp.CheckMemory("an exact posterior", gp.TrainingExamples, n, memory, p.ExactBytes))
	case "kept", methodAuto:
		return gp.CheckMemory("a posterior of kept rows", gp.TrainingExamples, n, memory, func(n int) int64 {
			return kept.Bytes(n, p.Model.Outputs, p.Model.Parameters(), 1)
		})
	case "cg":
		return rowsCure(c, p, f, heldOut, cg.CheckMemory(n, p.Model.Outputs, p.Model.Parameters(), memory))
	}
	unit := gp.InducingExamples
	if f.takesRows() {
		unit = gp.InducingPairs
	}
	return gp.CheckMemory("a sparse posterior", unit, f.Inducing, memory, sparseBytes(p, f, heldOut))
}

// sparseBytes is the memory of a posterior with m inducing examples, or rows: these count
// as the examples that have as many outputs, and each is linearized alone.
func sparseBytes(p *problem.Problem, f *Flags, heldOut *dataset.Subset) func(m int) int64 {
	n := p.Examples.Train.Len()
	return func(m int) int64 {
		alone := int64(0)
		if f.takesRows() {
			alone = p.Model.Net.BatchBytes(m)
			m = (m + p.Model.Outputs - 1) / p.Model.Outputs
		}
		need := problem.WholeBytes(float64(p.SparseBytes(m, false)) + float64(alone))
		if f.tunesByRefits() && f.Method == "nystrom" {
			// The features of all training rows and a copy of f̂.
			need = problem.WholeBytes(float64(need) + float64(sparse.PreparedBytes(n, m, p.Model.Outputs)))
		}
		if heldOut != nil {
			need = max(need, sparse.PreparedBytes(heldOut.Len(), m, p.Model.Outputs))
		}
		return need
	}
}

// rowsCure adds to the error of a posterior of all training rows that does not fit what
// to do: through as many inducing examples as fit, 2000 outputs at most, by the line to
// type, or with fewer rows. Many classes have a remedy of their own.
func rowsCure(c *job.Job, p *problem.Problem, f *Flags, heldOut *dataset.Subset, err error) error {
	e := (*gp.MemoryError)(nil)
	if !errors.As(err, &e) || p.ManyClasses() {
		return err
	}
	nystrom := *f
	nystrom.Method, nystrom.Inducing = "nystrom", 0
	if nystrom, err = nystrom.withDefaults(p); err != nil {
		return job.Full(err)
	}
	most, need := nystrom.Inducing, sparseBytes(p, &nystrom, heldOut)
	fits := sort.Search(most, func(i int) bool { return need(i+1) > e.Available })
	text := fmt.Sprintf("%s of %s training rows takes %s; ", e.Op, job.Count(p.Examples.Train.Len()), problem.Takes(e))
	if fits == 0 && e.Largest < 1 {
		return job.Full(errors.New(text + "raise --max-memory"))
	}
	if e.Largest > 0 {
		text += fmt.Sprintf("at most %s rows fit; ", job.Count(e.Largest))
	}
	if fits > 0 {
		line := job.With(c.Args, "--method", "nystrom")
		if fits < most {
			line = job.With(line, "--inducing", strconv.Itoa(fits))
		}
		text += fmt.Sprintf("take all rows through inducing examples: %s; or ", job.CommandLine(line))
	}
	if e.Largest > 0 {
		text += fmt.Sprintf("give --train-count %d, or ", e.Largest)
	}
	return job.Full(errors.New(text + "raise --max-memory"))
}

// planLoad refuses what cannot fit before the examples that a saved posterior
// needs are linearized: n of them, with m inducing elements, whose kernel has that many rows.
func planLoad(p *problem.Problem, method string, n, rows, m int) error {
	d, c, _ := p.Model.Net.Dims()
	bytes := p.Model.Net.BatchBytes
	need := 8*float64(rows)*float64(rows) + float64(bytes(m)) + float64(bytes(min(n, linearize.Tile(c))))
	switch method {
	case "exact":
		need = float64(bytes(n)) + 8*float64(n)*float64(d)
	case "cg", "kept":
		return nil // they plan for themselves
	}
	return problem.PlanWhole("a saved posterior", p.Limits.Memory, problem.WholeBytes(need))
}

// planTests refuses n test rows whose Jacobian, which weight space takes at
// once, cannot fit.
func planTests(p *problem.Problem, n int) error {
	return problem.PlanWhole(fmt.Sprintf("the Jacobian of %d test rows", n), p.Limits.Memory, p.Model.Net.BatchBytes(n))
}

// terms is the number of outputs in the cross-kernel of one output with what
// the posterior is built on: its inducing examples or all training rows.
func (q *Posterior) terms(p *problem.Problem) int {
	if problem.IsSparse(q.How.Name) {
		return q.How.inducingOutputs(p.Model.Outputs)
	}
	if dual, ok := q.Dual.(*kept.Posterior); ok {
		return dual.Kept().Len()
	}
	return p.Examples.Train.Len() * p.Model.Outputs
}

// RowsAtOnce is how many test rows are predicted at a time: as many as keep
// their cross-kernel with the training rows, or the inducing ones, near 32
// MiB, since every tile goes through all of them once, and their Jacobian
// within keepBytes.
func (q *Posterior) RowsAtOnce(p *problem.Problem) int {
	if q.bnn != nil {
		return p.Within(4096, p.Model.Net.BatchBytes) // each tile draws all parameters anew
	}
	per := q.terms(p)
	if q.weights != nil {
		per = p.Model.Parameters()
	}
	rows := min(max((4<<20)/(p.Model.Outputs*per), 64), 2048)
	// A bound that is the same on every machine: the tile decides the last bits.
	for rows > 1 && p.Model.Net.BatchBytes(rows) > problem.KeepBytes {
		rows /= 2
	}
	return rows
}
