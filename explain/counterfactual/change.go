package counterfactual

import (
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
)

// A Change says how the training data differ from the data of the posterior.
type Change struct {
	// Remove are the positions of training examples to leave out, in any order.
	Remove []int
	// Relabel gives training examples other targets.
	Relabel []Label
	// Add, if not nil, are further training examples of weight 1 with the targets AddY, one row an
	// example.
	Add  *linearize.Batch
	AddY *mat.Dense
}

// A Label is another target of one training example.
type Label struct {
	Row    int       // position of the example in the training data
	Y      []float64 // as a row of the targets
	Weight float64   // of the example then, where its weight depends on its target; 0 keeps the one it has
}

// Without is the change that leaves out training examples.
func Without(rows ...int) Change { return Change{Remove: rows} }

// A RowError says that a training example cannot be changed as asked.
type RowError struct {
	Row, Examples int    // the position asked for, and the number of training examples
	Reason        string // such as "is removed twice"
}

func (e *RowError) Error() string {
	return fmt.Sprintf("counterfactual: training example %d of 0 to %d %s", e.Row, e.Examples-1, e.Reason)
}

// added returns the number of examples that are added.
func (c *Change) added() int {
	if c.Add == nil {
		return 0
	}
	return c.Add.Len()
}

// check returns an error unless the change fits n training examples with these targets.
func (c *Change) check(y *gp.Targets, outputs int) error {
	n, width := y.Y.Dims()
	seen := make(map[int]string, len(c.Remove)+len(c.Relabel))
	see := func(row int, how string) error {
		switch before := seen[row]; {
		case row < 0 || row >= n:
			return &RowError{row, n, "does not exist"}
		case before == how:
			return &RowError{row, n, "is " + how + " twice"}
		case before != "":
			return &RowError{row, n, "is both " + before + " and " + how}
		}
		seen[row] = how
		return nil
	}
	for _, i := range c.Remove {
		if err := see(i, "removed"); err != nil {
			return err
		}
	}
	for _, l := range c.Relabel {
		if err := see(l.Row, "relabelled"); err != nil {
			return err
		}
		if len(l.Y) != width {
			panic("counterfactual: another target has another length than the targets")
		}
		if err := gp.NewTargets(mat.NewDense(1, width, l.Y), y.Likelihood).CheckFor(1, outputs); err != nil {
			return fmt.Errorf("counterfactual: another target of training example %d: %w", l.Row, err)
		}
	}
	if len(c.Remove) == n && c.added() == 0 {
		return fmt.Errorf("counterfactual: without all %d examples: %w", n, gp.ErrNoExamples)
	}
	if c.added() == 0 {
		return nil
	}
	if err := gp.NewTargets(c.AddY, y.Likelihood).CheckFor(c.Add.Len(), outputs); err != nil {
		return fmt.Errorf("counterfactual: targets of added examples: %w", err)
	}
	return nil
}

// targets returns the targets after the change: those of all n examples, where those that are left out have weight
// 0, and of the added ones.
func (c *Change) targets(y *gp.Targets) *gp.Targets {
	n, width := y.Y.Dims()
	to := &gp.Targets{Y: mat.NewDense(n+c.added(), width, nil), Likelihood: y.Likelihood, Weights: make([]float64, n+c.added())}
	for i := range n {
		to.Y.SetRow(i, y.Y.RawRowView(i))
		to.Weights[i] = y.Weight(i)
	}
	for _, l := range c.Relabel {
		to.Y.SetRow(l.Row, l.Y)
		if l.Weight > 0 {
			to.Weights[l.Row] = l.Weight
		}
	}
	for _, i := range c.Remove {
		to.Weights[i] = 0
	}
	for i := range c.added() {
		to.Y.SetRow(n+i, c.AddY.RawRowView(i))
		to.Weights[n+i] = 1
	}
	return to
}
