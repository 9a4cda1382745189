package sparse

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/linearize"
)

// A refitState is the state of a refit in the middle of a pass. Vectors that the pass
// computes end before its next example; the others have N·C entries.
type refitState struct {
	kind      passKind
	step      int
	move      float64
	logLik    float64 // Σ log p(y|f) of the pass
	prior     []float64
	checksums []float64
	to        newton.Point
	before    newton.Point // stepping: the start of the step
	sums      *Sums        // stepping: those at the start
	pseudo    []float64    // stepping, with FITC: b̃ at the start
}

// numbers returns pointers to all scalars.
func (s *refitState) numbers() [newtonNumbers]*float64 {
	return [...]*float64{&s.move, &s.logLik, &s.to.Value, &s.before.Value}
}

const newtonNumbers = 4

// vectors returns pointers to all vectors.
func (s *refitState) vectors() []*[]float64 {
	return append(append([]*[]float64{&s.prior, &s.checksums, &s.pseudo}, pointVectors(&s.to)...), pointVectors(&s.before)...)
}

func pointVectors(p *newton.Point) []*[]float64 {
	return []*[]float64{&p.Weights, &p.F, &p.Span, &p.Dual}
}

// chunkCount returns the number of chunks of n examples with c outputs.
func chunkCount(n, c int) int { return (n + linearize.Tile(c) - 1) / linearize.Tile(c) }

// resume returns the pass that was interrupted.
func (r *refit) resume(ctx context.Context, c *Checkpoint) (*pass, error) {
	if err := c.check(r.identity); err != nil {
		return nil, err
	}
	s := c.newton
	r.search.Steps, r.search.Move, r.checksums = s.step, s.move, slices.Clone(s.checksums)
	copy(r.objective.Prior, s.prior)
	p := &pass{kind: s.kind, to: r.restored(&s.to, c.sums), next: c.next}
	if s.kind == stepping {
		p.before = r.restored(&s.before, s.sums)
		if r.spec.fitc {
			p.before.pseudo = make([]float64, len(r.objective.Prior))
			copy(p.before.pseudo, s.pseudo)
		}
		if err := r.expandAgain(p.before, c.n, s.sums.logLik); err != nil {
			return nil, err
		}
		if p.before.err != nil {
			return nil, p.before.err
		}
		var err error
		if p.post, err = newProjected(ctx, r.b, p.before.sums, r.o); err != nil {
			return nil, err
		}
	}
	if err := r.expandAgain(p.to, c.next, s.logLik); err != nil {
		return nil, err
	}
	return p, p.fatal()
}

// restored returns an expansion with copies of a point and its sums.
func (r *refit) restored(at *newton.Point, sums *Sums) *expansion {
	p := r.newPoint(slices.Clone(at.Weights))
	p.Value = at.Value
	copy(p.F, at.F)
	copy(p.Span, at.Span)
	copy(p.Dual, at.Dual)
	return r.expansion(p, sums.Clone())
}

// expandAgain computes the sites of the first n examples as a pass does, and
// checks Σ log p(y|f).
func (r *refit) expandAgain(e *expansion, n int, logLik float64) error {
	size := linearize.Tile(r.b.c)
	for lo := 0; lo < n && e.err == nil; lo += size {
		e.err = r.expand(e, lo, min(size, n-lo))
	}
	if !(math.Abs(e.sites.LogLik-logLik) <= checksumRounding*math.Max(1, math.Abs(logLik))) {
		return &ResumeError{What: "their likelihood"}
	}
	return nil
}

// checkOutputs keeps the checksum of the network's outputs of a chunk in the first
// pass, and compares it where the refit was resumed.
func (r *refit) checkOutputs(t chunk) error {
	if !r.save.active() {
		return nil
	}
	i, m := t.first/linearize.Tile(r.b.c), checksumOf(dense.Contiguous(t.x.F))
	if 2*i == len(r.checksums) {
		r.checksums = append(r.checksums, m.sum, m.scale)
		return nil
	}
	if r.save.resume != nil && !m.same(checksum{r.checksums[2*i], r.checksums[2*i+1]}) {
		return &ResumeError{What: fmt.Sprintf("their training examples %d to %d", t.first, t.first+t.x.Len()-1)}
	}
	return nil
}
