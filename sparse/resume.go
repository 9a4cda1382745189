package sparse

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/linearize"
)

// A refitState is the state of a refit in the middle of a pass. The numbers that the pass has not yet computed are zero.
type refitState struct {
	move    float64
	logLik  float64   // Σ log p(y|f) of the pass
	prior   []float64 // m, N·C; all other vectors but weights and outputs have the same length
	span    []float64 // stepping: Φᵀw at the end of the step
	outputs []float64 // checksums of f(x;θ*), two numbers for each chunk
	to      newton.Point
	before  newton.Point // stepping: the start of the step
	sums    *Sums        // stepping: the sums at the start
}

// fields returns the numbers that are saved beside the sums in a pass of this kind. n is the number of outputs of all
// examples.
func (s *refitState) fields(kind passKind, n int, o sumsSpec) []saved.Field {
	point := func(name string, p *newton.Point) []saved.Field {
		return []saved.Field{saved.Floats(name+"weights", &p.Weights, o.rank), saved.Floats(name+"f", &p.F, n)}
	}
	list := append(point("", &s.to), saved.Scalars("numbers", &s.move, &s.logLik, &s.to.Value, &s.before.Value),
		saved.Floats("prior", &s.prior, n), saved.Floats("outputs", &s.outputs, 2*chunkCount(n/o.c, o.c)))
	if kind == stepping {
		list = append(append(list, point("before.", &s.before)...), saved.Floats("span", &s.span, n))
	}
	return list
}

// chunkCount returns the number of chunks of n examples with c outputs.
func chunkCount(n, c int) int { return (n + linearize.Tile(c) - 1) / linearize.Tile(c) }

// resume returns the pass that was interrupted.
func (r *refit) resume(ctx context.Context, c *checkpoint) (*pass, error) {
	s := c.newton
	r.search.Steps, r.search.Move, r.outputs, r.prior = c.Step, s.move, slices.Clone(s.outputs), slices.Clone(s.prior)
	p := &pass{kind: c.Kind, to: r.restored(&s.to, c.sums), next: c.Done, span: slices.Clone(s.span)}
	if p.kind == stepping {
		p.before = r.restored(&s.before, s.sums)
		if err := r.expandAgain(p.before, r.x.Len(), s.sums.logLik); err != nil {
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
	if err := r.expandAgain(p.to, c.Done, s.logLik); err != nil {
		return nil, err
	}
	return p, p.fatal()
}

// restored returns an expansion with a copy of a point.
func (r *refit) restored(at *newton.Point, sums *Sums) *expansion {
	p := *at
	p.Weights, p.F = slices.Clone(at.Weights), slices.Clone(at.F)
	return r.expansion(&p, sums)
}

// expandAgain computes the sites of the first n examples as a pass does, and
// checks Σ log p(y|f).
func (r *refit) expandAgain(e *expansion, n int, logLik float64) error {
	size := linearize.Tile(r.b.c)
	for lo := 0; lo < n && e.err == nil; lo += size {
		e.err = r.expand(e, lo, min(size, n-lo))
	}
	if !(math.Abs(e.sites.LogLik-logLik) <= checksumRounding*math.Max(1, math.Abs(logLik))) {
		return r.save.another("the likelihood")
	}
	return nil
}

// checkOutputs keeps the checksum of the network's outputs of a chunk in the first
// pass, and compares it later where the refit was resumed.
func (r *refit) checkOutputs(kind passKind, t chunk) error {
	if !r.save.active() {
		return nil
	}
	was, m := r.outputs[2*(t.first/linearize.Tile(r.b.c)):][:2], checksumOf(dense.Contiguous(t.x.F))
	if kind == atTheta {
		was[0], was[1] = m.sum, m.scale
	}
	if r.save.from != nil && !m.same(checksum{was[0], was[1]}) {
		return r.save.another(fmt.Sprintf("the training examples %d to %d", t.first, t.first+t.x.Len()-1))
	}
	return nil
}
