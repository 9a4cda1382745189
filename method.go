package funcgp

import (
	"context"
	"errors"
	"math"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

// fitted is implemented by the posteriors of all methods.
type fitted interface {
	gp.Dual
	EvidenceLinearGaussian(ctx context.Context) (gp.Evidence, error) // (E8)
	Refitted() bool
	Warnings() []error
	TrainingMeanTo(ctx context.Context, mean *mat.Dense, rows []int, x *linearize.Batch) error // see gp.Posterior
	Save(w *store.Writer) error
}

var (
	_ fitted = (*gp.Exact)(nil)
	_ fitted = (*sparse.Posterior)(nil)
	_ fitted = (*gp.Posterior)(nil)
	_ fitted = (*kept.Posterior)(nil)
)

// A methodUsed says how a posterior was computed.
type methodUsed struct {
	Name, selection string
	inducing        []int   // positions among the training rows
	mean            gp.Mean // of a posterior without a refit
}

// takesRows tells whether the inducing elements are single rows and not examples.
func (m *methodUsed) takesRows() bool { return m.selection == result.SelectStrength }

// inducingOutputs is the number of rows of the kernel of the inducing elements.
func (m *methodUsed) inducingOutputs(outputs int) int {
	return elementRows(m.takesRows(), len(m.inducing), outputs)
}

// elementRows is the number of rows of the kernel of m inducing elements: single rows, or examples.
func elementRows(single bool, m, outputs int) int {
	if single {
		return m
	}
	return m * outputs
}

// given returns the positions of the training rows that the posterior is conditioned on, or nil if these are
// all rows.
func (q *solution) given() []int {
	if q.How.Name == "subset" {
		return q.How.inducing
	}
	return nil
}

// A solver holds the functions that differ between methods.
type solver struct {
	// plan returns an error, before anything large is allocated, if the fit does not fit in memory. o has its
	// defaults filled in, and heldOut are the rows that choose the prior precision, if any. plan is nil for
	// methods whose memory is planned later.
	plan func(c *job.Job, p *problem, o *FitOptions, heldOut *dataset.Rows) error
	fit  func(f *fit, ctx context.Context) (*solution, error)
	load func(ctx context.Context, l *loading) (fitted, error)
	// held returns the bytes of the Jacobians that load needs, of n training examples and of m inducing
	// elements with that many rows. If held is nil, load plans for itself, and takes the Jacobian of all
	// examples if there is memory for it.
	held    func(p *problem, n, m, rows int) float64
	whole   bool // the Jacobian of all training examples is in memory, and the factor of their kernel
	leftOut int  // the most training rows that leave-one-out predictions are made of; 0 for all
}

// loading holds what a posterior is read with.
type loading struct {
	*solution
	con     *job.Job
	problem *problem
	targets *gp.Targets
	x       linearize.Source // training examples
	z       *sparse.Inducing // nil where there are none, or the file has them
}

// solverOf returns the solver of a method. The method weights stands for posteriors over the parameters, which
// have no Dual.
func solverOf(method string) *solver {
	bytes := func(p *problem, n int) float64 { return float64(p.Model.Net.BatchBytes(n)) }
	through := &solver{
		plan: planInducing, fit: (*fit).sparse, leftOut: mostLeftOutRows,
		load: func(ctx context.Context, l *loading) (_ fitted, err error) {
			l.induced, err = sparse.Load(ctx, l.problem.Saved.File, l.Kernel, l.x, l.z, &sparse.Options{Mean: l.How.mean, Limits: l.problem.Bounds(l.con), Targets: l.targets})
			return l.induced, err
		},
		held: func(p *problem, n, m, rows int) float64 {
			return 8*float64(rows)*float64(rows) + bytes(p, m) + bytes(p, min(n, linearize.Tile(p.Model.Outputs)))
		},
	}
	keeps := &solver{
		fit: (*fit).kept, leftOut: mostLeftOutRows,
		plan: func(_ *job.Job, p *problem, _ *FitOptions, _ *dataset.Rows) error {
			return gp.CheckMemory("a posterior of kept rows", gp.TrainingExamples, p.Examples.Train.Len(), p.Memory, func(n int) int64 {
				return kept.Bytes(n, p.Model.Outputs, p.Model.Parameters(), 1)
			})
		},
		load: func(ctx context.Context, l *loading) (_ fitted, err error) {
			l.kept, err = kept.Load(ctx, l.problem.Saved.File, l.x, l.prior, l.problem.Model.Net.Theta(), &kept.Options{Mean: l.How.mean, Limits: l.problem.Bounds(l.con), Targets: l.targets})
			return l.kept, err
		},
	}
	switch method {
	case "exact":
		return &solver{
			fit: (*fit).exact, whole: true,
			plan: func(c *job.Job, p *problem, o *FitOptions, heldOut *dataset.Rows) error {
				const mib = 1 << 20
				n, memory := p.Examples.Train.Len(), p.Memory
				c.Detail("memory: %.1f MiB of %.0f MiB allowed: kernel and factor %.1f MiB, Jacobian %.1f MiB", float64(p.ExactBytes(n))/mib, float64(gp.MemoryBudget(memory))/mib,
					float64(gp.Bytes(n, p.Model.Outputs))/mib, bytes(p, n)/mib)
				return rowsCure(c, p, o, heldOut, gp.CheckMemory("an exact posterior", gp.TrainingExamples, n, memory, p.ExactBytes))
			},
			load: func(_ context.Context, l *loading) (_ fitted, err error) {
				l.exact, err = gp.Load(l.problem.Saved.File, l.Kernel, l.x.(*linearize.Batch), &gp.Options{Limits: linearize.Limits{Memory: l.problem.Memory}, Targets: l.targets})
				return l.exact, err
			},
			held: func(p *problem, n, _, _ int) float64 {
				d, _, _ := p.Model.Net.Dims()
				return bytes(p, n) + 8*float64(n)*float64(d)
			},
		}
	case "parameters":
		return &solver{
			fit: (*fit).parameters, leftOut: mostLeftOutRows,
			plan: func(_ *job.Job, p *problem, o *FitOptions, _ *dataset.Rows) error {
				n := p.Model.Parameters()
				err := gp.CheckMemory("a posterior over the parameters", gp.Parameters, n, p.Memory, func(n int) int64 { return weightspace.Bytes(n, p.Model.Outputs) })
				if e := (*gp.MemoryError)(nil); errors.As(err, &e) {
					remedy := option.Text("give {method=nystrom}")
					if o.variational() {
						remedy = "leave {inference} out"
					}
					return job.FullErrorf("a posterior over %s parameters takes %s; raise {max-memory}, or %s", job.Count(n), takes(e), remedy)
				}
				return err
			},
			load: func(ctx context.Context, l *loading) (fitted, error) {
				return weightspace.LoadSums(ctx, l.problem.Saved.File, l.x, l.targets, l.prior, l.problem.Model.Net.Theta(), &weightspace.Options{Limits: l.problem.Bounds(l.con)})
			},
		}
	case "kept":
		return keeps
	case methodAuto:
		keeps.fit = (*fit).auto
		return keeps
	case "subset":
		through.leftOut = 0
		return through
	case "nystrom":
		return through
	}
	return &solver{fit: (*fit).overParameters}
}

// auto fits the exact posterior if it fits in memory and is quick, and otherwise a posterior of kept rows, over
// the parameters or through inducing examples.
func (f *fit) auto(ctx context.Context) (*solution, error) {
	p, n := f.problem, f.problem.Examples.Train.Len()
	if n*p.Model.Outputs <= quickOutputs && p.ExactBytes(n) <= gp.MemoryBudget(p.Memory) {
		f.asked.Method.Name, f.asked.Method.Within = "exact", 0
		long, err := f.exactTime(ctx)
		if err != nil {
			return nil, err
		}
		f.took(long, job.NewWarning("method-chosen", math.NaN(), math.NaN(), "",
			"{method=auto} takes exact: the training rows have %s outputs, at most %s, of which all pairs fit into memory.", job.Count(n*p.Model.Outputs), job.Count(quickOutputs)))
		return f.exact(ctx)
	}
	if f.asked.variational() {
		if weightspace.Bytes(p.Model.Parameters(), p.Model.Outputs) > gp.MemoryBudget(p.Memory) {
			return nil, job.FullErrorf("{inference=variational} takes {method} exact or parameters, and a posterior over %s parameters does not fit into memory; raise {max-memory}, give fewer rows by {train-count}, or leave {inference} out", job.Count(p.Model.Parameters()))
		}
		f.asked.Method.Name, f.asked.Method.Within = "parameters", 0
		long, err := f.parametersTime(ctx)
		if err != nil {
			return nil, err
		}
		f.took(long, job.NewWarning("method-chosen", math.NaN(), math.NaN(), "",
			"{method=auto} takes parameters: {inference=variational} is for exact and parameters, and the training rows have %s outputs.", job.Count(n*p.Model.Outputs)))
		return f.parameters(ctx)
	}
	f.asked.Method.Name, f.chooses = "kept", new(sync.Once)
	return f.kept(ctx)
}

// took reports which method was chosen and why. It prints the choice at once, with the expected time.
func (f *fit) took(long string, w *job.Warning) {
	f.con.Warn(w)
	f.con.Note("%v It takes %s from here", w, long)
}
