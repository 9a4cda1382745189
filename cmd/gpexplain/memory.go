package main

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

var units = map[string]float64{"": 1, "b": 1,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}

// parseBytes reads "4GiB", "500MB" or a plain number of bytes; "" is 0.
func parseBytes(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	at := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if at < 0 {
		at = len(text)
	}
	v, err := strconv.ParseFloat(text[:at], 64)
	unit, ok := units[strings.ToLower(strings.TrimSpace(text[at:]))]
	if b := v * unit; err == nil && ok && b >= 1 && b < math.MaxInt64 {
		return int64(b), nil
	}
	return 0, usagef("--max-memory %q is not a size such as 4GiB", text)
}

// planPosterior refuses what cannot fit before anything large is taken: flags
// with their defaults, and the rows that choose the prior precision, if any.
// Conjugate gradients, which stream the training rows, plan for themselves.
func planPosterior(c *console, p *problem, f *posteriorFlags, heldOut *dataset.Subset) error {
	n, memory := p.examples.train.Len(), p.limits.memory
	switch f.method {
	case "exact":
		const mib = 1 << 20
		c.detail("memory: %.1f MiB of %.0f MiB allowed: kernel and factor %.1f MiB, Jacobian %.1f MiB", float64(p.exactBytes(n))/mib, float64(gp.MemoryBudget(memory))/mib,
			float64(gp.Bytes(n, p.model.outputs))/mib, float64(p.model.net.BatchBytes(n))/mib)
		return gp.CheckMemory("an exact posterior", gp.TrainingExamples, n, memory, p.exactBytes)
	case "cg":
		return nil
	}
	return gp.CheckMemory("a sparse posterior", gp.InducingExamples, f.inducing, memory, func(m int) int64 {
		need := p.sparseBytes(m, f.refit)
		if f.tune != "" && f.refit && f.method == "nystrom" {
			// The features of all training rows and a copy of f̂.
			need = wholeBytes(float64(need) + float64(sparse.PreparedBytes(n, m, p.model.outputs)))
		}
		if heldOut != nil {
			need = max(need, sparse.PreparedBytes(heldOut.Len(), m, p.model.outputs))
		}
		return need
	})
}

// planLoad refuses what cannot fit before the examples that a saved posterior
// needs are linearized: n of them, with m inducing ones.
func planLoad(p *problem, method string, n, m int) error {
	d, c, _ := p.model.net.Dims()
	bytes := p.model.net.BatchBytes
	need := 8*float64(m*c)*float64(m*c) + float64(bytes(m)) + float64(bytes(min(n, linearize.Tile(c))))
	switch method {
	case "exact":
		need = float64(bytes(n)) + 8*float64(n)*float64(d)
	case "cg":
		return nil // it plans for itself
	}
	return planWhole("a saved posterior", p.limits.memory, wholeBytes(need))
}

// planTests refuses n test rows whose Jacobian, which weight space takes at
// once, cannot fit.
func planTests(p *problem, n int) error {
	return planWhole(fmt.Sprintf("the Jacobian of %d test rows", n), p.limits.memory, p.model.net.BatchBytes(n))
}

// planWhole refuses what cannot fit and of which no smaller number can be
// taken.
func planWhole(op string, memory, need int64) error {
	if budget := gp.MemoryBudget(memory); need > budget {
		return &gp.MemoryError{Op: op, Needed: need, Available: budget}
	}
	return nil
}

// wholeBytes is a number of bytes that an int64 holds.
func wholeBytes(need float64) int64 { return int64(math.Min(need, math.MaxInt64/2)) }

// within is how many of n examples to take at a time, at least one, so that
// what they need stays within a quarter of the memory allowed.
func (p *problem) within(n int, need func(n int) int64) int {
	quarter := gp.MemoryBudget(p.limits.memory) / 4
	return max(1, sort.Search(n, func(i int) bool { return need(i+1) > quarter }))
}

// exactBytes is the memory that the training inputs of n examples, their
// Jacobian and the posterior take.
func (p *problem) exactBytes(n int) int64 {
	d, c, _ := p.model.net.Dims()
	return wholeBytes(float64(gp.Bytes(n, c)) + float64(p.model.net.BatchBytes(n)) + 8*float64(n)*float64(d))
}

// sparseBytes is the memory of a posterior with m inducing examples, of their
// Jacobian and of that of a tile of data.
func (p *problem) sparseBytes(m int, refit bool) int64 {
	n, c, bytes := p.examples.train.Len(), p.model.outputs, p.model.net.BatchBytes
	return wholeBytes(float64(sparse.Bytes(m, n, c, refit)) + float64(bytes(m)) + 2*float64(bytes(min(n, linearize.Tile(c)))))
}

// terms is the number of outputs in the cross-kernel of one output with what
// the posterior is built on: its inducing examples or all training rows.
func (q *posterior) terms(p *problem) int {
	if isSparse(q.how.name) {
		return len(q.how.inducing) * p.model.outputs
	}
	return p.examples.train.Len() * p.model.outputs
}

// explainBytes is about what explaining t rows at once takes: some copies of
// the cross-kernel and of their Jacobian.
func (q *posterior) explainBytes(p *problem, t int) int64 {
	return wholeBytes(8 * float64(t*p.model.outputs) * (4*float64(q.terms(p)) + 2*float64(p.model.parameters())))
}

// keepBytes bounds the Jacobian of training examples that are linearized once
// and kept, rather than anew in each pass, and of rows that are predicted at a
// time.
const keepBytes = 1 << 30

// keepsJacobian tells whether the training examples are linearized once.
func (p *problem) keepsJacobian() bool {
	need := p.model.net.BatchBytes(p.examples.train.Len())
	return need <= keepBytes && need <= gp.MemoryBudget(p.limits.memory)/4
}

// predictRows is how many rows are handled at a time where nothing says more.
const predictRows = 256

// rowsAtOnce is how many test rows are predicted at a time: as many as keep
// their cross-kernel with the training rows, or the inducing ones, near 32
// MiB, since every tile goes through all of them once, and their Jacobian
// within keepBytes.
func (q *posterior) rowsAtOnce(p *problem) int {
	rows := min(max((4<<20)/(p.model.outputs*q.terms(p)), 64), 2048)
	// A bound that is the same on every machine: the tile decides the last bits.
	for rows > 1 && p.model.net.BatchBytes(rows) > keepBytes {
		rows /= 2
	}
	return rows
}

// inFlags says in the command's own words what a library's limit means. Of a
// saved posterior nothing can be made smaller.
func inFlags(err error, saved bool) error {
	const takes = "%s takes %d bytes of memory, of which %d may be used; "
	var e *gp.MemoryError
	switch {
	case !errors.As(err, &e):
		return err
	case e.Largest < 1 || saved:
		return fmt.Errorf(takes+"raise --max-memory", e.Op, e.Needed, e.Available)
	case e.Unit == gp.InducingExamples || e.Unit == gp.InducingPairs:
		return fmt.Errorf(takes+"at most %d %s fit: give --inducing %d, or raise --max-memory", e.Op, e.Needed, e.Available, e.Largest, e.Unit, e.Largest)
	case e.Unit == gp.Parameters:
		return fmt.Errorf(takes+"at most %d parameters fit: choose a smaller model, or raise --max-memory", e.Op, e.Needed, e.Available, e.Largest)
	}
	return fmt.Errorf(takes+"at most %d examples fit: give --method nystrom, --train-count %d, or raise --max-memory", e.Op, e.Needed, e.Available, e.Largest, e.Largest)
}
