package evaluate

import (
	"context"
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/jacobian"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// A Problem is one trained network with the rows whose influence on test rows is asked.
type Problem struct {
	Network    *network.Network // with θ*, trained on X and Y
	X, Y       *mat.Dense       // training rows, N×D and N×targets
	TestX      *mat.Dense       // test rows, T×D
	TestY      *mat.Dense       // their true targets
	Likelihood glm.Likelihood
	Target     Target    // what is attributed; nil means Margin
	Initial    []float64 // the parameters before training, P; nil where they are not known
	// Checkpoints are networks on the way to Network, for TracIn and AlongTraining.
	Checkpoints []Checkpoint
	MaxMemory   int64 // bytes; 0 means what gp.MemoryBudget says
}

// A Checkpoint is a network during training and the step size there.
type Checkpoint struct {
	Network *network.Network
	Rate    float64
}

// A Method attributes the target of test rows to training rows.
type Method interface {
	// Attribute returns one or more attributions with T×N scores.
	Attribute(ctx context.Context, p *Problem) ([]Attribution, error)
}

// An Attribution holds a score for each test row and training row, T×N. A positive score
// says that the training row raises the target of the test row. Scores are meant to be
// added up over training rows; their unit differs between methods.
type Attribution struct {
	Name   string
	Scores *mat.Dense
}

// check returns an error where the problem's parts do not fit.
func (p *Problem) check() error {
	if p.X.IsEmpty() || p.TestX.IsEmpty() {
		return errors.New("evaluate: no training rows or no test rows")
	}
	if dense.Count(p.X) != dense.Count(p.Y) || dense.Count(p.TestX) != dense.Count(p.TestY) {
		panic("evaluate: inputs and targets differ in rows")
	}
	_, c, _ := p.Network.Dims()
	for what, y := range map[string]*mat.Dense{"training": p.Y, "test": p.TestY} {
		for i := range dense.Count(y) {
			if err := p.Likelihood.CheckY(y.RawRowView(i), c); err != nil {
				return fmt.Errorf("evaluate: %s row %d: %w", what, i, err)
			}
		}
	}
	return nil
}

func (p *Problem) target() Target {
	if p.Target == nil {
		return Margin{}
	}
	return p.Target
}

// train linearizes the training rows.
func (p *Problem) train(ctx context.Context) (*linearize.Batch, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	one, err := p.Network.Linearize(ctx, dense.Slice(p.X, 0, 1))
	if err != nil {
		return nil, err
	}
	each := jacobian.Bytes(one)
	err = gp.CheckMemory("the Jacobian of the training rows", gp.TrainingExamples, dense.Count(p.X), p.MaxMemory, func(n int) int64 { return memory.Mul(int64(n), each) })
	if err != nil {
		return nil, err
	}
	return p.Network.Linearize(ctx, p.X)
}

// gradients linearizes, at net, one number of each row of x: Σ_c w_nc f_nc with the
// weights that weigh writes from the row's target and outputs.
func gradients(ctx context.Context, net *network.Network, x, y *mat.Dense, weigh func(w, y, f []float64)) (*linearize.Batch, error) {
	f, err := net.Forward(ctx, x)
	if err != nil {
		return nil, err
	}
	rows, c := f.Dims()
	w := mat.NewDense(rows, c, nil)
	for i := range rows {
		weigh(w.RawRowView(i), y.RawRowView(i), f.RawRowView(i))
	}
	return net.LinearizeCombined(ctx, x, w)
}

// targets linearizes the targets of the test rows at net, T×1.
func (p *Problem) targets(ctx context.Context, net *network.Network) (*linearize.Batch, error) {
	return gradients(ctx, net, p.TestX, p.TestY, p.target().GradientTo)
}

// losses linearizes log p of the training rows at net, N×1.
func (p *Problem) losses(ctx context.Context, net *network.Network) (*linearize.Batch, error) {
	return gradients(ctx, net, p.X, p.Y, func(w, y, f []float64) { p.Likelihood.Expand(w, nil, nil, y, f) })
}

// unit returns the kernel J Jᵀ of a network, without a prior's variances.
func (p *Problem) unit(net *network.Network) (*ntk.NTK, error) {
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		return nil, err
	}
	return ntk.New(prior, net.Theta()), nil
}
