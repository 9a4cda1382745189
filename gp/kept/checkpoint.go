package kept

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/internal/store"
)

// checkpointVersion is the version of the sections of a checkpoint.
const checkpointVersion = 2 // with the fit in a section of its own since 2

// A checkpoint is the state of FindMode before a Newton step, and a JSON section of its store.
type checkpoint struct {
	Steps, Products int
	Rough           bool
	Preconditioned  bool
	Most            int // rows of the preconditioner
	Taken           int // steps of conjugate gradients with the preconditioner in the last Newton step

	move, last     float64
	total          float64 // tr Λ where the preconditioner was made
	logLik         float64
	z, f           []float64
	preconditioned []float64 // f where the preconditioner was made
}

// fields returns the saved numbers, for p parameters and n outputs of all examples.
func (c *checkpoint) fields(n, p int) []saved.Field {
	made := 0
	if c.Preconditioned {
		made = n
	}
	return []saved.Field{saved.Scalars("scalars", &c.move, &c.last, &c.total, &c.logLik),
		saved.Floats("z", &c.z, p), saved.Floats("f", &c.f, n), saved.Floats("preconditioned", &c.preconditioned, made)}
}

// write calls Options.Checkpoint with the state of a search with a preconditioner.
func (p *fit) write(fit *saved.Fit, s *mode.State, pre *preconditioner, logLik float64) error {
	c := &checkpoint{Steps: s.Steps, Products: s.Products, Rough: s.Rough, Preconditioned: pre.f != nil, Most: pre.most, Taken: pre.steps,
		move: s.Move, last: s.Last, total: pre.total, logLik: logLik, z: s.Z, f: s.F, preconditioned: pre.f}
	return p.o.Checkpoint(func(w *store.Writer) error {
		fit.Save(w, "checkpoint.")
		w.JSON("checkpoint.about", c)
		saved.Save(w, "checkpoint.", c.fields(0, 0))
		return nil
	})
}

// read returns the state in Options.Resume, and makes its preconditioner again.
func (p *fit) read(ctx context.Context, fit *saved.Fit, pre *preconditioner, y *gp.Targets) (*mode.State, error) {
	var c checkpoint
	r := p.o.Resume.Reader("checkpoint.")
	fit.Check(r)
	fit.Identity.Check(ctx, r, "")
	if r.JSON("about", &c); r.Err() == nil && min(c.Steps, c.Products, c.Most, c.Taken) < 0 {
		_ = r.Fail(saved.OtherFit, "holds an impossible state")
	}
	if !saved.Load(r, c.fields(fit.N*fit.C, p.p)) {
		return nil, r.Err()
	}
	if is := y.LogLik(c.f); !(math.Abs(is-c.logLik) <= 1e-9*math.Max(1, math.Abs(is))) {
		saved.Differs(r, fmt.Sprintf("the likelihood: log p(y|f) is %v and not %v", is, c.logLik))
		return nil, r.Err()
	}
	if c.Preconditioned {
		pre.total, pre.most, pre.steps, pre.f = c.total, c.Most, c.Taken, slices.Clone(c.preconditioned)
		sites, err := gp.NewSites(y, mat.NewDense(fit.N, fit.C, pre.f))
		if err != nil {
			return nil, err
		}
		if err := pre.fill(ctx, sites); err != nil {
			return nil, err
		}
	}
	return &mode.State{Z: slices.Clone(c.z), F: slices.Clone(c.f), Steps: c.Steps, Products: c.Products, Move: c.move, Last: c.last, Rough: c.Rough}, nil
}
