package main

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/gp"
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

// planPosterior refuses what cannot fit before anything large is taken. The
// methods that stream the training rows plan for themselves.
func (s *session) planPosterior(w *way) error {
	n := s.train.Len()
	switch w.method {
	case "exact":
		_, c, _ := s.net.Dims()
		const mib = 1 << 20
		s.detail("memory: %.1f MiB of %.0f MiB allowed: kernel and factor %.1f MiB, Jacobian %.1f MiB", s.exactBytes(n)/mib, float64(gp.MemoryBudget(s.bytes))/mib,
			float64(gp.Bytes(n, c))/mib, float64(s.net.BatchBytes(n))/mib)
		return s.plan("an exact posterior", n, s.exactBytes)
	case "cg":
		return nil
	}
	budget, m := gp.MemoryBudget(s.bytes), w.inducing
	need := func(m int) float64 {
		if s.held == nil {
			return s.sparseBytes(m, w.refit)
		}
		_, c, _ := s.net.Dims()
		return math.Max(s.sparseBytes(m, w.refit), float64(sparse.PreparedBytes(s.held.Len(), m, c)))
	}
	if need(m) <= float64(budget) {
		return nil
	}
	largest := sort.Search(m, func(i int) bool { return need(i+1) > float64(budget) })
	return &gp.MemoryError{Op: "a sparse posterior", Needed: int64(math.Min(need(m), math.MaxInt64/2)), Available: budget, Largest: largest, Unit: gp.InducingExamples}
}

// planLoad refuses what cannot fit before the examples that a saved posterior
// needs are linearized: n of them, with m inducing ones.
func (s *session) planLoad(method string, n, m int) error {
	d, c, _ := s.net.Dims()
	need := 8*float64(m*c)*float64(m*c) + float64(s.net.BatchBytes(m)) + float64(s.net.BatchBytes(min(n, linearize.Tile(c))))
	switch method {
	case "exact":
		need = float64(s.net.BatchBytes(n)) + 8*float64(n)*float64(d)
	case "cg":
		return nil // it plans for itself
	}
	if budget := gp.MemoryBudget(s.bytes); need > float64(budget) {
		return &gp.MemoryError{Op: "a saved posterior", Needed: int64(math.Min(need, math.MaxInt64/2)), Available: budget}
	}
	return nil
}

// planTests refuses n test rows whose Jacobian, which weight space takes at
// once, cannot fit.
func (s *session) planTests(n int) error {
	need, budget := s.net.BatchBytes(n), gp.MemoryBudget(s.bytes)
	if need <= budget {
		return nil
	}
	return &gp.MemoryError{Op: fmt.Sprintf("the Jacobian of %d test rows", n), Needed: need, Available: budget}
}

// explainBytes is about what explaining t rows at once takes: some copies of
// the cross-kernel and of their Jacobian.
func (p *posterior) explainBytes(t int) int64 {
	_, c, params := p.net.Dims()
	n := p.train.Len()
	if p.sparse() {
		n = p.inducing
	}
	return int64(math.Min(8*float64(t*c)*(4*float64(n*c)+2*float64(params)), math.MaxInt64/2))
}

// exactBytes is the memory that the training inputs of n examples, their
// Jacobian and the posterior take.
func (s *session) exactBytes(n int) float64 {
	d, c, _ := s.net.Dims()
	return float64(gp.Bytes(n, c)) + float64(s.net.BatchBytes(n)) + 8*float64(n)*float64(d)
}

// sparseBytes is the memory of a posterior with m inducing examples, of their
// Jacobian and of that of a tile of data.
func (s *session) sparseBytes(m int, refit bool) float64 {
	_, c, _ := s.net.Dims()
	return float64(sparse.Bytes(m, s.train.Len(), c, refit)) + float64(s.net.BatchBytes(m)) + 2*float64(s.net.BatchBytes(min(s.train.Len(), linearize.Tile(c))))
}

// plan returns a *gp.MemoryError where need(n) bytes pass the budget; need
// grows with n.
func (s *session) plan(op string, n int, need func(n int) float64) error {
	budget := gp.MemoryBudget(s.bytes)
	if need(n) <= float64(budget) {
		return nil
	}
	largest := sort.Search(n, func(i int) bool { return need(i+1) > float64(budget) })
	return &gp.MemoryError{Op: op, Needed: int64(math.Min(need(n), math.MaxInt64/2)), Available: budget, Largest: largest, Unit: gp.TrainingExamples}
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
