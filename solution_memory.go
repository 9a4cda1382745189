package funcgp

import (
	"errors"
	"sort"
	"strconv"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/sparse"
)

// planInducing returns an error if the inducing examples, or rows, do not fit in memory.
func planInducing(_ *job.Job, p *problem, o *FitOptions, heldOut *dataset.Rows) error {
	unit := gp.InducingExamples
	if o.Method.takesRows() {
		unit = gp.InducingPairs
	}
	return gp.CheckMemory("a sparse posterior", unit, o.Method.Inducing, p.Memory, sparseBytes(p, o, heldOut))
}

// sparseBytes is the memory of a posterior with m inducing examples, or rows: these count as the examples that have as
// many outputs, and each is linearized alone.
func sparseBytes(p *problem, o *FitOptions, heldOut *dataset.Rows) func(m int) int64 {
	n := p.Examples.Train.Len()
	return func(m int) int64 {
		alone := int64(0)
		if o.Method.takesRows() {
			alone = p.Model.Net.BatchBytes(m)
			m = (m + p.Model.Outputs - 1) / p.Model.Outputs
		}
		need := wholeBytes(float64(p.SparseBytes(m, false)) + float64(alone))
		if o.tunesByRefits() && o.Method.Name == "nystrom" {
			// The features of all training rows and a copy of f̂.
			need = wholeBytes(float64(need) + float64(sparse.PreparedBytes(n, m, p.Model.Outputs)))
		}
		if heldOut != nil {
			need = max(need, sparse.PreparedBytes(heldOut.Len(), m, p.Model.Outputs))
		}
		return need
	}
}

// rowsCure adds a remedy to the error of a posterior of all training rows that does not fit in memory: an
// option line with as many inducing examples as fit, up to 2000 outputs, or for variational inference with
// the posterior over the parameters; or fewer rows. For many classes there is another remedy.
func rowsCure(c *job.Job, p *problem, o *FitOptions, heldOut *dataset.Rows, err error) error {
	e := (*gp.MemoryError)(nil)
	if !errors.As(err, &e) || p.ManyClasses() {
		return err
	}
	nystrom := *o
	nystrom.Method.Name, nystrom.Method.Inducing = "nystrom", 0
	if nystrom.Method, err = nystrom.Method.withDefaults(p); err != nil {
		return job.Full(err)
	}
	most, need := nystrom.Method.Inducing, sparseBytes(p, &nystrom, heldOut)
	fits := sort.Search(most, func(i int) bool { return need(i+1) > e.Available })
	text := option.Textf("%s of %s training rows takes %s; ", e.Op, job.Count(p.Examples.Train.Len()), takes(e))
	if fits == 0 && e.Largest < 1 && !o.variational() {
		return job.Full(option.New(text + "raise {max-memory}"))
	}
	if e.Largest > 0 {
		text += option.Textf("at most %s rows fit; ", job.Count(e.Largest))
	}
	switch {
	case o.variational(): // which has no inducing examples
		if weightspace.Bytes(p.Model.Parameters(), p.Model.Outputs) <= e.Available {
			text += option.Textf("take all rows by the precision of the parameters: %s; or ", c.Changed(option.Change{Name: "method", Value: "parameters"}))
		}
	case fits > 0:
		changes := []option.Change{{Name: "method", Value: "nystrom"}}
		if fits < most {
			changes = append(changes, option.Change{Name: "inducing", Value: strconv.Itoa(fits)})
		}
		text += option.Textf("take all rows through inducing examples: %s; or ", c.Changed(changes...))
	}
	if e.Largest > 0 {
		text += option.Textf("give {train-count=%d}, or ", e.Largest)
	}
	return job.Full(option.New(text + "raise {max-memory}"))
}

// terms is the number of outputs in the cross-kernel of one output with what the posterior is built on: its inducing
// examples or all training rows.
func (q *solution) terms(p *problem) int {
	if isSparse(q.How.Name) {
		return q.How.inducingOutputs(p.Model.Outputs)
	}
	if q.kept != nil {
		return q.kept.Kept().Len()
	}
	return p.Examples.Train.Len() * p.Model.Outputs
}

// RowsAtOnce is how many test rows are predicted at a time: as many as keep their cross-kernel with the training rows,
// or the inducing ones, near 32 MiB, since every tile goes through all of them once, and their Jacobian within
// keepBytes.
func (q *solution) RowsAtOnce(p *problem) int {
	if q.bnn != nil {
		return p.Within(4096, p.Model.Net.BatchBytes) // each tile draws all parameters anew
	}
	per := q.terms(p)
	if q.weights != nil {
		per = p.Model.Parameters()
	}
	rows := min(max((4<<20)/(p.Model.Outputs*per), 64), 2048)
	// A bound that is the same on every machine: the tile decides the last bits.
	for rows > 1 && p.Model.Net.BatchBytes(rows) > keepBytes {
		rows /= 2
	}
	return rows
}
